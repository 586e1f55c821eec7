/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_left [SEED]: a rank closes its communicator, aborts it, ends or is killed, and the others go on launching graphs.
 * Launches that need that rank end with an error that names it. Launches that do not need it end with right data, also
 * when they wait for one another for longer than it takes to miss somebody. And two cases of messages: one whose
 * sender's call was refused, and one that is still to be read when its sender has left. And a rank that aborts when its
 * call was refused. Needs the stand-in driver.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS  3
#define ROUNDS 3   /* while all are there, and after that */
#define LATE   900 /* ms that a rank comes later than its peer: a rank that is gone is missed after 500 */

enum ending { BY_DESTROY, BY_ABORT, BY_EXIT, BY_KILL, ENDINGS };
static const char *const endings[ENDINGS] = {"destroy", "abort", "exit", "kill"};

enum graph {
    SUMS,
    MESSAGES,
    PAIR,
    GRAPHS,
    REFUSED = GRAPHS,
    UNREAD,
    ABORTED,
    ALL
}; /* PAIR: messages of those that stay */
static const char *const graphs[ALL] = {"allreduce",
                                        "messages in a ring",
                                        "messages of the others",
                                        "a message that was refused",
                                        "a message that is unread",
                                        "an abort by a rank whose call was refused"};

static const size_t counts[] = {100, 20000, 300000};
#define COUNTS (int)(sizeof counts / sizeof *counts)

static const struct cuda_driver *cu;

struct stage {
    tutti_comm_t comm;
    int rank, victim;
    size_t count;
    enum graph kind;
    CUstream stream;
    CUgraphExec exec;
    uint32_t *in, *out;
};

static enum graph graph_of(const struct family *family)
{
    return (enum graph)(family->variant % ALL);
}

static size_t count_of(const struct family *family)
{
    return counts[family->variant / ALL % COUNTS];
}

static enum ending ending_of(const struct family *family)
{
    return (enum ending)(family->variant / ALL / COUNTS);
}

static uint32_t value(int rank, uint64_t round, size_t i)
{
    return (uint32_t)(rank + 1) * 1000003u + (uint32_t)round * 40503u + (uint32_t)i;
}

/* From whom a message comes; to whom it goes is the other way round. */
static int before(const struct stage *stage, int step)
{
    int rank = stage->rank;
    do
        rank = (rank + RANKS + step) % RANKS;
    while (stage->kind == PAIR && rank == stage->victim);
    return rank;
}

static void issue(const struct stage *stage)
{
    tutti_stream_t stream = (tutti_stream_t)stage->stream;
    if (stage->kind == SUMS) {
        OK(tutti_allreduce(stage->in, stage->out, stage->count, TUTTI_UINT32, TUTTI_SUM, stage->comm, stream));
        return;
    }
    tutti_group_start();
    tutti_send(stage->in, stage->count, TUTTI_UINT32, before(stage, 1), stage->comm, stream);
    tutti_recv(stage->out, stage->count, TUTTI_UINT32, before(stage, -1), stage->comm, stream);
    OK(tutti_group_end());
}

static void open_stage(struct stage *stage)
{
    CUgraph graph;
    void *memory[2];
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&memory[i], stage->count * sizeof(uint32_t)));
    stage->in = memory[0];
    stage->out = memory[1];
    DONE(cu->StreamCreateWithPriority(&stage->stream, CU_STREAM_NON_BLOCKING, 0));
    if (stage->kind == PAIR && stage->rank == stage->victim)
        return;
    DONE(cu->StreamBeginCapture(stage->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    issue(stage);
    DONE(cu->StreamEndCapture(stage->stream, &graph));
    DONE(cu->GraphInstantiate(&stage->exec, graph, 0));
    DONE(cu->GraphDestroy(graph));
}

static void close_stage(struct stage *stage)
{
    if (stage->exec)
        DONE(cu->GraphExecDestroy(stage->exec));
    DONE(cu->StreamDestroy(stage->stream));
    OK(tutti_device_mem_free(stage->in));
    OK(tutti_device_mem_free(stage->out));
}

/* The stage's result, once the launch is over: what has failed has failed by then. */
static tutti_result_t launch(struct stage *stage, uint64_t round)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; i < stage->count; i++)
        stage->in[i] = value(stage->rank, round, i);
    DONE(cu->GraphLaunch(stage->exec, stage->stream));
    DONE(cu->StreamSynchronize(stage->stream));
    OK(tutti_comm_get_async_error(stage->comm, &result));
    return result;
}

static bool is_right(const struct stage *stage, uint64_t round)
{
    for (size_t i = 0; i < stage->count; i++) {
        uint32_t want = 0;
        for (int rank = 0; rank < RANKS; rank++)
            if (stage->kind == SUMS || rank == before(stage, -1))
                want += value(rank, round, i);
        if (stage->out[i] != want)
            return false;
    }
    return true;
}

