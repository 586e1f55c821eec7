/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the CPU, ranks as threads: bit by bit against src/device/reduce.h applied in the order of ranks. */
#include "cuda/kernels/follow.h"
#include "cuda/kernels/draw.h"
#include "cuda/kernels/team.h"

#include "device/reduce.h"
#include "plan/plan.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define BATCH     32
#define GUARD     64
#define SCALAR    5 /* operators beyond tutti's own: sums premultiplied by an immediate scalar, by one in memory */
#define SCALAR_AT 6
#define OPS       7
#define FAMILIES  (KERNEL_REDUCE_RING - KERNEL_REDUCE_ONE) /* of which some have a twin that goes round */

struct exchange;

struct trial {
    struct exchange *exchange; /* if it is not a reduction */
    enum kernel_id kernel;
    enum kernel_mode mode;
    tutti_type_t type;
    int op, root;
    bool in_place, ring;
    size_t count;
    unsigned blocks, stripes;
    unsigned char *memory[KERNEL_RANKS][2], *in[KERNEL_RANKS], *out[KERNEL_RANKS], *want[KERNEL_RANKS];
    uint64_t scalar[KERNEL_RANKS];
};

/* Memory that peers still have mapped in a buffer's place: nobody's, and no shorter than any buffer. */
static unsigned char decoy[12 << 20];

static struct thread_team team;
static struct trial trials[BATCH];
static struct team_job jobs[BATCH];
static size_t pending;

static size_t in_count(const struct trial *t)
{
    return t->mode == KERNEL_REDUCE_SCATTER ? t->count * (size_t)team.n : t->count;
}

static bool wants(const struct trial *t, int rank)
{
    return t->mode != KERNEL_REDUCE || t->root == rank;
}

static void make_buffers(struct trial *t, int p)
{
    const size_t size = type_size(t->type), in = in_count(t) * size, out = t->count * size;
    const unsigned in_shift = random_shift(), out_shift = random_shift();
    t->memory[p][0] = allocate(in_shift + in + GUARD);
    t->memory[p][1] = allocate(out_shift + out + GUARD);
    memset(t->memory[p][0], 0xa5, in_shift + in + GUARD);
    memset(t->memory[p][1], 0xa5, out_shift + out + GUARD);
    t->in[p] = t->memory[p][0] + in_shift;
    t->out[p] = t->memory[p][1] + out_shift;
    if (t->in_place)
        t->out[p] = t->in[p] + (t->mode == KERNEL_REDUCE_SCATTER ? out * (size_t)p : 0);
    random_fill(t->type, t->in[p], in_count(t));
    t->want[p] = allocate(out);
    random_fill(t->type, (unsigned char *)&t->scalar[p], 1);
}

/* What goes round begins behind its owner, and is rounded to elements at each rank. */
static void pass_round(const struct trial *t, const struct reduction *r, unsigned char *out, unsigned char **prepared,
                       int owner)
{
    memcpy(out, prepared[(owner + 1) % team.n], t->count * type_size(t->type));
    for (int p = 2; p <= team.n; p++) {
        const void *both[] = {out, prepared[(owner + p) % team.n]};
        reduction_apply(r, out, both, 2, t->count);
    }
}

/* What one block of everybody's input becomes, of rank `owner`. */
static void reference(const struct trial *t, unsigned char *out, size_t first, int owner)
{
    const size_t size = type_size(t->type);
    unsigned char *prepared[KERNEL_RANKS];
    struct reduction r;
    for (int p = 0; p < team.n; p++) {
        prepared[p] = allocate(t->count * size);
        assert_int_equal(reduction_init(&r, t->type, t->op < SCALAR ? (tutti_op_t)t->op : TUTTI_SUM, team.n,
                                        t->op < SCALAR ? NULL : &t->scalar[p]),
                         TUTTI_SUCCESS);
        reduction_prepare(&r, prepared[p], t->in[p] + first * size, t->count);
    }
    if (t->ring)
        pass_round(t, &r, out, prepared, owner);
    else
        reduction_apply(&r, out, (const void *const *)prepared, team.n, t->count);
    if (reduction_needs_finish(&r))
        reduction_finish(&r, out, out, t->count);
    for (int p = 0; p < team.n; p++)
        free(prepared[p]);
}

