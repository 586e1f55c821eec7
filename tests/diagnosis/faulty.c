/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faulty FAULT RANK AT [MS]: a job like training in three dimensions: neighbours in pairs, ranks of one place in their
 * pairs, all. From step AT on RANK does what FAULT says; a slow one is late by MS in each step. A rank that hears of a
 * failure says so and stays, as a program that is caught in its error handling.
 * faulty listen: no job, but what a process in that folder of black boxes hears of the job's master, a line each.
 */
#include "tutti/tutti.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT   5000
#define STEP_US 2000 /* of computation */
#define SLOW_MS 40

struct job {
    tutti_comm_t world, pair, row;
    int rank, culprit, at, slow_ms;
    const char *fault;
};

static float in[2 * COUNT], out[2 * COUNT];

static int is(const struct job *job, const char *fault, int step)
{
    return job->rank == job->culprit && step >= job->at && strcmp(job->fault, fault) == 0;
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

static tutti_result_t all(const struct job *job, size_t count, tutti_type_t type, tutti_comm_t comm)
{
    tutti_result_t result = tutti_allreduce(in, out, count, type, TUTTI_SUM, comm, NULL);
    return result ? result : tutti_comm_synchronize(comm);
}

static tutti_result_t step(const struct job *job, int number)
{
    tutti_result_t result = TUTTI_SUCCESS;
    compute(STEP_US / 4);
    usleep(STEP_US);
    if (is(job, "slow", number))
        usleep((useconds_t)job->slow_ms * 1000);
    while (is(job, "hang", number))
        pause();
    if (!result && !(is(job, "skip", number) && number == job->at))
        result = tutti_broadcast(in, out, 100, TUTTI_FLOAT32, 0, job->world, NULL);
    if (!result && job->pair)
        result = all(job, 200, TUTTI_FLOAT32, job->pair);
    if (!result && job->row)
        result = all(job, 300, TUTTI_FLOAT32, job->row);
    if (!result)
        result = all(job, is(job, "count", number) ? COUNT - 1 : COUNT,
                     is(job, "type", number) ? TUTTI_INT32 : TUTTI_FLOAT32, job->world);
    return result;
}

static tutti_result_t start(struct job *job)
{
    int ranks = 0;
    tutti_result_t result = tutti_comm_init_from_env(&job->world, NULL);
    if (!result)
        result = tutti_comm_rank(job->world, &job->rank);
    if (!result)
        result = tutti_comm_count(job->world, &ranks);
    if (!result)
        result = tutti_comm_split(job->world, job->rank / 2, job->rank, &job->pair, NULL);
    if (!result && ranks > 2)
        result = tutti_comm_split(job->world, job->rank % 2, job->rank, &job->row, NULL);
    return result;
}

static int listen_to_verdicts(void)
{
    struct pollfd ready = {.events = POLLIN};
    tutti_event_t event = {.size = sizeof event};
    tutti_events_t events;
    if (tutti_events_open(&events, &ready.fd) != TUTTI_SUCCESS)
        return 1;
    printf("listens\n");
    fflush(stdout);
    while (poll(&ready, 1, -1) == 1)
        while (tutti_events_next(events, &event) == TUTTI_SUCCESS) {
            printf("%s of rank %d, process %u: %s\n", event.kind == TUTTI_EVENT_VERDICT ? "verdict" : "end", event.rank,
                   event.process, event.text);
            fflush(stdout);
        }
    return 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "listen") == 0)
        return listen_to_verdicts();
    struct job job = {.fault = argc > 1 ? argv[1] : "none",
                      .culprit = argc > 2 ? atoi(argv[2]) : -1,
                      .at = argc > 3 ? atoi(argv[3]) : 0,
                      .slow_ms = argc > 4 ? atoi(argv[4]) : SLOW_MS};
    tutti_result_t result = start(&job);
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