/* ---- Messages ---- */

#define SHORT 6000 /* words: as many pieces as scratch has room for */

static void wait_for_end(struct family *family, int rank)
{
    while (!atomic_load(&family->report[rank].ended))
        family_nap(1);
}

static void wait_for_call(struct family *family, int rank)
{
    while (!atomic_load(&family->report[rank].issued))
        family_nap(1);
}

static uint32_t *words_of(int rank, uint64_t round)
{
    void *memory = NULL;
    OK(tutti_device_mem_alloc(&memory, SHORT * sizeof(uint32_t)));
    for (size_t i = 0; i < SHORT; i++)
        ((uint32_t *)memory)[i] = value(rank, round, i);
    return memory;
}

/* The victim has closed. The next one waits for a message of the last one, whose group with it is refused, as it needs
 * the victim, too. */
static void refused(struct family *family, int rank, tutti_comm_t comm)
{
    int victim = family->victim, waits = (victim + 1) % RANKS, sends = (victim + 2) % RANKS;
    uint32_t *words = words_of(rank, 0);
    tutti_result_t result = TUTTI_SUCCESS;
    if (rank == waits) {
        OK(tutti_recv(words, SHORT, TUTTI_UINT32, sends, comm, NULL));
        atomic_fetch_add(&family->report[rank].issued, 1);
        result = tutti_comm_synchronize(comm);
    } else if (rank == sends) {
        wait_for_end(family, victim);
        tutti_group_start();
        tutti_send(words, SHORT, TUTTI_UINT32, waits, comm, NULL);
        tutti_send(words, SHORT, TUTTI_UINT32, victim, comm, NULL);
        result = tutti_group_end();
    } else {
        wait_for_call(family, waits);
    }
    family_end(family, rank, comm, result);
    tutti_comm_destroy(comm); /* which says so again */
    OK(tutti_device_mem_free(words));
}

/* The victim aborts when its first message lies in scratch whole, and its second one waits for room there. The next
 * rank reads the first one when the victim has gone. */
static void unread(struct family *family, int rank, tutti_comm_t comm)
{
    int victim = family->victim, reads = (victim + 1) % RANKS;
    uint32_t *words[] = {words_of(rank, 0), words_of(rank, 1)};
    CUstream stream;
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    for (int i = 0; i < 2 && rank == victim; i++)
        OK(tutti_send(words[i], SHORT, TUTTI_UINT32, reads, comm, (tutti_stream_t)stream));
    if (rank == reads) {
        DONE(cu->LaunchHostFunc(stream, family_gate, family));
        OK(tutti_recv(words[0], SHORT, TUTTI_UINT32, victim, comm, (tutti_stream_t)stream));
        atomic_fetch_add(&family->report[rank].issued, 1);
        family_nap(LATE);
        atomic_store(&family->stop, true);
        family_end(family, rank, comm, tutti_comm_synchronize(comm));
        for (size_t i = 0; i < SHORT; i++)
            family->report[rank].wrong |= words[0][i] != value(victim, 0, i);
    }
    if (rank == victim) {
        wait_for_call(family, reads);
        OK(tutti_comm_abort(comm));
    } else {
        OK(tutti_comm_destroy(comm));
    }
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_free(words[i]));
    DONE(cu->StreamDestroy(stream));
}

/* A sum is under way, for which the GPU of a rank of lower number than the victim is late, when the victim is killed.
 * That rank's next call is refused, and it aborts. The other one hears of the victim all the same. */
static void aborted(struct family *family, int rank, tutti_comm_t comm)
{
    int victim = family->victim, waits = (victim + 1) % RANKS, aborts = (victim + 2) % RANKS;
    uint32_t *words[] = {words_of(rank, 0), words_of(rank, 1)};
    tutti_result_t result = TUTTI_SUCCESS;
    CUstream stream;
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    if (rank == aborts)
        DONE(cu->LaunchHostFunc(stream, family_gate, family));
    OK(tutti_allreduce(words[0], words[1], SHORT, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream));
    atomic_fetch_add(&family->report[rank].issued, 1);
    for (int other = 0; other < RANKS; other++)
        wait_for_call(family, other);
    if (rank == victim)
        kill(getpid(), SIGKILL);
    for (; rank == aborts && result == TUTTI_SUCCESS; family_nap(1))
        result = tutti_send(words[0], SHORT, TUTTI_UINT32, victim, comm, (tutti_stream_t)stream);
    family_end(family, rank, comm, rank == waits ? tutti_comm_synchronize(comm) : result);
    if (rank == waits)
        atomic_store(&family->stop, true);
    tutti_comm_abort(comm);
}

