/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_dynamic CASE: exchanges whose lengths only GPUs know. On the stand-in driver, one process a rank: tutti run -n 3
 * -- gpu_dynamic drawn. What is sent is compared with what the log counts when a communicator ends.
 */
#include "gpu_rank.h"

#include "base/random.h"
#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS   8
#define SPLITS  64
#define INDICES 512
#define ROWS    600 /* of a window */
#define MOST    40  /* elements of a row */
#define PATTERN 0x5a5a5a5au

static tutti_comm_t world, comm;
static CUstream stream;
static int rank, nranks;
static const struct cuda_driver *cu;

/* What one rank has in one round: every rank knows it of all. */
struct plan {
    int64_t splits[SPLITS], counts[RANKS], indices[INDICES];
};

/* This rank's, on its GPU. */
static struct buffers {
    uint32_t *send, *recv, *back;
    struct plan *plan, *again; /* there and back */
    int64_t *splits, *splits_again;
} mine;

static void *memory(size_t bytes)
{
    void *out = NULL;
    OK(tutti_device_mem_alloc(&out, bytes));
    return out;
}

static void make_buffers(void)
{
    const size_t window = (size_t)ROWS * MOST * sizeof(uint32_t);
    mine.send = memory(window);
    mine.recv = memory((size_t)nranks * window);
    mine.back = memory(window);
    mine.plan = memory(sizeof *mine.plan);
    mine.again = memory(sizeof *mine.again);
    mine.splits = memory(RANKS * SPLITS * sizeof(int64_t));
    mine.splits_again = memory(RANKS * RANKS * SPLITS * sizeof(int64_t));
}

/* ---- What is exchanged ---- */

enum shape { BALANCED, SKEWED, TO_ONE, NOTHING, ANY, SHAPES };

/* `experts` splits, of which each rank has as many; of any shape splits go to several ranks, or to none. */
static struct plan plan_of(int of, enum shape shape, int experts, unsigned round)
{
    struct plan plan = {{0}, {0}, {0}};
    int each = experts / nranks, at = 0;
    uint64_t bits = mix64(round * 64u + (unsigned)of);
    for (int e = 0; e < experts; e++) {
        int64_t rows = shape == BALANCED ? ROWS / SPLITS
                       : shape == TO_ONE ? (e / each == (int)round % nranks) * (int64_t)(bits % (unsigned)(ROWS / each))
                       : shape == NOTHING ? 0
                                          : (int64_t)(mix64(bits + (unsigned)e) % (unsigned)(2 * ROWS / SPLITS - 1));
        plan.splits[e] = shape == SKEWED && e % 5 ? 0 : rows;
    }
    for (int to = 0; to < nranks; to++)
        for (int e = 0; e < experts; e++) {
            bool goes = shape == ANY ? mix64(bits + (unsigned)(to * 1000 + e)) % 3 == 0 : e / each == to;
            if (!goes)
                continue;
            plan.counts[to]++;
            plan.indices[at++] = e;
        }
    if (shape == ANY && at > 1 && plan.counts[0] > 1) { /* in no order */
        int64_t first = plan.indices[0];
        plan.indices[0] = plan.indices[1];
        plan.indices[1] = first;
    }
    return plan;
}

static bool takes(const struct plan *plan, int to, int split)
{
    int at = 0;
    for (int r = 0; r < to; r++)
        at += (int)plan->counts[r];
    for (int i = at; i < at + plan->counts[to]; i++)
        if (plan->indices[i] == split)
            return true;
    return false;
}

static uint32_t value(int of, size_t element, unsigned round)
{
    return (uint32_t)(of * 1000003 + 7) + round * 2654435761u + (uint32_t)element;
}

static tutti_dynamic_t describe(int experts, size_t row)
{
    return (tutti_dynamic_t){.size = sizeof(tutti_dynamic_t),
                             .row = row,
                             .splits = experts,
                             .windows = 1,
                             .split_rows = mine.plan->splits,
                             .index_counts = mine.plan->counts,
                             .indices = mine.plan->indices,
                             .index_room = INDICES,
                             .send_rows = ROWS,
                             .recv_rows = ROWS,
                             .recv_stride = ROWS,
                             .recv_splits = mine.splits};
}

