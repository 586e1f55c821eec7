/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several operations in one launch, ranks as threads. What one launch for each operation gives is the reference: each
 * rank then puts the same operations into lists in its own way.
 */
#include "cuda/kernels/draw.h"
#include "cuda/kernels/follow.h"
#include "cuda/kernels/team.h"

#include "device/type.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define OPERATIONS   20
#define BYTES        ((size_t)96 << 10)
#define GUARD        64
#define STRIPES_MOST 8 /* of a vector */

static struct thread_team team;
static struct team_job jobs[OPERATIONS];
static size_t count;
static unsigned turns[OPERATIONS], width;                      /* the same on all ranks */
static unsigned char *in[KERNEL_RANKS], *out[2][KERNEL_RANKS]; /* of all operations, one behind the other */

static unsigned larger(unsigned x, unsigned y)
{
    return x > y ? x : y;
}

static const struct cuda_kernel *reduction(enum kernel_id kernel, tutti_type_t type)
{
    if (kernel == KERNEL_GATHER)
        return cuda_kernel_find("tutti_gather_words");
    const char *family = kernel == KERNEL_REDUCE_ONE ? "one" : kernel == KERNEL_REDUCE_TWO ? "two" : "listed";
    char name[64];
    snprintf(name, sizeof name, "tutti_reduce_%s_%s", family, type_name(type));
    return cuda_kernel_find(name);
}

static void open_all(int n)
{
    assert_true(team_init(&team, n));
    for (int p = 0; p < n; p++) {
        in[p] = malloc(OPERATIONS * BYTES);
        for (int i = 0; i < 2; i++)
            out[i][p] = malloc(OPERATIONS * BYTES);
    }
}

static void close_all(void)
{
    for (int p = 0; p < team.n; p++) {
        free(in[p]);
        free(out[0][p]);
        free(out[1][p]);
    }
    team_free(&team);
}

/* ---- Reductions ---- */

struct drawn {
    enum kernel_id kernel;
    enum kernel_mode mode;
    tutti_type_t type;
    int op, root;
    bool one_shot; /* in lines: follow_reduce() goes by the count, and vectors of a list go alike */
};

static struct drawn draw(int n)
{
    static const enum kernel_id kernels[] = {KERNEL_REDUCE_ONE, KERNEL_REDUCE_TWO, KERNEL_REDUCE_LISTED};
    struct drawn d = {kernels[below(3)],          (enum kernel_mode)below(3), (tutti_type_t)below(TUTTI_TYPE_COUNT),
                      (int)below(TUTTI_OP_COUNT), (int)below((unsigned)n),    below(2)};
    if (d.kernel == KERNEL_REDUCE_TWO && d.mode == KERNEL_REDUCE_SCATTER)
        d.kernel = KERNEL_REDUCE_ONE;
    if (below(3) == 0)
        d = (struct drawn){KERNEL_GATHER, below(2) ? KERNEL_ALLGATHER : KERNEL_ALLTOALL, TUTTI_UINT8, 0, 0, false};
    else if (below(6) == 0)
        d = (struct drawn){KERNEL_REDUCE_LISTED, KERNEL_ALLGATHER, TUTTI_FLOAT32, 0, 0, false};
    return d;
}

/* Counts are bytes, and whatever type the kernel is of makes no difference. */
static bool gathers(const struct drawn *d)
{
    return d->mode == KERNEL_ALLGATHER || d->mode == KERNEL_ALLTOALL;
}

/* Of one vector, or of a block of it where it is scattered. */
static size_t random_count(const struct drawn *d, int n)
{
    bool blocks = d->mode == KERNEL_REDUCE_SCATTER || gathers(d);
    size_t most = BYTES / (blocks ? (size_t)n : 1) - GUARD, size = gathers(d) ? 1 : type_size(d->type);
    size_t bytes = below(3) == 0 ? below(64) : below(2) ? below(9000) : below(90000);
    size_t elements = (bytes < most ? bytes : most) / size + 1;
    return d->kernel == KERNEL_REDUCE_LISTED && !gathers(d) ? (elements / 2 * 2) + (d->one_shot ? 1 : 2) : elements;
}

