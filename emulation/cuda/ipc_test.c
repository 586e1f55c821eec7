/* SPDX-License-Identifier: Apache-2.0 */
/* Memory shared between processes. The peer is forked before the driver is initialised: threads do not survive fork. */
#include "cuda/tests/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct message {
    CUipcMemHandle handle;
    CUdeviceptr at;
};

static void tell(int fd, const void *data, size_t size)
{
    if (write(fd, data, size) != (ssize_t)size)
        _exit(2);
}

static void hear(int fd, void *data, size_t size)
{
    if (read(fd, data, size) != (ssize_t)size)
        _exit(3);
}

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        CUresult must_result_ = call;                                                                                  \
        if (must_result_) {                                                                                            \
            fprintf(stderr, "exporter, line %d: error %d\n", __LINE__, must_result_);                                  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Exports memory of device 1, waits for a value in it to arrive, then frees it and exports no more. */
static void exporter(int fd)
{
    struct message message;
    CUcontext context;
    char go;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 1));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&message.at, 10000));
    MUST(cuMemsetD8_v2(message.at, 42, 10000));
    MUST(cuIpcGetMemHandle(&message.handle, message.at + 500));
    tell(fd, &message, sizeof(message));
    MUST(cuStreamWaitValue32_v2(NULL, message.at + 400, 77, CU_STREAM_WAIT_VALUE_EQ));
    MUST(cuStreamSynchronize(NULL));
    MUST(cuMemFree_v2(message.at));
    tell(fd, "f", 1);
    hear(fd, &go, 1);
    MUST(cuDevicePrimaryCtxRelease_v2(1));
    _exit(0);
}

static void check_import(int fd, struct message *message)
{
    CUdeviceptr a, again, base;
    size_t size;
    unsigned ordinal;
    char freed;
    OK(cuIpcOpenMemHandle_v2(&a, message->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenMemHandle_v2(&again, message->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    assert_true(a == again);
    OK(cuMemGetAddressRange_v2(&base, &size, a + 9999));
    assert_true(base == a && size == 10000);
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
    assert_int_equal(ordinal, 1);
    assert_int_equal(*((char *)AT(a) + 9999), 42);
    OK(cuStreamWriteValue32_v2(NULL, a + 400, 77, 0));
    hear(fd, &freed, 1);
    assert_int_equal(*((char *)AT(a) + 9999), 42); /* what is mapped stays */
    OK(cuIpcCloseMemHandle(again));
    assert_int_equal(*((char *)AT(a) + 9999), 42);
    FAILS(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcCloseMemHandle(a));
    FAILS(cuIpcCloseMemHandle(a), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuIpcOpenMemHandle_v2(&a, message->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
}

static void test_share(void **state)
{
    struct message message;
    int pair[2], status;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t child = fork();
    if (!child) {
        alarm(60);
        exporter(pair[1]);
    }
    close(pair[1]);
    hear(pair[0], &message, sizeof(message));
    use_device(0);
    check_import(pair[0], &message);
    leave_device(0);
    tell(pair[0], "g", 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(pair[0]);
}

static void test_refusals(void **state)
{
    CUdeviceptr a, b;
    CUipcMemHandle handle;
    void *pinned;
    use_device(0);
    OK(cuMemAlloc_v2(&a, 100));
    OK(cuIpcGetMemHandle(&handle, a));
    FAILS(cuIpcOpenMemHandle_v2(&b, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuIpcOpenMemHandle_v2(&b, handle, 0), CUDA_ERROR_INVALID_VALUE);
    memset(&handle, 0, sizeof(handle));
    FAILS(cuIpcOpenMemHandle_v2(&b, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocHost_v2(&pinned, 100));
    FAILS(cuIpcGetMemHandle(&handle, (uintptr_t)pinned), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree_v2(a));
    leave_device(0);
}

/* A child of fork must not use the driver of its parent. */
static void test_after_fork(void **state)
{
    int status, count;
    OK(cuInit(0));
    pid_t child = fork();
    if (!child)
        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
