/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints every number of the nccl.h it is compiled with. Compiled with ours and, where it is installed, with NVIDIA's,
 * it must print the same. The functions' types are compared with one list, by the compiler.
 */
#include <nccl.h>

#include <stdio.h>

#define SAME(name, ...)                                                                                                \
    _Static_assert(_Generic(&name, ncclResult_t(*)(__VA_ARGS__) : 1, default : 0), #name);                             \
    _Static_assert(_Generic(&p##name, ncclResult_t(*)(__VA_ARGS__) : 1, default : 0), "p" #name)
#define MOVE const void *, void *, size_t, ncclDataType_t

SAME(ncclGetVersion, int *);
SAME(ncclGetUniqueId, ncclUniqueId *);
SAME(ncclCommInitRank, ncclComm_t *, int, ncclUniqueId, int);
SAME(ncclCommInitRankConfig, ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
SAME(ncclCommInitRankScalable, ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
SAME(ncclCommInitAll, ncclComm_t *, int, const int *);
SAME(ncclCommSplit, ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
SAME(ncclCommShrink, ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
SAME(ncclCommFinalize, ncclComm_t);
SAME(ncclCommDestroy, ncclComm_t);
SAME(ncclCommAbort, ncclComm_t);
SAME(ncclCommRevoke, ncclComm_t, int);
SAME(ncclCommGetAsyncError, ncclComm_t, ncclResult_t *);
SAME(ncclCommCount, ncclComm_t, int *);
SAME(ncclCommCuDevice, ncclComm_t, int *);
SAME(ncclCommUserRank, ncclComm_t, int *);
SAME(ncclMemAlloc, void **, size_t);
SAME(ncclMemFree, void *);
SAME(ncclCommRegister, ncclComm_t, void *, size_t, void **);
SAME(ncclCommDeregister, ncclComm_t, void *);
SAME(ncclCommWindowRegister, ncclComm_t, void *, size_t, ncclWindow_t *, int);
SAME(ncclCommWindowDeregister, ncclComm_t, ncclWindow_t);
SAME(ncclRedOpCreatePreMulSum, ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t);
SAME(ncclRedOpDestroy, ncclRedOp_t, ncclComm_t);
SAME(ncclReduce, MOVE, ncclRedOp_t, int, ncclComm_t, cudaStream_t);
SAME(ncclBcast, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAME(ncclBroadcast, MOVE, int, ncclComm_t, cudaStream_t);
SAME(ncclAllReduce, MOVE, ncclRedOp_t, ncclComm_t, cudaStream_t);
SAME(ncclReduceScatter, MOVE, ncclRedOp_t, ncclComm_t, cudaStream_t);
SAME(ncclAllGather, MOVE, ncclComm_t, cudaStream_t);
SAME(ncclAlltoAll, MOVE, ncclComm_t, cudaStream_t);
SAME(ncclGather, MOVE, int, ncclComm_t, cudaStream_t);
SAME(ncclScatter, MOVE, int, ncclComm_t, cudaStream_t);
SAME(ncclSend, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAME(ncclRecv, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAME(ncclGroupStart, void);
SAME(ncclGroupEnd, void);
SAME(ncclGroupSimulateEnd, ncclSimInfo_t *);
_Static_assert(_Generic(&ncclGetErrorString, const char *(*)(ncclResult_t) : 1, default : 0), "ncclGetErrorString");
_Static_assert(_Generic(&ncclGetLastError, const char *(*)(ncclComm_t) : 1, default : 0), "ncclGetLastError");
_Static_assert(_Generic(&ncclResetDebugInit, void (*)(void) : 1, default : 0), "ncclResetDebugInit");

#define SHOW(value)     printf("%s %lld\n", #value, (long long)(value))
#define FIELD(type, at) printf("%s.%s %zu %zu\n", #type, #at, offsetof(type, at), sizeof((type *)0)->at)

static void show_config(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const unsigned char *bytes = (const unsigned char *)&config;
    SHOW(sizeof(ncclConfig_t));
    FIELD(ncclConfig_t, size);
    FIELD(ncclConfig_t, magic);
    FIELD(ncclConfig_t, version);
    FIELD(ncclConfig_t, blocking);
    FIELD(ncclConfig_t, cgaClusterSize);
    FIELD(ncclConfig_t, minCTAs);
    FIELD(ncclConfig_t, maxCTAs);
    FIELD(ncclConfig_t, netName);
    FIELD(ncclConfig_t, splitShare);
    FIELD(ncclConfig_t, trafficClass);
    FIELD(ncclConfig_t, commName);
    FIELD(ncclConfig_t, collnetEnable);
    FIELD(ncclConfig_t, CTAPolicy);
    FIELD(ncclConfig_t, shrinkShare);
    FIELD(ncclConfig_t, nvlsCTAs);
    FIELD(ncclConfig_t, nChannelsPerNetPeer);
    FIELD(ncclConfig_t, nvlinkCentricSched);
    for (size_t i = 0; i < sizeof config; i++)
        printf("%02x%s", bytes[i], i % 16 == 15 ? "\n" : "");
}

static void show_structs(void)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    SHOW(sizeof(ncclUniqueId));
    SHOW(sizeof(ncclSimInfo_t));
    FIELD(ncclSimInfo_t, magic);
    FIELD(ncclSimInfo_t, version);
    FIELD(ncclSimInfo_t, estimatedTime);
    printf("info %zu %x %u %g\n", info.size, info.magic, info.version, (double)info.estimatedTime);
    SHOW(sizeof(ncclResult_t));
    SHOW(sizeof(ncclRedOp_t));
    SHOW(sizeof(ncclDataType_t));
    SHOW(sizeof(ncclScalarResidence_t));
}

static void show_values(void)
{
    SHOW(NCCL_MAJOR), SHOW(NCCL_MINOR), SHOW(NCCL_PATCH), SHOW(NCCL_VERSION_CODE);
    SHOW(NCCL_VERSION(2, 28, 9)), SHOW(NCCL_VERSION(2, 8, 4)), SHOW(NCCL_VERSION(2, 9, 0)), SHOW(NCCL_VERSION(3, 0, 1));
    SHOW(ncclSuccess), SHOW(ncclUnhandledCudaError), SHOW(ncclSystemError), SHOW(ncclInternalError),
        SHOW(ncclInvalidArgument);
    SHOW(ncclInvalidUsage), SHOW(ncclRemoteError), SHOW(ncclInProgress), SHOW(ncclNumResults);
    SHOW(ncclInt8), SHOW(ncclChar), SHOW(ncclUint8), SHOW(ncclInt32), SHOW(ncclInt), SHOW(ncclUint32), SHOW(ncclInt64);
    SHOW(ncclUint64), SHOW(ncclFloat16), SHOW(ncclHalf), SHOW(ncclFloat32), SHOW(ncclFloat), SHOW(ncclFloat64),
        SHOW(ncclDouble);
    SHOW(ncclBfloat16), SHOW(ncclFloat8e4m3), SHOW(ncclFloat8e5m2), SHOW(ncclNumTypes);
    SHOW(ncclSum), SHOW(ncclProd), SHOW(ncclMax), SHOW(ncclMin), SHOW(ncclAvg), SHOW(ncclNumOps), SHOW(ncclMaxRedOp);
    SHOW(ncclScalarDevice), SHOW(ncclScalarHostImmediate);
    SHOW(NCCL_CONFIG_UNDEF_INT), SHOW(NCCL_UNIQUE_ID_BYTES), SHOW(NCCL_SPLIT_NOCOLOR), SHOW(NCCL_UNDEF_FLOAT);
    SHOW(NCCL_WIN_DEFAULT), SHOW(NCCL_WIN_COLL_SYMMETRIC), SHOW(NCCL_WIN_REQUIRED_ALIGNMENT);
    SHOW(NCCL_CTA_POLICY_DEFAULT), SHOW(NCCL_CTA_POLICY_EFFICIENCY), SHOW(NCCL_CTA_POLICY_ZERO);
    SHOW(NCCL_SHRINK_DEFAULT), SHOW(NCCL_SHRINK_ABORT), SHOW(NCCL_REVOKE_DEFAULT);
}

int main(void)
{
    printf("%p %p %s|\n", (void *)NCCL_COMM_NULL, (const void *)NCCL_CONFIG_UNDEF_PTR, NCCL_SUFFIX);
    show_values();
    show_structs();
    show_config();
    return 0;
}
