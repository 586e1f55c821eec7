/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator says about itself. */
#include "nccl/group.h"
#include "nccl/handle.h"
#include "nccl/names.h"
#include "nccl/place.h"
#include "nccl/result.h"

static ncclResult_t enter(ncclComm_t comm, const void *out, struct ncclComm **handle)
{
    if (!out)
        return result_fail(ncclInvalidArgument, "the place for the answer is NULL");
    return handle_enter(comm, handle);
}

/* Asked in a loop by watchdogs: no lock, no sentence unless it fails. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    struct ncclComm *handle;
    tutti_result_t found = TUTTI_IN_PROGRESS;
    ncclResult_t result = enter(comm, state, &handle);
    if (result != ncclSuccess)
        return result;
    if (handle->comm)
        result = result_of(tutti_comm_get_async_error(handle->comm, &found), handle->comm);
    *state = atomic_load_explicit(&handle->revoked, memory_order_relaxed) ? ncclSuccess : (ncclResult_t)found;
    handle_leave(handle);
    return result;
}
TWIN(ncclCommGetAsyncError);

static ncclResult_t not_made(tutti_result_t result, struct ncclComm *handle)
{
    if (result == TUTTI_IN_PROGRESS)
        return result_fail(ncclInvalidArgument, "the communicator is still being made; poll ncclCommGetAsyncError()");
    return result_of(result, handle->comm);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    struct ncclComm *handle;
    ncclResult_t result = enter(comm, count, &handle);
    if (result != ncclSuccess)
        return result;
    if (handle->nranks)
        *count = handle->nranks;
    else
        result = not_made(handle->comm ? tutti_comm_count(handle->comm, count) : TUTTI_IN_PROGRESS, handle);
    handle_leave(handle);
    return result;
}
TWIN(ncclCommCount);

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    struct ncclComm *handle;
    ncclResult_t result = enter(comm, rank, &handle);
    if (result != ncclSuccess)
        return result;
    if (handle->rank >= 0)
        *rank = handle->rank;
    else
        result = not_made(handle->comm ? tutti_comm_rank(handle->comm, rank) : TUTTI_IN_PROGRESS, handle);
    handle_leave(handle);
    return result;
}
TWIN(ncclCommUserRank);

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    struct ncclComm *handle;
    ncclResult_t result = enter(comm, device, &handle);
    if (result != ncclSuccess)
        return result;
    result = not_made(
        handle->comm ? place_device(handle->comm, handle->host, handle->device, device) : TUTTI_IN_PROGRESS, handle);
    handle_leave(handle);
    return result;
}
TWIN(ncclCommCuDevice);

/* ---- Results in words, and the version ---- */

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const words[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "operation in progress"};
    return (unsigned)result < ncclNumResults ? words[result] : "unknown result code";
}
TWIN(ncclGetErrorString);

const char *ncclGetLastError(ncclComm_t comm)
{
    struct ncclComm *handle;
    tutti_result_t state = TUTTI_SUCCESS;
    char before[RESULT_SENTENCE];
    if (!comm)
        return result_sentence();
    result_keep(before);
    if (handle_enter(comm, &handle) != ncclSuccess) {
        result_restore(before);
        return result_sentence();
    }
    bool failed = handle->comm && tutti_comm_get_async_error(handle->comm, &state) == TUTTI_SUCCESS &&
                  state != TUTTI_SUCCESS && state != TUTTI_IN_PROGRESS;
    const char *sentence = failed ? result_show(tutti_get_last_error(handle->comm)) : result_sentence();
    handle_leave(handle);
    return sentence;
}
TWIN(ncclGetLastError);

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return result_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = LIBRARY_VERSION;
    return ncclSuccess;
}
TWIN(ncclGetVersion);

/* tutti reads its settings once; there is nothing to read again. */
void ncclResetDebugInit(void)
{
}
TWIN(ncclResetDebugInit);
