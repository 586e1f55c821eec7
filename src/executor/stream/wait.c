/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what was issued, and for a GPU that stores no ticket any more. */
#include "executor/stream/wait.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/failure.h"
#include "engine/team.h"
#include "executor/stream/base.h"
#include "executor/stream/ticket.h"

#include <sched.h>
#include <unistd.h>

#define SPIN_MS    2 /* while waiting; then the driver is asked, now and then, whether the GPU still works */
#define PAUSE_US   50
#define PAUSE_MOST 1000
#define PAUSE_PART 64 /* a pause is this part of what the wait has taken so far, so the pauses hardly delay its end */
#define REFUSALS   3  /* a driver may refuse once for want of memory; of a GPU that has failed it refuses everything */

/*
 * A GPU that has failed stores no ticket, but does no work for anybody any more. So it is given some, one event at a
 * time. Somebody may be capturing a graph, which this must not spoil.
 */
static tutti_result_t ask_driver(struct stream_base *base)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    base->cu->ThreadExchangeStreamCaptureMode(&mode);
    CUresult got = base->cu->EventQuery(base->graphs.sound);
    if (got == CUDA_SUCCESS)
        got = base->cu->EventRecord(base->graphs.sound, base->graphs.sounded);
    base->cu->ThreadExchangeStreamCaptureMode(&mode);
    bool takes = got == CUDA_SUCCESS || got == CUDA_ERROR_NOT_READY;
    atomic_store(&base->graphs.refused, takes ? 0 : atomic_load(&base->graphs.refused) + 1);
    if (atomic_load(&base->graphs.refused) < REFUSALS)
        return TUTTI_SUCCESS;
    atomic_store(&base->graphs.lost, true);
    return cuda_check(got, "waiting for the last operation");
}

/* The caller has no more time, whether peers live or not. */
static void look_at_due(const struct stream_base *base)
{
    struct team *team = base->team->whole ? base->team->whole : base->team;
    uint64_t due = atomic_load_explicit(&team->due, memory_order_relaxed);
    if (due && !atomic_load(&team->failed) && clock_passed(due))
        team_fail(team, TUTTI_REMOTE_ERROR, -1,
                  "the time of the step is over, and an operation of GPUs has not ended: a rank is late");
}

static void wait_pause_after(uint64_t waited_ns)
{
    uint64_t us = waited_ns / 1000 / PAUSE_PART;
    usleep(us < PAUSE_US ? PAUSE_US : us < PAUSE_MOST ? (useconds_t)us : PAUSE_MOST);
}

tutti_result_t wait_for_last(struct stream_base *base)
{
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t begin = clock_ns(), spin = begin + SPIN_MS * NS_PER_MS;
    if (atomic_load(&base->graphs.lost))
        return ask_driver(base);
    if (atomic_load(&base->tickets.untracked))
        return cuda_check(base->cu->StreamSynchronize(base->tickets.last), "waiting for the last operation");
    while (result == TUTTI_SUCCESS && !ticket_idle(base)) {
        bool soon = !clock_passed(spin);
        if (!soon) {
            look_at_due(base);
            result = ask_driver(base);
        }
        if (soon && !base->team->crowded)
            sched_yield();
        else
            wait_pause_after(clock_ns() - begin);
    }
    return result;
}
