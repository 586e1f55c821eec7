/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that all ranks have registered together and mapped in one another: kernels of different processes reduce it
 * where it lies, as those of one process do with all memory. Peers map it as they map what is offered for messages. All
 * ranks know that all could, so all take the same way. The user promises that a call uses this memory on all ranks or
 * on none, as for ncclCommWindowRegister() with NCCL_WIN_COLL_SYMMETRIC.
 */
#include "executor/gpu/symmetric.h"

#include "base/log.h"
#include "engine/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/reach.h"
#include "executor/gpu/windows.h"

#include <stdlib.h>
#include <string.h>

struct symmetric {
    struct list node;
    struct gpu_window window; /* for puts into it */
};

/* All ranks come to the same answer. */
static bool is_alike(const struct gpu *gpu, const struct reach *reach)
{
    bool alike = true;
    for (int rank = 0; rank < gpu->nranks; rank++)
        alike = alike && reach->sizes[rank] == reach->sizes[0];
    return alike;
}

static void enter(struct gpu *gpu, struct symmetric *symmetric)
{
    pthread_mutex_lock(&gpu->symmetric.lock);
    list_push(&gpu->symmetric.memories, &symmetric->node);
    atomic_fetch_add(&gpu->symmetric.count, 1);
    pthread_mutex_unlock(&gpu->symmetric.lock);
}

tutti_result_t symmetric_open(struct gpu *gpu, void *buffer, size_t size, struct symmetric **out)
{
    int without;
    *out = NULL;
    if (!gpu->symmetric.wanted)
        return TUTTI_SUCCESS;
    struct symmetric *symmetric = calloc(1, sizeof *symmetric);
    if (!symmetric) /* peers wait for what does not come */
        return team_fail(gpu->base.team, TUTTI_SYSTEM_ERROR, gpu->rank, "no memory for a registration");
    tutti_result_t result = reach_open(gpu, buffer, size, &symmetric->window.reach, &without);
    bool reached = result == TUTTI_SUCCESS && without < 0, good = reached && is_alike(gpu, &symmetric->window.reach);
    if (result == TUTTI_SUCCESS)
        log_info("rank %d: %zu bytes are %s", gpu->rank, size,
                 good ? "symmetric: reductions work where they lie" : "not mapped by all ranks");
    if (good) {
        symmetric->window.symmetric = true;
        gpu_window_enter(gpu, &symmetric->window);
        enter(gpu, symmetric);
        *out = symmetric;
        return TUTTI_SUCCESS;
    }
    if (reached)
        reach_close(gpu, &symmetric->window.reach);
    free(symmetric);
    return result;
}

void symmetric_close(struct gpu *gpu, struct symmetric *symmetric)
{
    pthread_mutex_lock(&gpu->symmetric.lock);
    list_remove(&symmetric->node);
    atomic_fetch_sub(&gpu->symmetric.count, 1);
    pthread_mutex_unlock(&gpu->symmetric.lock);
    gpu_window_leave(gpu, &symmetric->window);
    free(symmetric);
}

tutti_window_t symmetric_window(struct symmetric *symmetric)
{
    return (tutti_window_t)(void *)&symmetric->window;
}

void symmetric_close_all(struct gpu *gpu)
{
    for (struct list *node; (node = list_pop(&gpu->symmetric.memories));)
        free(list_entry(node, struct symmetric, node));
}

/* Under the lock. */
static const struct symmetric *symmetric_find(const struct gpu *gpu, const void *memory, size_t bytes)
{
    uint64_t begin = (uintptr_t)memory;
    list_each(node, &gpu->symmetric.memories)
    {
        const struct symmetric *symmetric = list_entry(node, struct symmetric, node);
        const struct reach *reach = &symmetric->window.reach;
        uint64_t offset = begin - reach->begin;
        if (begin >= reach->begin && offset <= reach->size && bytes <= reach->size - offset)
            return symmetric;
    }
    return NULL;
}

bool symmetric_holds(struct gpu *gpu, const struct call *call)
{
    if (!atomic_load_explicit(&gpu->symmetric.count, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&gpu->symmetric.lock);
    bool holds = call->coll == COLL_ALLREDUCE
                     ? symmetric_find(gpu, call->in, call->bytes) && symmetric_find(gpu, call->out, call->bytes)
                 : call->coll == COLL_REDUCE_SCATTER
                     ? symmetric_find(gpu, call->in, call->bytes * (size_t)gpu->nranks) != NULL
                     : false; /* a rank that gets no result may have named no memory for it */
    pthread_mutex_unlock(&gpu->symmetric.lock);
    return holds;
}

void symmetric_bases(struct gpu *gpu, const void *memory, size_t bytes, uint64_t *base)
{
    pthread_mutex_lock(&gpu->symmetric.lock);
    const struct symmetric *symmetric = symmetric_find(gpu, memory, bytes);
    for (int rank = 0; rank < KERNEL_RANKS; rank++)
        base[rank] = symmetric ? symmetric->window.reach.at[rank] : 0;
    pthread_mutex_unlock(&gpu->symmetric.lock);
}