/* Each rank gets its own part, at its place. */
static void expect_own_parts(struct trial *t)
{
    const uint64_t bytes = t->count * type_size(t->type), part = kernel_part_bytes(bytes, team.n);
    unsigned char *all = allocate(bytes);
    for (int p = 0; p < team.n; p++) {
        const uint64_t from = part * (uint64_t)p;
        if (p == 0 || t->ring)
            reference(t, all, 0, p);
        memcpy(t->want[p], t->out[p], bytes);
        if (from < bytes)
            memcpy(t->want[p] + from, all + from, bytes - from < part ? bytes - from : part);
    }
    free(all);
}

static void make_expectations(struct trial *t)
{
    if (t->mode == KERNEL_REDUCE_OWN) {
        expect_own_parts(t);
        return;
    }
    const size_t bytes = t->count * type_size(t->type);
    for (int p = 0; p < team.n; p++)
        if (t->mode == KERNEL_REDUCE_SCATTER)
            reference(t, t->want[p], t->count * (size_t)p, p);
        else if (!wants(t, p))
            memcpy(t->want[p], t->out[p], bytes);
        else if (p == 0 || t->mode == KERNEL_REDUCE)
            reference(t, t->want[p], 0, p);
        else
            memcpy(t->want[p], t->want[0], bytes);
}

static const struct cuda_kernel *kernel_of(enum kernel_id kernel, tutti_type_t type)
{
    char name[64];
    snprintf(name, sizeof name, kernel < KERNEL_REDUCE_ONE ? "tutti_%s" : "tutti_%s_%s", plan_kernel_name(kernel),
             type_name(type));
    const struct cuda_kernel *found = cuda_kernel_find(name);
    assert_non_null(found);
    return found;
}

/* To where rank p wants its result; to what was there before; or nowhere. */
static uint64_t random_invitation(const struct trial *t, int p, bool sure)
{
    const unsigned char *to = sure || below(3) ? t->out[p] : decoy + ((uintptr_t)t->out[p] & 15);
    assert_true(t->count * type_size(t->type) + 16 <= sizeof decoy);
    return t->kernel == KERNEL_REDUCE_BULK && below(4) ? KERNEL_INVITE_ADDRESS | (uintptr_t)to : 0;
}

static void make_job(const struct trial *t, struct team_job *job)
{
    *job = (struct team_job){.kernel = kernel_of(t->kernel, t->type),
                             .each_block_its_thread = t->blocks < 5 && below(8) == 0};
    assert_true(job->kernel->size <= sizeof job->params[0]);
    const bool invites = below(4) && !t->ring;
    for (int p = 0; p < team.n; p++) {
        job->grid[p] = (struct cuda_index){t->blocks, 1, 1};
        job->params[p].reduce = (struct kernel_reduce){.team = team_of(&team, p),
                                                       .in = t->in[p],
                                                       .out = t->out[p],
                                                       .count = t->count,
                                                       .mode = t->mode,
                                                       .stripes = t->stripes,
                                                       .op = t->op < SCALAR ? t->op : TUTTI_SUM,
                                                       .premul = t->op >= SCALAR,
                                                       .scalar = t->op == SCALAR ? t->scalar[p] : 0,
                                                       .scalar_at = t->op == SCALAR_AT ? &t->scalar[p] : NULL};
        if (t->ring)
            follow_ring(t->kernel, t->root, &job->params[p].reduce);
        else
            follow_reduce(t->kernel, t->root, &job->params[p].reduce);
        job->params[p].reduce.invites = invites;
        job->params[p].reduce.sure = below(2);
        for (int q = 0; q < team.n; q++)
            job->params[p].reduce.invite[q] = random_invitation(t, p, job->params[p].reduce.sure);
    }
}

