/* SPDX-License-Identifier: Apache-2.0 */
/* Doing, copying and clearing a piece of work, by its kind. */
#include "graph.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

bool work_clone(struct work *to, const struct work *from)
{
    *to = *from;
    switch (from->kind) {
    case WORK_COPY:
        to->copy.staged = NULL;
        return !from->copy.staged;
    case WORK_KERNEL:
        return launch_clone_params(&to->kernel, &from->kernel);
    case WORK_MEMOPS:
        to->memops.list = malloc(from->memops.count * sizeof(*from->memops.list));
        if (to->memops.list)
            memcpy(to->memops.list, from->memops.list, from->memops.count * sizeof(*from->memops.list));
        return to->memops.list;
    case WORK_RECORD:
    case WORK_AWAIT:
        event_ref(to->event);
        return true;
    case WORK_GRAPH:
        graph_exec_ref(to->graph);
        return true;
    default:
        return true;
    }
}

void work_clear(struct work *work)
{
    switch (work->kind) {
    case WORK_COPY:
        free(work->copy.staged);
        break;
    case WORK_KERNEL:
        free(work->kernel.params);
        break;
    case WORK_MEMOPS:
        free(work->memops.list);
        break;
    case WORK_RECORD:
    case WORK_AWAIT:
        event_unref(work->event);
        break;
    case WORK_GRAPH:
        graph_exec_unref(work->graph);
        break;
    default:
        break;
    }
    *work = (struct work){.kind = WORK_EMPTY};
}

static void run_host(const CUDA_HOST_NODE_PARAMS *host)
{
    call_in_callback(true, true);
    host->fn(host->userData);
    call_in_callback(true, false);
}

static void run_free(CUdeviceptr address)
{
    state_lock();
    memory_free_now(address);
    state_unlock();
}

void work_run(const struct work *work)
{
    config_jitter();
    if (work->context->error && work->kind != WORK_FREE)
        return;
    switch (work->kind) {
    case WORK_EMPTY:
    case WORK_RECORD: /* the launch of their graph has dealt with these */
    case WORK_AWAIT:
        break;
    case WORK_COPY:
        config_hold(work->context->device);
        copy_run(&work->copy, work->context);
        break;
    case WORK_SET:
        set_run(&work->set);
        break;
    case WORK_KERNEL:
        config_hold(work->context->device);
        launch_run(&work->kernel, work->context);
        break;
    case WORK_HOST:
        run_host(&work->host);
        break;
    case WORK_MEMOPS:
        memops_run(&work->memops, work->context);
        break;
    case WORK_GRAPH:
        graph_exec_run(work->graph);
        break;
    case WORK_FREE:
        run_free(work->address);
        break;
    }
}
