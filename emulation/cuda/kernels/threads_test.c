/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of large reductions and of exchanges beside one another: blocks of several threads, one process a rank. */
#include "cuda/kernels/draw.h"
#include "cuda/kernels/follow.h"
#include "cuda/kernels/threads/threads.h"

#include "base/random.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define WORDS  30000
#define GUARD  16
#define VECTOR (KERNEL_RANKS * WORDS + GUARD)
#define LONG   ((size_t)5 << 20) /* bytes of a message: of its stripes each has more chunks than slots */

/* Shared by all processes. */
static struct world {
    uint32_t abort, behind[KERNEL_WRONG + 4 * KERNEL_RANKS]; /* what kernels tell the host */
    unsigned char *window[KERNEL_RANKS], *bulk[KERNEL_RANKS];
    unsigned char *received[KERNEL_RANKS]; /* from each rank LONG + GUARD bytes: peers may store there */
    int32_t *vector[KERNEL_RANKS][2];      /* of reductions: in and out, each VECTOR words: peers may store there */
} * world;
static int ranks;
static unsigned char sent[KERNEL_RANKS][LONG + GUARD];

static void *shared(size_t bytes)
{
    void *at = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static void begin(int n)
{
    ranks = n;
    world = shared(sizeof *world);
    for (int p = 0; p < n; p++) {
        world->window[p] = shared(kernel_window_bytes(n));
        world->bulk[p] = shared(kernel_bulk_bytes(n));
        world->received[p] = shared(KERNEL_RANKS * (LONG + GUARD));
        for (int i = 0; i < 2; i++)
            world->vector[p][i] = shared(4 * VECTOR);
        for (size_t i = 0; i < KERNEL_CONTROL_BYTES / 4; i++)
            ((uint32_t *)world->window[p])[i] = (uint32_t)-7; /* numbers wrap */
        *(uint32_t *)(world->window[p] + kernel_dynamic_begin(n)) = (uint32_t)-7;
        *(uint32_t *)(world->window[p] + KERNEL_BLOCKS_OVER) = 0; /* counts from 0, and comes to 0 again */
    }
}

static void end(void)
{
    for (int p = 0; p < ranks; p++) {
        munmap(world->window[p], kernel_window_bytes(ranks) + 1);
        munmap(world->bulk[p], kernel_bulk_bytes(ranks) + 1);
        munmap(world->received[p], KERNEL_RANKS * (LONG + GUARD) + 1);
        for (int i = 0; i < 2; i++)
            munmap(world->vector[p][i], 4 * VECTOR + 1);
    }
    munmap(world, sizeof *world + 1);
}

/* One operation, the same on all ranks: drawn from its number. */
struct operation {
    threads_kernel *kernel;
    int mode, root;
    size_t count, shift; /* shift: words by which buffers are not aligned */
    bool in_place, ring;
    unsigned blocks, threads, stripes;
    uint64_t chunk;
};

static struct operation operation_of(unsigned number)
{
    uint64_t bits = mix64(number * 31u + (unsigned)ranks);
    struct operation o = {
        .mode = (int)(bits % 4), .root = (int)(bits / 4 % (unsigned)ranks), .in_place = bits / 64 % 2};
    o.blocks = 1 + (unsigned)(bits / 128 % 3);
    o.threads = (bits / 512 % 2) ? 12 : 17;
    o.stripes = 0;
    o.chunk = bits / 1024 % 2 ? 0 : 512 + 256 * (bits / 2048 % 5);
    o.shift = bits / 16384 % 3 ? 0 : 1;
    o.count = (bits >> 20) % (number % 5 == 0 ? 40 : WORDS - 4);
    o.kernel = number % 6 == 0 && o.mode != KERNEL_REDUCE_OWN ? threads_reduce_lines_int32 : threads_reduce_bulk_int32;
    if (number % 3 &&
        o.mode != KERNEL_REDUCE_OWN) { /* rooted ones and others in turn: numbers are acknowledged, or implied */
        o.kernel =
            number % 3 == 1 || o.mode == KERNEL_REDUCE_SCATTER ? threads_reduce_one_int32 : threads_reduce_two_int32;
        o.stripes = bits / 4096 % 2 ? 2 * o.blocks - (unsigned)(bits / 8192 % 2) : 0;
        o.threads = THREADS_LL * (o.stripes > o.blocks ? 2 : 1);
        o.count %= number % 2 ? 20 : 3000;
    }
    bool bulk = o.kernel == threads_reduce_bulk_int32, lines = o.kernel == threads_reduce_lines_int32;
    if (ranks > 2 && (bulk || lines) && bits / 65536 % 4 == 0)
        o.mode = KERNEL_BROADCAST;
    o.ring = o.mode == KERNEL_BROADCAST || (bits / 32768 % 2 && (bulk || lines) &&
                                            follow_ring_kernel(bulk ? KERNEL_REDUCE_BULK : KERNEL_REDUCE_LINES,
                                                               (enum kernel_mode)o.mode, ranks) != KERNEL_NONE);
    if (o.ring && bulk)
        o.kernel = threads_reduce_ring_int32;
    return o;
}

static int32_t value(int rank, size_t i, unsigned number)
{
    return (int32_t)(uint32_t)mix64(i * 64 + (unsigned)rank * 8 + number % 8);
}

static int32_t sum(size_t i, unsigned number)
{
    uint32_t all = 0;
    for (int p = 0; p < ranks; p++)
        all += (uint32_t)value(p, i, number);
    return (int32_t)all;
}

/* What word i of `to` must be; false: what it was before. */
static bool wanted(const struct operation *o, int rank, size_t i, unsigned number, int32_t *want)
{
    size_t part = kernel_part_bytes(o->count * 4, ranks) / 4;
    if (i >= o->count || (o->mode == KERNEL_REDUCE && o->root != rank) ||
        (o->mode == KERNEL_REDUCE_OWN && i / part != (size_t)rank))
        return false;
    if (o->mode == KERNEL_BROADCAST)
        *want = value(o->root, i, number);
    else
        *want = sum(o->mode == KERNEL_REDUCE_SCATTER ? i + o->count * (size_t)rank : i, number);
    return true;
}

static void run_blocks(const struct operation *o, const struct kernel_list *list)
{
    for (unsigned block = 0; block < o->blocks; block++)
        threads_run(o->kernel, list, o->threads, (struct cuda_index){o->blocks, 1, 1},
                    (struct cuda_index){block, 0, 0});
}

/* How many pieces the vector is reduced in: most have one. */
static unsigned pieces_of(const struct operation *o, unsigned number)
{
    bool can = o->kernel == threads_reduce_one_int32 || o->kernel == threads_reduce_two_int32;
    return can && !o->ring && o->mode != KERNEL_REDUCE_SCATTER ? 1 + (unsigned)(mix64(number + 77) % 8) : 1;
}

/* Pieces of a vector as a list, where each has some of the blocks; where these are one, other ranks have as many
 * launches as pieces: blocks run one after another here. */
static void run_pieces(const struct operation *o, const struct kernel_reduce *what, unsigned number, unsigned pieces)
{
    const unsigned width = o->stripes > o->blocks ? 2 * o->blocks : o->blocks;
    struct kernel_list list = {.reduce = *what, .items = pieces, .width = width};
    size_t at = 0;
    for (unsigned i = 0; i < pieces; i++) {
        uint64_t bits = mix64(number * 64 + i);
        size_t left = o->count - at, count = i + 1 == pieces ? left : bits % (left + 1);
        unsigned most = o->stripes > o->blocks ? o->stripes : o->blocks;
        list.item[i] = (struct kernel_item){(const int32_t *)what->in + at, (int32_t *)what->out + at, (uint32_t)count,
                                            (uint16_t)(1 + (unsigned)(bits >> 32) % most),
                                            (uint16_t)((unsigned)(bits >> 48) % width)};
        at += count;
    }
    if (o->blocks > 1 || (number + (unsigned)what->team.rank) % 2) {
        run_blocks(o, &list);
        return;
    }
    for (unsigned i = 0; i < pieces; i++) {
        struct kernel_list one = {.reduce = *what, .items = 1, .width = width, .item = {list.item[i]}};
        run_blocks(o, &one);
    }
}

static bool run_one(int rank, unsigned number)
{
    const struct operation o = operation_of(number);
    size_t words = o.mode == KERNEL_REDUCE_SCATTER ? o.count * (size_t)ranks : o.count;
    int32_t *in = world->vector[rank][0], *out = world->vector[rank][1];
    struct kernel_reduce what = {.team = {.rank = rank, .nranks = ranks, .abort = &world->abort},
                                 .in = in + o.shift,
                                 .count = o.mode == KERNEL_BROADCAST ? 4 * o.count : o.count,
                                 .mode = o.mode,
                                 .op = TUTTI_SUM,
                                 .chunk = o.chunk,
                                 .stripes = o.stripes};
    bool one = o.kernel == threads_reduce_one_int32, two = o.kernel == threads_reduce_two_int32;
    bool lines = o.kernel == threads_reduce_lines_int32;
    enum kernel_id kernel = one     ? KERNEL_REDUCE_ONE
                            : two   ? KERNEL_REDUCE_TWO
                            : lines ? KERNEL_REDUCE_LINES
                                    : KERNEL_REDUCE_BULK;
    if (o.ring)
        follow_ring(kernel, o.root, &what);
    else
        follow_reduce(kernel, o.root, &what);
    for (int p = 0; p < ranks; p++) {
        what.team.window[p] = world->window[p];
        what.team.bulk[p] = world->bulk[p];
    }
    for (size_t i = 0; i < words + 4; i++)
        in[o.shift + i] = value(rank, i, number);
    memset(out, 0x5a, 4 * VECTOR);
    int32_t *to =
        o.in_place ? in + o.shift + (o.mode == KERNEL_REDUCE_SCATTER ? o.count * (size_t)rank : 0) : out + 2 * o.shift;
    what.out = to;
    what.invites = number / 3 % 4 && !o.ring;
    what.sure = (number + (unsigned)rank) % 2;
    for (int p = 0; p < ranks; p++)
        what.invite[p] = (number / 3 + (unsigned)(rank + p)) % 4 ? KERNEL_INVITE_ADDRESS | (uintptr_t)to : 0;
    struct kernel_list whole = {.reduce = what};
    unsigned pieces = pieces_of(&o, number);
    if (pieces > 1)
        run_pieces(&o, &what, number, pieces);
    else
        run_blocks(&o, &whole);
    for (size_t i = 0; i < o.count + 4; i++) {
        int32_t want = o.in_place ? value(rank, i + (size_t)(to - in - (ptrdiff_t)o.shift), number) : 0x5a5a5a5a;
        wanted(&o, rank, i, number, &want);
        if (to[i] != want)
            return false;
    }
    return true;
}

static struct kernel_team team_of(int rank)
{
    struct kernel_team team = {.rank = rank, .nranks = ranks, .abort = &world->abort};
    for (int p = 0; p < ranks; p++)
        team.window[p] = world->window[p];
    return team;
}

/* Of the message from one rank to another: short, longer, and now and then of a length for which slots are used again.
 */
static size_t bytes_between(int from, int to, unsigned number)
{
    uint64_t bits = mix64(number * 64u + (unsigned)from * 8u + (unsigned)to);
    return bits % 5 == 0                     ? 0
           : number % 8 == 7 && bits % 5 < 3 ? LONG - bits % 9999
                                             : (bits >> 8) % (bits % 5 == 1 ? 5000 : 70000);
}

static unsigned char byte_of(int from, int to, size_t i, unsigned number)
{
    return (unsigned char)(i * 7 + i / 509 + (size_t)from * 31 + (size_t)to * 67 + number * 13);
}

static bool exchange_one(int rank, unsigned number)
{
    struct kernel_exchange what = {.team = team_of(rank),
                                   .plain_from = number % 3 ? 1 + number % 7 * 2000 : UINT64_MAX,
                                   .lines_from = number % 4 * 500,
                                   .lines_to = number % 2 ? UINT64_MAX : number % 5 * 10000,
                                   .invite_from = number % 5 ? 1 + number % 3 * 30000 : 0};
    size_t shift = number % 4 == 0 ? number % 16 : 0;
    for (int p = 0; p < ranks; p++) {
        what.send[p] = sent[p] + shift;
        unsigned char *received = world->received[rank] + (size_t)p * (LONG + GUARD);
        what.recv[p] = received + shift / 2;
        what.invite[p] = (number + (unsigned)rank) % 4 ? KERNEL_INVITE_ADDRESS | (uintptr_t)what.recv[p] : 0;
        what.send_bytes[p] = bytes_between(rank, p, number);
        what.recv_bytes[p] = bytes_between(p, rank, number);
        for (size_t i = 0; i < what.send_bytes[p]; i++)
            sent[p][shift + i] = byte_of(rank, p, i, number);
        memset(received, 0x5a, LONG + GUARD);
    }
    for (int k = 1; k < ranks; k++) /* blocks run one after another: the k-th ones of all ranks belong together */
        what.out_end[k] = what.in_end[k] = (uint16_t)k;
    for (unsigned block = 0; block < (unsigned)ranks; block++)
        threads_run(threads_exchange, &what, number % 2 ? 8 : 12, (struct cuda_index){(unsigned)ranks, 1, 1},
                    (struct cuda_index){block, 0, 0});
    for (int p = 0; p < ranks; p++) {
        const unsigned char *at = what.recv[p];
        size_t good = 0;
        while (good < what.recv_bytes[p] && at[good] == byte_of(p, rank, good, number))
            good++;
        if (good != what.recv_bytes[p] || at[good] != 0x5a)
            return false;
    }
    return true;
}

/* What a rank has in an exchange whose lengths only kernels know: every rank knows it of all. */
#define SPLITS 9
struct dynamic_plan {
    int64_t splits[SPLITS], lengths[KERNEL_RANKS], indices[KERNEL_RANKS * SPLITS];
};

static struct dynamic_plan dynamic_plan_of(int of, unsigned number)
{
    struct dynamic_plan plan = {{0}, {0}, {0}};
    int at = 0;
    for (int i = 0; i < SPLITS; i++)
        plan.splits[i] = mix64(number * 999u + (unsigned)(of * SPLITS + i)) % 4 ? (int64_t)(number * 7 % 40) : i * 100;
    for (int p = 0; p < ranks; p++)
        for (int i = SPLITS - 1; i >= 0; i--)
            if (mix64(number * 77u + (unsigned)((of * 8 + p) * SPLITS + i)) % 2) {
                plan.lengths[p]++;
                plan.indices[at++] = i;
            }
    return plan;
}

static bool dynamic_takes(const struct dynamic_plan *plan, int to, int split)
{
    int at = 0;
    for (int p = 0; p < to; p++)
        at += (int)plan->lengths[p];
    for (int i = at; i < at + plan->lengths[to]; i++)
        if (plan->indices[i] == split)
            return true;
    return false;
}

static bool dynamic_right(int rank, unsigned number, size_t row, const int64_t *told)
{
    for (int p = 0; p < ranks; p++) {
        const struct dynamic_plan theirs = dynamic_plan_of(p, number);
        const unsigned char *at = world->received[rank] + (size_t)p * (LONG + GUARD);
        size_t i = 0;
        for (int split = 0; split < SPLITS; split++) {
            const size_t end = i + (size_t)theirs.splits[split] * row;
            if (told[p * SPLITS + split] != theirs.splits[split])
                return false;
            for (; i < end; i++)
                if (at[i] != (dynamic_takes(&theirs, rank, split) ? byte_of(p, 0, i, number) : 0x5a))
                    return false;
        }
        if (at[i] != 0x5a)
            return false;
    }
    return true;
}

static bool dynamic_one(int rank, unsigned number)
{
    const struct dynamic_plan plan = dynamic_plan_of(rank, number);
    const size_t row = 1 + number % 3 * 13;
    int64_t told[KERNEL_RANKS * SPLITS];
    struct kernel_dynamic what = {.exchange = {.team = team_of(rank),
                                               .plain_from = number % 3 ? 1 + number % 7 * 2000 : UINT64_MAX,
                                               .lines_from = number % 4 * 500,
                                               .lines_to = number % 2 ? UINT64_MAX : number % 5 * 10000},
                                  .splits = plan.splits,
                                  .lengths = plan.lengths,
                                  .indices = plan.indices,
                                  .recv_splits = told,
                                  .row = row,
                                  .count = SPLITS,
                                  .group = SPLITS,
                                  .room = KERNEL_RANKS * SPLITS,
                                  .send_rows = 4000,
                                  .recv_rows = 4000,
                                  .blocks = 1};
    for (size_t i = 0; i < 4000 * row; i++)
        sent[0][i] = byte_of(rank, 0, i, number);
    memset(world->received[rank], 0x5a, (size_t)ranks * (LONG + GUARD));
    for (int p = 0; p < ranks; p++) {
        what.exchange.send[p] = sent[0];
        what.exchange.recv[p] = world->received[rank] + (size_t)p * (LONG + GUARD);
    }
    for (unsigned block = 0; block < (unsigned)ranks; block++)
        threads_run(threads_exchange_dynamic, &what, number % 2 ? 8 : 12, (struct cuda_index){(unsigned)ranks, 1, 1},
                    (struct cuda_index){block, 0, 0});
    return dynamic_right(rank, number, row, told);
}

/* All ranks of n run `one` for numbers 1 and on, until one goes wrong. */
static void run_all(int n, unsigned operations, bool (*one)(int rank, unsigned number))
{
    begin(n);
    for (int rank = 0; rank < n; rank++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            unsigned number = 1;
            while (number <= operations && one(rank, number))
                number++;
            _exit(number <= operations ? (int)number : 0);
        }
    }
    int wrong = 0; /* or the number of the operation that went wrong, -1: a rank was killed; its peers are let go */
    for (int rank = 0; rank < n; rank++) {
        int status;
        assert_true(waitpid(-1, &status, 0) > 0);
        int how = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        wrong = wrong ? wrong : how;
        if (how)
            __atomic_store_n(&world->abort, KERNEL_GIVE_UP, __ATOMIC_RELAXED);
    }
    assert_int_equal(wrong, 0);
    end();
}

