/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, stream memory operations, kernels. */
#include "cuda/pool.h"
#include "cuda/stream.h"
#include "cuda/tests/check.h"

#include <pthread.h>
#include <unistd.h>

/* A word in pinned memory, zero. */
static uint32_t *new_word(void)
{
    void *memory = NULL;
    OK(cuMemAllocHost_v2(&memory, 64));
    uint32_t *word = memory;
    for (int i = 0; i < 16; i++)
        word[i] = 0;
    return word;
}

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static CUdeviceptr of(const void *address)
{
    return (uintptr_t)address;
}

static void test_order(void **state)
{
    CUstream a, b;
    CUevent event;
    use_device(0);
    uint32_t *gate = new_word(), *order = new_word();
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuEventQuery(event));
    OK(cuStreamWaitValue32_v2(a, of(gate), 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32_v2(a, of(order), 1, 0));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuStreamWriteValue32_v2(b, of(order), 2, 0));
    FAILS(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    FAILS(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    FAILS(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_equal(load(order), 0);
    __atomic_store_n(gate, 7, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(b));
    assert_int_equal(load(order), 2);
    OK(cuEventSynchronize(event));
    OK(cuStreamQuery(a));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
    FAILS(cuStreamSynchronize(b), CUDA_ERROR_INVALID_HANDLE);
    leave_device(0);
}

/* Waits on the word that `value` must satisfy: it is held by `before` and let go by `after`. */
static void check_wait(uint32_t *word, unsigned flags, uint32_t value, uint32_t before, uint32_t after)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    __atomic_store_n(word, before, __ATOMIC_RELEASE);
    OK(cuStreamWaitValue32_v2(stream, of(word), value, flags));
    usleep(2000);
    FAILS(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    __atomic_store_n(word, after, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy_v2(stream));
}

static void test_wait_values(void **state)
{
    static uint32_t unknown;
    CUstreamBatchMemOpParams ops[3];
    use_device(0);
    uint32_t *word = new_word();
    check_wait(word, CU_STREAM_WAIT_VALUE_GEQ, 3, 2, 3);
    check_wait(word, CU_STREAM_WAIT_VALUE_GEQ, 1, 0xfffffffe, 2); /* cyclic */
    check_wait(word, CU_STREAM_WAIT_VALUE_EQ, 3, 4, 3);
    check_wait(word, CU_STREAM_WAIT_VALUE_AND, 6, 9, 4);
    check_wait(word, CU_STREAM_WAIT_VALUE_NOR, 0xffff0000, 0x0000ffff, 0x00000fff);
    FAILS(cuStreamWaitValue32_v2(NULL, of(word) + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamWaitValue32_v2(NULL, of(word), 0, 8), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamWaitValue32_v2(NULL, of(&unknown), 0, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamWaitValue32_v2(NULL, of(word), 0, CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
    memset(ops, 0, sizeof(ops));
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = of(word + 1);
    ops[0].writeValue.value = 11;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = of(word + 1);
    ops[1].waitValue.value = 11;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[2].writeValue.address = of(word + 2);
    ops[2].writeValue.value64 = 0x100000002;
    OK(cuStreamBatchMemOp_v2(NULL, 3, ops, 0));
    OK(cuStreamWaitValue64_v2(NULL, of(word + 2), 0x100000002, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamSynchronize(NULL));
    assert_int_equal(word[3], 1);
    OK(cuMemFreeHost(word));
    leave_device(0);
}

struct writer {
    CUstream stream;
    uint32_t *word;
    uint32_t written;
};

/* One more than there is room for. */
static void *write_many(void *argument)
{
    struct writer *writer = argument;
    use_device(0);
    for (uint32_t i = 1; i <= STREAM_ROOM; i++) {
        OK(cuStreamWriteValue32_v2(writer->stream, of(writer->word), i, 0));
        __atomic_store_n(&writer->written, i, __ATOMIC_RELEASE);
    }
    leave_device(0);
    return NULL;
}

static void test_full(void **state)
{
    pthread_t thread;
    use_device(0);
    struct writer writer = {.word = new_word()};
    uint32_t *gate = new_word();
    OK(cuStreamCreate(&writer.stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32_v2(writer.stream, of(gate), 1, CU_STREAM_WAIT_VALUE_GEQ));
    pthread_create(&thread, NULL, write_many, &writer);
    while (load(&writer.written) < STREAM_ROOM - 1)
        usleep(100);
    usleep(20000); /* any time does */
    assert_int_equal(load(&writer.written), STREAM_ROOM - 1);
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    OK(cuStreamSynchronize(writer.stream));
    assert_int_equal(load(writer.word), STREAM_ROOM);
    OK(cuStreamDestroy_v2(writer.stream));
    leave_device(0);
}

/* The legacy stream waits for blocking streams, and they for it; others do not care. */
static void test_legacy(void **state)
{
    CUstream blocking, other;
    use_device(0);
    uint32_t *word = new_word();
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32_v2(blocking, of(word), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32_v2(NULL, of(word + 1), 1, 0));
    OK(cuStreamWriteValue32_v2(blocking, of(word + 2), 1, 0));
    OK(cuStreamWriteValue32_v2(other, of(word + 3), 1, 0));
    OK(cuStreamSynchronize(other));
    assert_true(!load(word + 1) && !load(word + 2) && load(word + 3));
    FAILS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(NULL));
    OK(cuStreamSynchronize(blocking));
    assert_true(load(word + 1) && load(word + 2));
    OK(cuStreamWaitValue32_v2(NULL, of(word), 2, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32_v2(blocking, of(word + 2), 2, 0));
    FAILS(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    __atomic_store_n(word, 2, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(blocking));
    OK(cuStreamWriteValue32_v2(CU_STREAM_PER_THREAD, of(word + 4), 1, 0));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    assert_int_equal(load(word + 4), 1);
    FAILS(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
    leave_device(0);
}

static void count_up(void *word)
{
    int count;
    if (cuDeviceGetCount(&count) == CUDA_ERROR_NOT_PERMITTED)
        __atomic_fetch_add((uint32_t *)word, 1, __ATOMIC_ACQ_REL);
}

static void test_host_functions(void **state)
{
    CUstream stream;
    CUevent start, end;
    float ms = -1;
    use_device(3);
    uint32_t *word = new_word();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    FAILS(cuEventElapsedTime_v2(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(start, stream));
    for (int i = 0; i < 10; i++)
        OK(cuLaunchHostFunc(stream, count_up, word));
    OK(cuEventRecord(end, stream));
    OK(cuStreamDestroy_v2(stream)); /* its work is done all the same */
    OK(cuEventSynchronize(end));
    assert_int_equal(load(word), 10);
    OK(cuEventElapsedTime_v2(&ms, start, end));
    assert_true(ms >= 0);
    OK(cuEventDestroy_v2(start));
    OK(cuEventDestroy_v2(end));
    leave_device(3);
}

static void test_async_copies(void **state)
{
    uint32_t source[16], back[16];
    CUstream stream;
    CUdeviceptr a;
    use_device(0);
    uint32_t *gate = new_word();
    OK(cuMemAlloc_v2(&a, sizeof(source)));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memset(source, 1, sizeof(source));
    OK(cuStreamWaitValue32_v2(stream, of(gate), 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyHtoDAsync_v2(a, source, sizeof(source), stream));
    memset(source, 2, sizeof(source)); /* pageable: was staged */
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    OK(cuMemsetD8Async(a + 4, 9, 4, stream));
    OK(cuMemcpyDtoHAsync_v2(back, a, sizeof(back), stream)); /* pageable: there on return */
    assert_int_equal(back[0], 0x01010101);
    assert_int_equal(back[1], 0x09090909);
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFree_v2(a));
    leave_device(0);
}

static void test_kernels(void **state)
{
    CUmodule module;
    CUfunction store, none, attribute_of;
    CUdeviceptr words;
    uint32_t value = 3;
    int attribute;
    use_device(0);
    store = get_kernel(&module, "emulated_store");
    OK(cuModuleGetFunction(&attribute_of, module, "emulated_store"));
    assert_ptr_equal(store, attribute_of);
    FAILS(cuModuleGetFunction(&none, module, "no such kernel"), CUDA_ERROR_NOT_FOUND);
    OK(cuFuncGetAttribute(&attribute, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, store));
    assert_int_equal(attribute, 1024);
    OK(cuMemAlloc_v2(&words, 64 * 8 * 4));
    void *params[] = {&words, &value};
    OK(cuLaunchKernel(store, 64, 4, 2, 512, 1, 1, 0, NULL, params, NULL));
    value = 4; /* was copied */
    OK(cuCtxSynchronize());
    for (size_t i = 0; i < 64 * 8; i++)
        assert_int_equal(((uint32_t *)AT(words))[i], 3);
    CUlaunchConfig config = {
        .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    OK(cuLaunchKernelEx(&config, store, params, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(((uint32_t *)AT(words))[1], 4);
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {4, 1, 1}}};
    int clusters;
    config.attrs = &cluster;
    config.numAttrs = 1;
    FAILS(cuLaunchKernelEx(&config, store, params, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE); /* of two blocks */
    config.gridDimX = 8;
    OK(cuLaunchKernelEx(&config, store, params, NULL));
    OK(cuOccupancyMaxActiveClusters(&clusters, store, &config));
    assert_int_equal(clusters, 33);
    FAILS(cuOccupancyMaxActiveClusters(NULL, store, &config), CUDA_ERROR_INVALID_VALUE);
    cluster.value.clusterDim.x = 16;
    FAILS(cuLaunchKernelEx(&config, store, params, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    FAILS(cuLaunchKernel(store, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(store, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, params, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    FAILS(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuModuleUnload(module));
    OK(cuMemFree_v2(words));
    leave_device(0);
}

/* Blocks of kernels on all devices wait for one another. */
static void test_blocks_meet(void **state)
{
    enum { DEVICES = 4, BLOCKS = 128 };
    CUmodule modules[DEVICES];
    CUdeviceptr counter = 0;
    for (int d = 0; d < DEVICES; d++) {
        use_device(d);
        if (!d) {
            OK(cuMemAlloc_v2(&counter, 4));
            OK(cuMemsetD32_v2(counter, 0, 1));
        }
        OK(launch_words(get_kernel(&modules[d], "emulated_meet"), BLOCKS, NULL, counter, DEVICES * BLOCKS));
    }
    while (pool_threads() < BLOCKS)
        usleep(100);
    for (int d = DEVICES; d--;) {
        use_device(d);
        OK(cuCtxSynchronize());
        OK(cuModuleUnload(modules[d]));
        OK(cuDevicePrimaryCtxRelease_v2(d));
        if (!d)
            OK(cuMemFree_v2(counter));
        leave_device(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),          cmocka_unit_test(test_wait_values),  cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_host_functions), cmocka_unit_test(test_async_copies), cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_blocks_meet),    cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
