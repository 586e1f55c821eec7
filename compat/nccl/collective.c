/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives, sends and receives: tutti's under NCCL's names. */
#include "nccl/group.h"
#include "nccl/handle.h"
#include "nccl/names.h"
#include "nccl/result.h"
#include "nccl/later.h"

#include <stdlib.h>

/* *handle becomes NULL where the call cannot be made: then the result is the call's. */
static ncclResult_t begin(ncclComm_t comm, struct ncclComm **handle)
{
    *handle = NULL;
    ncclResult_t result = handle_enter(comm, handle);
    if (result != ncclSuccess)
        return group_note(result);
    if (!(*handle)->comm)
        result = result_fail(ncclInvalidArgument, "the communicator is still being made; end the group first");
    else if (atomic_load_explicit(&(*handle)->revoked, memory_order_relaxed))
        result = result_fail(ncclInvalidUsage, "the communicator was revoked");
    else if (group_open())
        result = group_touch(*handle);
    if (result != ncclSuccess) {
        handle_leave(*handle);
        *handle = NULL;
    }
    return group_note(result);
}

/* On host memory there is no stream to wait for, so a call outside a group returns when it is done. */
static ncclResult_t finish(struct ncclComm *handle, tutti_result_t issued)
{
    ncclResult_t result;
    if (issued == TUTTI_SUCCESS && handle->host && !group_open())
        issued = tutti_comm_synchronize(handle->comm);
    if (issued == TUTTI_IN_PROGRESS)
        result = result_fail(ncclInvalidArgument, "the communicator is still being made; poll ncclCommGetAsyncError()");
    else
        result = result_of(issued, handle->comm);
    handle_leave(handle);
    return group_note(result);
}

static tutti_stream_t on(const struct ncclComm *handle, cudaStream_t stream)
{
    return handle->host ? NULL : (tutti_stream_t)(void *)stream;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at,
                       tutti_allreduce(send, recv, count, (tutti_type_t)type, (tutti_op_t)op, at->comm, on(at, stream)))
              : begun;
}
TWIN(ncclAllReduce);

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_reduce(send, recv, count, (tutti_type_t)type, (tutti_op_t)op, root, at->comm,
                                        on(at, stream)))
              : begun;
}
TWIN(ncclReduce);

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_broadcast(send, recv, count, (tutti_type_t)type, root, at->comm, on(at, stream)))
              : begun;
}
TWIN(ncclBroadcast);

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_broadcast(buffer, buffer, count, (tutti_type_t)type, root, at->comm, on(at, stream)))
              : begun;
}
TWIN(ncclBcast);

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_reduce_scatter(send, recv, count, (tutti_type_t)type, (tutti_op_t)op, at->comm,
                                                on(at, stream)))
              : begun;
}
TWIN(ncclReduceScatter);

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_allgather(send, recv, count, (tutti_type_t)type, at->comm, on(at, stream))) : begun;
}
TWIN(ncclAllGather);

static size_t size_of(ncclDataType_t type)
{
    static const unsigned char sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (unsigned)type < ncclNumTypes ? sizes[type] : 0;
}

/* In place the result is undefined with NCCL, but the call is legal, and nccl-tests makes it. */
static ncclResult_t alltoall_in_place(void *buffer, size_t count, ncclDataType_t type, ncclComm_t comm,
                                      cudaStream_t stream)
{
    int ranks = 0;
    size_t bytes = count * size_of(type);
    ncclResult_t result = ncclCommCount(comm, &ranks);
    if (result != ncclSuccess)
        return result;
    ncclGroupStart();
    for (int peer = 0; peer < ranks && result == ncclSuccess; peer++) {
        result = ncclSend((char *)buffer + bytes * (size_t)peer, count, type, peer, comm, stream);
        if (result == ncclSuccess)
            result = ncclRecv((char *)buffer + bytes * (size_t)peer, count, type, peer, comm, stream);
    }
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream)
{
    if (send == recv && send && count)
        return alltoall_in_place(recv, count, type, comm, stream);
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_alltoall(send, recv, count, (tutti_type_t)type, at->comm, on(at, stream))) : begun;
}
TWIN(ncclAlltoAll);

ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_gather(send, recv, count, (tutti_type_t)type, root, at->comm, on(at, stream))) : begun;
}
TWIN(ncclGather);

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_scatter(send, recv, count, (tutti_type_t)type, root, at->comm, on(at, stream)))
              : begun;
}
TWIN(ncclScatter);

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_send(send, count, (tutti_type_t)type, peer, at->comm, on(at, stream))) : begun;
}
TWIN(ncclSend);

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t begun = begin(comm, &at);
    return at ? finish(at, tutti_recv(recv, count, (tutti_type_t)type, peer, at->comm, on(at, stream))) : begun;
}
TWIN(ncclRecv);

