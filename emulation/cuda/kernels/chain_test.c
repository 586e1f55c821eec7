/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasts by kernels on the CPU, ranks as threads: roots, ways, chunks, blocks, alignments; alone and among
 * reductions. */
#include "cuda/kernels/follow.h"
#include "cuda/kernels/draw.h"
#include "cuda/kernels/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BATCH 8
#define GUARD 64

static struct thread_team team;
static struct team_job jobs[2 * BATCH];

struct broadcast {
    unsigned char *memory[KERNEL_RANKS][2], *in, *out[KERNEL_RANKS];
    size_t bytes;
};

/* Up to many more chunks than a stripe has slots. */
static size_t random_bytes_of_broadcast(unsigned blocks)
{
    switch (below(quick() ? 4 : 5)) {
    case 0:
        return 1 + below(40);
    case 1:
        return below(100000);
    case 2:
        return blocks * (size_t)4096 * (1 + below(12)) - 1 + below(3);
    default:
        return below(3u << 20);
    }
}

static void make_broadcast(struct broadcast *b, struct team_job *job)
{
    const unsigned blocks = below(3) ? 1 + below(6) : 1 + below(KERNEL_STRIPES);
    const int root = (int)below((unsigned)team.n), fan = (int)below(2), in_place = (int)below(2);
    const uint64_t chunks[] = {0, 16, 100, 4096, (uint64_t)1 << 40}, chunk = chunks[below(5)];
    const size_t bytes = b->bytes = chunk == 16 || chunk == 100 ? below(30000) : random_bytes_of_broadcast(blocks);
    static const char *const kernels[] = {"tutti_chain", "tutti_reduce_ring_float", "tutti_reduce_lines_float"};
    const unsigned kernel = team.n > 2 ? below(3) : 0;
    *job = (struct team_job){.kernel = cuda_kernel_find(kernels[kernel]),
                             .each_block_its_thread = blocks < 5 && below(8) == 0};
    for (int p = 0; p < team.n; p++) {
        for (int end = 0; end < 2; end++) {
            b->memory[p][end] = allocate(bytes + 16 + GUARD);
            memset(b->memory[p][end], 0xa5, bytes + 16 + GUARD);
        }
        unsigned char *in = b->memory[p][0] + random_shift();
        b->out[p] = in_place ? in : b->memory[p][1] + random_shift();
        if (p == root)
            b->in = in;
        job->grid[p] =
            (struct cuda_index){kernel == 2 && blocks > KERNEL_LINES_BLOCKS ? KERNEL_LINES_BLOCKS : blocks, 1, 1};
        if (kernel) {
            job->params[p].reduce = (struct kernel_reduce){.team = team_of(&team, p),
                                                           .in = p == root || in_place ? in : NULL,
                                                           .out = b->out[p],
                                                           .count = bytes,
                                                           .mode = KERNEL_BROADCAST,
                                                           .chunk = chunk};
            follow_ring(kernel == 1 ? KERNEL_REDUCE_RING : KERNEL_REDUCE_LINES, root, &job->params[p].reduce);
            continue;
        }
        job->params[p].chain = (struct kernel_chain){.team = team_of(&team, p),
                                                     .in = p == root || in_place ? in : NULL,
                                                     .out = b->out[p],
                                                     .bytes = bytes,
                                                     .chunk = chunk};
        follow_chain(fan ? WAY_FAN : WAY_CHAIN, root, &job->params[p].chain);
    }
    for (size_t i = 0; i < bytes; i++)
        b->in[i] = (unsigned char)random_next();
}

static void check_broadcast(struct broadcast *b)
{
    for (int p = 0; p < team.n; p++) {
        assert_memory_equal(b->out[p], b->in, b->bytes);
        for (size_t i = 0; i < GUARD; i++)
            assert_int_equal(b->out[p][b->bytes + i], 0xa5);
    }
    for (int p = 0; p < team.n; p++) {
        free(b->memory[p][0]);
        free(b->memory[p][1]);
    }
}