static void check_rank(const struct trial *t, int p)
{
    const size_t size = type_size(t->type), bytes = t->count * size;
    const unsigned char *end = t->in_place ? t->in[p] + in_count(t) * size : t->out[p] + bytes;
    for (size_t i = 0; i < bytes; i++)
        if (t->out[p][i] != t->want[p][i])
            fail_msg("kernel %d mode %d %s op %d: rank %d of %d, root %d, count %zu, %u blocks, in place %d: element "
                     "%zu differs",
                     t->kernel, t->mode, type_name(t->type), t->op, p, team.n, t->root, t->count, t->blocks,
                     t->in_place, i / size);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(end[i], 0xa5);
    for (const unsigned char *at = t->memory[p][1]; !t->in_place && at < t->out[p]; at++)
        assert_int_equal(*at, 0xa5);
}

static void check_exchange(struct exchange *x);

/* Runs what has been gathered, all of it in a row, and compares. */
static void flush(void)
{
    team_run(jobs, pending, 0, team.n);
    for (size_t i = 0; i < pending; i++)
        if (trials[i].exchange)
            check_exchange(trials[i].exchange);
    for (size_t i = 0; i < pending; i++)
        for (int p = 0; p < team.n && !trials[i].exchange; p++) {
            check_rank(&trials[i], p);
            free(trials[i].memory[p][0]);
            free(trials[i].memory[p][1]);
            free(trials[i].want[p]);
        }
    assert_true(decoy[0] == 0 && memcmp(decoy, decoy + 1, sizeof decoy - 1) == 0);
    pending = 0;
}

static void add(struct trial t)
{
    struct trial *kept = &trials[pending];
    *kept = t;
    const enum kernel_id ring = follow_ring_kernel(t.kernel, t.mode, team.n);
    kept->ring = ring != KERNEL_NONE && below(2);
    kept->kernel = kept->ring ? ring : t.kernel;
    for (int p = 0; p < team.n; p++)
        make_buffers(kept, p);
    make_expectations(kept);
    make_job(kept, &jobs[pending]);
    if (++pending == BATCH)
        flush();
}

/* Counts around which something changes: nothing, one, odd, the end of a chunk, of a round, several of them. */
static size_t random_count(const struct trial *t)
{
    const size_t size = type_size(t->type),
                 chunk = t->kernel == KERNEL_REDUCE_BULK ? KERNEL_BULK_LEAST : KERNEL_LL_BYTES;
    const size_t parts = t->kernel != KERNEL_REDUCE_ONE && t->mode != KERNEL_REDUCE_SCATTER ? (size_t)team.n : 1;
    const size_t edges[] = {
        0, 1, 3, 16 / size, 17, chunk / size, parts * chunk / size, 3 * parts * chunk / size, 1 + below(1000)};
    const unsigned pick = below(quick() ? 7 : 9);
    return edges[pick] > 17 ? edges[pick] - 1 + below(3) : edges[pick];
}

static void add_random(enum kernel_id kernel, enum kernel_mode mode, tutti_type_t type, int op)
{
    struct trial t = {.kernel = kernel, .mode = mode, .type = type, .op = op};
    t.root = (int)below((unsigned)team.n);
    t.in_place = below(3) == 0;
    t.count = random_count(&t);
    t.blocks = below(3) ? 1 + below(3) : 1 + below(KERNEL_STRIPES);
    t.stripes = t.blocks <= KERNEL_STRIPES / 2 && below(2) ? 2 * t.blocks - below(2) : 0;
    add(t);
}

static void each_type_and_op(enum kernel_id kernel, enum kernel_mode mode)
{
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        for (int op = 0; op < OPS; op++)
            if (!quick() || below(4) == 0)
                add_random(kernel, mode, (tutti_type_t)type, op);
}

