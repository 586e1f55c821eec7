/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of what executors on streams have in common. */
#include "executor/stream/base.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/workers.h"
#include "executor/stream/beside.h"
#include "executor/stream/graphs.h"
#include "executor/stream/ledger.h"

tutti_result_t base_open(struct stream_base *base, struct team *team, int ordinal, const struct stream_ops *ops)
{
    workers_join();
    base->team = team;
    base->ops = ops;
    list_init(&base->idle);
    tutti_result_t result = cuda_driver(&base->cu);
    return result == TUTTI_SUCCESS ? cuda_device_acquire(ordinal, &base->device) : result;
}

/* With the device's context current. */
static tutti_result_t make_events(struct stream_base *base)
{
    tutti_result_t result =
        cuda_check(base->cu->EventCreate(&base->graphs.sound, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(base->cu->EventCreate(&base->mark, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS)
        result = beside_make(base, &base->graphs.sounded);
    if (result == TUTTI_SUCCESS && !base->device->memops)
        result = error_set(TUTTI_DEVICE_ERROR, "device %d has no stream memory operations", base->device->ordinal);
    return result;
}

tutti_result_t base_load(struct stream_base *base)
{
    tutti_result_t result =
        cuda_device_load(base->device); /* not later: loading may wait for kernels that wait for this rank */
    if (result != TUTTI_SUCCESS)
        return result;
    cuda_enter(base->device);
    result = make_events(base);
    cuda_leave();
    return result;
}

void base_close(struct stream_base *base)
{
    ledger_end(base);
    if (base->device) {
        cuda_enter(base->device);
        beside_end(base, base->graphs.sounded);
        graphs_close(base);
        if (base->graphs.sound)
            base->cu->EventDestroy(base->graphs.sound);
        if (base->mark)
            base->cu->EventDestroy(base->mark);
        cuda_leave();
        cuda_device_release(base->device);
    }
    workers_leave();
}
