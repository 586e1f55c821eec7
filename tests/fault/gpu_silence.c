/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_silence: two processes with a GPU each, of which rank 1 is stopped, or late but alive. A rank that waits for a
 * stopped one is told within TUTTI_TIMEOUT, whatever waits: a kernel, a copy engine, a graph, or a call. A rank that
 * waits for a late one waits on, and calls return at once. As silence.c on host memory. Needs the stand-in driver.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL 1000    /* words */
#define LARGE 2000000 /* a reduction that takes large scratch */

/* Longer than a process waits for a processor that many tests share: a process that is starved is silent, too. */
#define TIMEOUT_MS 2000
/* Of ranks that are late, the time of patience: one that stands still meanwhile has half of it to answer. */
#define PATIENCE_MS 4500
#define LATE_MS     6500

enum what { REDUCTION, MESSAGE, GRAPH };

static const struct scene {
    const char *name;
    enum what what;
    size_t words;
    bool stops;       /* else rank 1 is late */
    const char *with; /* a setting, which is 1 */
} scenes[] = {
    {"an allreduce with a stopped rank", REDUCTION, SMALL, true, NULL},
    {"the first large allreduce, with a stopped rank", REDUCTION, LARGE, true, NULL},
    {"a message of a stopped rank", MESSAGE, LARGE, true, NULL},
    {"a graph with a stopped rank", GRAPH, SMALL, true, NULL},
    {"a staged allreduce with a stopped rank", REDUCTION, SMALL, true, "TUTTI_SHM_DISABLE"},
    {"the first large allreduce, with a late rank", REDUCTION, LARGE, false, NULL},
    {"a message of a late rank", MESSAGE, LARGE, false, NULL},
    {"a graph with a late rank", GRAPH, SMALL, false, NULL},
};
#define SCENES (int)(sizeof scenes / sizeof *scenes)

static const struct cuda_driver *cu;

struct rank {
    int rank;
    tutti_comm_t comm;
    CUstream stream;
    uint32_t *in, *out;
    CUgraphExec graph;
};

static tutti_result_t issue(const struct rank *me, enum what what, size_t words)
{
    if (what == GRAPH)
        return cu->GraphLaunch(me->graph, me->stream) == CUDA_SUCCESS ? TUTTI_SUCCESS : TUTTI_DEVICE_ERROR;
    if (what == REDUCTION)
        return tutti_allreduce(me->in, me->out, words, TUTTI_UINT32, TUTTI_SUM, me->comm, (tutti_stream_t)me->stream);
    return me->rank ? tutti_send(me->in, words, TUTTI_UINT32, 0, me->comm, (tutti_stream_t)me->stream)
                    : tutti_recv(me->out, words, TUTTI_UINT32, 1, me->comm, (tutti_stream_t)me->stream);
}

