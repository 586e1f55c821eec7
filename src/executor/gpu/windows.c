/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a window of device memory. All ranks map it, or none has it. None gives its memory back before all have
 * come to close it, and each comes when what it has put is over. docs/understand/window.md.
 */
#include "executor/gpu/windows.h"

#include "base/error.h"
#include "engine/collective.h"
#include "engine/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/here.h"
#include "executor/gpu/settle.h"
#include "executor/gpu/signals.h"
#include "executor/gpu/wait.h"
#include "executor/stream/window.h"

#include <stdio.h>
#include <stdlib.h>

/* Where some rank does not reach all memory. The sentence that says why is this thread's last one, if the rank is this
 * one. */
static tutti_result_t nobody_gets_it(const struct gpu *gpu, int without)
{
    char why[300];
    if (without != gpu->rank)
        return error_set(TUTTI_REMOTE_ERROR,
                         "rank %d does not reach all memory of the window, or has none that peers reach, so no rank "
                         "gets it",
                         team_told_rank(gpu->base.team, without));
    snprintf(why, sizeof why, "%s", error_last());
    return error_set(TUTTI_INVALID_USAGE, "the window cannot be made: %s", why);
}

void gpu_window_enter(struct gpu *gpu, struct gpu_window *window)
{
    pthread_mutex_lock(&gpu->windows.lock);
    list_push(&gpu->windows.all, &window->node);
    if (!gpu->windows.example.bytes)
        gpu->windows.example = (struct opened){.begin = window->reach.begin, .bytes = window->reach.size};
    pthread_mutex_unlock(&gpu->windows.lock);
    atomic_store(&gpu->windows.any, true);
}

void gpu_window_leave(struct gpu *gpu, struct gpu_window *window)
{
    pthread_mutex_lock(&gpu->windows.lock);
    list_remove(&window->node);
    pthread_mutex_unlock(&gpu->windows.lock);
    reach_close(gpu, &window->reach);
}

tutti_result_t gpu_window_open(struct gpu *gpu, void *buffer, size_t size, tutti_window_t *out)
{
    int without;
    *out = NULL;
    if (gpu->plan.facts.in_host && !here_are_all(gpu))
        return error_set(TUTTI_INVALID_USAGE,
                         "windows are of GPUs that reach one another's memory, which those of this communicator do "
                         "not; send and receive instead");
    struct gpu_window *window = calloc(1, sizeof *window);
    if (!window) /* peers wait for what does not come */
        return team_fail(gpu->base.team, TUTTI_SYSTEM_ERROR, gpu->rank, "no memory for a window");
    tutti_result_t result = reach_open(gpu, buffer, size, &window->reach, &without);
    if (result == TUTTI_SUCCESS && without >= 0)
        result = nobody_gets_it(gpu, without);
    if (result != TUTTI_SUCCESS) {
        free(window);
        return result;
    }
    gpu_window_enter(gpu, window);
    *out = (tutti_window_t)(void *)window;
    return TUTTI_SUCCESS;
}

/* A communicator that has failed is over: its windows are closed at once, all of them. */
tutti_result_t gpu_window_close(struct gpu *gpu, tutti_window_t handle)
{
    struct gpu_window *window = gpu_window_of(handle);
    if (window->symmetric)
        return window_refuse_close();
    tutti_result_t result = gpu_synchronize(gpu);
    if (result == TUTTI_SUCCESS)
        result = team_do(gpu->base.team, &(struct call){.coll = COLL_BARRIER, .type = TUTTI_UINT8, .op = -1});
    if (result != TUTTI_SUCCESS && !atomic_load(&gpu->base.team->failed))
        return result; /* it is as it was, and may be closed again */
    tutti_result_t settled = result == TUTTI_SUCCESS ? TUTTI_SUCCESS : settle_windows(gpu);
    gpu_window_leave(gpu, window);
    free(window);
    return settled == TUTTI_SUCCESS ? result : settled;
}

tutti_result_t gpu_window_address(struct gpu *gpu, tutti_window_t handle, int rank, void **address, size_t *size)
{
    const struct reach *reach = &gpu_window_of(handle)->reach;
    (void)gpu;
    if (address)
        *address = reach->context[rank] ? NULL : (void *)(uintptr_t)reach->at[rank];
    if (size)
        *size = reach->sizes[rank];
    return TUTTI_SUCCESS;
}

bool gpu_window_is_open(struct gpu *gpu, tutti_window_t handle)
{
    bool open = false;
    pthread_mutex_lock(&gpu->windows.lock);
    list_each(node, &gpu->windows.all)
    {
        open = open || (const void *)list_entry(node, struct gpu_window, node) == (const void *)handle;
    }
    pthread_mutex_unlock(&gpu->windows.lock);
    return open;
}

void windows_close_all(struct gpu *gpu)
{
    for (struct list *node; (node = list_pop(&gpu->windows.all));) {
        struct gpu_window *window = list_entry(node, struct gpu_window, node);
        if (!window->symmetric)
            free(window);
    }
    pthread_mutex_destroy(&gpu->windows.lock);
}
