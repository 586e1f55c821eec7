/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/stream/window.h"

#include "base/error.h"
#include "device/cuda/memory.h"
#include "engine/team.h"

tutti_result_t window_refuse_long_waits(const struct team *team, const struct window_item *items, int count)
{
    for (int i = 0; i < count; i++)
        if (items[i].call == WINDOW_WAIT && items[i].length > INT32_MAX)
            return error_set(TUTTI_INVALID_ARGUMENT, "a wait for %zu signals of rank %d; on GPUs at most %d",
                             items[i].length, team_told_rank(team, items[i].peer), INT32_MAX);
    return TUTTI_SUCCESS;
}

tutti_result_t window_refuse_capture(void)
{
    return error_set(TUTTI_INVALID_USAGE, "with TUTTI_STAGE_KERNEL=0 a CUDA graph cannot hold calls on windows of GPUs "
                                          "that share no memory with this one");
}

tutti_result_t window_check_local(int ordinal, const void *local)
{
    struct cuda_range range;
    tutti_result_t result = cuda_range_of(local, &range);
    if (result != TUTTI_SUCCESS)
        return result;
    if (range.kind == CUDA_PINNED || range.kind == CUDA_MANAGED ||
        (range.kind == CUDA_DEVICE && range.ordinal == ordinal))
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE,
                     "local memory at %p is no memory of GPU %d: where a CUDA graph has calls on windows kernels carry "
                     "all of them out, and need memory that this GPU addresses",
                     local, ordinal);
}

tutti_result_t window_refuse_first(void)
{
    return error_set(TUTTI_INVALID_USAGE, "GPUs of several hosts put and signal from their communicator's first "
                                          "window on: call tutti_window_register() before");
}

tutti_result_t window_refuse_close(void)
{
    return error_set(TUTTI_INVALID_ARGUMENT, "the window is memory of tutti_comm_register_symmetric(), and ends with "
                                             "tutti_comm_deregister()");
}