static void test_everything(void **state)
{
    for (int n = 1; n <= KERNEL_RANKS; n++) {
        assert_true(team_init(&team, n));
        for (int mode = KERNEL_ALLREDUCE; mode <= KERNEL_REDUCE; mode++)
            for (int kernel = KERNEL_REDUCE_ONE; kernel < KERNEL_REDUCE_RING; kernel++)
                if (kernel != KERNEL_REDUCE_TWO || mode != KERNEL_REDUCE_SCATTER)
                    each_type_and_op((enum kernel_id)kernel, (enum kernel_mode)mode);
        each_type_and_op(KERNEL_REDUCE_BULK, KERNEL_REDUCE_OWN);
        flush();
        team_free(&team);
    }
}

/* Kernels, modes and sizes change from one operation to the next, and nothing waits between them. */
static void test_many_in_a_row(void **state)
{
    for (int n = 2; n <= KERNEL_RANKS; n += 2) {
        assert_true(team_init(&team, n));
        for (int i = 0; i < how_many(300); i++) {
            enum kernel_mode mode = (enum kernel_mode)below(3);
            enum kernel_id kernel = (enum kernel_id)(KERNEL_REDUCE_ONE + below(FAMILIES));
            if (mode == KERNEL_REDUCE_SCATTER && kernel == KERNEL_REDUCE_TWO)
                kernel = KERNEL_REDUCE_ONE;
            add_random(kernel, mode, (tutti_type_t)below(TUTTI_TYPE_COUNT), (int)below(OPS));
        }
        flush();
        team_free(&team);
    }
}

/* More chunks than a bulk channel has slots: they are used again. */
static void test_long_vectors(void **state)
{
    for (int n = 2; n <= KERNEL_RANKS; n += n == 4 ? 4 : 1) {
        assert_true(team_init(&team, n));
        for (int i = 0; i < 12; i++) {
            const size_t bytes = (size_t)n * (KERNEL_BULK_LEAST * (5 + below(5)) + below(1000));
            struct trial t = {.kernel = KERNEL_REDUCE_BULK,
                              .mode = (enum kernel_mode)(i % 4),
                              .type = (tutti_type_t)i,
                              .op = (int)below(OPS),
                              .root = (int)below((unsigned)n),
                              .in_place = below(2),
                              .blocks = 1 + below(2)};
            t.count = bytes / type_size(t.type) / (t.mode == KERNEL_REDUCE_SCATTER ? (size_t)n : 1);
            add(t);
        }
        flush();
        team_free(&team);
    }
}

/* With the most blocks a slot holds least, and a launch of fewer blocks cuts the same scratch in another way. */
static void test_changing_cuts(void **state)
{
    static const unsigned blocks[] = {KERNEL_STRIPES, 3, KERNEL_STRIPES, 1, 16, 5};
    assert_true(team_init(&team, 2));
    for (unsigned i = 0; i < 6; i++) {
        struct trial t = {.kernel = KERNEL_REDUCE_BULK, .type = TUTTI_FLOAT32, .op = TUTTI_SUM, .blocks = blocks[i]};
        t.count = (size_t)blocks[i] * 2 * KERNEL_BULK_LEAST * (blocks[i] > 20 ? 6 : 40) / 4;
        add(t);
        add_random(KERNEL_REDUCE_BULK, KERNEL_REDUCE, TUTTI_BFLOAT16, TUTTI_AVG);
    }
    flush();
    team_free(&team);
}

static void test_numbers_wrap(void **state)
{
    for (int n = 2; n <= 5; n += 3) {
        assert_true(team_init(&team, n));
        team_count_from(&team, (uint32_t)-20);
        for (int i = 0; i < 120; i++) {
            struct trial t = {.kernel = (enum kernel_id)(KERNEL_REDUCE_ONE + below(FAMILIES)),
                              .type = TUTTI_INT32,
                              .blocks = 1 + below(2)};
            t.count = 1 + below(3000);
            add(t);
        }
        flush();
        team_free(&team);
    }
}