static void test_broadcasts(void **state)
{
    static struct broadcast broadcasts[BATCH];
    for (int n = 2; n <= KERNEL_RANKS; n++) {
        assert_true(team_init(&team, n));
        team_count_from(&team, (uint32_t)-10);
        for (int i = 0; i < how_many(8); i++) {
            for (int j = 0; j < BATCH; j++)
                make_broadcast(&broadcasts[j], &jobs[j]);
            team_run(jobs, BATCH, 0, n);
            for (int j = 0; j < BATCH; j++)
                check_broadcast(&broadcasts[j]);
        }
        team_free(&team);
    }
}

/* ---- among reductions, which cut the same scratch in other ways ---- */

struct sum {
    uint32_t *in[KERNEL_RANKS], *out[KERNEL_RANKS];
    size_t count;
};

static void make_sum(struct sum *s, struct team_job *job)
{
    const unsigned blocks = 1 + below(8);
    s->count = (size_t)team.n * (KERNEL_BULK_LEAST / 4 * below(8) + below(100));
    *job = (struct team_job){.kernel = cuda_kernel_find("tutti_reduce_bulk_uint32")};
    for (int p = 0; p < team.n; p++) {
        s->in[p] = (uint32_t *)(void *)allocate(s->count * 4);
        s->out[p] = (uint32_t *)(void *)allocate(s->count * 4);
        for (size_t i = 0; i < s->count; i++)
            s->in[p][i] = (uint32_t)random_next();
        job->grid[p] = (struct cuda_index){blocks, 1, 1};
        job->params[p].reduce = (struct kernel_reduce){.team = team_of(&team, p),
                                                       .in = s->in[p],
                                                       .out = s->out[p],
                                                       .count = s->count,
                                                       .mode = KERNEL_ALLREDUCE,
                                                       .op = TUTTI_SUM};
        follow_reduce(KERNEL_REDUCE_BULK, 0, &job->params[p].reduce);
    }
}

static void check_sum(struct sum *s)
{
    for (size_t i = 0; i < s->count; i++) {
        uint32_t sum = 0;
        for (int p = 0; p < team.n; p++)
            sum += s->in[p][i];
        for (int p = 0; p < team.n; p++)
            assert_int_equal(s->out[p][i], sum);
    }
    for (int p = 0; p < team.n; p++) {
        free(s->in[p]);
        free(s->out[p]);
    }
}

static void test_broadcasts_among_reductions(void **state)
{
    static struct broadcast broadcasts[BATCH];
    static struct sum sums[BATCH];
    for (int n = 2; n <= 5; n++) {
        assert_true(team_init(&team, n));
        for (int i = 0; i < how_many(16); i++) {
            for (int j = 0; j < BATCH; j++) {
                make_broadcast(&broadcasts[j], &jobs[2 * j]);
                make_sum(&sums[j], &jobs[2 * j + 1]);
            }
            team_run(jobs, 2 * BATCH, 0, n);
            for (int j = 0; j < BATCH; j++) {
                check_broadcast(&broadcasts[j]);
                check_sum(&sums[j]);
            }
        }
        team_free(&team);
    }
}

/* From each root along the chain and by the fan in turn. */
static struct kernel_chain broadcast_of(int n, int rank, int i)
{
    struct kernel_chain what = {.team = {.rank = rank, .nranks = n}};
    follow_chain(i % 2 ? WAY_FAN : WAY_CHAIN, i / 2, &what);
    return what;
}

/* Whom a rank sends to knows that it does, and everybody gets every stripe once. */
static void test_ways_of_broadcasts(void **state)
{
    for (int n = 2; n <= KERNEL_RANKS; n++)
        for (int i = 0; i < 2 * n; i++)
            for (uint32_t stripe = 0; stripe < 9; stripe++) {
                uint32_t receivers = 0;
                for (int p = 0; p < n; p++) {
                    const struct kernel_chain what = broadcast_of(n, p, i);
                    const uint32_t next = what.next[stripe % (uint32_t)what.parts];
                    assert_int_equal(next & (receivers | 1u << i / 2), 0);
                    receivers |= next;
                    for (int q = 0; q < n; q++) {
                        const struct kernel_chain theirs = broadcast_of(n, q, i);
                        assert_int_equal(theirs.source[stripe % (uint32_t)theirs.parts] == p, next >> q & 1);
                    }
                    assert_int_equal(next & ~kernel_chain_receivers(&what, stripe + 1), 0);
                }
                assert_int_equal(receivers | 1u << i / 2, (1u << n) - 1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways_of_broadcasts),
        cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_broadcasts_among_reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
