/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_EMULATED_BLOCK: which calls wait for the work of a context, and hold up others meanwhile, and which do not. */
#include "cuda/context.h"
#include "cuda/tests/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE ((size_t)2 << 20)

static CUcontext context;
static CUstream stuck, other;
static uint32_t *word; /* the stuck stream waits for it */
static atomic_bool let_go;

static int begin(void **state)
{
    void *memory;
    setenv("TUTTI_EMULATED_BLOCK", "1", 1);
    config_reload();
    context = use_device(0);
    OK(cuStreamCreate(&stuck, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc(&memory, 64, 0));
    word = memset(memory, 0, 64);
    atomic_store(&let_go, false);
    return 0;
}

static int end(void **state)
{
    OK(cuStreamDestroy_v2(stuck));
    OK(cuStreamDestroy_v2(other));
    OK(cuMemFreeHost(word));
    leave_device(0);
    unsetenv("TUTTI_EMULATED_BLOCK");
    config_reload();
    return 0;
}

static void get_stuck(void)
{
    OK(cuStreamWaitValue32_v2(stuck, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static void release(void)
{
    atomic_store(&let_go, true);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

static bool is_held(void)
{
    state_lock();
    bool held = context->held;
    state_unlock();
    return held;
}

static void nap(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

/* ---- Calls that wait for nothing: each would hang the test ---- */

static void map_a_piece(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc who = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr at;
    int fd;
    OK(cuMemCreate(&handle, PIECE, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&again, AT(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    OK(cuMemAddressReserve(&at, PIECE, 0, 0, 0));
    OK(cuMemMap(at, PIECE, 0, again, 0));
    OK(cuMemSetAccess(at, PIECE, &who, 1));
    OK(cuMemUnmap(at, PIECE));
    OK(cuMemAddressFree(at, PIECE));
    OK(cuMemRelease(again));
    OK(cuMemRelease(handle));
}

static void test_free_calls(void **state)
{
    CUcontext peer = use_device(1);
    CUipcMemHandle handle;
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;
    void *pinned, *plain = malloc(4096);
    uint32_t value = 1;
    OK(cuCtxSetCurrent(context));
    get_stuck();
    OK(cuMemAlloc_v2(&memory, 4096));
    OK(cuIpcGetMemHandle(&handle, memory));
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    OK(cuMemHostRegister_v2(plain, 4096, 0));
    OK(cuMemcpyHtoD_v2(memory, &value, 4));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
    OK(cuCtxEnablePeerAccess(peer, 0));
    OK(cuCtxDisablePeerAccess(peer));
    map_a_piece();
    release();
    OK(cuMemHostUnregister(plain));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree_v2(memory));
    free(plain);
    leave_device(1);
    OK(cuCtxSetCurrent(context));
}

/* ---- Calls that wait, in a thread ---- */

struct call {
    CUresult (*run)(struct call *);
    CUdeviceptr address;
    void *pointer;
    CUresult result;
    bool early; /* it did not wait */
    atomic_bool over;
    pthread_t thread;
};

static void *in_thread(void *argument)
{
    struct call *call = argument;
    call->result = cuCtxSetCurrent(context);
    if (call->result == CUDA_SUCCESS)
        call->result = call->run(call);
    call->early = !atomic_load(&let_go);
    atomic_store(&call->over, true);
    return NULL;
}

static void start(struct call *call)
{
    assert_int_equal(pthread_create(&call->thread, NULL, in_thread, call), 0);
}

static void finish(struct call *call, bool early)
{
    pthread_join(call->thread, NULL);
    assert_int_equal(call->result, CUDA_SUCCESS);
    assert_int_equal(call->early, early);
}

static CUresult run_free(struct call *call)
{
    return cuMemFree_v2(call->address);
}
static CUresult run_free_host(struct call *call)
{
    return cuMemFreeHost(call->pointer);
}
static CUresult run_unregister(struct call *call)
{
    return cuMemHostUnregister(call->pointer);
}
static CUresult run_synchronize(struct call *call)
{
    return cuCtxSynchronize();
}
static CUresult run_load(struct call *call)
{
    return cuModuleLoadData((CUmodule *)&call->pointer, "any image");
}
static CUresult run_unload(struct call *call)
{
    return cuModuleUnload(call->pointer);
}
static CUresult run_close(struct call *call)
{
    return cuIpcCloseMemHandle(call->address);
}
static CUresult run_write(struct call *call)
{
    return cuStreamWriteValue32_v2(other, (uintptr_t)(word + 1), 7, 0);
}
static CUresult run_alloc(struct call *call)
{
    return cuMemAlloc_v2(&call->address, 64);
}

/* The call waits for the stuck stream, and what others hand to the context for the call. */
static void holds(struct call *call)
{
    struct call behind = {.run = run_write}, alloc = {.run = run_alloc};
    atomic_store(&let_go, false);
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    get_stuck();
    start(call);
    while (!is_held() && !atomic_load(&call->over))
        nap();
    start(&behind);
    start(&alloc);
    for (int i = 0; i < 50; i++) /* time to be wrong in */
        nap();
    release();
    finish(call, false);
    finish(&behind, false);
    finish(&alloc, false);
    OK(cuMemFree_v2(alloc.address));
}

static void test_holding_calls(void **state)
{
    struct call synchronize = {.run = run_synchronize}, load = {.run = run_load}, give_back = {.run = run_free},
                free_host = {.run = run_free_host}, unregister = {.run = run_unregister};
    void *plain = malloc(4096);
    unregister.pointer = plain;
    OK(cuMemAlloc_v2(&give_back.address, 64));
    OK(cuMemHostAlloc(&free_host.pointer, 64, 0));
    OK(cuMemHostRegister_v2(plain, 4096, 0));
    holds(&synchronize);
    holds(&load);
    holds(&give_back);
    holds(&free_host);
    holds(&unregister);
    OK(cuModuleUnload(load.pointer));
    free(plain);
}

static void test_unload(void **state)
{
    struct call unload = {.run = run_unload}, behind = {.run = run_write};
    OK(cuModuleLoadData((CUmodule *)&unload.pointer, "any image"));
    get_stuck();
    start(&unload);
    for (int i = 0; i < 50; i++)
        nap();
    start(&behind);
    finish(&behind, true); /* others get through */
    release();
    finish(&unload, false);
}

/* ---- Memory of another process, whose own GPU is busy all the time ---- */

struct message {
    CUipcMemHandle handle;
    CUresult result;
};

/* Forked before this process uses the driver. */
static void owner(int in, int out)
{
    struct message message = {.result = CUDA_SUCCESS};
    CUcontext mine;
    CUdeviceptr memory = 0;
    char go;
    message.result = cuInit(0) || cuDevicePrimaryCtxRetain(&mine, 1) || cuCtxSetCurrent(mine) ||
                     cuMemAlloc_v2(&memory, 4096) || cuMemsetD8_v2(memory, 0, 4096) ||
                     cuIpcGetMemHandle(&message.handle, memory) ||
                     cuStreamWaitValue32_v2(NULL, memory, 1, CU_STREAM_WAIT_VALUE_GEQ);
    if (write(out, &message, sizeof message) != sizeof message || read(in, &go, 1) < 0)
        _exit(1);
    _exit(0);
}

static int to_owner[2], from_owner[2];
static pid_t owner_pid;

static void test_ipc(void **state)
{
    struct message message;
    struct call close_handle = {.run = run_close};
    assert_int_equal(read(from_owner[0], &message, sizeof message), sizeof message);
    assert_int_equal(message.result, CUDA_SUCCESS);
    get_stuck();
    OK(cuIpcOpenMemHandle_v2(&close_handle.address, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    release();
    OK(cuCtxSynchronize());
    holds(&close_handle);
    OK(cuIpcOpenMemHandle_v2(&close_handle.address, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcCloseMemHandle(close_handle.address)); /* the owner is busy, this process is not */
    close(to_owner[1]);
    int status;
    assert_int_equal(waitpid(owner_pid, &status, 0), owner_pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_free_calls, begin, end),
        cmocka_unit_test_setup_teardown(test_holding_calls, begin, end),
        cmocka_unit_test_setup_teardown(test_unload, begin, end),
        cmocka_unit_test_setup_teardown(test_ipc, begin, end),
    };
    if (pipe(to_owner) || pipe(from_owner) || (owner_pid = fork()) < 0)
        return 1;
    if (!owner_pid) {
        alarm(120);
        close(to_owner[1]);
        owner(to_owner[0], from_owner[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
