/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on long vectors return at once, and while they are carried out everything else goes on: small operations of
 * another communicator of the same processes and the answers to probes. Each kind of operation in its turn. `tutti run
 * -n 2 -- long`.
 */
#include "tutti/tutti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The thread sanitizer makes every byte take long enough. */
#ifdef __SANITIZE_THREAD__
#define SHORTER 8
#else
#define SHORTER 2
#endif

static tutti_comm_t large, small;
static int rank, nranks;
static size_t count = 24u << 20; /* elements: 96 MiB */
static uint32_t *in, *out;
static tutti_op_t thrice;

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, tutti_get_last_error(NULL));
    exit(1);
}

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint32_t value(int of, size_t i)
{
    return (uint32_t)(of + 1) * 1000003u + (uint32_t)i * 2654435761u;
}

static void multiplied(void)
{
    must(tutti_allreduce(in, out, count, TUTTI_UINT32, thrice, large, NULL), "allreduce");
}

static uint32_t multiplied_at(size_t i)
{
    uint32_t sum = 0;
    for (int r = 0; r < nranks; r++)
        sum += 3 * value(r, i);
    return sum;
}

/* Each rank gets half of what all have. */
static void multiplied_parts(void)
{
    must(tutti_reduce_scatter(in, out, count / (size_t)nranks, TUTTI_UINT32, thrice, large, NULL), "reduce_scatter");
}

static uint32_t multiplied_part_at(size_t i)
{
    size_t part = count / (size_t)nranks;
    return i < part ? multiplied_at((size_t)rank * part + i) : out[i];
}

static void all_to_itself(void)
{
    size_t counts[16] = {0}, offsets[16] = {0};
    counts[rank] = count;
    must(tutti_alltoallv(in, counts, offsets, out, counts, offsets, TUTTI_UINT32, large, NULL), "alltoallv");
}

static uint32_t own_at(size_t i)
{
    return value(rank, i);
}

static void message_to_itself(void)
{
    must(tutti_group_start(), "group");
    must(tutti_send(in, count, TUTTI_UINT32, rank, large, NULL), "send");
    must(tutti_recv(out, count, TUTTI_UINT32, rank, large, NULL), "receive");
    must(tutti_group_end(), "group");
}

static void gathered(void)
{
    must(tutti_allgather(in, out, count / (size_t)nranks, TUTTI_UINT32, large, NULL), "allgather");
}

static uint32_t gathered_at(size_t i)
{
    size_t part = count / (size_t)nranks;
    return value((int)(i / part), i % part);
}

static const struct {
    const char *name;
    void (*call)(void);
    uint32_t (*at)(size_t i);
} kinds[] = {
    {"a multiplied sum", multiplied, multiplied_at},
    {"parts of a multiplied sum", multiplied_parts, multiplied_part_at},
    {"a copy to itself", all_to_itself, own_at},
    {"a message to itself", message_to_itself, own_at},
    {"a gathering", gathered, gathered_at},
};

static void barrier(void)
{
    must(tutti_barrier(small, NULL), "barrier");
    must(tutti_comm_synchronize(small), "barrier");
}

static _Atomic bool done;

static void *wait_for_it(void *unused)
{
    must(tutti_comm_synchronize(large), "synchronize");
    atomic_store(&done, true);
    return unused;
}

/* Barriers until all have done; their number, but for the last looks. */
static int barriers(void)
{
    int passed = 0;
    uint32_t all = 0;
    while (all != (uint32_t)nranks) {
        uint32_t mine = atomic_load(&done);
        must(tutti_allreduce(&mine, &all, 1, TUTTI_UINT32, TUTTI_SUM, small, NULL), "look");
        must(tutti_comm_synchronize(small), "look");
        passed += all == 0;
    }
    return passed;
}

static bool check(size_t kind)
{
    for (size_t i = 0; i < count; i++) {
        if (out[i] == kinds[kind].at(i))
            continue;
        fprintf(stderr, "rank %d: %s: element %zu is %u, not %u\n", rank, kinds[kind].name, i, out[i],
                kinds[kind].at(i));
        return false;
    }
    return true;
}

/* `calls` calls at once. `called` is the processor time of a call: others' load must not count. The number of small
 * operations is the same on all ranks; -1: no thread. */
static int play(size_t kind, int calls, double *called, double *whole)
{
    pthread_t waiter;
    memset(out, 0, count * sizeof *out);
    atomic_store(&done, false);
    barrier();
    double begin = now(CLOCK_MONOTONIC), before = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < calls; i++)
        kinds[kind].call();
    *called = (now(CLOCK_THREAD_CPUTIME_ID) - before) / calls;
    if (pthread_create(&waiter, NULL, wait_for_it, NULL) != 0)
        return -1;
    int passed = barriers();
    pthread_join(waiter, NULL);
    *whole = (now(CLOCK_MONOTONIC) - begin) / calls;
    return passed;
}

/* A call of 10 ms may be over before a crowded machine has let both ranks do anything else: then more calls follow each
 * other. What went on only between them would be less than one small operation a call. */
static bool run(size_t kind)
{
    double called = 0, whole = 0;
    int passed = 0, calls = 1;
    bool went_on = false;
    for (int turn = 0; turn < 4 && passed >= 0 && !went_on; turn++) {
        calls = 1 << (2 * turn);
        passed = play(kind, calls, &called, &whole);
        went_on = passed > calls;
    }
    bool good = check(kind) && (called < 0.01 || called < whole / 10) && went_on;
    if (!good || getenv("TUTTI_TEST_TALK"))
        fprintf(stderr, "rank %d: %s: each of %d calls took %.4f s of %.4f, and %d small operations went on\n", rank,
                kinds[kind].name, calls, called, whole, passed);
    return good;
}

int main(void)
{
    uint32_t three = 3;
    bool good = true;
    if (getenv("TUTTI_TEST_QUICK"))
        count /= SHORTER;
    in = malloc(count * sizeof *in);
    out = malloc(count * sizeof *out);
    if (!in || !out)
        return 1;
    must(tutti_comm_init_from_env(&large, NULL), "init");
    must(tutti_comm_rank(large, &rank), "rank");
    must(tutti_comm_count(large, &nranks), "count");
    must(tutti_comm_duplicate(large, &small, NULL), "duplicate");
    must(tutti_op_create_premul_sum(&thrice, &three, TUTTI_UINT32, large), "operator");
    for (size_t i = 0; i < count; i++)
        in[i] = value(rank, i);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        good &= run(kind);
    barrier();
    must(tutti_comm_destroy(small), "destroy");
    must(tutti_comm_destroy(large), "destroy");
    free(in);
    free(out);
    return good ? 0 : 1;
}
