/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_depart [SEED]: a rank aborts, leaves, ends or dies when its own work is done, while the others' GPUs are not
 * there yet. What it has issued ends everywhere with right data; what it has not ends with an error that names it.
 * Needs the stand-in driver.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOBS 2 /* as many as a rank that sends little is ahead of the others */

enum ending { BY_ABORT, BY_DESTROY, BY_FINALIZE, BY_EXIT, BY_KILL, ENDINGS };
static const char *const endings[ENDINGS] = {"abort", "destroy", "finalize", "exit", "kill"};

static const struct kind {
    enum job_kind kind;
    bool buffered; /* a rank that sends little is through before the others have begun */
} kinds[] = {{JOB_BROADCAST, true},  {JOB_ALLREDUCE, false}, {JOB_SCATTER, true},
             {JOB_ALLGATHER, false}, {JOB_REDUCE, false},    {JOB_GATHER, false},
             {JOB_ALLTOALL, false},  {JOB_EXCHANGE, false},  {JOB_REDUCE_SCATTER, false}};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static const size_t counts[] = {100, 20000, 300000};
#define COUNTS (int)(sizeof counts / sizeof *counts)

static int failures, scenarios;
static const struct cuda_driver *cu;

/* What `variant` of a family stands for. */
static const struct kind *kind_of(const struct family *family)
{
    return &kinds[family->variant % KINDS];
}

static size_t count_of(const struct family *family)
{
    return counts[family->variant / KINDS % COUNTS];
}

static enum ending ending_of(const struct family *family)
{
    return (enum ending)(family->variant / KINDS / COUNTS);
}

/* The leaver is through with what it has issued while the others' streams stand still. */
static bool is_buffered(const struct family *family)
{
    return kind_of(family)->buffered && count_of(family) <= 100 && !getenv("TUTTI_CHAIN_FROM") &&
           !getenv("TUTTI_CTA_POLICY");
}

static struct job job_of(const struct family *family, int index)
{
    return (struct job){.kind = kind_of(family)->kind,
                        .type = TUTTI_INT32,
                        .count = count_of(family),
                        .root = family->victim,
                        .seed = family->seed * 10 + (uint64_t)index};
}

static bool all_issued(const struct family *family, int jobs)
{
    bool all = true;
    for (int rank = 0; rank < family->count; rank++)
        all = all && (int)atomic_load(&family->report[rank].issued) >= jobs;
    return all;
}

static void *open_soon(void *argument)
{
    struct family *family = argument;
    family_nap(40);
    atomic_store(&family->stop, true);
    return NULL;
}

/* Jobs are kept: GPUs may read them to the end of the process. */
static struct job jobs[JOBS + 1];
static tutti_comm_t kept;

static void go(struct family *family, tutti_comm_t comm, struct family_report *report)
{
    enum ending ending = ending_of(family);
    pthread_t opener;
    kept = comm;
    if (!is_buffered(family) && ending == BY_KILL)
        atomic_store(&family->stop, true); /* its work cannot end before */
    else if (!is_buffered(family) && pthread_create(&opener, NULL, open_soon, family) != 0)
        exit(5);
    else if (!is_buffered(family))
        pthread_detach(opener);
    if (ending == BY_KILL || ending == BY_FINALIZE)
        report->result = tutti_comm_finalize(comm);
    else if (ending == BY_ABORT)
        tutti_comm_abort(comm);
    if (ending == BY_KILL) {
        atomic_store(&report->ended, true);
        kill(getpid(), SIGKILL);
    }
    if (ending != BY_EXIT)
        report->result = tutti_comm_destroy(comm);
}

static void leave(struct family *family, int rank, tutti_comm_t comm)
{
    struct family_report *report = &family->report[rank];
    for (int i = 0; i < JOBS && report->result == TUTTI_SUCCESS; i++) {
        jobs[i] = job_of(family, i);
        job_prepare(&jobs[i], comm, rank, family->count);
        report->result = job_issue(&jobs[i], NULL);
        atomic_fetch_add(&report->issued, 1);
    }
    atomic_fetch_add(&report->issued, 1);
    while (!all_issued(family, JOBS + 1))
        family_nap(1);
    go(family, comm, report);
    if (ending_of(family) == BY_EXIT)
        return;
    for (int i = 0; i < JOBS; i++) {
        report->wrong |= !job_check(&jobs[i]);
        job_free(&jobs[i]);
    }
    atomic_store(&family->stop, true);
}