/*
 * Reductions in lines imply what they have read, each kind in another way, also from one launch to the next; more steps
 * than slots, or few. What is longer than short vectors are goes by one block now and then: a worker then has many
 * steps.
 */
static void test_lines(void **state)
{
    for (int n = 2; n <= KERNEL_RANKS; n += n < 4 ? 1 : 2) {
        assert_true(team_init(&team, n));
        team_count_from(&team, (uint32_t)-50);
        for (int i = 0; i < how_many(180); i++) {
            struct trial t = {.kernel = KERNEL_REDUCE_LINES,
                              .mode = (enum kernel_mode)below(3),
                              .type = (tutti_type_t)below(TUTTI_TYPE_COUNT),
                              .op = (int)below(OPS),
                              .root = (int)below((unsigned)n),
                              .in_place = below(2),
                              .blocks = 1 + below(2)};
            t.count = below(below(4) ? 3000 : 12000) / type_size(t.type);
            add(t);
        }
        flush();
        team_free(&team);
    }
}

/* ---- exchanges ---- */

struct exchange {
    unsigned char *memory[KERNEL_RANKS][KERNEL_RANKS][2]; /* from, to: what is sent, what is received */
    unsigned char *sent[KERNEL_RANKS][KERNEL_RANKS], *received[KERNEL_RANKS][KERNEL_RANKS];
    size_t bytes[KERNEL_RANKS][KERNEL_RANKS];
};

/* A chunk of plain data, several of them, or more than a stripe has slots, for each of KERNEL_EXCHANGE_MOST stripes. */
static size_t long_message(void)
{
    const size_t chunks = 1 + below(2 * KERNEL_PLAIN_DEPTH + 2), all = KERNEL_EXCHANGE_MOST * kernel_plain_slot(team.n);
    return below(4) == 0 ? 0 : all * chunks - 40 + below(80);
}

static void make_exchange(struct exchange *x, struct team_job *job, size_t (*length)(void))
{
    const uint64_t from[] = {0, 1, 1 + below(9000), UINT64_MAX}, plain_from = from[below(4)];
    const uint64_t to[] = {0, 1 + below(400000), UINT64_MAX}, lines_from = below(3) * below(9000),
                   lines_to = to[below(3)];
    *job = (struct team_job){.kernel = kernel_of(KERNEL_EXCHANGE, TUTTI_INT8), .each_block_its_thread = true};
    for (int p = 0; p < team.n; p++)
        job->params[p].exchange = (struct kernel_exchange){
            .team = team_of(&team, p), .plain_from = plain_from, .lines_from = lines_from, .lines_to = lines_to};
    for (int p = 0; p < team.n; p++)
        for (int q = 0; q < team.n; q++) {
            const size_t bytes = x->bytes[p][q] = length();
            for (int end = 0; end < 2; end++) {
                x->memory[p][q][end] = allocate(bytes + 16 + GUARD);
                memset(x->memory[p][q][end], 0xa5, bytes + 16 + GUARD);
            }
            x->sent[p][q] = x->memory[p][q][0] + random_shift();
            x->received[p][q] = p == q && below(2) ? x->sent[p][q] : x->memory[p][q][1] + random_shift();
            random_fill(TUTTI_INT8, x->sent[p][q], bytes);
            job->params[p].exchange.send[q] = bytes ? x->sent[p][q] : NULL;
            job->params[q].exchange.recv[p] = bytes ? x->received[p][q] : NULL;
            job->params[p].exchange.send_bytes[q] = job->params[q].exchange.recv_bytes[p] = bytes;
        }
    for (int p = 0; p < team.n; p++) {
        struct kernel_launch launch;
        kernel_choose_exchange(&job->params[p].exchange, kernel_room(1 + below(64), 0, 0), below(2), &launch);
        job->grid[p] = (struct cuda_index){launch.blocks, 1, 1};
    }
}

