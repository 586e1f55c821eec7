/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads [SEED]: the ranks are threads of one process. They join in both ways, and work on a communicator and on
 * halves of it through one stream. Another thread asks for errors all the time and, at the end, gives one communicator
 * up.
 */
#include "job.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST  5 /* ranks */
#define BATCH 4

static struct {
    int nranks;
    uint64_t seed;
    tutti_unique_id_t id;
    tutti_comm_t comm[MOST];
    pthread_barrier_t all; /* the ranks and the main thread */
    _Atomic bool over;
} t;

static void must(bool right, const char *what, int rank, tutti_comm_t comm)
{
    if (right)
        return;
    fprintf(stderr, "%d ranks, seed %llu: rank %d: %s: %s\n", t.nranks, (unsigned long long)t.seed, rank, what,
            tutti_get_last_error(comm));
    exit(1);
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

/* Every second rank does not wait for the others in the call, and looks at what it has got meanwhile. */
static tutti_comm_t join(int rank)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t comm = NULL;
    int count = -1;
    config.blocking = (int)((t.seed + (uint64_t)rank) % 2);
    tutti_result_t result = tutti_comm_init_rank(&comm, t.nranks, &t.id, rank, &config), told;
    must(result == (config.blocking ? TUTTI_SUCCESS : TUTTI_IN_PROGRESS), "init", rank, NULL);
    while (result == TUTTI_IN_PROGRESS) {
        told = tutti_comm_count(comm, &count);
        must(told == TUTTI_IN_PROGRESS || (told == TUTTI_SUCCESS && count == t.nranks), "count", rank, NULL);
        must(tutti_comm_get_async_error(comm, &result) == TUTTI_SUCCESS, "asking", rank, NULL);
        nap(1);
    }
    must(result == TUTTI_SUCCESS, "joining", rank, NULL);
    return comm;
}

/* Some operations at once, on one communicator or alternately on two. */
static void work(const tutti_comm_t *comms, int kinds, int rank, uint64_t seed, tutti_stream_t stream)
{
    struct job batch[BATCH];
    for (int i = 0; i < BATCH; i++) {
        int place = 0, count = 1;
        tutti_comm_t comm = comms[i % kinds];
        must(tutti_comm_rank(comm, &place) == TUTTI_SUCCESS && tutti_comm_count(comm, &count) == TUTTI_SUCCESS, "rank",
             rank, comm);
        batch[i] = job_draw(seed, (uint64_t)i, count);
        job_prepare(&batch[i], comm, place, count);
        must(job_issue(&batch[i], stream) == TUTTI_SUCCESS, "issue", rank, comm);
    }
    if (stream)
        must(tutti_stream_synchronize(stream) == TUTTI_SUCCESS, "stream", rank, comms[0]);
    else
        must(tutti_comm_synchronize(comms[0]) == TUTTI_SUCCESS, "synchronize", rank, comms[0]);
    for (int i = 0; i < BATCH; i++) {
        must(job_check(&batch[i]), "a wrong result", rank, NULL);
        job_free(&batch[i]);
    }
}

/* Until somebody gives up. */
static void work_until_abort(tutti_comm_t comm, int rank)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint64_t number = 0; result == TUTTI_SUCCESS; number++) {
        struct job job = job_draw(t.seed + 7, number, t.nranks);
        job_prepare(&job, comm, rank, t.nranks);
        result = job_issue(&job, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(comm);
        job_free(&job);
    }
    must(result == TUTTI_REMOTE_ERROR, "the end is not that of an abort", rank, comm);
}

static void *rank_main(void *argument)
{
    int rank = (int)(intptr_t)argument;
    tutti_comm_t both[2] = {join(rank), NULL};
    tutti_stream_t stream;
    t.comm[rank] = both[0];
    pthread_barrier_wait(&t.all); /* all have joined */
    for (uint64_t i = 0; i < 6; i++)
        work(both, 1, rank, t.seed + 100 + i, NULL);
    must(tutti_comm_split(both[0], rank % 2, rank, &both[1], NULL) == TUTTI_SUCCESS, "split", rank, both[0]);
    must(tutti_stream_create(&stream) == TUTTI_SUCCESS, "stream", rank, NULL);
    for (uint64_t i = 0; i < 6; i++)
        work(both, 2, rank, t.seed + 200 + i, stream);
    tutti_stream_destroy(stream);
    must(tutti_comm_destroy(both[1]) == TUTTI_SUCCESS, "destroy", rank, both[1]);
    pthread_barrier_wait(&t.all); /* the main thread gives up soon */
    work_until_abort(both[0], rank);
    pthread_barrier_wait(&t.all); /* the watcher ends */
    pthread_barrier_wait(&t.all); /* it has ended */
    tutti_comm_destroy(both[0]);
    return NULL;
}

static void *watch(void *unused)
{
    (void)unused;
    for (int rank = 0; !atomic_load(&t.over); rank = (rank + 1) % t.nranks) {
        tutti_result_t state;
        must(tutti_comm_get_async_error(t.comm[rank], &state) == TUTTI_SUCCESS, "watching", rank, NULL);
        nap(rank == 0);
    }
    return NULL;
}

static void play(int nranks, uint64_t seed)
{
    pthread_t ranks[MOST], watcher;
    t.nranks = nranks;
    t.seed = seed;
    atomic_store(&t.over, false);
    must(tutti_get_unique_id(&t.id) == TUTTI_SUCCESS, "id", -1, NULL);
    must(pthread_barrier_init(&t.all, NULL, (unsigned)nranks + 1) == 0, "barrier", -1, NULL);
    for (int rank = 0; rank < nranks; rank++)
        must(pthread_create(&ranks[rank], NULL, rank_main, (void *)(intptr_t)rank) == 0, "thread", rank, NULL);
    pthread_barrier_wait(&t.all);
    must(pthread_create(&watcher, NULL, watch, NULL) == 0, "thread", -1, NULL);
    pthread_barrier_wait(&t.all);
    nap((long)(data_hash(seed, 9) % 10));
    tutti_comm_abort(t.comm[seed % (uint64_t)nranks]);
    pthread_barrier_wait(&t.all);
    atomic_store(&t.over, true);
    pthread_join(watcher, NULL);
    pthread_barrier_wait(&t.all);
    for (int rank = 0; rank < nranks; rank++)
        pthread_join(ranks[rank], NULL);
    pthread_barrier_destroy(&t.all);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int rounds = getenv("TUTTI_TEST_QUICK") ? 4 : 16;
    setenv("TUTTI_DEBUG", "none", 0);
    for (int i = 0; i < rounds; i++)
        play(2 + i % (MOST - 1), seed + (uint64_t)i);
    printf("%d rounds\n", rounds);
    return 0;
}
