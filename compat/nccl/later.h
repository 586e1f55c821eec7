/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that came after 2.28.9, and the host side of the device interface. nccl.h does not declare them; loaders look
 * them up all the same. What can be done is done, the rest is refused with a sentence.
 */
#ifndef TUTTI_COMPAT_NCCL_LATER_H
#define TUTTI_COMPAT_NCCL_LATER_H

#include "nccl/group.h"

#pragma GCC visibility push(default)

struct device_team {
    int nranks, rank, stride;
};
struct device_team ncclTeamWorld(ncclComm_t comm);
struct device_team ncclTeamLsa(ncclComm_t comm);
struct device_team ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, struct device_team team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, struct device_team team, int rank);
int ncclLLA2ACalcSlots(int elements, int bytes);
void ncclParamDumpAll(void);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t which, void **pointer);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t ncclCommMemStats(ncclComm_t comm, int which, uint64_t *value);

ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream, const void *advice);
ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                              ncclComm_t comm, cudaStream_t stream, const void *advice);
ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream, const void *advice);
ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, cudaStream_t stream, const void *advice);
ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream, const void *advice);
ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream, const void *advice);
ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream, const void *advice);
ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream, const void *advice);

/* Signals of a peer to wait for. */
struct signal_wait {
    int count, peer, signal, context;
};
ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int count, struct signal_wait *waits, ncclComm_t comm, cudaStream_t stream);

#pragma GCC visibility pop

#endif