static void check_exchange(struct exchange *x)
{
    for (int p = 0; p < team.n; p++)
        for (int q = 0; q < team.n; q++) {
            assert_memory_equal(x->received[p][q], x->sent[p][q], x->bytes[p][q]);
            for (size_t i = 0; i < GUARD; i++)
                assert_int_equal(x->received[p][q][x->bytes[p][q] + i], 0xa5);
            free(x->memory[p][q][0]);
            free(x->memory[p][q][1]);
        }
}

static void test_exchanges(void **state)
{
    static struct exchange exchanges[6];
    for (int n = 1; n <= KERNEL_RANKS; n++) {
        assert_true(team_init(&team, n));
        team_count_from(&team, (uint32_t)-10);
        for (int i = 0; i < how_many(4); i++) {
            for (int j = 0; j < 6; j++)
                make_exchange(&exchanges[j], &jobs[j], random_bytes_of_message);
            team_run(jobs, 6, 0, n);
            for (int j = 0; j < 6; j++)
                check_exchange(&exchanges[j]);
        }
        team_free(&team);
    }
}

static void test_long_exchanges(void **state)
{
    static struct exchange exchanges[3];
    for (int n = 2; n <= (quick() ? 3 : 5); n += n == 3 ? 2 : 1) {
        assert_true(team_init(&team, n));
        team_count_from(&team, (uint32_t)-9);
        for (int i = 0; i < how_many(2); i++) {
            for (int j = 0; j < 3; j++)
                make_exchange(&exchanges[j], &jobs[j], j == 1 ? random_bytes_of_message : long_message);
            team_run(jobs, 3, 0, n);
            for (int j = 0; j < 3; j++)
                check_exchange(&exchanges[j]);
        }
        team_free(&team);
    }
}

/* Some operations acknowledge what they read and some imply it. */
static void test_mixed(void **state)
{
    static struct exchange exchanges[BATCH];
    for (int n = 2; n <= 5; n++) {
        assert_true(team_init(&team, n));
        team_count_from(&team, (uint32_t)-30);
        for (int i = 0; i < how_many(120); i++) {
            const enum kernel_mode mode = (enum kernel_mode)below(3);
            if (below(2)) {
                add_random(mode == KERNEL_REDUCE_SCATTER || below(2) ? KERNEL_REDUCE_ONE : KERNEL_REDUCE_TWO, mode,
                           TUTTI_FLOAT32, TUTTI_SUM);
                continue;
            }
            make_exchange(&exchanges[pending], &jobs[pending], random_bytes_of_message);
            trials[pending] = (struct trial){.exchange = &exchanges[pending]};
            if (++pending == BATCH)
                flush();
        }
        flush();
        team_free(&team);
    }
}

/* ---- giving up ---- */

static void *run_lonely(void *arg)
{
    team_run(arg, 1, 0, 1);
    return NULL;
}

static uint32_t waited_for(void)
{
    uint32_t ranks = 0;
    for (int p = 0; p < KERNEL_RANKS; p++)
        ranks |= __atomic_exchange_n(&team.waits[p], 0, __ATOMIC_RELAXED) << p;
    return ranks;
}

/* Rank 0 runs alone: it waits for the others in vain, says for whom when it is asked, and goes on until it is told to
 * end. */
static void give_up(struct team_job *job, uint32_t needed)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_lonely, job), 0);
    for (int i = 0; i < 100; i++)
        sched_yield();
    assert_int_equal(waited_for(), 0);
    __atomic_store_n(&team.abort, KERNEL_ASKED, __ATOMIC_RELAXED);
    for (int again = 0; again < 2; again++) {
        uint32_t said;
        while (!(said = waited_for()))
            usleep(100);
        assert_int_equal(said & ~needed, 0);
    }
    assert_int_equal(__atomic_load_n(&team.over, __ATOMIC_RELAXED), 0);
    __atomic_store_n(&team.abort, KERNEL_ASKED | KERNEL_GIVE_UP, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    __atomic_store_n(&team.abort, 0, __ATOMIC_RELAXED);
}

