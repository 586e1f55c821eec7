/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a put with a signal costs: `tutti run -n N -- puts-bench BYTES... [check|times]`. Rank 0 puts BYTES bytes to
 * each other rank, by one group a round, the same buffers in each round; each answers by a signal. Prints what one
 * put takes of rank 0:
 * allocations of all of its threads, messages of links (received ones confirm others), sends that waited for the
 * receiver, time. Instructions of put_to_all() are callgrind's: puts.py. check: exit status 1 where a put takes memory,
 * waits for the receiver, or needs more messages than its request. times: of two ranks, half of the round trip of a put
 * with a signal, and the rate of groups of 16 puts.
 */
#include "box.h"
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 64
#define WARM   16
#define MOST   ((size_t)16 << 20) /* bytes */
#define TURNS  1001
#define GROUP  16
#define GROUPS 100

static _Atomic uint64_t allocations;

/* In place of the C library's, for all of this process: the library finds these by name. */
#define FOUND __attribute__((visibility("default")))
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);

FOUND void *malloc(size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

FOUND void *calloc(size_t count, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(count, size);
}

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    exit(1);
}

struct job {
    tutti_comm_t comm;
    tutti_window_t window;
    int rank, ranks;
    char *memory, *local;
    tutti_signal_wait_t *waits; /* of rank 0, for all others */
    size_t bytes;
};

/* One round. By itself, so that callgrind finds it. */
__attribute__((noinline)) void put_to_all(const struct job *job);
void put_to_all(const struct job *job)
{
    must(tutti_group_start(), "group");
    for (int peer = 1; peer < job->ranks; peer++)
        must(tutti_put_signal(job->local, job->bytes, TUTTI_UINT8, peer, job->window, 0, 0, job->comm, NULL), "put");
    must(tutti_group_end(), "group end");
    must(tutti_comm_synchronize(job->comm), "puts");
}

/* The others answer: so messages are confirmed, and their memory serves for the next ones. */
static void play_round(const struct job *job)
{
    const tutti_signal_wait_t wait = {0, 0, 1};
    if (job->rank == 0) {
        put_to_all(job);
        must(tutti_wait_signal(job->waits, job->ranks - 1, job->comm, NULL), "waits");
    } else {
        must(tutti_wait_signal(&wait, 1, job->comm, NULL), "wait");
        must(tutti_signal(0, 0, job->comm, NULL), "signal");
    }
    must(tutti_comm_synchronize(job->comm), "round");
}

