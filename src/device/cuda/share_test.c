/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one process used by another, by IPC handle and by descriptor over a socket; and within one process. */
#include "device/cuda/memory.h"
#include "device/cuda/scenario.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { SIZE = (3 << 20) + 40 };

static const struct cuda_driver *cu;

static struct cuda_device *open_gpu(int ordinal)
{
    struct cuda_device *device;
    CHECK(cuda_driver(&cu) == TUTTI_SUCCESS);
    CHECK(cuda_device_acquire(ordinal, &device) == TUTTI_SUCCESS);
    return device;
}

/* The last GPU: another than the owner's where there are several. */
static struct cuda_device *open_last_gpu(void)
{
    int count;
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS);
    return open_gpu(count - 1);
}

static void put(struct cuda_device *device, CUdeviceptr address, uint32_t value)
{
    cuda_enter(device);
    CHECK(cu->Memcpy(address, (uintptr_t)&value, sizeof value) == CUDA_SUCCESS && cu->CtxSynchronize() == CUDA_SUCCESS);
    cuda_leave();
}

static uint32_t get(struct cuda_device *device, CUdeviceptr address)
{
    uint32_t value = 0;
    cuda_enter(device);
    CHECK(cu->Memcpy((uintptr_t)&value, address, sizeof value) == CUDA_SUCCESS);
    cuda_leave();
    return value;
}

/* ---- a handle over a socket ---- */

static void send_handle(int to, const struct cuda_handle *handle, int fd)
{
    char space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec bytes = {(void *)handle, sizeof *handle};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    CHECK(sendmsg(to, &message, 0) == sizeof *handle);
}

static int receive_handle(int from, struct cuda_handle *handle)
{
    int fd = -1;
    char space[CMSG_SPACE(sizeof fd)];
    struct iovec bytes = {handle, sizeof *handle};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    CHECK(recvmsg(from, &message, MSG_CMSG_CLOEXEC) == sizeof *handle);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

static void tell(int socket)
{
    CHECK(write(socket, "x", 1) == 1);
}

static void hear(int socket)
{
    char byte;
    CHECK(read(socket, &byte, 1) == 1);
}

/* ---- two processes ---- */

static int pair[2];
static bool by_descriptor;

static CUdeviceptr allocate(struct cuda_device *device)
{
    CUdeviceptr address;
    if (by_descriptor) {
        CHECK(cuda_memory_alloc(device, SIZE, &address) == TUTTI_SUCCESS);
        return address;
    }
    cuda_enter(device);
    CHECK(cu->MemAlloc(&address, SIZE) == CUDA_SUCCESS);
    cuda_leave();
    return address;
}

static void owner(void)
{
    struct cuda_device *device = open_gpu(0);
    struct cuda_range range;
    struct cuda_handle handle;
    int fd;
    CUdeviceptr address = allocate(device);
    put(device, address + SIZE - 4, 0x11111111);
    CHECK(cuda_range_of((void *)(uintptr_t)(address + 100), &range) == TUTTI_SUCCESS && range.base == address);
    CHECK(cuda_export(&range, &handle, &fd) == TUTTI_SUCCESS && handle.size == range.size && handle.id == range.id);
    CHECK((fd >= 0) == by_descriptor && handle.how == (by_descriptor ? CUDA_BY_DESCRIPTOR : CUDA_BY_IPC));
    send_handle(pair[0], &handle, fd);
    if (fd >= 0)
        close(fd);
    hear(pair[0]);
    CHECK(get(device, address) == 0x22222222);
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS);
    tell(pair[0]);
    cuda_device_release(device);
}

static void user(void)
{
    struct cuda_device *device = open_last_gpu();
    struct cuda_handle handle;
    CUdeviceptr address = 0, again = 0;
    CUcontext context;
    int fd = receive_handle(pair[1], &handle);
    CHECK(cuda_import(device, &handle, fd, &address) == TUTTI_SUCCESS);
    CHECK(cuda_import(device, &handle, fd, &again) == TUTTI_SUCCESS); /* as two communicators do */
    CHECK(cu->CtxGetCurrent(&context) == CUDA_SUCCESS && !context);
    if (fd >= 0)
        close(fd);
    CHECK(get(device, address + SIZE - 4) == 0x11111111 && get(device, again + SIZE - 4) == 0x11111111);
    CHECK(cuda_unimport(device, &handle, again) == TUTTI_SUCCESS);
    put(device, address, 0x22222222);
    if (by_descriptor) { /* a mapping by descriptor outlives the owner's */
        tell(pair[1]);
        hear(pair[1]);
        CHECK(get(device, address) == 0x22222222);
    }
    CHECK(cuda_unimport(device, &handle, address) == TUTTI_SUCCESS);
    CHECK(cuda_unimport(device, &handle, address) == TUTTI_DEVICE_ERROR);
    if (!by_descriptor) {
        tell(pair[1]);
        hear(pair[1]);
    }
    cuda_device_release(device);
}