static void fill(enum shape shape, int experts, size_t row, unsigned round)
{
    DONE(cu->StreamSynchronize(stream)); /* of what the round before has left */
    *mine.plan = plan_of(rank, shape, experts, round);
    for (size_t i = 0; i < (size_t)ROWS * row; i++)
        mine.send[i] = value(rank, i, round);
    for (size_t i = 0; i < (size_t)nranks * ROWS * row; i++)
        mine.recv[i] = PATTERN;
    memset(mine.splits, 0x5a, RANKS * SPLITS * sizeof(int64_t));
}

/* A window holds the splits that are for this rank, where they lie at their source, and nothing else. */
static void check_window(const struct plan *plan, int from, int experts, size_t row, unsigned round)
{
    const uint32_t *window = mine.recv + (size_t)from * ROWS * row;
    size_t at = 0;
    for (int e = 0; e < experts; e++) {
        size_t end = at + (size_t)plan->splits[e] * row;
        bool mine_too = takes(plan, rank, e);
        for (; at < end; at++)
            require(window[at] == (mine_too ? value(from, at, round) : PATTERN), "the rows of a split");
    }
    for (; at < ROWS * row; at++)
        require(window[at] == PATTERN, "nothing behind the splits");
}

/* Returns the bytes that this rank has sent to others. */
static unsigned long long check(enum shape shape, int experts, size_t row, unsigned round)
{
    unsigned long long rows = 0;
    DONE(cu->StreamSynchronize(stream));
    for (int from = 0; from < nranks; from++) {
        struct plan plan = plan_of(from, shape, experts, round);
        check_window(&plan, from, experts, row, round);
        require(!memcmp(mine.splits + from * experts, plan.splits, (size_t)experts * sizeof(int64_t)),
                "the splits of all ranks");
        for (int to = 0; to < nranks; to++)
            for (int e = 0; e < experts && from == rank && to != rank; e++)
                rows += takes(&plan, to, e) ? (unsigned long long)plan.splits[e] : 0;
    }
    return rows * row * sizeof(uint32_t);
}

static void begin(void)
{
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
}

static void meet(void)
{
    OK(tutti_barrier(world, NULL));
    OK(tutti_comm_synchronize(world));
}

/* No byte but those of splits that are for another rank has gone to any. */
static void end(unsigned long long sent)
{
    char line[400], wanted[100];
    OK(tutti_comm_synchronize(comm));
    meet();
    tutti_comm_destroy(comm);
    snprintf(wanted, sizeof wanted, "sent %llu bytes whose lengths its GPU knew", sent);
    if (sent)
        require(logged(" whose lengths its GPU knew", line, sizeof line) > 0 && strstr(line, wanted), wanted);
}

/* Results come back to the rows where they came from: each window of recv is a window of send now. */
static void bring_back(int experts, size_t row, bool issues)
{
    int at = 0;
    struct plan *again = mine.again;
    for (int to = 0; issues && to < nranks; to++) {
        again->counts[to] = experts / nranks;
        for (int e = 0; e < experts / nranks; e++)
            again->indices[at++] = (int64_t)to * experts + rank * (experts / nranks) + e;
    }
    const tutti_dynamic_t what = {.size = sizeof what,
                                  .row = row,
                                  .splits = nranks * experts,
                                  .windows = nranks,
                                  .split_rows = mine.splits,
                                  .index_counts = again->counts,
                                  .indices = again->indices,
                                  .index_room = INDICES,
                                  .send_rows = ROWS,
                                  .recv_rows = ROWS,
                                  .recv_stride = 0,
                                  .recv_splits = mine.splits_again};
    OK(tutti_alltoallv_dynamic(mine.recv, mine.back, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream));
}

static void check_back(enum shape shape, int experts, size_t row, unsigned round)
{
    struct plan plan = plan_of(rank, shape, experts, round);
    size_t rows = 0;
    DONE(cu->StreamSynchronize(stream));
    for (int e = 0; e < experts; e++)
        rows += (size_t)plan.splits[e];
    for (size_t i = 0; i < ROWS * row; i++)
        require(mine.back[i] == (i < rows * row ? value(rank, i, round) : PATTERN), "what has come back");
}

/* ---- Cases ---- */