static void make_reduction(const struct drawn *d, struct team_job *job, size_t place)
{
    const unsigned blocks = 1 + below(STRIPES_MOST / 2), stripes = below(2) ? 2 * blocks : 0;
    const size_t length = random_count(d, team.n), shift = below(3) ? 0 : below(16);
    *job = (struct team_job){.kernel = reduction(d->kernel, d->type)};
    for (int p = 0; p < team.n; p++) {
        job->grid[p] = (struct cuda_index){blocks, 1, 1};
        memset(&job->params[p], 0, sizeof job->params[p]);
        struct kernel_reduce *what = &job->params[p].list.reduce;
        *what = (struct kernel_reduce){.team = team_of(&team, p),
                                       .in = in[p] + place * BYTES + shift,
                                       .out = out[0][p] + place * BYTES + shift,
                                       .count = length,
                                       .mode = (int32_t)d->mode,
                                       .op = d->op,
                                       .stripes = stripes};
        if (gathers(d))
            steps_gather(team.n, what);
        else
            follow_reduce(d->kernel, d->root, what);
    }
}

static unsigned stripes_of(const struct team_job *job, int p)
{
    return larger(job->params[p].list.reduce.stripes, job->grid[p].x);
}

/* Jobs [first, end) of rank p become one; the ticket is the last one's. The launch has all stripes of the team, from
 * anywhere on, by one or by two a block. */
static void join_reductions(int p, size_t first, size_t end)
{
    struct kernel_list *list = &jobs[first].params[p].list;
    for (size_t i = first; i < end; i++) {
        const struct kernel_reduce *what = &jobs[i].params[p].list.reduce;
        list->item[i - first] = (struct kernel_item){what->in, what->out, (uint32_t)what->count,
                                                     (uint16_t)stripes_of(&jobs[i], p), (uint16_t)turns[i]};
        jobs[i].joined[p] = i > first;
    }
    list->items = (uint32_t)(end - first);
    list->width = width;
    list->first = below(width);
    list->reduce.team.ticket = jobs[end - 1].params[p].list.reduce.team.ticket;
    list->reduce.stripes = below(2) ? width : 0;
    jobs[first].grid[p].x = list->reduce.stripes ? width / 2 : width;
}

static void join_somehow(int p, size_t most, void (*join)(int, size_t, size_t))
{
    for (size_t first = 0; first < count;) {
        size_t end = first + 1 + below(most < 6 ? (unsigned)most : 6);
        end = end < count ? end : count;
        join(p, first, end);
        first = end;
    }
    for (size_t i = 0; i < count; i++)
        jobs[i].each_block_its_thread = true; /* the blocks of other ranks' launches come in another order */
}

/* Of what one launch each gives. */
static void check_blocks(const struct drawn *d)
{
    for (size_t i = 0; i < count; i++)
        for (int p = 0; p < team.n; p++)
            for (int q = 0; q < team.n; q++) {
                const struct kernel_reduce *what = &jobs[i].params[p].list.reduce,
                                           *from = &jobs[i].params[q].list.reduce;
                const unsigned char *got = (const unsigned char *)what->out + (size_t)q * what->count,
                                    *sent = (const unsigned char *)from->in +
                                            (d->mode == KERNEL_ALLTOALL ? (size_t)p * what->count : 0);
                if (memcmp(got, sent, what->count) != 0)
                    fail_msg("%zu bytes from rank %d to rank %d of %d differ", (size_t)what->count, q, p, team.n);
            }
}

static void reduce_twice(void)
{
    const struct drawn d = draw(team.n);
    count = 2 + below(OPERATIONS - 1);
    width = STRIPES_MOST + 2 * below(3);
    for (size_t i = 0; i < count; i++)
        turns[i] = below(width);
    for (int p = 0; p < team.n; p++) {
        random_fill(d.type, in[p], OPERATIONS * BYTES / type_size(d.type));
        for (int i = 0; i < 2; i++)
            memset(out[i][p], 0xa5, OPERATIONS * BYTES);
    }
    for (size_t i = 0; i < count; i++)
        make_reduction(&d, &jobs[i], i);
    team_run(jobs, count, 0, team.n);
    if (gathers(&d))
        check_blocks(&d);
    for (int p = 0; p < team.n; p++) {
        for (size_t i = 0; i < count; i++) {
            struct kernel_reduce *what = &jobs[i].params[p].list.reduce;
            what->out = (unsigned char *)what->out - out[0][p] + out[1][p];
            what->team = team_of(&team, p);
        }
        join_somehow(p, KERNEL_LIST_MOST, join_reductions);
    }
    team_run(jobs, count, 0, team.n);
    for (int p = 0; p < team.n; p++)
        if (memcmp(out[0][p], out[1][p], OPERATIONS * BYTES) != 0)
            fail_msg("kernel %d mode %d %s op %d: rank %d of %d differs in lists of %zu vectors", d.kernel, d.mode,
                     type_name(d.type), d.op, p, team.n, count);
}