static void capture(struct rank *me)
{
    CUgraph graph;
    DONE(cu->StreamBeginCapture(me->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(issue(me, REDUCTION, SMALL));
    DONE(cu->StreamEndCapture(me->stream, &graph));
    DONE(cu->GraphInstantiate(&me->graph, graph, 0));
    DONE(cu->GraphDestroy(graph));
}

/* Peers have met, and map one another's buffers. */
static void begin(struct rank *me, const struct scene *scene)
{
    void *memory;
    DONE(cu->StreamCreateWithPriority(&me->stream, CU_STREAM_NON_BLOCKING, 0));
    OK(tutti_device_mem_alloc(&memory, 2 * LARGE * sizeof(uint32_t)));
    me->in = memory;
    me->out = me->in + LARGE;
    for (uint32_t i = 0; i < LARGE; i++)
        me->in[i] = i;
    for (int turn = 0; turn < (scene->what == MESSAGE ? 3 : 1); turn++) {
        OK(issue(me, scene->what == MESSAGE ? MESSAGE : REDUCTION, scene->what == MESSAGE ? LARGE : SMALL));
        OK(tutti_comm_synchronize(me->comm));
        family_nap(scene->what == MESSAGE ? 50 : 0);
    }
    if (scene->what == GRAPH)
        capture(me);
}

static void await(const _Atomic uint64_t *word)
{
    while (!atomic_load(word))
        family_nap(1);
}

/* The stream waits for what a graph holds; the communicator knows of calls alone. */
static tutti_result_t end(const struct rank *me)
{
    CUresult done = CUDA_ERROR_NOT_READY;
    tutti_result_t failure = TUTTI_SUCCESS;
    while ((done = cu->StreamQuery(me->stream)) == CUDA_ERROR_NOT_READY)
        family_nap(1);
    tutti_comm_get_async_error(me->comm, &failure);
    return done != CUDA_SUCCESS ? TUTTI_DEVICE_ERROR : failure;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    const struct scene *scene = &scenes[family->variant];
    struct rank me = {.rank = rank, .comm = comm};
    struct family_report *report = &family->report[rank];
    OK(cuda_driver(&cu));
    begin(&me, scene);
    atomic_store(&report->begun, 1);
    if (rank == 1 && scene->stops)
        raise(SIGSTOP);
    if (rank == 1) { /* a call does not wait for the peer's */
        await(&family->report[0].issued);
        usleep(1000 * LATE_MS);
    }
    tutti_result_t result = issue(&me, scene->what, scene->words);
    atomic_store(&report->issued, 1);
    if (result == TUTTI_SUCCESS)
        result = end(&me);
    report->wrong = result == TUTTI_SUCCESS && rank == 0 &&
                    me.out[scene->words - 1] != (uint32_t)(scene->words - 1) * (scene->what == MESSAGE ? 1 : 2);
    family_end(family, rank, comm, result);
    atomic_store(&report->ended, true);
    if (rank == 0 && scene->stops)
        _exit(0); /* without a goodbye, for which a stopped peer makes it wait */
    if (me.graph)
        DONE(cu->GraphExecDestroy(me.graph));
    OK(tutti_comm_destroy(comm));
}

static struct family *start(int variant)
{
    const struct scene *scene = &scenes[variant];
    char patience[20];
    snprintf(patience, sizeof patience, "%dms", scene->stops ? TIMEOUT_MS : PATIENCE_MS);
    setenv("TUTTI_TIMEOUT", patience, 1);
    if (scene->with)
        setenv(scene->with, "1", 1);
    struct family *family = family_start(2, scene->stops ? 1 : -1, variant, 1, work);
    if (scene->with)
        unsetenv(scene->with);
    return family;
}

static bool judge(struct family *family)
{
    const struct scene *scene = &scenes[family->variant];
    const struct family_report *report = &family->report[0];
    for (int ms = 0; ms < 40000 && !atomic_load(&report->ended); ms += 5)
        family_nap(5);
    if (scene->stops)
        kill(family->pid[1], SIGKILL);
    bool right = family_wait(family, 10) && atomic_load(&report->ended) && !report->wrong;
    right = right && (scene->stops ? report->result == TUTTI_REMOTE_ERROR && strstr(report->sentence, "rank 1 ") &&
                                         strstr(report->sentence, "no sign of life")
                                   : report->result == TUTTI_SUCCESS);
    if (!right)
        printf("FAILED: %s: %s \"%s\"%s\n", scene->name, tutti_get_error_string(report->result), report->sentence,
               report->wrong ? " WRONG" : "");
    family_free(family);
    return right;
}

int main(void)
{
    struct family *families[SCENES];
    int failures = 0;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_COPY_FROM", "1M", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0);
    for (int i = 0; i < SCENES; i++)
        families[i] = start(i);
    for (int i = 0; i < SCENES; i++)
        failures += !judge(families[i]);
    printf("%d scenes, %d failed\n", SCENES, failures);
    return failures != 0;
}