static void drawn(void)
{
    unsigned long long sent = 0;
    unsigned round = 0;
    begin();
    for (; round < 5 * SHAPES; round++) {
        enum shape shape = (enum shape)(round % SHAPES);
        int each = round / SHAPES % 2 ? 4 : 1, experts = nranks * each; /* k = 1 and 4 experts of a rank */
        size_t row = round % 3 == 0 ? MOST : round % 3 == 1 ? 1 + round % 7 : 16;
        tutti_dynamic_t what = describe(experts, row);
        fill(shape, experts, row, round);
        OK(tutti_alltoallv_dynamic(mine.send, mine.recv, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream));
        if (shape != ANY) {
            for (size_t i = 0; i < ROWS * row; i++)
                mine.back[i] = PATTERN;
            bring_back(experts, row, true);
            check_back(shape, experts, row, round);
            for (int from = 0; from < nranks; from++)
                for (int e = 0; e < experts && from != rank; e++)
                    sent += e / each == rank ? (unsigned long long)mine.splits[from * experts + e] * row * 4 : 0;
        }
        sent += check(shape, experts, row, round);
        /* between two calls, and in the same slots */
        OK(tutti_allreduce(mine.back, mine.back, 100, TUTTI_UINT32, TUTTI_MAX, comm, (tutti_stream_t)stream));
        OK(tutti_alltoall(mine.send, mine.back, ROWS / RANKS, TUTTI_UINT32, comm, (tutti_stream_t)stream));
    }
    end(sent);
}