static void test_reductions(void **state)
{
    for (int n = 1; n <= KERNEL_RANKS; n += n < 3 ? 1 : 5) {
        open_all(n);
        for (int i = 0; i < how_many(3); i++)
            reduce_twice();
        close_all();
    }
}

/* Numbers of messages wrap in the middle of a list. */
static void test_numbers_wrap(void **state)
{
    open_all(3);
    team_count_from(&team, (uint32_t)-10);
    for (int i = 0; i < how_many(3); i++)
        reduce_twice();
    close_all();
}

/* ---- Messages ---- */

static size_t bytes[OPERATIONS][KERNEL_RANKS][KERNEL_RANKS];

/* Of rank p's memory the part for rank q. */
static unsigned char *part_of(unsigned char *memory, size_t place, int q)
{
    return memory + place * BYTES + (size_t)q * (BYTES / KERNEL_RANKS);
}

static void make_messages(struct team_job *job, size_t place, const uint64_t *from)
{
    *job = (struct team_job){.kernel = cuda_kernel_find("tutti_exchange"), .each_block_its_thread = true};
    for (int p = 0; p < team.n; p++)
        for (int q = 0; q < team.n; q++)
            bytes[place][p][q] = random_bytes_of_message() % (BYTES / KERNEL_RANKS - GUARD);
    for (int p = 0; p < team.n; p++) {
        struct kernel_launch launch;
        struct kernel_exchange *what = &job->params[p].exchange;
        *what = (struct kernel_exchange){.team = team_of(&team, p),
                                         .plain_from = from[0],
                                         .lines_from = from[1],
                                         .lines_to = from[2],
                                         .turn = turns[place]};
        for (int q = 0; q < team.n; q++) {
            what->send[q] = part_of(in[p], place, q);
            what->recv[q] = part_of(out[0][p], place, q);
            what->send_bytes[q] = bytes[place][p][q];
            what->recv_bytes[q] = bytes[place][q][p];
        }
        kernel_choose_exchange(what, kernel_room(1 + below(64), 0, 0), below(2), &launch);
        job->grid[p] = (struct cuda_index){launch.blocks, 1, 1};
    }
}

static void join_messages(int p, size_t first, size_t end)
{
    struct kernel_messages *all = &jobs[first].params[p].messages;
    for (size_t i = first; i < end; i++) {
        all->item[i - first] = jobs[i].params[p].exchange;
        jobs[i].joined[p] = i > first;
    }
    struct kernel_launch launch;
    all->items = (uint32_t)(end - first);
    kernel_choose_messages(all, kernel_room(1 + below(64), 0, 0), below(2), &launch);
    jobs[first].grid[p].x = launch.blocks;
    all->item[0].team.ticket = jobs[end - 1].params[p].exchange.team.ticket;
    jobs[first].own[p] = cuda_kernel_find("tutti_messages");
}

static void exchange_somehow(void)
{
    const uint64_t from[] = {1 + below(9000), below(3) * below(9000), below(2) ? UINT64_MAX : below(9000)};
    count = 2 + below(OPERATIONS - 1);
    for (int p = 0; p < team.n; p++) {
        random_fill(TUTTI_INT8, in[p], OPERATIONS * BYTES);
        memset(out[0][p], 0xa5, OPERATIONS * BYTES);
    }
    for (size_t i = 0; i < count; i++) {
        turns[i] = below(KERNEL_EXCHANGE_MOST);
        make_messages(&jobs[i], i, from);
    }
    for (int p = 0; p < team.n; p++)
        join_somehow(p, KERNEL_MESSAGES_MOST, join_messages);
    team_run(jobs, count, 0, team.n);
    for (size_t i = 0; i < count; i++)
        for (int p = 0; p < team.n; p++)
            for (int q = 0; q < team.n; q++) {
                const unsigned char *got = part_of(out[0][p], i, q);
                if (memcmp(got, part_of(in[q], i, p), bytes[i][q][p]) != 0)
                    fail_msg("%zu bytes from rank %d to rank %d of %d in exchange %zu differ", bytes[i][q][p], q, p,
                             team.n, i);
                assert_int_equal(got[bytes[i][q][p]], 0xa5);
            }
}

static void test_messages(void **state)
{
    for (int n = 1; n <= KERNEL_RANKS; n += n < 3 ? 1 : 5) {
        open_all(n);
        team_count_from(&team, (uint32_t)-10);
        for (int i = 0; i < how_many(4); i++)
            exchange_somehow();
        close_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reductions), cmocka_unit_test(test_numbers_wrap),
                                       cmocka_unit_test(test_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
