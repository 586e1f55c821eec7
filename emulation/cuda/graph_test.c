/* SPDX-License-Identifier: Apache-2.0 */
/* Capture, graphs, user objects. */
#include "cuda/tests/check.h"

#include <pthread.h>
#include <unistd.h>

static CUstream streams[3];
static CUmodule module;
static CUfunction store, meet, add;
static CUdeviceptr words;

static uint32_t word(size_t i)
{
    return __atomic_load_n((uint32_t *)AT(words) + i, __ATOMIC_ACQUIRE);
}

static int set_up(void **state)
{
    use_device(0);
    store = get_kernel(&module, "emulated_store");
    OK(cuModuleGetFunction(&meet, module, "emulated_meet"));
    OK(cuModuleGetFunction(&add, module, "emulated_add"));
    for (int i = 0; i < 3; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&words, 4096));
    OK(cuMemsetD32_v2(words, 0, 1024));
    return 0;
}

static int tear_down(void **state)
{
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(words));
    for (int i = 0; i < 3; i++)
        OK(cuStreamDestroy_v2(streams[i]));
    OK(cuModuleUnload(module));
    leave_device(0);
    return 0;
}

static void count_up(void *data)
{
    __atomic_fetch_add((uint32_t *)data, 1, __ATOMIC_ACQ_REL);
}

static void fork_to(CUstream from, CUstream to)
{
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, from));
    OK(cuStreamWaitEvent(to, event, 0));
    OK(cuEventDestroy_v2(event));
}

static size_t node_count(CUgraph graph)
{
    size_t count = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

/* Every kind of work, many launches. */
static void test_replay(void **state)
{
    static uint32_t calls, back;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    calls = 0;
    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamIsCapturing(streams[0], &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(launch_words(add, 1, streams[0], words, 3));
    OK(cuLaunchHostFunc(streams[0], count_up, &calls));
    OK(cuMemcpyDtoDAsync_v2(words + 4, words, 4, streams[0]));
    OK(cuMemsetD32Async(words + 8, 77, 1, streams[0]));
    OK(cuStreamWriteValue32_v2(streams[0], words + 12, 5, 0));
    OK(cuStreamWaitValue32_v2(streams[0], words + 12, 5, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyDtoHAsync_v2(&back, words, 4, streams[0]));
    OK(cuStreamEndCapture(streams[0], &graph));
    assert_int_equal(node_count(graph), 7);
    assert_int_equal(word(0), 0); /* nothing ran */
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 50; i++)
        OK(cuGraphLaunch(exec, streams[i % 2]));
    OK(cuGraphExecDestroy(exec)); /* runs on */
    OK(cuCtxSynchronize());
    assert_int_equal(word(0), 150);
    assert_int_equal(word(1), 150);
    assert_int_equal(word(2), 77);
    assert_int_equal(back, 150);
    assert_int_equal(calls, 50);
}

/* Branches of one graph wait for one another, so they must run side by side. */
static void test_branches(void **state)
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(words, 0, 1, streams[0]));
    fork_to(streams[0], streams[1]);
    fork_to(streams[0], streams[2]);
    for (int i = 0; i < 3; i++)
        OK(launch_words(meet, 20, streams[i], words, 60));
    fork_to(streams[1], streams[0]);
    fork_to(streams[2], streams[0]);
    OK(launch_words(add, 1, streams[0], words + 4, 1));
    OK(cuStreamEndCapture(streams[0], &graph));
    assert_int_equal(node_count(graph), 5);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 10; i++)
        OK(cuGraphLaunch(exec, streams[1]));
    OK(cuStreamSynchronize(streams[1]));
    assert_int_equal(word(1), 10);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* Ends an invalid capture. */
