/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flows-bench TRACE GO OUT [GPU]: the messages of a trace, one step of a rank after the other; with a number, between
 * the memory of the GPUs of that number. Each line of TRACE is
 *
 *     STEP AT FROM TO BYTES
 *
 * A rank does all lines of a step that name it in one group. It begins AT us after the beginning, or later: when its
 * step before is over. A negative AT is a pause since then. When all ranks are ready, rank 0 writes "ready" to OUT.0.
 * GO is the file that then says when to begin, in ns of CLOCK_MONOTONIC. Each rank writes lines "STEP BEGUN DONE" to
 * OUT.RANK, in us after the beginning. What is received is compared with what was sent. lab/nics.py makes traces of
 * workloads.
 */
#include "gpu.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct flow {
    long step, at;
    int from, to;
    size_t bytes;
    uint64_t *data; /* of this rank's */
    void *memory;   /* what is sent or received: the same, or a GPU's */
};

static tutti_comm_t comm;
static int rank;
static struct flow *flows;
static int count;

static void fail(const char *what)
{
    fprintf(stderr, "flows-bench: rank %d: %s\n", rank, what);
    _exit(1);
}

static void must(tutti_result_t result)
{
    if (result != TUTTI_SUCCESS)
        fail(tutti_get_last_error(comm));
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void sleep_until(int64_t when)
{
    const struct timespec until = {when / 1000000000, when % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
        ;
}

static bool mine(const struct flow *flow)
{
    return flow->from == rank || flow->to == rank;
}

/* The words of a message: the same at both ends, others in each. */
static uint64_t word(const struct flow *flow, size_t i)
{
    uint64_t seed = ((uint64_t)flow->step << 16 ^ (uint64_t)flow->from << 8 ^ (uint64_t)flow->to) + i;
    return seed * 0x9E3779B97F4A7C15ull;
}

static void read_trace(const char *name)
{
    struct flow flow = {0};
    int room = 0;
    FILE *file = fopen(name, "r");
    if (!file)
        fail("no trace");
    while (fscanf(file, "%ld %ld %d %d %zu", &flow.step, &flow.at, &flow.from, &flow.to, &flow.bytes) == 5) {
        if (!mine(&flow))
            continue;
        if (count == room && !(flows = realloc(flows, sizeof *flows * (size_t)(room = 2 * room + 16))))
            fail("no memory");
        flow.bytes -= flow.bytes % sizeof *flow.data;
        if (!(flow.data = malloc(flow.bytes + 1)))
            fail("no memory");
        for (size_t i = 0; i < flow.bytes / sizeof *flow.data; i++)
            flow.data[i] = flow.from == rank ? word(&flow, i) : 0;
        flow.memory = flow.data;
        if (gpu_wanted()) {
            must(tutti_device_mem_alloc(&flow.memory, flow.bytes + 1));
            gpu_bytes_copy(flow.memory, flow.data, flow.bytes);
        }
        flows[count++] = flow;
    }
    if (!feof(file))
        fail("a line of the trace is none");
    fclose(file);
}

/* When to begin, once that is known. */
static int64_t wait_for_go(const char *name)
{
    for (;;) {
        int64_t when;
        FILE *file = fopen(name, "r");
        int read = file ? fscanf(file, "%" SCNd64, &when) : 0;
        if (file)
            fclose(file);
        if (read == 1)
            return when;
        sleep_until(now_ns() + 5000000);
    }
}

/* The flows from `first` that belong to its step. Returns the one behind. */
static int do_step(int first, int64_t began, FILE *out)
{
    int end = first;
    sleep_until(flows[first].at < 0 ? now_ns() - flows[first].at * 1000 : began + flows[first].at * 1000);
    int64_t begun = now_ns();
    must(tutti_group_start());
    for (; end < count && flows[end].step == flows[first].step; end++) {
        struct flow *flow = &flows[end];
        must(flow->from == rank ? tutti_send(flow->memory, flow->bytes, TUTTI_UINT8, flow->to, comm, NULL)
                                : tutti_recv(flow->memory, flow->bytes, TUTTI_UINT8, flow->from, comm, NULL));
    }
    must(tutti_group_end());
    must(tutti_comm_synchronize(comm));
    fprintf(out, "%ld %" PRId64 " %" PRId64 "\n", flows[first].step, (begun - began) / 1000, (now_ns() - began) / 1000);
    fflush(out);
    return end;
}

static void check_messages(void)
{
    for (int i = 0; i < count; i++) {
        if (gpu_wanted())
            gpu_bytes_copy(flows[i].data, flows[i].memory, flows[i].bytes);
        for (size_t k = 0; k < flows[i].bytes / sizeof *flows[i].data; k++)
            if (flows[i].data[k] != word(&flows[i], k))
                fail("a message is wrong");
    }
}

int main(int argc, char **argv)
{
    char name[512];
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "Usage: flows-bench TRACE GO OUT [GPU]\n");
        return 2;
    }
    if (argc == 5) {
        setenv("TUTTI_TEST_GPU", "1", 1);
        gpu_select(atoi(argv[4]));
    }
    tutti_config_t config = gpu_config();
    must(tutti_comm_init_from_env(&comm, &config));
    must(tutti_comm_rank(comm, &rank));
    read_trace(argv[1]);
    snprintf(name, sizeof name, "%s.%d", argv[3], rank);
    FILE *out = fopen(name, "w");
    if (!out)
        fail("no file for what was measured");
    must(tutti_barrier(comm, NULL));
    must(tutti_comm_synchronize(comm));
    fprintf(out, "%s", rank == 0 ? "ready\n" : "");
    fflush(out);
    int64_t began = wait_for_go(argv[2]);
    for (int i = 0; i < count;)
        i = do_step(i, began, out);
    check_messages();
    must(tutti_barrier(comm, NULL));
    must(tutti_comm_synchronize(comm));
    fclose(out);
    must(tutti_comm_destroy(comm));
    return 0;
}
