/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators that rest, and what they hold of their devices. */
#include "nccl/group.h"
#include "nccl/handle.h"
#include "nccl/later.h"
#include "nccl/names.h"
#include "nccl/place.h"
#include "nccl/result.h"

#define SUSPEND_MEMORY 1 /* NCCL_SUSPEND_MEM of 2.29.7 */

enum statistic { STAT_SUSPENDABLE, STAT_IS_SUSPENDED, STAT_PERSISTENT, STAT_TOTAL };

static ncclResult_t enter_resting(ncclComm_t comm, struct ncclComm **handle)
{
    ncclResult_t result = handle_enter(comm, handle);
    if (result != ncclSuccess)
        return result;
    if (!(*handle)->comm)
        result = result_fail(ncclInvalidArgument, "the communicator is still being made");
    else if (atomic_load(&(*handle)->revoked))
        result = result_fail(ncclInvalidUsage, "the communicator was revoked; shrink or destroy it");
    if (result != ncclSuccess)
        handle_leave(*handle);
    return result;
}

static ncclResult_t rest_suspend(struct ncclComm *handle)
{
    size_t bytes = 0;
    tutti_result_t result = place_memory(handle->comm, handle->host, &bytes);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_suspend(handle->comm);
    if (result == TUTTI_SUCCESS) {
        handle->given_back = bytes;
        atomic_store(&handle->suspended, true);
    }
    return result_of(result, handle->comm);
}

static ncclResult_t rest_resume(struct ncclComm *handle)
{
    tutti_result_t result = tutti_comm_resume(handle->comm);
    if (result == TUTTI_SUCCESS)
        atomic_store(&handle->suspended, false);
    return result_of(result, handle->comm);
}

/* All ranks take part: those of a group are done at its end, at the same time. */
static ncclResult_t rest(ncclComm_t comm, group_end_fn how)
{
    struct ncclComm *handle;
    ncclResult_t result = enter_resting(comm, &handle);
    if (result != ncclSuccess)
        return group_note(result);
    result = group_open() ? group_rest_later(handle, how) : how(handle);
    handle_leave(handle);
    return group_note(result);
}

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
    if (flags != SUSPEND_MEMORY)
        return group_note(
            result_fail(ncclInvalidArgument, "ncclCommSuspend: flags is %d; want NCCL_SUSPEND_MEM, 1", flags));
    return rest(comm, rest_suspend);
}
TWIN(ncclCommSuspend);

ncclResult_t ncclCommResume(ncclComm_t comm)
{
    return rest(comm, rest_resume);
}
TWIN(ncclCommResume);

/* Of four numbers of 2.29.7: what can be suspended, or was; whether it is; what cannot be; what is held now. */
ncclResult_t ncclCommMemStats(ncclComm_t comm, int which, uint64_t *value)
{
    struct ncclComm *handle;
    size_t bytes = 0;
    if (which < STAT_SUSPENDABLE || which > STAT_TOTAL || !value)
        return result_fail(ncclInvalidArgument, "ncclCommMemStats: stat is %d, value %p", which, (void *)value);
    ncclResult_t result = enter_resting(comm, &handle);
    if (result != ncclSuccess)
        return result;
    bool suspended = atomic_load(&handle->suspended);
    result = result_of(place_memory(handle->comm, handle->host, &bytes), handle->comm);
    *value = which == STAT_IS_SUSPENDED               ? suspended
             : which == STAT_PERSISTENT               ? 0
             : which == STAT_SUSPENDABLE && suspended ? handle->given_back
                                                      : bytes;
    handle_leave(handle);
    return result;
}
TWIN(ncclCommMemStats);
