/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, its registration, and operators that hold a scalar. */
#include "nccl/memory.h"
#include "nccl/group.h"
#include "nccl/handle.h"
#include "nccl/names.h"
#include "nccl/place.h"
#include "nccl/result.h"
#include "nccl/later.h"

ncclResult_t ncclMemAlloc(void **pointer, size_t size)
{
    if (!pointer)
        return result_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
    return result_of(place_alloc(pointer, size ? size : 1), NULL);
}
TWIN(ncclMemAlloc);

ncclResult_t ncclMemFree(void *pointer)
{
    return pointer ? result_of(place_free(pointer), NULL) : ncclSuccess;
}
TWIN(ncclMemFree);

/* Enters a communicator that tutti has made. */
static ncclResult_t enter_made(ncclComm_t comm, struct ncclComm **handle)
{
    ncclResult_t result = handle_enter(comm, handle);
    if (result != ncclSuccess || (*handle)->comm)
        return result;
    handle_leave(*handle);
    return result_fail(ncclInvalidArgument, "the communicator is still being made");
}

static ncclResult_t leave(struct ncclComm *handle, tutti_result_t result)
{
    ncclResult_t mapped = result_of(result, handle->comm);
    handle_leave(handle);
    return group_note(mapped);
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **registration)
{
    struct ncclComm *handle;
    ncclResult_t result = enter_made(comm, &handle);
    return result == ncclSuccess ? leave(handle, tutti_comm_register(handle->comm, buffer, size, registration))
                                 : group_note(result);
}
TWIN(ncclCommRegister);

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *registration)
{
    struct ncclComm *handle;
    ncclResult_t result = enter_made(comm, &handle);
    if (result != ncclSuccess)
        return group_note(result);
    return leave(handle, registration ? tutti_comm_deregister(handle->comm, registration) : TUTTI_SUCCESS);
}
TWIN(ncclCommDeregister);

/* ---- Windows ---- */

ncclResult_t memory_window(struct ncclComm *owner, struct ncclComm *window)
{
    tutti_result_t (*enter)(tutti_comm_t, void *, size_t, void **) =
        window->symmetric ? tutti_comm_register_symmetric : tutti_comm_register;
    tutti_result_t result = enter(owner->comm, window->buffer, window->size, &window->registration);
    if (result == TUTTI_SUCCESS && window->symmetric)
        result = tutti_comm_symmetric_window(owner->comm, window->registration, &window->window);
    if (result != TUTTI_SUCCESS && window->registration)
        tutti_comm_deregister(owner->comm, window->registration);
    return result_of(result, owner->comm);
}

static tutti_result_t end_window(struct ncclComm *owner, const struct ncclComm *window)
{
    bool registered = owner->comm && window->registration;
    return registered ? tutti_comm_deregister(owner->comm, window->registration) : TUTTI_SUCCESS;
}

void memory_forget(struct ncclComm *owner)
{
    for (struct ncclComm *window; (window = handle_window_of(owner));) {
        end_window(owner, window);
        handle_free(window);
    }
}

static ncclResult_t open_window(struct ncclComm *owner, void *buffer, size_t size, bool symmetric, ncclWindow_t *out)
{
    struct ncclComm *window = handle_new(HANDLE_WINDOW);
    ncclResult_t result;
    if (!window)
        return ncclSystemError;
    window->owner = owner;
    window->buffer = buffer;
    window->size = size;
    window->symmetric = symmetric;
    if (group_open())
        result = group_touch(owner) == ncclSuccess ? group_window(owner, window, out, memory_window) : ncclSystemError;
    else
        result = memory_window(owner, window);
    if (result != ncclSuccess)
        handle_free(window);
    else if (!group_open())
        *out = (ncclWindow_t)(void *)window;
    return result;
}

/* In a group the window is there after its end, as with NCCL. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *out, int flags)
{
    struct ncclComm *owner;
    if (!out || !buffer || !size)
        return group_note(result_fail(ncclInvalidArgument, "ncclCommWindowRegister: buff is %p, size %zu, win %p",
                                      buffer, size, (void *)out));
    *out = NULL;
    ncclResult_t result = enter_made(comm, &owner);
    if (result != ncclSuccess)
        return group_note(result);
    result = open_window(owner, buffer, size, flags & NCCL_WIN_COLL_SYMMETRIC, out);
    handle_leave(owner);
    return group_note(result);
}
TWIN(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t which)
{
    struct ncclComm *owner, *window;
    if (!which)
        return ncclSuccess;
    ncclResult_t result = handle_enter(comm, &owner);
    if (result != ncclSuccess)
        return group_note(result);
    window = handle_window(which);
    if (window && window->owner == owner) /* one on which an open group keeps puts stays */
        result = result_of(end_window(owner, window), owner->comm);
    else
        result = result_fail(ncclInvalidArgument, "%p is not a window of this communicator", (void *)which);
    if (result == ncclSuccess)
        handle_free(window);
    handle_leave(owner);
    return group_note(result);
}
TWIN(ncclCommWindowDeregister);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t which, void **pointer)
{
    struct ncclComm *owner, *window;
    ncclResult_t result = handle_enter(comm, &owner);
    if (result != ncclSuccess)
        return result;
    window = handle_window(which);
    if (window && window->owner == owner && pointer)
        *pointer = window->buffer;
    else
        result = result_fail(ncclInvalidArgument, "ncclWinGetUserPtr: win is %p, outUserPtr %p", (void *)which,
                             (void *)pointer);
    handle_leave(owner);
    return result;
}
TWIN(ncclWinGetUserPtr);

/* ---- Operators ---- */

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    struct ncclComm *handle;
    tutti_op_t made;
    if (!op || !scalar || (residence != ncclScalarDevice && residence != ncclScalarHostImmediate))
        return group_note(result_fail(ncclInvalidArgument,
                                      "ncclRedOpCreatePreMulSum: op is %p, scalar %p, residence %d", (void *)op, scalar,
                                      (int)residence));
    ncclResult_t result = enter_made(comm, &handle);
    if (result != ncclSuccess)
        return group_note(result);
    result =
        result_of(place_premul(&made, scalar, residence, (tutti_type_t)type, handle->comm, handle->host), handle->comm);
    if (result == ncclSuccess)
        *op = (ncclRedOp_t)made;
    handle_leave(handle);
    return group_note(result);
}
TWIN(ncclRedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    struct ncclComm *handle;
    ncclResult_t result = enter_made(comm, &handle);
    return result == ncclSuccess ? leave(handle, tutti_op_destroy((tutti_op_t)op, handle->comm)) : group_note(result);
}
TWIN(ncclRedOpDestroy);
