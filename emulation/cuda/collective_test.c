/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own kernels, launched on emulated devices: at once, in order, replayed by graphs, given up. */
#include "cuda/kernels/follow.h"
#include "cuda/tests/check.h"

#include "device/cuda/launch.h"

#define RANKS 4
#define COUNT 3000

static struct rank {
    CUmodule module;
    CUfunction one, two, bulk, exchange, chain;
    CUstream stream;
    CUdeviceptr window, scratch, in, out;
} ranks[RANKS];
static uint32_t *give_up;

/* Once in three times where a sanitizer makes each slow. */
static int repeats(int times)
{
    return getenv("TUTTI_TEST_QUICK") ? (times + 2) / 3 : times;
}

static void enter(int r)
{
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, r));
    OK(cuCtxSetCurrent(context));
    OK(cuDevicePrimaryCtxRelease_v2(r));
}

static CUdeviceptr zeroed(size_t size)
{
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, size));
    OK(cuMemsetD8_v2(at, 0, size));
    return at;
}

static void set_up_rank(struct rank *rank, int r)
{
    use_device(r);
    rank->one = get_kernel(&rank->module, "tutti_reduce_one_float");
    OK(cuModuleGetFunction(&rank->two, rank->module, "tutti_reduce_two_float"));
    OK(cuModuleGetFunction(&rank->bulk, rank->module, "tutti_reduce_bulk_float"));
    OK(cuModuleGetFunction(&rank->exchange, rank->module, "tutti_exchange"));
    OK(cuModuleGetFunction(&rank->chain, rank->module, "tutti_chain"));
    OK(cuStreamCreate(&rank->stream, CU_STREAM_NON_BLOCKING));
    rank->window = zeroed(kernel_window_bytes(RANKS));
    rank->scratch = zeroed(kernel_bulk_bytes(RANKS));
    rank->in = zeroed(COUNT * sizeof(float));
    rank->out = zeroed(COUNT * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        ((float *)AT(rank->in))[i] = (float)(i + 1000 * r);
}

static int set_up(void **state)
{
    void *word;
    for (int r = 0; r < RANKS; r++)
        set_up_rank(&ranks[r], r);
    OK(cuMemHostAlloc(&word, sizeof(*give_up), CU_MEMHOSTALLOC_PORTABLE));
    give_up = word;
    *give_up = 0;
    return 0;
}

static int tear_down(void **state)
{
    for (int r = RANKS; r--;) {
        enter(r);
        if (r == RANKS - 1)
            OK(cuMemFreeHost(give_up));
        OK(cuCtxSynchronize());
        OK(cuStreamDestroy_v2(ranks[r].stream));
        OK(cuModuleUnload(ranks[r].module));
        leave_device(r); /* its memory goes with it */
    }
    return 0;
}

static struct kernel_team team_of(int r)
{
    struct kernel_team team = {.rank = r, .nranks = RANKS, .abort = give_up};
    for (int p = 0; p < RANKS; p++) {
        team.window[p] = AT(ranks[p].window);
        team.bulk[p] = AT(ranks[p].scratch);
    }
    return team;
}

static void launch(CUfunction function, const struct kernel_launch *how, CUstream stream, void *what)
{
    void *params[] = {what};
    OK(cuLaunchKernel(function, how->blocks, 1, 1, how->threads, 1, 1, 0, stream, params, NULL));
}

static void launch_reduce(int r, enum kernel_id kernel)
{
    struct rank *rank = &ranks[r];
    struct kernel_launch how;
    struct kernel_list list = {.reduce = {.team = team_of(r),
                                          .in = AT(rank->in),
                                          .out = AT(rank->out),
                                          .count = COUNT,
                                          .mode = KERNEL_ALLREDUCE,
                                          .op = TUTTI_SUM}};
    struct kernel_reduce *what = &list.reduce;
    follow_reduce(kernel, 0, what);
    CUfunction function = kernel == KERNEL_REDUCE_ONE   ? rank->one
                          : kernel == KERNEL_REDUCE_TWO ? rank->two
                                                        : rank->bulk;
    kernel_shape_reduce(kernel, COUNT * sizeof(float), kernel_room(132, 0, 0), false, &how);
    what->stripes = how.stripes;
    enter(r);
    launch(function, &how, rank->stream, &list); /* which some take, and others only its beginning */
}

static void check_sums(void)
{
    for (int r = 0; r < RANKS; r++) {
        enter(r);
        OK(cuStreamSynchronize(ranks[r].stream));
        const float *out = AT(ranks[r].out);
        for (int i = 0; i < COUNT; i++)
            assert_true(out[i] == (float)(4 * i + 6000));
        OK(cuMemsetD8Async(ranks[r].out, 0, COUNT * sizeof(float), ranks[r].stream));
    }
}

static void test_reductions(void **state)
{
    for (int kernel = KERNEL_REDUCE_ONE; kernel <= KERNEL_REDUCE_BULK; kernel++) {
        for (int times = 0; times < repeats(5); times++)
            for (int r = 0; r < RANKS; r++)
                launch_reduce(r, (enum kernel_id)kernel);
        check_sums();
    }
}

/* Every rank sends block p of its numbers to rank p. */
static void test_exchange(void **state)
{
    enum { BLOCK = COUNT / RANKS, BYTES = BLOCK * sizeof(float) };
    for (int r = 0; r < RANKS; r++) {
        struct kernel_launch how;
        struct kernel_exchange what = {.team = team_of(r)};
        for (int p = 0; p < RANKS; p++) {
            what.send[p] = (char *)AT(ranks[r].in) + (size_t)p * BYTES;
            what.recv[p] = (char *)AT(ranks[r].out) + (size_t)p * BYTES;
            what.send_bytes[p] = what.recv_bytes[p] = BYTES;
        }
        kernel_choose_exchange(&what, kernel_room(132, 0, 0), false, &how);
        enter(r);
        launch(ranks[r].exchange, &how, ranks[r].stream, &what);
    }
    for (int r = 0; r < RANKS; r++) {
        enter(r);
        OK(cuStreamSynchronize(ranks[r].stream));
        const float *out = AT(ranks[r].out);
        for (int i = 0; i < COUNT; i++)
            assert_true(out[i] == (float)(i % BLOCK + r * BLOCK + 1000 * (i / BLOCK)));
    }
}

/* From each root in turn, along the fan and along the chain. */
static void launch_broadcast(int r, int root, int fan)
{
    struct kernel_launch how;
    struct kernel_chain what = {.team = team_of(r),
                                .in = AT(ranks[r].in),
                                .out = AT(ranks[r].out),
                                .bytes = COUNT * sizeof(float),
                                .chunk = 512};
    follow_chain(fan ? WAY_FAN : WAY_CHAIN, root, &what);
    kernel_choose_chain(what.bytes * 8, kernel_room(132, 0, 0), &how); /* more blocks than it would have */
    enter(r);
    launch(ranks[r].chain, &how, ranks[r].stream, &what);
}

static void check_broadcast(int root)
{
    for (int r = 0; r < RANKS; r++) {
        enter(r);
        OK(cuStreamSynchronize(ranks[r].stream));
        assert_memory_equal(AT(ranks[r].out), AT(ranks[root].in), COUNT * sizeof(float));
        OK(cuMemsetD8Async(ranks[r].out, 0, COUNT * sizeof(float), ranks[r].stream));
    }
}

static void test_broadcasts(void **state)
{
    for (int times = 0; times < 2 * RANKS; times++) {
        for (int r = 0; r < RANKS; r++)
            launch_broadcast(r, times / 2, times % 2);
        check_broadcast(times / 2);
    }
}

/* What `launch_all` launches on each rank, as one graph a rank. */
static void capture(void (*launch_all)(int rank), CUgraphExec *execs)
{
    for (int r = 0; r < RANKS; r++) {
        CUgraph graph;
        enter(r);
        OK(cuStreamBeginCapture_v2(ranks[r].stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        launch_all(r);
        OK(cuStreamEndCapture(ranks[r].stream, &graph));
        OK(cuGraphInstantiateWithFlags(&execs[r], graph, 0));
        OK(cuGraphDestroy(graph));
    }
}

static void replay(const CUgraphExec *execs)
{
    for (int r = 0; r < RANKS; r++)
        OK(cuGraphLaunch(execs[r], ranks[r].stream));
}

static void destroy(const CUgraphExec *execs)
{
    for (int r = 0; r < RANKS; r++)
        OK(cuGraphExecDestroy(execs[r]));
}

static void launch_bulk_and_broadcasts(int rank)
{
    launch_reduce(rank, KERNEL_REDUCE_BULK);
    launch_broadcast(rank, 3, 0);
    launch_broadcast(rank, 2, 1);
}

static void test_broadcasts_in_graphs(void **state)
{
    CUgraphExec execs[RANKS];
    capture(launch_bulk_and_broadcasts, execs);
    for (int times = 0; times < repeats(10); times++) {
        replay(execs);
        if (times % 3 == 0) /* otherwise the next follows at once */
            check_broadcast(2);
    }
    destroy(execs);
}

static void launch_small_reductions(int rank)
{
    launch_reduce(rank, KERNEL_REDUCE_ONE);
    launch_reduce(rank, KERNEL_REDUCE_TWO);
}

static void test_graphs(void **state)
{
    CUgraphExec execs[RANKS];
    capture(launch_small_reductions, execs);
    for (int times = 0; times < repeats(10); times++)
        replay(execs);
    check_sums();
    destroy(execs);
}

/* A rank that never comes: the others wait until they are told to give up. */
static void test_abort(void **state)
{
    for (int r = 0; r < RANKS - 1; r++)
        launch_reduce(r, KERNEL_REDUCE_ONE);
    FAILS(cuStreamQuery(ranks[0].stream), CUDA_ERROR_NOT_READY);
    __atomic_store_n(give_up, 1, __ATOMIC_RELEASE);
    for (int r = 0; r < RANKS - 1; r++)
        OK(cuStreamSynchronize(ranks[r].stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reductions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exchange, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_broadcasts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_graphs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_broadcasts_in_graphs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_abort, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