static void test_exchanges(void **state)
{
    for (int n = 1; n <= 4; n++)
        run_all(n, how_many(30), exchange_one);
}

static void test_dynamic(void **state)
{
    for (int n = 1; n <= 3; n++)
        run_all(n, how_many(12), dynamic_one);
}

static void test_operations(void **state)
{
    for (int n = 1; n <= 4; n++)
        run_all(n, how_many(100), run_one);
}

/* Alone, a rank waits for its peers until it is told to give up; all of its threads come to an end. */
static void give_up_alone(bool (*one)(int rank, unsigned number))
{
    for (unsigned number = 6; number < 14; number++) {
        begin(3);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            one(0, number);
            _exit(0);
        }
        for (int i = 0; i < 50; i++)
            sched_yield();
        __atomic_store_n(&world->abort, 1, __ATOMIC_RELAXED);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        end();
    }
}

static void test_give_up(void **state)
{
    give_up_alone(run_one);
    give_up_alone(exchange_one);
    give_up_alone(dynamic_one);
}

/* Peers take part in the first steps alone: the one that goes on gives up in the middle. */
static void give_up_in_the_middle(bool (*one)(int rank, unsigned number))
{
    for (int n = 2; n <= 3; n++) {
        pid_t child[KERNEL_RANKS];
        begin(n);
        for (int rank = 0; rank < n; rank++)
            if ((child[rank] = fork()) == 0) {
                for (unsigned number = 1;; number++) {
                    one(rank, number);
                    if (__atomic_load_n(&world->abort, __ATOMIC_RELAXED))
                        _exit(0);
                }
            }
        usleep(20000); /* any time does */
        kill(child[n - 1], SIGKILL);
        __atomic_store_n(&world->abort, 1, __ATOMIC_RELAXED);
        for (int rank = 0; rank < n; rank++) {
            int status;
            assert_int_equal(waitpid(child[rank], &status, 0), child[rank]);
            assert_true(rank == n - 1 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        }
        end();
    }
}

static void test_give_up_in_the_middle(void **state)
{
    give_up_in_the_middle(run_one);
    give_up_in_the_middle(exchange_one);
    give_up_in_the_middle(dynamic_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_dynamic),
        cmocka_unit_test(test_give_up),
        cmocka_unit_test(test_give_up_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