static void end_fails(CUstream stream, CUresult why)
{
    CUgraph graph = (CUgraph)(uintptr_t)1;
    CUstreamCaptureStatus status;
    FAILS(cuStreamEndCapture(stream, &graph), why);
    assert_null(graph);
    OK(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

static void test_refusals(void **state)
{
    CUdeviceptr more;
    CUgraph graph;
    CUstream blocking;
    CUstreamCaptureStatus status;
    CUevent event;
    OK(cuEventCreate(&event, 0));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    FAILS(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FAILS(cuStreamEndCapture(streams[0], &graph), CUDA_ERROR_ILLEGAL_STATE);

    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
    FAILS(cuMemAlloc_v2(&more, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FAILS(cuMemsetD8Async(words, 0, 4, streams[0]), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_fails(streams[0], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(cuStreamSynchronize(streams[0]), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_fails(streams[0], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_fails(streams[0], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT); /* no harm done */
    OK(cuStreamIsCapturing(blocking, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    FAILS(cuMemsetD8Async(words, 0, 4, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end_fails(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuEventRecord(event, streams[1]));
    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(cuStreamWaitEvent(streams[0], event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_fails(streams[0], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, streams[0]));
    FAILS(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuStreamBeginCapture_v2(streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(cuStreamWaitEvent(streams[1], event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    end_fails(streams[0], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_fails(streams[1], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    fork_to(streams[0], streams[1]);
    OK(cuMemsetD8Async(words, 0, 4, streams[1]));
    FAILS(cuStreamEndCapture(streams[1], &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    end_fails(streams[0], CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    OK(cuStreamDestroy_v2(blocking));
    OK(cuEventDestroy_v2(event));
}

static void *other_thread(void *wanted)
{
    CUgraph graph;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr more;
    FAILS(cuStreamEndCapture(streams[0], &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&more, 64)); /* relaxed: allowed */
    OK(cuMemFree_v2(more));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    FAILS(cuMemAlloc_v2(&more, 64), *(CUresult *)wanted);
    if (!*(CUresult *)wanted)
        OK(cuMemFree_v2(more));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    return NULL;
}

static void check_mode(CUstreamCaptureMode mode, CUresult elsewhere)
{
    pthread_t thread;
    CUgraph graph;
    OK(cuStreamBeginCapture_v2(streams[0], mode));
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &elsewhere), 0);
    pthread_join(thread, NULL);
    if (elsewhere) {
        end_fails(streams[0], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        return;
    }
    OK(cuStreamEndCapture(streams[0], &graph));
    OK(cuGraphDestroy(graph));
}

static void test_modes(void **state)
{
    check_mode(CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_mode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_SUCCESS);
}

/* Nodes put into a capture by hand, as libraries do to order their own launches. */
static void test_update(void **state)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    const CUgraphNode *after;
    size_t count;
    static uint32_t calls;
    CUDA_HOST_NODE_PARAMS host = {count_up, &calls};
    calls = 0;
    OK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch_words(store, 1, streams[0], words, 9));
    OK(cuStreamGetCaptureInfo_v2(streams[0], &status, &id, &graph, &after, &count));
    assert_true(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
    OK(cuGraphAddHostNode(&node, graph, after, count, &host));
    OK(cuStreamUpdateCaptureDependencies_v2(streams[0], &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(launch_words(store, 1, streams[0], words + 4, 9));
    FAILS(cuGraphDestroy(graph), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamEndCapture(streams[0], &graph));
    assert_int_equal(node_count(graph), 3);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, streams[0]));
    OK(cuStreamSynchronize(streams[0]));
    assert_true(calls == 1 && word(0) == 9 && word(1) == 9);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* A graph made without capture; an event told and waited for from outside; a child graph. */
static void test_by_hand(void **state)
{
    CUgraph graph, child;
    CUgraphExec exec;
    CUgraphNode nodes[6], circle;
    CUevent event;
    CUgraphNodeType type;
    CUDA_KERNEL_NODE_PARAMS seen;
    uint32_t value = 6;
    void *params[] = {&words, &value};
    CUDA_KERNEL_NODE_PARAMS kernel = {store, 1, 1, 1, 1, 1, 1, 0, params, NULL, NULL, NULL};
    CUDA_MEMSET_NODE_PARAMS fill = {words + 8, 0, 5, 4, 1, 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = words,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = words + 4,
                          .WidthInBytes = 4,
                          .Height = 1,
                          .Depth = 1};
    OK(cuEventCreate(&event, 0));
    OK(cuGraphCreate(&child, 0));
    OK(cuGraphAddMemsetNode(&nodes[0], child, NULL, 0, &fill, NULL));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode_v2(&nodes[0], graph, NULL, 0, &kernel));
    OK(cuGraphAddMemcpyNode(&nodes[1], graph, nodes, 1, &copy, NULL));
    OK(cuGraphAddEventRecordNode(&nodes[2], graph, nodes + 1, 1, event));
    OK(cuGraphAddEventWaitNode(&nodes[3], graph, nodes + 2, 1, event));
    OK(cuGraphAddChildGraphNode(&nodes[4], graph, nodes + 3, 1, child));
    OK(cuGraphAddEmptyNode(&nodes[5], graph, NULL, 0));
    OK(cuGraphAddDependencies_v2(graph, &nodes[4], &nodes[5], NULL, 1));
    OK(cuGraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    OK(cuGraphKernelNodeGetParams_v2(nodes[0], &seen));
    assert_true(seen.func == store && seen.gridDimX == 1 && seen.blockDimZ == 1 &&
                *(uint32_t *)seen.kernelParams[1] == 6);
    FAILS(cuGraphKernelNodeGetParams_v2(nodes[1], &seen), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuGraphAddEmptyNode(&circle, child, nodes, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, streams[0]));
    OK(cuStreamSynchronize(streams[0]));
    OK(cuEventQuery(event));
    assert_true(word(1) == 6 && word(2) == 5);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphAddDependencies_v2(graph, &nodes[5], &nodes[0], NULL, 1));
    FAILS(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(child));
    OK(cuEventDestroy_v2(event));
}

static void test_objects(void **state)
{
    static uint32_t ended;
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;
    ended = 0;
    OK(cuUserObjectCreate(&object, &ended, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cuUserObjectRetain(object, 2));
    OK(cuUserObjectRelease(object, 2));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    assert_int_equal(ended, 0);
    OK(cuGraphExecDestroy(exec));
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) /* on another thread */
        usleep(100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_branches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_update, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_by_hand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_objects, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
