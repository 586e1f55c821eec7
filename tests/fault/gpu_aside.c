/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_aside [SEED]: rank 0 has finished a broadcast and is gone. Rank 1 calls something that hosts do together, which
 * fails for want of rank 0. Rank 2, whose GPU has not come to the broadcast, is told of that, and yet the broadcast
 * ends well there. Needs the stand-in driver.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 3

enum ending { BY_ABORT, BY_DESTROY, BY_EXIT, BY_KILL, ENDINGS };
static const char *const endings[ENDINGS] = {"abort", "destroy", "exit", "kill"};

enum together { REGISTERS, SPLITS, LEAVES, WAITS, TOGETHER };
static const char *const calls[TOGETHER] = {"a registration", "a split", "a split and its end", "a split before that"};

static const struct cuda_driver *cu;

static enum together call_of(const struct family *family)
{
    return (enum together)(family->variant % TOGETHER);
}

static enum ending ending_of(const struct family *family)
{
    return (enum ending)(family->variant / TOGETHER);
}

static void await(const _Atomic bool *word)
{
    while (!atomic_load(word))
        family_nap(1);
}

static void go(struct family *family, tutti_comm_t comm)
{
    while (!atomic_load(&family->report[1].issued) || !atomic_load(&family->report[2].issued))
        family_nap(1);
    family_nap(call_of(family) == WAITS ? 50 : 0);
    if (ending_of(family) == BY_ABORT)
        OK(tutti_comm_abort(comm));
    if (ending_of(family) == BY_DESTROY)
        OK(tutti_comm_destroy(comm));
    atomic_store(&family->report[0].ended, true);
    if (ending_of(family) == BY_KILL)
        kill(getpid(), SIGKILL);
}

static void fail_on_the_host(struct family *family, tutti_comm_t comm, const struct job *job)
{
    tutti_comm_t child;
    void *handle;
    if (call_of(family) != WAITS)
        await(&family->report[0].ended);
    tutti_result_t result = call_of(family) == REGISTERS
                                ? tutti_comm_register_symmetric(comm, job->recv, job->bytes[1], &handle)
                                : tutti_comm_split(comm, 0, 1, &child, NULL);
    family_end(family, 1, comm, result);
    atomic_store(&family->report[1].rounds, 1);
    if (call_of(family) == LEAVES)
        OK(tutti_comm_abort(comm));
}

/* What comes behind needs rank 0. */
static void go_on(struct family *family, tutti_comm_t comm, struct job *job, tutti_stream_t stream)
{
    static struct job next; /* to the end of the process, too */
    struct family_report *report = &family->report[2];
    tutti_result_t failure = TUTTI_SUCCESS;
    while (!atomic_load(&family->report[1].rounds))
        family_nap(1);
    family_nap(100); /* in which all is heard of that */
    OK(tutti_comm_get_async_error(comm, &failure));
    atomic_store(&family->stop, true);
    report->result = failure == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : failure;
    report->wrong = report->result != TUTTI_SUCCESS || !job_check(job);
    next = (struct job){.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100};
    job_prepare(&next, comm, 2, RANKS);
    tutti_result_t result = job_issue(&next, stream);
    while (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    family_end(family, 2, comm, result);
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    static struct job job; /* GPUs may read its memory to the end of the process */
    CUstream stream;
    OK(cuda_driver(&cu));
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    job = (struct job){.kind = JOB_BROADCAST, .type = TUTTI_INT32, .count = 100, .seed = family->seed};
    job_prepare(&job, comm, rank, RANKS);
    if (rank == 2)
        DONE(cu->LaunchHostFunc(stream, family_gate, family));
    OK(job_issue(&job, (tutti_stream_t)stream));
    if (rank != 2)
        OK(tutti_comm_synchronize(comm));
    atomic_store(&family->report[rank].issued, 1);
    if (rank == 0)
        go(family, comm);
    else if (rank == 1)
        fail_on_the_host(family, comm, &job);
    else
        go_on(family, comm, &job, (tutti_stream_t)stream);
    if (rank == 1 && call_of(family) != LEAVES)
        await(&family->report[2].ended);
}

static bool says_who(const struct family_report *report)
{
    return report->result == TUTTI_REMOTE_ERROR && strstr(report->sentence, "rank 0") && !report->wrong;
}

static bool try_one(int variant, uint64_t seed)
{
    struct family *family = family_start(RANKS, 0, variant, seed, work);
    bool right = family_wait(family, 60);
    for (int rank = 1; rank < RANKS; rank++)
        right = right && says_who(&family->report[rank]);
    if (!right)
        printf("FAILED: rank 0 is gone by %s, rank 1 calls %s\n", endings[ending_of(family)], calls[call_of(family)]);
    for (int rank = 1; rank < RANKS && !right; rank++)
        printf("  rank %d: %s \"%s\"%s\n", rank, tutti_get_error_string(family->report[rank].result),
               family->report[rank].sentence, family->report[rank].wrong ? " WRONG" : "");
    fflush(stdout);
    family_free(family);
    return right;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int failures = 0;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0);
    for (int variant = 0; variant < TOGETHER * ENDINGS; variant++)
        failures += !try_one(variant, seed * 1000 + (uint64_t)variant);
    printf("%d scenarios, %d failed\n", TOGETHER * ENDINGS, failures);
    return failures != 0;
}