/* The last job needs the leaver, who has not issued it. */
static void stay(struct family *family, int rank, tutti_comm_t comm)
{
    struct family_report *report = &family->report[rank];
    tutti_result_t result = TUTTI_SUCCESS;
    CUstream stream;
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    DONE(cu->LaunchHostFunc(stream, family_gate, family));
    for (int i = 0; i <= JOBS; i++) {
        jobs[i] = job_of(family, i);
        if (i == JOBS)
            jobs[i] = (struct job){.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100};
        job_prepare(&jobs[i], comm, rank, family->count);
    }
    for (int i = 0; i <= JOBS && result == TUTTI_SUCCESS; i++) {
        result = job_issue(&jobs[i], (tutti_stream_t)stream);
        atomic_fetch_add(&report->issued, 1);
    }
    while (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    DONE(cu->StreamSynchronize(stream));
    family_end(family, rank, comm, result);
    for (int i = 0; i < JOBS; i++)
        report->wrong |= !job_check(&jobs[i]);
    tutti_comm_destroy(comm);
    for (int i = 0; i <= JOBS; i++)
        job_free(&jobs[i]);
    DONE(cu->StreamDestroy(stream));
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    OK(cuda_driver(&cu));
    if (rank == family->victim)
        leave(family, rank, comm);
    else
        stay(family, rank, comm);
}

static bool says_who(const struct family *family, int rank)
{
    char name[16];
    const struct family_report *report = &family->report[rank];
    snprintf(name, sizeof name, "rank %d", family->victim);
    return report->result == TUTTI_REMOTE_ERROR && strstr(report->sentence, name);
}

static bool judge(struct family *family, const char *way)
{
    bool right = family_wait(family, 60);
    scenarios++;
    for (int rank = 0; rank < family->count; rank++) {
        const struct family_report *report = &family->report[rank];
        right &= !report->wrong && (rank == family->victim ? report->result == TUTTI_SUCCESS : says_who(family, rank));
    }
    if (right)
        return true;
    failures++;
    printf("FAILED: %s, %s of %zu words, %s, rank %d of %d\n", way, job_name(kind_of(family)->kind), count_of(family),
           endings[ending_of(family)], family->victim, family->count);
    for (int rank = 0; rank < family->count; rank++) {
        const struct family_report *report = &family->report[rank];
        printf("  rank %d: %s \"%s\"%s%s\n", rank, tutti_get_error_string(report->result), report->sentence,
               report->wrong ? " WRONG" : "", report->ended ? "" : " not ended");
    }
    fflush(stdout);
    return false;
}

static void open_when_dead(struct family *family)
{
    pid_t pid = family->pid[family->victim];
    for (int i = 0; i < 20000 && !atomic_load(&family->report[family->victim].ended); i++)
        family_nap(1);
    family_nap(pid ? 20 : 0);
    atomic_store(&family->stop, true);
}

static void try_one(int variant, uint64_t seed, const char *way)
{
    int count = 2 + (int)(data_hash(seed, 1) % 2), victim = (int)(data_hash(seed, 2) % (uint64_t)count);
    struct family *family = family_start(count, victim, variant, seed, work);
    open_when_dead(family);
    judge(family, way);
    family_free(family);
}

int main(int argc, char **argv)
{
    static const char *const ways[][2] = {{"TUTTI_COPY_FROM", "0"},
                                          {"TUTTI_COPY_FROM", "1K"},
                                          {"TUTTI_CHAIN_FROM", "1"},
                                          {"TUTTI_P2P_DISABLE", "1"},
                                          {"TUTTI_CTA_POLICY", "zero"}};
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    bool quick = getenv("TUTTI_TEST_QUICK") != NULL, all = getenv("TUTTI_TEST_ALL") != NULL;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0);
    setenv("TUTTI_COPY_PROCESSES", "1", 1);
    setenv("TUTTI_COPY_STAGE", "16K", 1);
    int number = 0;
    for (int way = 0; way < (int)(sizeof ways / sizeof *ways); way++) {
        setenv(ways[way][0], ways[way][1], 1);
        for (int variant = 0; variant < KINDS * COUNTS * ENDINGS; variant++)
            if (all || (int)(data_hash(seed, (uint64_t)(1000 * way + variant)) % (quick ? 100 : 25)) == 0 ||
                (way == 0 && variant % (KINDS * COUNTS) == 0))
                try_one(variant, seed * 1000 + (uint64_t)++number, ways[way][0]);
        unsetenv(ways[way][0]);
    }
    printf("%d scenarios, %d failed\n", scenarios, failures);
    return failures != 0;
}
