/* SPDX-License-Identifier: Apache-2.0 */
/* A family of forked ranks: they meet through shared memory and report there; the parent kills, stops and judges. */
#ifndef TUTTI_TESTS_FAULT_FAMILY_H
#define TUTTI_TESTS_FAULT_FAMILY_H

#include "job.h"

#include <stdatomic.h>
#include <sys/types.h>

#define FAMILY_MOST 8

struct family_report {
    _Atomic uint64_t begun;  /* operations that the rank set out to issue */
    _Atomic uint64_t issued; /* whose calls have returned */
    _Atomic uint64_t rounds; /* that were right */
    _Atomic bool ended;      /* all below is final */
    tutti_result_t result;   /* what ended the rank's work */
    char sentence[400];
    bool wrong;   /* a result was wrong */
    bool touched; /* a buffer changed after its operation had failed */
    bool went_on; /* shrunk, and right after that */
};

struct family {
    int count;
    pid_t pid[FAMILY_MOST];
    tutti_unique_id_t id;
    _Atomic bool id_made;
    _Atomic int joined;
    _Atomic bool stop;
    int victim;     /* -1: none */
    char fault[80]; /* of the stand-in CUDA driver, in the victim */
    uint64_t seed;
    int variant;
    struct family_report report[FAMILY_MOST];
};

/* What a rank does. The communicator is made; it destroys it. */
typedef void (*family_work)(struct family *family, int rank, tutti_comm_t comm);

/* Forks `count` ranks, each of which joins and works. */
struct family *family_start(int count, int victim, int variant, uint64_t seed, family_work work);
/* The victim's driver has a fault (TUTTI_EMULATED_FAULT), by which ranks may also fail to join. */
struct family *family_start_with(int count, int victim, const char *fault, int variant, uint64_t seed,
                                 family_work work);
/* Waits for ranks to end; kills them after `seconds`. Returns whether all ended by themselves with status 0, but the
 * victim. */
bool family_wait(struct family *family, int seconds);
void family_free(struct family *family);
/* Until all have joined, or 60 s. */
bool family_wait_joined(struct family *family);
/* Of a process's main thread, as the system says it: 'S' sleeps, 'T' is stopped, 'Z' has ended, '?' is no more. */
char family_state(pid_t pid);
/* Until the rank's process has ended. */
void family_await_end(const struct family *family, int rank);
/* Until the rank, which counts its call in `issued`, waits there, or has ended. */
void family_await_call(const struct family *family, int rank);

void family_nap(int ms);
/* For LaunchHostFunc(), with the family: holds up the stream until family->stop. */
void family_gate(void *family);
/* main() of TRANSPORT [SEED]: 40 runs (8 where time is short), as many at a time as `run` begins, from number `first`
 * on. run() returns how many went wrong, and `what` says in which way. */
int family_many(int argc, char **argv, int together, int (*run)(int first, uint64_t seed), const char *what);
/* Records how the rank's work ended. */
void family_end(struct family *family, int rank, tutti_comm_t comm, tutti_result_t result);
/* Runs one job to its end, as rank `place` of `nranks`; the result of the first call that failed. Keeps its buffers. */
tutti_result_t family_run(struct family *family, int rank, int place, int nranks, tutti_comm_t comm, struct job *job);
/* The same, checked and counted in the report; keeps the buffers only when it failed. */
tutti_result_t family_job(struct family *family, int rank, int place, int nranks, tutti_comm_t comm, struct job *job);

#endif
