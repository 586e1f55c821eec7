/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel TPxPPxDP[xELEMENTS] AT [FAULT:RANK...]: a job like training in three dimensions: tensor, pipeline and data
 * parallelism, a communicator for each, and one of all. ELEMENTS floats go from stage to stage, four times as many are
 * gradients. Each rank has a loader, a process that hands it a batch for every step. From step AT on RANK does what
 * FAULT says: slow (it computes longer), loader (its batches come late), hang (it does not come back from its own
 * code), skip (leaves out one call), count (one element less). A rank that hears of a failure says so and stays, as a
 * program that is caught in its error handling.
 */
#include "tutti/tutti.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH    4096 /* bytes: a page, of which a pipe holds one */
#define ELEMENTS 2048
#define MOST     (1 << 20)
#define FAULTS   4
#define STEP_US  3000 /* of computation, most of it not on a processor, as on a GPU */
#define SLOW_US  60000
#define LATE_US  300000 /* a batch; more than others take to come through the stages before */

struct job {
    tutti_comm_t world, tensor, pipeline, data;
    int rank, stage, stages, at, batches;
    size_t elements;
    struct {
        const char *name;
        int rank;
    } faults[FAULTS];
};

static float in[4 * MOST], out[4 * MOST];

static bool is(const struct job *job, const char *fault, int step)
{
    for (int i = 0; i < FAULTS; i++)
        if (job->faults[i].name && job->faults[i].rank == job->rank && strcmp(job->faults[i].name, fault) == 0)
            return step >= job->at;
    return false;
}

/* On a processor: a sleep would not be late where there is none. */
static void compute(uint64_t us)
{
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((uint64_t)(now.tv_sec - begin.tv_sec) * 1000000 + (uint64_t)now.tv_nsec / 1000 <
           us + (uint64_t)begin.tv_nsec / 1000);
}

/* ---- The loader ---- */

static void load(const struct job *job, int to)
{
    static char batch[BATCH];
    for (int number = 0;; number++) {
        if (is(job, "loader", number))
            usleep(LATE_US);
        if (write(to, batch, sizeof batch) != sizeof batch)
            _exit(0);
    }
}

/* The loader's rank is known before the library is asked. False: there is none to be had. */
static bool start_loader(struct job *job)
{
    int ends[2];
    const char *rank = getenv("TUTTI_RANK");
    job->rank = rank ? atoi(rank) : 0;
    if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, BATCH) < 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        close(STDOUT_FILENO);
        load(job, ends[1]);
    }
    close(ends[1]);
    job->batches = ends[0];
    return child > 0;
}

static void take_batch(const struct job *job)
{
    char batch[BATCH];
    for (size_t got = 0; got < sizeof batch;) {
        ssize_t more = read(job->batches, batch + got, sizeof batch - got);
        if (more <= 0)
            exit(1);
        got += (size_t)more;
    }
}

/* ---- A step ---- */

static tutti_result_t end(tutti_result_t result, tutti_comm_t comm)
{
    return result ? result : tutti_comm_synchronize(comm);
}

static tutti_result_t reduce(size_t count, tutti_comm_t comm)
{
    return end(tutti_allreduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm);
}

static tutti_result_t pass(const struct job *job, bool sends, int stage)
{
    if (stage < 0 || stage >= job->stages)
        return TUTTI_SUCCESS;
    return end(sends ? tutti_send(in, job->elements, TUTTI_FLOAT32, stage, job->pipeline, NULL)
                     : tutti_recv(out, job->elements, TUTTI_FLOAT32, stage, job->pipeline, NULL),
               job->pipeline);
}

/* One way through the stages: forward, or backward. */
static tutti_result_t through(const struct job *job, int step, int way)
{
    tutti_result_t result = pass(job, false, job->stage - way);
    usleep(STEP_US);
    compute(STEP_US / 10);
    if (is(job, "slow", step))
        compute(SLOW_US / 2);
    if (!result)
        result = reduce(job->elements / 2, job->tensor);
    return result ? result : pass(job, true, job->stage + way);
}

static tutti_result_t step(const struct job *job, int number)
{
    take_batch(job);
    while (is(job, "hang", number))
        pause();
    tutti_result_t result = through(job, number, 1);
    if (!result)
        result = through(job, number, -1);
    if (!result && !(is(job, "skip", number) && number == job->at))
        result = end(tutti_broadcast(in, out, 64, TUTTI_FLOAT32, 0, job->data, NULL), job->data);
    if (!result)
        result = reduce(4 * job->elements - is(job, "count", number), job->data);
    return result ? result : reduce(1, job->world);
}

/* ---- Beginning ---- */

/* The stage of a pipeline changes slowest, so that stages are on different hosts. */
static tutti_result_t start(struct job *job, int tensors, int copies)
{
    tutti_result_t result = tutti_comm_init_from_env(&job->world, NULL);
    int tensor = job->rank % tensors, copy = job->rank / tensors % copies;
    job->stage = job->rank / tensors / copies;
    if (!result)
        result = tutti_comm_split(job->world, job->rank / tensors, job->rank, &job->tensor, NULL);
    if (!result)
        result = tutti_comm_split(job->world, copy * tensors + tensor, job->rank, &job->pipeline, NULL);
    if (!result)
        result = tutti_comm_split(job->world, job->stage * tensors + tensor, job->rank, &job->data, NULL);
    return result;
}

int main(int argc, char **argv)
{
    struct job job = {.at = argc > 2 ? atoi(argv[2]) : 0, .elements = ELEMENTS};
    int tensors, copies;
    if (argc < 3 || argc > 3 + FAULTS ||
        sscanf(argv[1], "%dx%dx%dx%zu", &tensors, &job.stages, &copies, &job.elements) < 3 || !job.elements ||
        job.elements > MOST)
        return 2;
    for (int i = 3; i < argc; i++) {
        char *colon = strchr(argv[i], ':');
        if (!colon)
            return 2;
        *colon = '\0';
        job.faults[i - 3].name = argv[i];
        job.faults[i - 3].rank = atoi(colon + 1);
    }
    if (!start_loader(&job))
        return 1;
    tutti_result_t result = start(&job, tensors, copies);
    for (int number = 0; !result; number++) {
        if (number == job.at) {
            printf("at %d\n", number);
            fflush(stdout);
        }
        result = step(&job, number);
    }
    printf("rank %d: %s\n", job.rank, tutti_get_last_error(NULL));
    fflush(stdout);
    for (;;)
        pause();
}