/* ---- Graphs ---- */

static void leave(struct family *family, struct stage *stage, struct family_report *report)
{
    static tutti_comm_t kept;
    enum ending ending = ending_of(family);
    kept = stage->comm;
    for (int rank = 0; rank < RANKS && stage->kind == PAIR; rank++) /* calls would be refused: all have called */
        wait_for_call(family, rank);
    if (ending == BY_KILL)
        kill(getpid(), SIGKILL);
    if (ending == BY_ABORT)
        report->result = tutti_comm_abort(kept);
    else if (ending == BY_DESTROY)
        report->result = tutti_comm_destroy(kept);
    if (ending != BY_EXIT)
        close_stage(stage);
}

/* The later of two comes when the first has waited for long. */
static tutti_result_t stay(struct family *family, struct stage *stage, struct family_report *report)
{
    tutti_result_t result = TUTTI_SUCCESS;
    bool late = stage->rank == (family->victim + 1) % RANKS;
    for (uint64_t round = ROUNDS; round < 2 * ROUNDS && result == TUTTI_SUCCESS; round++) {
        if (stage->kind == PAIR && late && round == ROUNDS)
            family_nap(LATE);
        result = launch(stage, round);
        report->wrong |= result == TUTTI_SUCCESS && !is_right(stage, round);
    }
    return result;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    struct family_report *report = &family->report[rank];
    struct stage stage = {
        .comm = comm, .rank = rank, .victim = family->victim, .count = count_of(family), .kind = graph_of(family)};
    OK(cuda_driver(&cu));
    if (graph_of(family) >= REFUSED) {
        void (*const cases[])(struct family *, int, tutti_comm_t) = {refused, unread, aborted};
        cases[graph_of(family) - REFUSED](family, rank, comm);
        return;
    }
    open_stage(&stage);
    for (uint64_t round = 0; round < ROUNDS && stage.exec; round++) {
        OK(launch(&stage, round));
        report->wrong |= !is_right(&stage, round);
    }
    atomic_fetch_add(&report->issued, 1);
    if (rank == family->victim) {
        leave(family, &stage, report);
        return;
    }
    family_end(family, rank, comm, stay(family, &stage, report));
    OK(tutti_comm_destroy(comm));
    close_stage(&stage);
}

static bool is_as_wanted(const struct family *family, int rank)
{
    char name[16];
    const struct family_report *report = &family->report[rank];
    if (rank == family->victim || graph_of(family) == PAIR || graph_of(family) == UNREAD)
        return report->result == TUTTI_SUCCESS;
    snprintf(name, sizeof name, "rank %d", family->victim);
    return report->result == TUTTI_REMOTE_ERROR && strstr(report->sentence, name);
}

static bool judge(struct family *family)
{
    bool right = family_wait(family, 60);
    for (int rank = 0; rank < family->count; rank++)
        right &= !family->report[rank].wrong && is_as_wanted(family, rank);
    if (right)
        return true;
    printf("FAILED: %s of %zu words, rank %d of %d ends by %s\n", graphs[graph_of(family)], count_of(family),
           family->victim, family->count, endings[ending_of(family)]);
    for (int rank = 0; rank < family->count; rank++) {
        const struct family_report *report = &family->report[rank];
        printf("  rank %d: %s \"%s\"%s%s\n", rank, tutti_get_error_string(report->result), report->sentence,
               report->wrong ? " WRONG" : "", report->ended ? "" : " not ended");
    }
    return false;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    bool quick = getenv("TUTTI_TEST_QUICK") != NULL, all = getenv("TUTTI_TEST_ALL") != NULL;
    int failures = 0, scenarios = 0;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1);
    setenv("TUTTI_COPY_PROCESSES", "1", 1);
    setenv("TUTTI_COPY_FROM", "1K", 1);
    setenv("TUTTI_COPY_STAGE", "16K", 1);
    for (int variant = 0; variant < ALL * COUNTS * ENDINGS; variant++) {
        bool message = variant % ALL >= REFUSED;
        if (message ? variant / ALL : !all && data_hash(seed, (uint64_t)variant) % (quick ? 4 : 2))
            continue;
        int victim = variant % ALL == ABORTED ? RANKS - 1 : (int)(data_hash(seed, (uint64_t)variant + 1000) % RANKS);
        setenv("TUTTI_CTA_POLICY", variant % 3 ? "default" : "zero", 1); /* in pieces, if buffers are not mapped yet */
        struct family *family = family_start(RANKS, victim, variant, seed, work);
        failures += !judge(family);
        scenarios++;
        family_free(family);
    }
    printf("%d scenarios, %d failed\n", scenarios, failures);
    return failures != 0;
}
