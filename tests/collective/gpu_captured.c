/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_captured CASE: messages, and results of reductions, in graphs and calls, of kernels that store them where they
 * are wanted, or in slots where they cannot. On the stand-in driver, one process a rank: tutti run -n 3 -- gpu_captured
 * straight. How many went which way says a line of the log when a communicator ends.
 */
#include "gpu_piece.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS  30000
#define PIECE  (2u << 20)
#define GRAPHS 450 /* buffers that graphs receive in: more than they may invite to */
#define MOST   384 /* that they may */
#define CALLS  200 /* other buffers, for more than a peer may have mapped at a time */
#define LITTLE 600 /* words of each: one stripe */

static tutti_comm_t world, comm;
static CUstream stream;
static int rank, nranks;
static const struct cuda_driver *cu;

/* ---- What the log says ---- */

/* Stripes that this rank's last communicator sent. */
static void count_ways(unsigned long long *straight, unsigned long long *slots)
{
    char line[400];
    int lines = logged(" stored ", line, sizeof line);
    require(lines > 0 && sscanf(strstr(line, " stored "),
                                " stored %llu stripes of messages and results where peers want them, and %llu in slots",
                                straight, slots) == 2,
            "a line on the ways of messages");
}

/* All ranks: has everybody seen it? By another communicator. */
static bool all_say(bool mine)
{
    static int32_t *word;
    if (!word) {
        void *memory = NULL;
        OK(tutti_device_mem_alloc(&memory, 2 * sizeof *word));
        word = memory;
    }
    word[0] = mine;
    OK(tutti_allreduce(word, word + 1, 1, TUTTI_INT32, TUTTI_MIN, world, NULL));
    OK(tutti_comm_synchronize(world));
    return word[1] != 0;
}

static void await_line(const char *line, int count)
{
    time_t end = time(NULL) + 60;
    while (!all_say(logged(line, NULL, 0) >= count)) {
        usleep(1000);
        require(time(NULL) < end, line);
    }
}

/* ---- Messages ---- */

static uint32_t *memory(size_t words)
{
    void *out = NULL;
    OK(tutti_device_mem_alloc(&out, words * sizeof(uint32_t)));
    return out;
}

static void forget(uint32_t *words)
{
    OK(tutti_device_mem_free(words));
}

static uint32_t value(int from, int to, unsigned round, size_t i)
{
    return (uint32_t)(from * 1000003 + to * 40503) + round * 2654435761u + (uint32_t)i;
}

/* To each rank `words` from its part of `send`, and from each to its part of `recv`. */
static void issue(const uint32_t *send, uint32_t *recv, size_t words)
{
    OK(tutti_alltoall(send, recv, words, TUTTI_UINT32, comm, (tutti_stream_t)stream));
}

/* To the next rank, and from the last. */
static void pass_on(const uint32_t *send, uint32_t *recv, size_t words)
{
    int next = (rank + 1) % nranks, last = (rank + nranks - 1) % nranks;
    OK(tutti_group_start());
    OK(tutti_send(send + (size_t)next * words, words, TUTTI_UINT32, next, comm, (tutti_stream_t)stream));
    OK(tutti_recv(recv + (size_t)last * words, words, TUTTI_UINT32, last, comm, (tutti_stream_t)stream));
    OK(tutti_group_end());
}

/* Of two ranks: each is the root once. */
static void broadcast(const uint32_t *send, uint32_t *recv, size_t words)
{
    for (int root = 0; root < nranks; root++) {
        const uint32_t *from = send + (size_t)(1 - rank) * words;
        OK(tutti_broadcast(from, rank == root ? (uint32_t *)(uintptr_t)from : recv + (size_t)root * words, words,
                           TUTTI_UINT32, root, comm, (tutti_stream_t)stream));
    }
}

typedef void pattern(const uint32_t *send, uint32_t *recv, size_t words);

static void sum_up(const uint32_t *send, uint32_t *recv, size_t words)
{
    OK(tutti_allreduce(send, recv, (size_t)nranks * words, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream));
}

static void sum_in_place(const uint32_t *send, uint32_t *recv, size_t words)
{
    sum_up(recv, recv, words);
}

static pattern *whole = issue; /* what most cases do, with all peers */
static size_t offset = 40;     /* of memory in which that is received */