/* There and back in one graph, replayed with other counts; and called in between. */
static void captured(void)
{
    CUgraph graph;
    CUgraphExec exec;
    unsigned long long sent = 0;
    int experts = 2 * nranks;
    begin();
    tutti_dynamic_t what = describe(experts, 16);
    fill(BALANCED, experts, 16, 0);
    DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(tutti_alltoallv_dynamic(mine.send, mine.recv, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream));
    bring_back(experts, 16, true);
    DONE(cu->StreamEndCapture(stream, &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    for (unsigned round = 0; round < 15; round++) {
        enum shape shape = (enum shape)(round % ANY);
        fill(shape, experts, 16, round);
        for (size_t i = 0; i < ROWS * 16; i++)
            mine.back[i] = PATTERN;
        if (round % 4 == 3) { /* by other ranks a graph */
            OK(tutti_alltoallv_dynamic(mine.send, mine.recv, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream));
            bring_back(experts, 16, false);
        } else {
            DONE(cu->GraphLaunch(exec, stream));
        }
        sent += check(shape, experts, 16, round);
        check_back(shape, experts, 16, round);
        for (int from = 0; from < nranks; from++)
            for (int e = 0; e < 2 && from != rank; e++)
                sent += (unsigned long long)mine.splits[from * experts + 2 * rank + e] * 16 * 4;
    }
    end(sent);
    DONE(cu->GraphExecDestroy(exec));
    DONE(cu->GraphDestroy(graph));
}

/* What rank `bad` has wrong, and what all are told. */
static const char *spoil(int which, tutti_dynamic_t *what)
{
    static const int64_t least = INT64_MIN, most = INT64_MAX;
    struct plan *plan = mine.plan;
    switch (which) {
    case 0:
        plan->splits[1] = -5;
        return "split 1 of rank 1 has -5 rows";
    case 1:
        plan->splits[0] = most;
        return "split 0 of rank 1 has 9223372036854775807 rows";
    case 2:
        plan->splits[0] = plan->splits[1] = ROWS / 2 + 1;
        return "up to split 1 a window of rank 1 has 602 rows";
    case 3:
        plan->counts[0] = least;
        return "rank 1 has -9223372036854775808 indices for rank 0";
    case 4:
        plan->counts[0] = INDICES / 2 + 1;
        plan->counts[1] = INDICES / 2;
        return "up to those for rank 1 rank 1 has 513 indices";
    case 5:
        plan->indices[1] = 1ll << 32;
        return "index number 1 of rank 1 is 4294967296: it names no split";
    case 6:
        what->recv_rows = what->recv_stride = 1; /* of this rank's windows */
        plan->splits[0] = plan->splits[1] = 0;
        return "of a window of rank 1, beyond its recv_rows";
    default:
        what->row = 8;
        return "or rows or windows of other lengths";
    }
}

static void hostile(void)
{
    for (int which = 0; which < 8; which++) {
        tutti_result_t state = TUTTI_SUCCESS;
        int experts = 2 * nranks;
        char wanted[200] = "";
        begin();
        fill(BALANCED, experts, 16, 0);
        tutti_dynamic_t what = describe(experts, 16), unused = what;
        struct plan plan = *mine.plan;
        snprintf(wanted, sizeof wanted, "%s", spoil(which, rank == 1 ? &what : &unused));
        if (rank != 1)
            *mine.plan = plan;
        meet(); /* all have the communicator */
        tutti_result_t called =
            tutti_alltoallv_dynamic(mine.send, mine.recv, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream);
        require(called == TUTTI_SUCCESS || (called == TUTTI_INVALID_USAGE && rank != 1),
                "a call ends well, or comes when rank 1's has failed");
        DONE(cu->StreamSynchronize(stream));
        tutti_result_t result = tutti_comm_synchronize(comm);
        require(result == TUTTI_INVALID_USAGE || result == TUTTI_REMOTE_ERROR || (which == 6 && rank != 1),
                "wrong counts fail the call");
        for (time_t limit = time(NULL) + 60; state == TUTTI_SUCCESS;) { /* a sender hears a little later */
            OK(tutti_comm_get_async_error(comm, &state));
            require(time(NULL) < limit, "wrong counts fail the communicator");
        }
        require(strstr(tutti_get_last_error(comm), wanted), wanted);
        for (int from = 0; from < nranks; from++) /* nothing behind the windows' splits, whatever came */
            for (size_t i = (size_t)ROWS / SPLITS * (size_t)experts * 16; i < ROWS * 16; i++)
                require(which >= 6 || mine.recv[(size_t)from * ROWS * 16 + i] == PATTERN, "nothing else is stored");
        for (size_t i = 16; which == 6 && rank == 1 && i < (size_t)nranks * 16; i++)
            require(mine.recv[i] == PATTERN || i % 16 < 16, "nothing beyond the window");
        meet();
        tutti_comm_destroy(comm);
        meet();
    }
}

static void refused(void)
{
    begin();
    tutti_dynamic_t what = describe(nranks, 16), bad = what;
    fill(NOTHING, nranks, 16, 0);
#define REFUSED(change, ...)                                                                                           \
    bad = what;                                                                                                        \
    change;                                                                                                            \
    require(tutti_alltoallv_dynamic(mine.send, mine.recv, TUTTI_UINT32, &bad, comm, (tutti_stream_t)stream) !=         \
                    TUTTI_SUCCESS &&                                                                                   \
                strstr(tutti_get_last_error(NULL), __VA_ARGS__),                                                       \
            #change)
    REFUSED(bad.size = 8, "sizeof(tutti_dynamic_t)");
    REFUSED(bad.row = 0, "row is 0");
    REFUSED(bad.row = SIZE_MAX / 4, "row is");
    REFUSED(bad.splits = 0, "splits is 0");
    REFUSED(bad.splits = TUTTI_DYNAMIC_SPLITS + 1, "splits is 2049");
    REFUSED(bad.windows = nranks + 1, "windows is");
    REFUSED(bad.split_rows = NULL, "none may be NULL");
    REFUSED(bad.indices = (const int64_t *)((uintptr_t)what.indices + 4), "multiples of 8");
    REFUSED(bad.send_rows = (size_t)1 << 31, "send_rows is");
    REFUSED(bad.recv_stride = ROWS - 1, "windows would overlap");
    REFUSED((bad.row = (size_t)1 << 36, bad.recv_rows = bad.recv_stride = 1u << 30), "do not fit into memory");
    require(tutti_alltoallv_dynamic(mine.send, mine.send, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream) ==
                TUTTI_INVALID_USAGE,
            "in place");
    OK(tutti_group_start());
    require(tutti_alltoallv_dynamic(mine.send, mine.recv, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream) ==
                TUTTI_INVALID_USAGE,
            "in a group");
    require(tutti_group_end() == TUTTI_INVALID_USAGE, "which fails");
    OK(tutti_alltoallv_dynamic(mine.send, mine.recv, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream));
    check(NOTHING, nranks, 16, 0);
    end(0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"drawn", drawn}, {"captured", captured}, {"hostile", hostile}, {"refused", refused}};
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    if (argc != 2 || !local_rank)
        return 2;
    log_open("info");
    gpu_select(atoi(local_rank));
    OK(cuda_driver(&cu));
    gpu_join(&world, &rank, &nranks);
    make_buffers();
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    bool found = false;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0 || strcmp(argv[1], "all") == 0) {
            cases[i].run();
            found = true;
        }
    DONE(cu->StreamDestroy(stream));
    tutti_comm_destroy(world);
    return found ? 0 : 2;
}