/* ---- The calls of 2.29 on windows ---- */

/* Of contexts there is one, and no flag is known. */
static ncclResult_t check_how(const char *call, int context, unsigned flags)
{
    return !context && !flags ? ncclSuccess
                              : group_note(result_fail(ncclInvalidArgument, "%s: ctx is %d, flags %#x; both must be 0",
                                                       call, context, flags));
}

/* NULL, with a sentence: nothing can be put into it. */
static tutti_window_t put_window(const struct ncclComm *owner, ncclWindow_t which)
{
    const struct ncclComm *window = handle_window(which);
    if (!window || window->owner != owner)
        result_fail(ncclInvalidArgument, "ncclPutSignal: %p is not a window of this communicator", (void *)which);
    else if (!window->window)
        result_fail(ncclInvalidArgument,
                    "ncclPutSignal: not all ranks have mapped the window. It must be registered with "
                    "NCCL_WIN_COLL_SYMMETRIC, with one size on all ranks, and lie in one allocation of ncclMemAlloc() "
                    "or cudaMalloc(); each rank needs a process of its own, and those of one host GPUs that reach one "
                    "another");
    return window && window->owner == owner ? window->window : NULL;
}

ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t result = check_how("ncclPutSignal", context, flags);
    if (result != ncclSuccess)
        return result;
    result = begin(comm, &at);
    if (!at)
        return result;
    tutti_window_t put = put_window(at, window);
    if (put)
        return finish(at, tutti_put_signal(local, count, (tutti_type_t)type, peer, put, offset, signal, at->comm,
                                           on(at, stream)));
    handle_leave(at);
    return group_note(ncclInvalidArgument);
}
TWIN(ncclPutSignal);

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t result = check_how("ncclSignal", context, flags);
    if (result != ncclSuccess)
        return result;
    result = begin(comm, &at);
    return at ? finish(at, tutti_signal(peer, signal, at->comm, on(at, stream))) : result;
}
TWIN(ncclSignal);

ncclResult_t ncclWaitSignal(int count, struct signal_wait *waits, ncclComm_t comm, cudaStream_t stream)
{
    struct ncclComm *at;
    ncclResult_t result = ncclSuccess;
    if (count < 0 || (count && !waits))
        return group_note(result_fail(ncclInvalidArgument, "ncclWaitSignal: nDesc is %d, signalDescs %p", count,
                                      (const void *)waits));
    tutti_signal_wait_t *list = calloc((size_t)count + 1, sizeof *list);
    if (!list)
        return group_note(result_fail(ncclSystemError, "no memory to wait for signals of %d ranks", count));
    for (int i = 0; i < count && result == ncclSuccess; i++) {
        list[i] = (tutti_signal_wait_t){waits[i].peer, waits[i].signal, (unsigned)waits[i].count};
        if (waits[i].count < 0)
            result = group_note(
                result_fail(ncclInvalidArgument, "ncclWaitSignal: opCnt is %d; it is 0 or more", waits[i].count));
        else
            result = check_how("ncclWaitSignal", waits[i].context, 0);
    }
    if (result == ncclSuccess) {
        result = begin(comm, &at);
        result = at ? finish(at, tutti_wait_signal(list, count, at->comm, on(at, stream))) : result;
    }
    free(list);
    return result;
}
TWIN(ncclWaitSignal);

/* ---- The calls of 2.31 with advice: it is advice on how NCCL's kernels run, and is not looked at ---- */

ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream, const void *advice)
{
    return ncclAllReduce(send, recv, count, type, op, comm, stream);
}
TWIN(ncclAllReduceConfig);

ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                              ncclComm_t comm, cudaStream_t stream, const void *advice)
{
    return ncclReduce(send, recv, count, type, op, root, comm, stream);
}
TWIN(ncclReduceConfig);

ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream, const void *advice)
{
    return ncclBroadcast(send, recv, count, type, root, comm, stream);
}
TWIN(ncclBroadcastConfig);

ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, cudaStream_t stream, const void *advice)
{
    return ncclReduceScatter(send, recv, count, type, op, comm, stream);
}
TWIN(ncclReduceScatterConfig);

ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream, const void *advice)
{
    return ncclAllGather(send, recv, count, type, comm, stream);
}
TWIN(ncclAllGatherConfig);

ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream, const void *advice)
{
    return ncclAlltoAll(send, recv, count, type, comm, stream);
}
TWIN(ncclAlltoAllConfig);

ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream, const void *advice)
{
    return ncclGather(send, recv, count, type, root, comm, stream);
}
TWIN(ncclGatherConfig);

ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream, const void *advice)
{
    return ncclScatter(send, recv, count, type, root, comm, stream);
}
TWIN(ncclScatterConfig);