static void two_processes(void)
{
    int status;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        user();
        exit(0);
    }
    close(pair[1]);
    owner();
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- one process, two GPUs ---- */

static void one_process(void)
{
    struct cuda_device *device = open_gpu(0), *other = open_last_gpu();
    struct cuda_range range;
    struct cuda_handle handle;
    CUdeviceptr address = allocate(device), there = 0;
    int fd;
    CHECK(cuda_range_of((void *)(uintptr_t)address, &range) == TUTTI_SUCCESS);
    CHECK(cuda_export(&range, &handle, &fd) == TUTTI_SUCCESS &&
          cuda_import(other, &handle, fd, &there) == TUTTI_SUCCESS);
    put(other, there, 0x33333333);
    CHECK(get(device, address) == 0x33333333);
    CHECK(cuda_unimport(other, &handle, there) == TUTTI_SUCCESS);
    if (fd >= 0)
        close(fd);
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS);
    if (!by_descriptor)
        CHECK(cuda_import(other, &handle, -1, &there) == TUTTI_INVALID_USAGE && strstr(error_last(), "freed"));
    cuda_device_release(other);
    cuda_device_release(device);
}

static void nonsense(void)
{
    struct cuda_device *device = open_gpu(0);
    struct cuda_handle good = {.how = CUDA_BY_IPC, .pieces = 1, .size = 4096}, bad = good;
    CUdeviceptr out = 1;
    CHECK(cuda_import(device, &good, 0, &out) == TUTTI_INVALID_ARGUMENT);
    CHECK(cuda_import(device, &good, -1, &out) == TUTTI_DEVICE_ERROR && strstr(error_last(), "IPC handle"));
    bad.size = 0;
    CHECK(cuda_import(device, &bad, -1, &out) == TUTTI_INVALID_ARGUMENT);
    bad = (struct cuda_handle){.how = 3, .pieces = 1, .size = 4096};
    CHECK(cuda_import(device, &bad, -1, &out) == TUTTI_INVALID_ARGUMENT && strstr(error_last(), "unknown kind 3"));
    bad = (struct cuda_handle){.how = CUDA_BY_DESCRIPTOR, .pieces = 1, .size = 4096};
    CHECK(cuda_import(device, &bad, -1, &out) == TUTTI_INVALID_ARGUMENT);
    bad.pieces = 2;
    CHECK(cuda_import(device, &bad, 0, &out) == TUTTI_INVALID_ARGUMENT);
    int file = dup(2);
    bad.pieces = 1;
    CHECK(file >= 0 && cuda_import(device, &bad, file, &out) == TUTTI_DEVICE_ERROR && out == 1);
    close(file);
    cuda_device_release(device);
}

static void test_ipc(void **state)
{
    (void)state;
    by_descriptor = false;
    assert_int_equal(scenario(two_processes, NULL, NULL), 0);
    assert_int_equal(scenario(one_process, NULL, NULL), 0);
}

static void two_by_descriptor(void)
{
    by_descriptor = true;
    two_processes();
}

static void one_by_descriptor(void)
{
    by_descriptor = true;
    one_process();
}

static void has_descriptors(void)
{
    exit(open_gpu(0)->vmm ? 0 : 1);
}

static void test_descriptor(void **state)
{
    (void)state;
    if (scenario(has_descriptors, NULL, NULL) != 0)
        skip();
    assert_int_equal(scenario(two_by_descriptor, NULL, NULL), 0);
    assert_int_equal(scenario(one_by_descriptor, NULL, NULL), 0);
}

static void test_nonsense(void **state)
{
    (void)state;
    assert_int_equal(scenario(nonsense, NULL, NULL), 0);
}

static void driver_is_there(void)
{
    const struct cuda_driver *driver;
    exit(cuda_driver(&driver) == TUTTI_SUCCESS ? 0 : 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ipc), cmocka_unit_test(test_descriptor),
                                       cmocka_unit_test(test_nonsense)};
    if (scenario(driver_is_there, NULL, NULL) != 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
