/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles lie in slabs that are never given back: whether a pointer is one, and what it is now, can be asked at any
 * time, by any thread, without a lock. A call enters the communicator and leaves it; who closes it waits for the others
 * to leave.
 */
#include "nccl/handle.h"
#include "nccl/group.h"
#include "nccl/result.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLAB  64
#define SLABS 256

static struct ncclComm *_Atomic slabs[SLABS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of taking and freeing */
static size_t held, next;                                /* slabs; where the search for a free handle goes on */

/* The handle at this address, living or not; NULL when there can be none. */
static struct ncclComm *look(const void *pointer)
{
    for (int i = 0; i < SLABS; i++) {
        struct ncclComm *slab = atomic_load_explicit(&slabs[i], memory_order_acquire);
        if (!slab)
            return NULL;
        uintptr_t offset = (uintptr_t)pointer - (uintptr_t)slab;
        if (offset < SLAB * sizeof *slab)
            return offset % sizeof *slab ? NULL : slab + offset / sizeof *slab;
    }
    return NULL;
}

static struct ncclComm *at(size_t index)
{
    return atomic_load_explicit(&slabs[index / SLAB], memory_order_relaxed) + index % SLAB;
}

static bool add_slab(void)
{
    struct ncclComm *slab = held < SLABS ? calloc(SLAB, sizeof *slab) : NULL;
    if (slab)
        atomic_store_explicit(&slabs[held++], slab, memory_order_release);
    return slab;
}

/* With the lock held. Goes round, so that an old pointer stays wrong for long instead of meaning the next communicator.
 */
static struct ncclComm *take(void)
{
    for (size_t i = 0; i < held * SLAB; i++) {
        struct ncclComm *handle = at(next++ % (held * SLAB));
        if (atomic_load_explicit(&handle->kind, memory_order_acquire) == HANDLE_FREE && !atomic_load(&handle->users))
            return handle;
    }
    if (!add_slab())
        return NULL;
    next = (held - 1) * SLAB + 1;
    return at(next - 1);
}

struct ncclComm *handle_new(enum handle_kind kind)
{
    pthread_mutex_lock(&lock);
    struct ncclComm *handle = take();
    if (handle) {
        memset((char *)handle + HANDLE_LIFE, 0, sizeof *handle - HANDLE_LIFE);
        atomic_store_explicit(&handle->kind, kind, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    if (!handle)
        result_fail(ncclSystemError, "no memory for a handle, or %d communicators and windows are alive already",
                    SLAB * SLABS);
    return handle;
}

void handle_free(struct ncclComm *handle)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&handle->kind, HANDLE_FREE, memory_order_release);
    pthread_mutex_unlock(&lock);
}

static ncclResult_t not_one(const void *pointer)
{
    if (!pointer)
        return result_fail(ncclInvalidArgument, "the communicator is NULL");
    return result_fail(ncclInvalidArgument, "%p is not a communicator, or it was destroyed or aborted", pointer);
}

/* Sequentially consistent against handle_close(): either it sees this user, or this user sees that it closes. */
ncclResult_t handle_enter(ncclComm_t comm, struct ncclComm **out)
{
    struct ncclComm *handle = look(comm);
    if (!handle)
        return not_one(comm);
    atomic_fetch_add(&handle->users, 1);
    if (atomic_load(&handle->kind) == HANDLE_COMM) {
        *out = handle;
        return ncclSuccess;
    }
    handle_leave(handle);
    return not_one(comm);
}

void handle_hold(struct ncclComm *handle)
{
    atomic_fetch_add_explicit(&handle->users, 1, memory_order_relaxed);
}

void handle_leave(struct ncclComm *handle)
{
    atomic_fetch_sub_explicit(&handle->users, 1, memory_order_release);
}

ncclResult_t handle_close(ncclComm_t comm, struct ncclComm **out)
{
    struct ncclComm *handle = look(comm);
    int kind = HANDLE_COMM;
    if (!handle || !atomic_compare_exchange_strong(&handle->kind, &kind, HANDLE_CLOSING))
        return not_one(comm);
    *out = handle;
    return ncclSuccess;
}

void handle_wait(struct ncclComm *handle)
{
    struct timespec pause = {0, 1000};
    while (atomic_load_explicit(&handle->users, memory_order_acquire)) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000)
            pause.tv_nsec *= 2;
    }
}

struct ncclComm *handle_window(ncclWindow_t window)
{
    struct ncclComm *handle = look(window);
    return handle && atomic_load_explicit(&handle->kind, memory_order_acquire) == HANDLE_WINDOW ? handle : NULL;
}

struct ncclComm *handle_window_of(const struct ncclComm *owner)
{
    for (int i = 0; i < SLABS; i++) {
        struct ncclComm *slab = atomic_load_explicit(&slabs[i], memory_order_acquire);
        for (int j = 0; slab && j < SLAB; j++)
            if (atomic_load_explicit(&slab[j].kind, memory_order_acquire) == HANDLE_WINDOW && slab[j].owner == owner)
                return &slab[j];
    }
    return NULL;
}
