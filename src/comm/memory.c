/* SPDX-License-Identifier: Apache-2.0 */
/* Shared regions and registrations. */
#include "comm/comm.h"
#include "comm/memory.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/known.h"
#include "base/list.h"
#include "transport/shm/region.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct registration {
    struct list node;
    tutti_comm_t comm;
    uint64_t known;   /* of host memory */
    void *registered; /* by the executor, with all ranks */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list registrations = {&registrations, &registrations};

/* In a forked child: what it inherited is its parent's. */
static void comm_memory_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    fork_forget(&registrations);
}

__attribute__((constructor)) static void comm_memory_watch_forks(void)
{
    fork_reset_by(comm_memory_forget);
}

tutti_result_t memory_alloc(void **out, size_t size)
{
    void *pointer = region_alloc(size ? size : 1);
    if (!pointer)
        return TUTTI_SYSTEM_ERROR;
    *out = pointer;
    return TUTTI_SUCCESS;
}

tutti_result_t memory_free(void *pointer)
{
    if (!pointer || region_free(pointer))
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_ARGUMENT, "%p did not come from tutti_mem_alloc(), or was freed before", pointer);
}

static void populate(void *buffer, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)buffer / page * page;
    /* Older kernels do not know the advice; then the pages come at first use. */
    madvise((void *)begin, (uintptr_t)buffer + size - begin, MADV_POPULATE_WRITE);
}

tutti_result_t memory_register(tutti_comm_t comm, void *buffer, size_t size, void **handle)
{
    struct registration *registration = calloc(1, sizeof *registration);
    if (!registration)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a registration");
    if (comm_device(comm) ==
        TUTTI_HOST) { /* buffers on a GPU are mapped by peers at first use, and need nothing else */
        populate(buffer, size);
        registration->known = known_add(buffer, size);
    }
    registration->comm = comm;
    pthread_mutex_lock(&lock);
    list_push(&registrations, &registration->node);
    pthread_mutex_unlock(&lock);
    *handle = registration;
    return TUTTI_SUCCESS;
}

/* Under the lock. NULL, with a sentence: there is none. */
static struct registration *find_registration(tutti_comm_t comm, const void *handle)
{
    list_each(node, &registrations)
    {
        struct registration *registration = list_entry(node, struct registration, node);
        if (registration == handle && registration->comm == comm)
            return registration;
    }
    error_set(TUTTI_INVALID_ARGUMENT, "%p is not a registration of this communicator", handle);
    return NULL;
}

tutti_result_t memory_deregister(tutti_comm_t comm, void *handle)
{
    pthread_mutex_lock(&lock);
    struct registration *found = find_registration(comm, handle);
    if (found)
        list_remove(&found->node);
    pthread_mutex_unlock(&lock);
    if (!found)
        return TUTTI_INVALID_ARGUMENT;
    comm->executor->ops.unregister(comm->executor, found->registered);
    known_remove(found->known);
    free(found);
    return TUTTI_SUCCESS;
}

tutti_result_t memory_window(tutti_comm_t comm, void *handle, tutti_window_t *window)
{
    pthread_mutex_lock(&lock);
    struct registration *found = find_registration(comm, handle);
    if (found)
        *window = comm->executor->ops.symmetric_window(comm->executor, found->registered);
    pthread_mutex_unlock(&lock);
    return found ? TUTTI_SUCCESS : TUTTI_INVALID_ARGUMENT;
}

tutti_result_t memory_register_symmetric(tutti_comm_t comm, void *buffer, size_t size, void **handle)
{
    tutti_result_t result = memory_register(comm, buffer, size, handle);
    if (result != TUTTI_SUCCESS)
        return result;
    struct registration *registration = *handle;
    result = comm->executor->ops.register_symmetric(comm->executor, buffer, size, &registration->registered);
    if (result != TUTTI_SUCCESS) {
        memory_deregister(comm, registration);
        *handle = NULL;
    }
    return result;
}