static void test_abort(void **state)
{
    static unsigned char buffer[2][3 << 20]; /* longer than what may be under way */
    for (int kernel = KERNEL_EXCHANGE; kernel < KERNEL_COUNT; kernel++)
        for (int mode = KERNEL_ALLREDUCE; mode <= KERNEL_REDUCE; mode++) {
            if ((kernel >= KERNEL_COURIER && kernel <= KERNEL_PUTS) || kernel == KERNEL_REDUCE_FOLDED ||
                (kernel == KERNEL_REDUCE_TWO && mode == KERNEL_REDUCE_SCATTER))
                continue;
            assert_true(team_init(&team, 3));
            struct team_job job = {.kernel = kernel_of((enum kernel_id)kernel, TUTTI_INT8), .grid = {{2, 1, 1}}};
            if (kernel == KERNEL_EXCHANGE)
                job.params[0].exchange = (struct kernel_exchange){.team = team_of(&team, 0),
                                                                  .send = {NULL, buffer[0]},
                                                                  .recv = {NULL, NULL, buffer[1]},
                                                                  .send_bytes = {0, mode == 1 ? 0 : sizeof buffer[0]},
                                                                  .recv_bytes = {0, 0, mode == 1 ? 1000 : 0},
                                                                  .plain_from = mode == 2 ? 1 : UINT64_MAX,
                                                                  .out_end = {0, 2, 2},
                                                                  .in_end = {0, 1, 1}};
            else if (kernel == KERNEL_CHAIN) /* as the root; in the middle; at the end */
                job.params[0].chain = (struct kernel_chain){.team = team_of(&team, 0),
                                                            .in = buffer[0],
                                                            .out = buffer[1],
                                                            .bytes = sizeof buffer[0],
                                                            .chunk = 16};
            else
                job.params[0].reduce = (struct kernel_reduce){
                    .team = team_of(&team, 0), .in = buffer[0], .out = buffer[1], .count = 30000, .mode = mode};
            if (kernel == KERNEL_REDUCE_RING) { /* each rank gets its own; as the root */
                if (mode == KERNEL_ALLREDUCE)
                    job.params[0].reduce.mode = KERNEL_REDUCE_OWN;
                follow_ring((enum kernel_id)kernel, 0, &job.params[0].reduce);
            } else if (kernel == KERNEL_GATHER)
                job.params[0].reduce.mode = mode == 1 ? KERNEL_ALLTOALL : KERNEL_ALLGATHER;
            else if (kernel == KERNEL_CHAIN)
                follow_chain(mode == 2 ? WAY_FAN : WAY_CHAIN, mode, &job.params[0].chain);
            else if (kernel != KERNEL_EXCHANGE)
                follow_reduce((enum kernel_id)kernel, 0, &job.params[0].reduce);
            give_up(&job, kernel == KERNEL_EXCHANGE ? (mode == 1 ? 4 : 2) : 6);
            team_free(&team);
        }
}

static void test_table(void **state)
{
    assert_null(cuda_kernel_find("tutti_reduce_one_quad"));
    assert_int_equal(cuda_kernel_find("tutti_exchange")->size, sizeof(struct kernel_exchange));
    assert_int_equal(cuda_kernel_find("tutti_chain")->size, sizeof(struct kernel_chain));
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        for (int kernel = KERNEL_REDUCE_ONE; kernel < KERNEL_COUNT; kernel++)
            assert_non_null(kernel_of((enum kernel_id)kernel, (tutti_type_t)type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),          cmocka_unit_test(test_everything),
        cmocka_unit_test(test_many_in_a_row),  cmocka_unit_test(test_long_vectors),
        cmocka_unit_test(test_changing_cuts),  cmocka_unit_test(test_numbers_wrap),
        cmocka_unit_test(test_lines),          cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_long_exchanges), cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
