/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels loaded and launched: an allreduce of two ranks of one process, as the library sets it up. */
#include "device/cuda/launch.h"
#include "device/cuda/memory.h"
#include "device/cuda/scenario.h"
#include "base/error.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 2, COUNT = 1000 };

static const struct cuda_driver *cu;

struct rank {
    struct cuda_device *device;
    CUstream stream;
    CUdeviceptr window, data;
};

static void start_rank(struct rank *rank, int ordinal)
{
    float values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i + ordinal);
    CHECK(cuda_driver(&cu) == TUTTI_SUCCESS && cuda_device_acquire(ordinal, &rank->device) == TUTTI_SUCCESS);
    CHECK(cuda_device_load(rank->device) == TUTTI_SUCCESS && cuda_device_load(rank->device) == TUTTI_SUCCESS);
    CHECK(cuda_memory_alloc(rank->device, kernel_window_bytes(2), &rank->window) == TUTTI_SUCCESS);
    CHECK(cuda_memory_alloc(rank->device, sizeof values, &rank->data) == TUTTI_SUCCESS);
    cuda_enter(rank->device);
    CHECK(cu->StreamCreateWithPriority(&rank->stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    CHECK(cu->Memcpy(rank->data, (uintptr_t)values, sizeof values) == CUDA_SUCCESS);
    cuda_leave();
}

/* The window of `owner` as `user` addresses it; the handle undoes it. */
static CUdeviceptr reach(const struct rank *user, const struct rank *owner, struct cuda_handle *handle)
{
    struct cuda_range range;
    CUdeviceptr address;
    int fd;
    CHECK(cuda_range_of((void *)(uintptr_t)owner->window, &range) == TUTTI_SUCCESS);
    CHECK(cuda_export(&range, handle, &fd) == TUTTI_SUCCESS &&
          cuda_import(user->device, handle, fd, &address) == TUTTI_SUCCESS);
    if (fd >= 0)
        close(fd);
    return address;
}

static void launch(struct rank *ranks, int me, CUdeviceptr peer_window)
{
    struct rank *rank = &ranks[me];
    struct kernel_list list = {.reduce = {.team = {.rank = me, .nranks = RANKS},
                                          .count = COUNT,
                                          .mode = KERNEL_ALLREDUCE,
                                          .wants = 1,
                                          .gives = 1u << !me,
                                          .takes = 1u << !me,
                                          .op = TUTTI_SUM}};
    struct kernel_launch how;
    struct kernel_reduce *params = &list.reduce;
    params->team.window[me] = (unsigned char *)(uintptr_t)rank->window;
    params->team.window[!me] = (unsigned char *)(uintptr_t)peer_window;
    params->in = params->out = (void *)(uintptr_t)rank->data;
    kernel_shape_reduce(KERNEL_REDUCE_ONE, COUNT * sizeof(float), kernel_room(132, 0, 0), false, &how);
    params->stripes = how.stripes;
    CHECK(cuda_launch(rank->device, &how, TUTTI_FLOAT32, &list, rank->stream) == TUTTI_SUCCESS);
}

static void finish_rank(struct rank *rank)
{
    float values[COUNT];
    cuda_enter(rank->device);
    CHECK(cu->StreamSynchronize(rank->stream) == CUDA_SUCCESS);
    CHECK(cu->Memcpy((uintptr_t)values, rank->data, sizeof values) == CUDA_SUCCESS &&
          cu->StreamDestroy(rank->stream) == CUDA_SUCCESS);
    cuda_leave();
    for (int i = 0; i < COUNT; i++)
        CHECK(values[i] == (float)(2 * i + 1));
}

static void allreduce_of_two(void)
{
    struct rank ranks[RANKS];
    struct cuda_handle handles[RANKS];
    CUdeviceptr reached[RANKS];
    CUcontext context;
    int count;
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS);
    if (count < RANKS)
        SKIP();
    for (int i = 0; i < RANKS; i++)
        start_rank(&ranks[i], i);
    for (int i = 0; i < RANKS; i++)
        reached[i] = reach(&ranks[i], &ranks[!i], &handles[i]);
    for (int i = 0; i < RANKS; i++)
        launch(ranks, i, reached[i]);
    for (int i = 0; i < RANKS; i++)
        finish_rank(&ranks[i]);
    CHECK(cu->CtxGetCurrent(&context) == CUDA_SUCCESS && !context);
    for (int i = 0; i < RANKS; i++)
        CHECK(cuda_unimport(ranks[i].device, &handles[i], reached[i]) == TUTTI_SUCCESS);
    for (int i = 0; i < RANKS; i++) {
        CHECK(cuda_memory_free(ranks[i].device, ranks[i].data) == TUTTI_SUCCESS);
        CHECK(cuda_memory_free(ranks[i].device, ranks[i].window) == TUTTI_SUCCESS);
        cuda_device_release(ranks[i].device);
    }
}

/* ---- the last user goes while the GPU waits ---- */

