/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for all that was issued outside of graphs, and for what graphs replay when the team has failed. */
#include "executor/gpu/wait.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/failure.h"
#include "executor/gpu/copy.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/observer.h"
#include "executor/stream/order.h"
#include "executor/stream/wait.h"

#include <sched.h>
#include <unistd.h>

tutti_result_t gpu_synchronize(struct gpu *gpu)
{
    cuda_enter(gpu->base.device);
    tutti_result_t result = wait_for_last(&gpu->base);
    if (result == TUTTI_SUCCESS && atomic_load(&gpu->base.team->failed))
        result = copy_drain(gpu); /* what was let go may still be about to read the user's memory */
    if (result == TUTTI_SUCCESS && atomic_load(&gpu->base.team->failed))
        result = graphs_wait(&gpu->base); /* or to store there */
    if (gpu->observer)
        gpu->observer->waited(gpu);
    cuda_leave();
    if (result == TUTTI_SUCCESS)
        depart_settle(gpu);
    else /* peers wait for what this GPU will not do any more */
        order_fail(&gpu->base, result);
    tutti_result_t failure = gpu_hear_failure(gpu);
    return failure == TUTTI_SUCCESS ? result : failure;
}
