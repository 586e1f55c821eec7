/* SPDX-License-Identifier: Apache-2.0 */
/* tutti perf measures and verifies collectives, with the flags, columns and conventions of nccl-tests. Here: one
 * process of a measurement. */
#ifndef TUTTI_CLI_PERF_H
#define TUTTI_CLI_PERF_H

#include "cli/perf_options.h"
#include "cli/perf_place.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct perf_report;

/* Seconds that one thread took for a call, and nanoseconds of the clock when it came to the call and when it went
 * on. */
enum { TIME_CALL, TIME_CAME, TIME_WENT, PERF_TIMES };

struct worker {
    struct perf *perf;
    int index; /* of the thread */
    pthread_t thread;
    tutti_comm_t *comms;
    tutti_op_t *ops;
    struct seat *seats;
    char **sends, **recvs;   /* max bytes and CANARY_BYTES each */
    void **handles;          /* of registrations: two a rank */
    size_t *vectors;         /* 4 * size entries a rank */
    struct perf_call *calls; /* the call of each rank in the current row */
    void *table;
    double times[PERF_TIMES];
    int64_t wrong;
    size_t rotation; /* bytes by which the next call is moved */
    int seed;
};

struct perf {
    struct perf_options options;
    int process, processes; /* the number of this process, and of all */
    int local, size;        /* ranks here, ranks in all */
    int first_on_host;      /* number of the first of its ranks on its host */
    bool one_host;          /* all processes have one clock */
    const struct perf_place *place;
    tutti_comm_t world; /* one rank a process; NULL if there is one process */
    bool world_is_own;  /* world is another communicator than the measured one */
    tutti_unique_id_t id;
    pthread_barrier_t barrier;
    struct worker *workers;
    struct perf_report *report;
};

enum { CANARY_BYTES = 64, POISON = 0x5b };

/* Ends the process with a sentence when a call of the library failed. */
void perf_must(tutti_result_t result, const char *what, tutti_comm_t comm);
void perf_die(const char *what) __attribute__((noreturn));
/* All threads of all processes meet here. */
void perf_barrier(struct worker *worker);
/* The body of each thread: it measures all rows. */
void perf_work(struct worker *worker);
int perf_first_rank(const struct worker *worker);

#endif