static bool reduces(pattern *issues)
{
    return issues == sum_up || issues == sum_in_place;
}

static void begin_capture(void)
{
    DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraphExec end_capture(void)
{
    CUgraph graph;
    CUgraphExec exec;
    DONE(cu->StreamEndCapture(stream, &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    DONE(cu->GraphDestroy(graph));
    return exec;
}

static CUgraphExec capture(pattern *issues, const uint32_t *send, uint32_t *recv, size_t words)
{
    begin_capture();
    issues(send, recv, words);
    return end_capture();
}

static void fill(pattern *issues, uint32_t *send, uint32_t *recv, size_t words, unsigned round)
{
    for (int to = 0; to < nranks; to++)
        for (size_t i = 0; i < words; i++) {
            send[(size_t)to * words + i] = value(rank, to, round, i);
            recv[(size_t)to * words + i] = issues == sum_in_place ? value(rank, to, round, i) : 0;
        }
}

static uint32_t wanted(pattern *issues, int part, unsigned round, size_t i)
{
    uint32_t sum = 0;
    for (int from = 0; from < nranks; from++)
        sum += value(from, part, round, i);
    return reduces(issues) ? sum : value(part, rank, round, i);
}

static void check(pattern *issues, const uint32_t *recv, size_t words, unsigned round)
{
    bool all = issues == issue || reduces(issues);
    DONE(cu->StreamSynchronize(stream));
    for (int part = 0; part < nranks; part++)
        for (size_t i = 0; i < words; i++)
            if ((all || part == (rank + nranks - 1) % nranks) &&
                recv[(size_t)part * words + i] != wanted(issues, part, round, i)) {
                fprintf(stderr, "rank %d: round %u, word %zu of %zu of part %d is %#x\n", rank, round, i, words, part,
                        recv[(size_t)part * words + i]);
                exit(1);
            }
}

static void replay(CUgraphExec exec, pattern *issues, uint32_t *send, uint32_t *recv, size_t words, unsigned round)
{
    fill(issues, send, recv, words, round);
    DONE(cu->GraphLaunch(exec, stream));
    check(issues, recv, words, round);
}

static void begin(void)
{
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
}

/* How many stripes went straight, and in slots. */
static void end_counted(unsigned long long counts[2])
{
    OK(tutti_comm_synchronize(comm));
    all_say(true); /* nobody's graph waits for a rank that has gone */
    tutti_comm_destroy(comm);
    comm = NULL;
    count_ways(&counts[0], &counts[1]);
}

static void end(bool straight, bool slots)
{
    unsigned long long counts[2];
    end_counted(counts);
    require((counts[0] != 0) == straight, "stripes of messages go straight where they can, and nowhere else");
    require((counts[1] != 0) == slots, "stripes of messages go through slots where they must, and nowhere else");
}

/* ---- Cases ---- */

/* `shift`: words by which buffers are not aligned. */
static void goes_straight(pattern *issues, size_t words, size_t shift)
{
    int told = logged(" told rank ", NULL, 0), peers = issues == issue || reduces(issues) ? nranks - 1 : 1;
    begin();
    uint32_t *send = memory((size_t)nranks * words + 4) + shift, *recv = memory((size_t)nranks * words + 4) + shift;
    CUgraphExec exec = capture(issues, send, recv, words);
    await_line(" told rank ", told + peers);
    for (unsigned round = 0; round < 5; round++)
        replay(exec, issues, send, recv, words, round);
    DONE(cu->GraphExecDestroy(exec));
    end(true, false);
    forget(send - shift);
    forget(recv - shift);
}

/* Replays, and no receiver is asked where it wants them. */
static void nobody_is_asked(pattern *issues, size_t words)
{
    begin();
    uint32_t *send = memory((size_t)nranks * words), *recv = memory((size_t)nranks * words);
    CUgraphExec exec = capture(issues, send, recv, words);
    for (unsigned round = 0; round < 5; round++)
        replay(exec, issues, send, recv, words, round);
    DONE(cu->GraphExecDestroy(exec));
    all_say(true);
    tutti_comm_destroy(comm);
    comm = NULL;
    require(logged(" stored ", NULL, 0) == 0, "no receiver is asked");
    forget(send);
    forget(recv);
}

/* Before the mapping is there, too, which may take slots, and beside calls. */
static void while_it_is_mapped(void)
{
    int told = logged(" told rank ", NULL, 0);
    begin();
    uint32_t *send = memory((size_t)nranks * WORDS), *recv = memory((size_t)nranks * WORDS);
    CUgraphExec exec = capture(whole, send, recv, WORDS);
    unsigned round = 0;
    for (; round < 3; round++)
        replay(exec, whole, send, recv, WORDS, round);
    await_line(" told rank ", told + nranks - 1);
    for (; round < 20; round++) {
        replay(exec, whole, send, recv, WORDS, round);
        fill(whole, send, recv, WORDS, round + 100);
        whole(send, recv, WORDS);
        check(whole, recv, WORDS, round + 100);
    }
    DONE(cu->GraphExecDestroy(exec));
    unsigned long long counts[2];
    end_counted(counts);
    require(counts[0] != 0, "what is mapped goes straight");
    forget(send);
    forget(recv);
}

/* Without any graph. And other memory at the address of what a call received in and the program has freed. */
static void calls_alone(void)
{
    CUdeviceptr base = 0;
    begin();
    DONE(cu->MemAddressReserve(&base, PIECE, 0, 0, 0));
    uint32_t *send = memory((size_t)nranks * WORDS), *recv = (uint32_t *)(uintptr_t)(base + offset);
    for (unsigned round = 0; round < 30; round++) {
        int told = logged(" told rank ", NULL, 0);
        all_say(true);
        if (round % 10 == 0)
            map_piece(cu, rank, base, PIECE, true);
        for (int again = 0; again < 2; again++) {
            fill(whole, send, recv, WORDS, 2 * round + (unsigned)again);
            whole(send, recv, WORDS);
            check(whole, recv, WORDS, 2 * round + (unsigned)again);
        }
        if (round % 10 == 0)
            await_line(" told rank ", told + nranks - 1);
        if (round % 10 == 9)
            DONE(cu->MemUnmap(base, PIECE));
    }
    unsigned long long counts[2];
    end_counted(counts);
    require(counts[0] >= 3 * 18 * (unsigned long long)(nranks - 1), "calls' messages go straight when all is mapped");
    forget(send);
    DONE(cu->MemAddressFree(base, PIECE));
}

/* Ranks replay and call in turn: each end may be in a graph or not. */
static void other_end_calls(void)
{
    int told = logged(" told rank ", NULL, 0);
    begin();
    uint32_t *send = memory((size_t)nranks * WORDS), *recv = memory((size_t)nranks * WORDS);
    CUgraphExec exec = capture(whole, send, recv, WORDS);
    await_line(" told rank ", told + nranks - 1);
    for (unsigned round = 0; round < 12; round++) {
        fill(whole, send, recv, WORDS, round);
        if ((round + (unsigned)rank) % 3 == 0)
            whole(send, recv, WORDS);
        else
            DONE(cu->GraphLaunch(exec, stream));
        check(whole, recv, WORDS, round);
    }
    DONE(cu->GraphExecDestroy(exec));
    end(true, false);
    forget(send);
    forget(recv);
}

static void goes_through_slots(uint32_t *recv)
{
    begin();
    uint32_t *send = memory((size_t)nranks * WORDS);
    CUgraphExec exec = capture(whole, send, recv, WORDS);
    for (unsigned round = 0; round < 5; round++)
        replay(exec, whole, send, recv, WORDS, round);
    DONE(cu->GraphExecDestroy(exec));
    end(false, true);
    forget(send);
}

/* Memory that no peer can map. */
static void out_of_reach(void)
{
    CUdeviceptr base = 0;
    DONE(cu->MemAddressReserve(&base, PIECE, 0, 0, 0));
    map_piece(cu, rank, base, PIECE, false);
    goes_through_slots((uint32_t *)(uintptr_t)(base + offset - 4));
    goes_through_slots((uint32_t *)(uintptr_t)(base + 48)); /* as results must be: aligned to 16 */
    DONE(cu->MemUnmap(base, PIECE));
    DONE(cu->MemAddressFree(base, PIECE));
}

/* Results are stored in whole vectors. */
static void misaligned(void)
{
    uint32_t *recv = memory((size_t)nranks * WORDS + 1);
    goes_through_slots(recv + 1);
    forget(recv);
}

/* Other memory at the address that a graph holds, as of programs that sleep: at once, when peers have the old memory
 * mapped, and later, when they have let go of it. */
static void other_memory(void)
{
    int told = logged(" told rank ", NULL, 0);
    CUdeviceptr base = 0;
    begin();
    DONE(cu->MemAddressReserve(&base, PIECE, 0, 0, 0));
    map_piece(cu, rank, base, PIECE, true);
    uint32_t *send = memory((size_t)nranks * WORDS), *recv = (uint32_t *)(uintptr_t)(base + offset);
    CUgraphExec exec = capture(whole, send, recv, WORDS);
    await_line(" told rank ", told + nranks - 1);
    unsigned round = 0;
    replay(exec, whole, send, recv, WORDS, round++);
    all_say(true);
    int unmapped = logged(" unmapped ", NULL, 0);
    for (int i = 0; i < 3; i++) {
        DONE(cu->MemUnmap(base, PIECE));
        map_piece(cu, rank, base, PIECE, true);
        for (int again = 0; again < 3; again++)
            replay(exec, whole, send, recv, WORDS, round++);
    }
    await_line(" unmapped ", unmapped + nranks - 1);
    for (int again = 0; again < 3; again++)
        replay(exec, whole, send, recv, WORDS, round++);
    DONE(cu->GraphExecDestroy(exec));
    exec = capture(whole, send, recv, WORDS); /* of what is there now */
    await_line(" told rank ", told + 2 * (nranks - 1));
    replay(exec, whole, send, recv, WORDS, round++);
    DONE(cu->GraphExecDestroy(exec));
    end(true, true);
    forget(send);
    DONE(cu->MemUnmap(base, PIECE));
    DONE(cu->MemAddressFree(base, PIECE));
}

/* What is freed is unmapped when no graph is under way, which may store to it. */
static void unmapped_behind_graphs(void)
{
    int told = logged(" told rank ", NULL, 0), gone = logged(" no more", NULL, 0),
        unmapped = logged(" unmapped ", NULL, 0);
    CUdeviceptr base = 0;
    begin();
    DONE(cu->MemAddressReserve(&base, PIECE, 0, 0, 0));
    map_piece(cu, rank, base, PIECE, true);
    uint32_t *send = memory((size_t)nranks * WORDS), *recv = memory((size_t)nranks * WORDS);
    CUgraphExec first = capture(whole, send, (uint32_t *)(uintptr_t)base, WORDS),
                second = capture(whole, send, recv, WORDS);
    await_line(" told rank ", told + 2 * (nranks - 1));
    replay(first, whole, send, (uint32_t *)(uintptr_t)base, WORDS, 1);
    all_say(true);
    fill(whole, send, recv, WORDS, 2);
    if (rank != nranks - 1) /* the others wait for this one */
        DONE(cu->GraphLaunch(second, stream));
    DONE(cu->MemUnmap(base, PIECE));
    await_line(" no more", gone + nranks - 1);
    usleep(50000); /* any time does */
    require(rank == nranks - 1 || logged(" unmapped ", NULL, 0) == unmapped,
            "nothing is unmapped while a graph is under way");
    all_say(true);
    if (rank == nranks - 1)
        DONE(cu->GraphLaunch(second, stream));
    check(whole, recv, WORDS, 2);
    await_line(" unmapped ", unmapped + nranks - 1);
    DONE(cu->GraphExecDestroy(first));
    DONE(cu->GraphExecDestroy(second));
    end(true, false);
    forget(send);
    forget(recv);
    DONE(cu->MemAddressFree(base, PIECE));
}

/* The driver refuses to tell kernels of the first buffer. */
static void untold(void)
{
    begin();
    uint32_t *send = memory((size_t)nranks * WORDS), *recv = memory((size_t)nranks * WORDS);
    CUgraphExec exec = capture(issue, send, recv, WORDS);
    await_line(" cannot tell rank ", 1);
    for (unsigned round = 0; round < 3; round++)
        replay(exec, issue, send, recv, WORDS, round);
    DONE(cu->GraphExecDestroy(exec));
    end(false, true);
    forget(send);
    forget(recv);
}

/* What graphs invite to stays mapped whatever calls use; those that find no room go through slots. */
static void many_buffers(void)
{
    static uint32_t *recv[GRAPHS + CALLS];
    static CUgraphExec exec[GRAPHS];
    unsigned long long counts[2];
    begin();
    uint32_t *send = memory((size_t)nranks * LITTLE);
    for (int i = 0; i < GRAPHS + CALLS; i++)
        recv[i] = memory((size_t)nranks * LITTLE);
    for (int i = 0; i < GRAPHS; i++)
        exec[i] = capture(pass_on, send, recv[i], LITTLE);
    await_line(" told rank ", MOST);
    for (unsigned round = 0; round < 2; round++)
        for (int i = GRAPHS; i < GRAPHS + CALLS; i++) {
            fill(pass_on, send, recv[i], LITTLE, round);
            pass_on(send, recv[i], LITTLE);
            check(pass_on, recv[i], LITTLE, round);
        }
    for (int i = 0; i < GRAPHS; i++)
        replay(exec[i], pass_on, send, recv[i], LITTLE, 2);
    for (int i = 0; i < GRAPHS; i++)
        DONE(cu->GraphExecDestroy(exec[i]));
    end_counted(counts);
    /* buffers of calls that peers have not mapped yet go through slots, too */
    require(counts[0] == MOST && counts[1] >= GRAPHS - MOST, "what graphs invite to is never replaced");
    for (int i = 0; i < GRAPHS + CALLS; i++)
        forget(recv[i]);
    forget(send);
}

/* The last rank never comes: the others' kernels wait for its invitation, and for its message, until all give up. */
static void nobody_comes(void)
{
    bool comes = rank < nranks - 1;
    begin();
    uint32_t *send = memory((size_t)nranks * WORDS), *recv = memory((size_t)nranks * WORDS);
    CUgraphExec exec = capture(whole, send, recv, WORDS);
    if (comes)
        DONE(cu->GraphLaunch(exec, stream));
    all_say(true);
    usleep(20000); /* any time does */
    if (comes)
        require(cu->StreamQuery(stream) == CUDA_ERROR_NOT_READY, "a rank waits for one that has not come");
    tutti_comm_abort(comm);
    DONE(cu->StreamSynchronize(stream));
    DONE(cu->GraphExecDestroy(exec));
    forget(send);
    forget(recv);
}

/* Windows in host memory. */
static void apart(void)
{
    nobody_is_asked(issue, WORDS);
    require(logged(" told rank ", NULL, 0) == 0 && logged(" mapped ", NULL, 0) == 0,
            "nothing is mapped through host memory");
}

static void each_with_all(void)
{
    while_it_is_mapped();
    other_end_calls();
    if (!reduces(whole) || !getenv("TUTTI_TEST_QUICK")) {
        calls_alone();
        out_of_reach();
    }
    other_memory();
    unmapped_behind_graphs();
    nobody_comes();
}

static void run_case(const char *name)
{
    if (strcmp(name, "apart") == 0) {
        apart();
        return;
    }
    if (strcmp(name, "many") == 0) {
        many_buffers();
        return;
    }
    if (strcmp(name, "untold") == 0) {
        untold();
        return;
    }
    if (strcmp(name, "reduced") == 0 && nranks == 2) {
        nobody_is_asked(sum_up, 10 * WORDS); /* shorter vectors are added up in one hop */
        return;
    }
    if (strcmp(name, "reduced") == 0) {
        whole = sum_up;
        offset = 48;
        goes_straight(sum_up, WORDS, 0);
        goes_straight(sum_up, WORDS / 7, 4);
        goes_straight(sum_in_place, WORDS, 0);
        misaligned();
        each_with_all();
        whole = sum_in_place;
        if (!getenv("TUTTI_TEST_QUICK"))
            each_with_all();
        return;
    }
    goes_straight(issue, WORDS, 0);
    goes_straight(pass_on, WORDS, 0);
    if (nranks == 2)
        goes_straight(broadcast, WORDS, 0);
    goes_straight(issue, WORDS / 7, 1);
    goes_straight(pass_on, 3 * WORDS + 1, 3);
    each_with_all();
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *local_rank = getenv("TUTTI_LOCAL_RANK");
    if (!local_rank)
        return 2;
    log_open("info");
    gpu_select(atoi(local_rank));
    OK(cuda_driver(&cu));
    gpu_join(&world, &rank, &nranks);
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    run_case(name);
    DONE(cu->StreamDestroy(stream));
    tutti_comm_destroy(world);
    return 0;
}
