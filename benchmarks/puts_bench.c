/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a put with a signal costs: `tutti run -n N -- puts-bench BYTES [check]`. Rank 0 puts BYTES bytes to each other
 * rank, by one group a round, the same buffers in each round. Prints what one put takes of rank 0: allocations of all
 * of its threads, messages of links (received ones confirm others), sends that waited for the receiver, time.
 * Instructions of put_to_all() are callgrind's: puts.py. check: exit status 1 where a short put takes more
 * allocations than its message, waits for the receiver, or is not the only message.
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

/* All others have had a round's signals. */
static void answered(const struct job *job, unsigned rounds)
{
    const tutti_signal_wait_t wait = {0, 0, rounds};
    if (job->rank)
        must(tutti_wait_signal(&wait, 1, job->comm, NULL), "wait");
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
    return check && (!before.allocations || each >= 1.1 || sent >= 1.1 || waited);
}

static int measure(const struct job *job, bool check)
{
    struct costs before, after;
    uint64_t once;
    for (int i = 0; i < WARM && !job->rank; i++)
        put_to_all(job);
    answered(job, WARM);
    before = look();
    once = look().allocations - before.allocations; /* looking takes memory, too */
    before = look();
    for (int i = 0; i < ROUNDS && !job->rank; i++)
        put_to_all(job);
    after = look();
    answered(job, ROUNDS);
    return job->rank ? 0 : report(job, before, after, once, check);
}

int main(int argc, char **argv)
{
    struct job job = {.bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 64};
    void *memory;
    must(tutti_comm_init_from_env(&job.comm, NULL), "init");
    must(tutti_comm_rank(job.comm, &job.rank), "rank");
    must(tutti_comm_count(job.comm, &job.ranks), "count");
    must(tutti_mem_alloc(&memory, job.bytes), "memory");
    job.memory = memory;
    job.local = calloc(1, job.bytes);
    if (!job.local || job.ranks < 2)
        return 1;
    must(tutti_window_register(job.comm, job.memory, job.bytes, &job.window), "register");
    int wrong = measure(&job, argc > 2 && strcmp(argv[2], "check") == 0);
    must(tutti_window_deregister(job.comm, job.window), "deregister");
    must(tutti_comm_destroy(job.comm), "destroy");
    must(tutti_mem_free(memory), "free");
    free(job.local);
    return wrong;
}