/* All ranks come. */
static void meet(const struct job *job)
{
    must(tutti_barrier(job->comm, NULL), "barrier");
    must(tutti_comm_synchronize(job->comm), "barrier");
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What has been since the last look. */
struct costs {
    uint64_t allocations, sent, received, waited, ns;
};

static struct costs look(void)
{
    return (struct costs){atomic_load(&allocations), box_counter(WIRE_COUNTER_MESSAGES_SENT),
                          box_counter(WIRE_COUNTER_MESSAGES_RECEIVED), box_counter(WIRE_COUNTER_CREDITS_WAITED),
                          now_ns()};
}

static int report(const struct job *job, struct costs before, struct costs after, uint64_t by_looking, bool check)
{
    const double puts = (double)ROUNDS * (job->ranks - 1);
    const double each = (double)(after.allocations - before.allocations - by_looking) / puts,
                 sent = (double)(after.sent - before.sent) / puts,
                 received = (double)(after.received - before.received) / puts;
    const uint64_t waited = after.waited - before.waited;
    printf("%d peers, %zu bytes: of one put %.3f allocations, %.3f messages sent, %.3f received, %.3f waits, %.0f ns\n",
           job->ranks - 1, job->bytes, each, sent, received, (double)waited / puts,
           (double)(after.ns - before.ns) / puts);
    return check && (!before.allocations || each >= 0.1 || sent >= 1.1 || waited);
}

static int measure(const struct job *job, bool check)
{
    struct costs before, after;
    uint64_t once;
    for (int i = 0; i < WARM; i++)
        play_round(job);
    meet(job);
    before = look();
    once = look().allocations - before.allocations; /* looking takes memory, too */
    before = look();
    for (int i = 0; i < ROUNDS; i++)
        play_round(job);
    after = look();
    meet(job);
    return job->rank ? 0 : report(job, before, after, once, check);
}

/* ---- Times ---- */

static void answer(const struct job *job, bool first)
{
    const tutti_signal_wait_t wait = {1 - job->rank, 0, 1};
    for (int turn = 0; turn < 2; turn++)
        if (first == (turn == 0))
            must(tutti_put_signal(job->local, job->bytes, TUTTI_UINT8, 1 - job->rank, job->window, 0, 0, job->comm,
                                  NULL),
                 "put");
        else
            must(tutti_wait_signal(&wait, 1, job->comm, NULL), "wait");
    must(tutti_comm_synchronize(job->comm), "turn");
}

static int in_order(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void time_turns(const struct job *job, double *median, double *quickest)
{
    static uint64_t took[TURNS];
    for (int i = -WARM; i < TURNS; i++) {
        const uint64_t begin = now_ns();
        answer(job, job->rank == 0);
        if (i >= 0)
            took[i] = now_ns() - begin;
    }
    qsort(took, TURNS, sizeof *took, in_order);
    *median = (double)took[TURNS / 2] / 2e3;
    *quickest = (double)took[0] / 2e3;
}

/* Into places of their own. */
static void put_group(const struct job *job)
{
    must(tutti_group_start(), "group");
    for (size_t i = 0; i < GROUP; i++)
        must(tutti_put(job->local, job->bytes, TUTTI_UINT8, 1, job->window, i * job->bytes, job->comm, NULL), "put");
    must(tutti_group_end(), "group end");
    must(tutti_comm_synchronize(job->comm), "puts");
}

static int times(const struct job *job)
{
    uint64_t begin = 0;
    double median, quickest;
    time_turns(job, &median, &quickest);
    for (int i = -WARM; i < GROUPS && !job->rank; i++) {
        if (i == 0)
            begin = now_ns();
        put_group(job);
    }
    if (!job->rank)
        printf("%zu bytes: half of a round trip %.2f us, of the quickest %.2f us, groups of %d puts %.1f MB/s\n",
               job->bytes, median, quickest, GROUP,
               (double)GROUPS * GROUP * (double)job->bytes * 1e3 / (double)(now_ns() - begin));
    meet(job);
    return 0;
}

static int measure_bytes(struct job *job, const char *how)
{
    must(tutti_window_register(job->comm, job->memory, MOST, &job->window), "register");
    int wrong = strcmp(how, "times") == 0 ? times(job) : measure(job, strcmp(how, "check") == 0);
    must(tutti_window_deregister(job->comm, job->window), "deregister");
    return wrong;
}

static void *allocate(size_t bytes)
{
    void *memory;
    must(tutti_mem_alloc(&memory, bytes), "memory");
    return memset(memory, 1, bytes);
}

int main(int argc, char **argv)
{
    struct job job = {0};
    const char *how = argv[argc - 1];
    int wrong = 0, sizes = argc - (*how < '0' || *how > '9');
    must(tutti_comm_init_from_env(&job.comm, NULL), "init");
    must(tutti_comm_rank(job.comm, &job.rank), "rank");
    must(tutti_comm_count(job.comm, &job.ranks), "count");
    job.memory = allocate(MOST);
    job.waits = calloc((size_t)job.ranks, sizeof *job.waits);
    for (int peer = 1; job.waits && peer < job.ranks; peer++)
        job.waits[peer - 1] = (tutti_signal_wait_t){peer, 0, 1};
    job.local = allocate(MOST);
    for (int i = 1; i < sizes; i++) {
        job.bytes = strtoul(argv[i], NULL, 10);
        if (job.ranks < 2 || !job.bytes || job.bytes > MOST / GROUP)
            return 1;
        wrong |= measure_bytes(&job, how);
    }
    must(tutti_comm_destroy(job.comm), "destroy");
    must(tutti_mem_free(job.memory), "free");
    must(tutti_mem_free(job.local), "free");
    free(job.waits);
    return wrong;
}