static void *release(void *device)
{
    cuda_device_release(device);
    return NULL;
}

static void other_gpus_are_free(void)
{
    struct cuda_device *going, *other = NULL;
    CUcontext context;
    CUstream stream;
    pthread_t thread;
    void *word;
    int count;
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS);
    if (count < 2)
        SKIP();
    CHECK(cuda_driver(&cu) == TUTTI_SUCCESS && cuda_device_acquire(0, &going) == TUTTI_SUCCESS);
    CHECK(cuda_device_load(going) == TUTTI_SUCCESS);
    CHECK(cu->DevicePrimaryCtxRetain(&context, going->handle) == CUDA_SUCCESS);
    cuda_enter(going);
    CHECK(cu->MemHostAlloc(&word, 64, 0) == CUDA_SUCCESS);
    memset(word, 0, 64);
    CHECK(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    CHECK(cu->StreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
    cuda_leave();
    CHECK(pthread_create(&thread, NULL, release, going) == 0);
    usleep(50000); /* it comes to wait in the driver; where it has not yet, less is tested */
    CHECK(cuda_device_acquire(1, &other) == TUTTI_SUCCESS);
    __atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
    CHECK(cuda_device_acquire(0, &going) == TUTTI_SUCCESS && cuda_device_load(going) == TUTTI_SUCCESS);
    pthread_join(thread, NULL);
    cuda_device_release(other);
    cuda_device_release(going);
    alarm(0);
}

static void end_if_held_up(void)
{
    alarm(60);
    other_gpus_are_free();
}

static void test_release(void **state)
{
    (void)state;
    assert_int_equal(scenario(end_if_held_up, "TUTTI_EMULATED_BLOCK", "1"), 0);
}

static void exchange_with_oneself(void)
{
    struct rank rank;
    struct kernel_exchange params = {.team = {.rank = 0, .nranks = 1}};
    struct kernel_launch how;
    float value = 0;
    start_rank(&rank, 0);
    params.team.window[0] = (unsigned char *)(uintptr_t)rank.window;
    params.send[0] = (void *)(uintptr_t)(rank.data + 7 * sizeof value);
    params.recv[0] = (void *)(uintptr_t)rank.data;
    params.send_bytes[0] = params.recv_bytes[0] = sizeof value;
    kernel_choose_exchange(&params, kernel_room(132, 0, 0), false, &how);
    CHECK(cuda_launch(rank.device, &how, TUTTI_TYPE_COUNT, &params, rank.stream) == TUTTI_SUCCESS);
    cuda_enter(rank.device);
    CHECK(cu->StreamSynchronize(rank.stream) == CUDA_SUCCESS && cu->StreamDestroy(rank.stream) == CUDA_SUCCESS);
    CHECK(cu->Memcpy((uintptr_t)&value, rank.data, sizeof value) == CUDA_SUCCESS && value == 7);
    cuda_leave();
    CHECK(cuda_memory_free(rank.device, rank.data) == TUTTI_SUCCESS &&
          cuda_memory_free(rank.device, rank.window) == TUTTI_SUCCESS);
    cuda_device_release(rank.device);
}

static void no_such_kernel(void)
{
    struct cuda_device *device;
    struct kernel_launch how = {.kernel = KERNEL_REDUCE_ONE, .blocks = 1, .threads = 32};
    struct kernel_list params = {.items = 0};
    CHECK(cuda_device_acquire(0, &device) == TUTTI_SUCCESS);
    CHECK(cuda_launch(device, &how, TUTTI_TYPE_COUNT, &params, NULL) == TUTTI_INTERNAL_ERROR);
    how.kernel = KERNEL_COUNT;
    CHECK(cuda_launch(device, &how, TUTTI_FLOAT32, &params, NULL) == TUTTI_INTERNAL_ERROR &&
          strstr(error_last(), "there is none"));
    how = (struct kernel_launch){.kernel = KERNEL_REDUCE_ONE, .threads = 32};
    CHECK(cuda_launch(device, &how, TUTTI_FLOAT32, &params, NULL) == TUTTI_DEVICE_ERROR &&
          strstr(error_last(), "launch a kernel"));
    cuda_device_release(device);
}

static void test_launch(void **state)
{
    (void)state;
    assert_int_equal(scenario(exchange_with_oneself, NULL, NULL), 0);
    assert_int_equal(scenario(allreduce_of_two, NULL, NULL), 0);
    assert_int_equal(scenario(no_such_kernel, NULL, NULL), 0);
}

/* There is a driver, and it has our kernels: the stand-in may have been built without. */
static void kernels_are_there(void)
{
    struct cuda_device *device;
    exit(cuda_device_acquire(0, &device) == TUTTI_SUCCESS && cuda_device_load(device) == TUTTI_SUCCESS ? 0 : 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launch), cmocka_unit_test(test_release)};
    if (scenario(kernels_are_there, NULL, NULL) != 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
