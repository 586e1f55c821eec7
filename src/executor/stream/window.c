/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/stream/window.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/team.h"

tutti_result_t window_refuse_long_waits(const struct team *team, const struct window_item *items, int count)
{
    for (int i = 0; i < count; i++)
        if (items[i].call == WINDOW_WAIT && items[i].length > INT32_MAX)
            return error_set(TUTTI_INVALID_ARGUMENT, "a wait for %zu signals of rank %d; on GPUs at most %d",
                             items[i].length, team_told_rank(team, items[i].peer), INT32_MAX);
    return TUTTI_SUCCESS;
}

tutti_result_t window_refuse_capture(const struct cuda_driver *cu, CUstream stream, const struct team *team, int peer)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result =
        cuda_check(cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    if (result != TUTTI_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE)
        return result;
    return error_set(
        TUTTI_INVALID_USAGE,
        "puts, gets, signals and waits for them that concern rank %d cannot be captured in a CUDA graph, as "
        "its GPU shares no memory with this one: call them outside of the graph, or capture a send and a "
        "receive",
        team_told_rank(team, peer));
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
