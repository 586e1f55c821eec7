/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h: the host interface of NCCL 2.28.9, as tutti's libnccl.so.2 offers it. The names, the numbers and the layouts
 * are those that compiled programs rely on; docs/reference/compat-nccl.md says what each call does here.
 *
 * There is no <nccl_device.h>: communication from inside a kernel of the program's own is not offered. A program that
 * includes <nccl_device.h> when the header says 2.28 or newer (nccl-tests) is compiled with -DNCCL_WITHOUT_DEVICE_API:
 * the header then says 2.27.7, of which <nccl_device.h> was no part. The library answers 2.28.9 all the same.
 *
 * Every function has a twin with the prefix p, for tools that put themselves in front of the calls.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

#if !defined(NCCL_WITHOUT_CUDA_HEADERS) && defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define NCCL_HAS_CUDA_HEADERS 1
#if CUDART_VERSION >= 11000
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif
#endif
#endif
#ifndef NCCL_HAS_CUDA_HEADERS
typedef struct CUstream_st *cudaStream_t;
#endif

#define NCCL_MAJOR 2
#ifdef NCCL_WITHOUT_DEVICE_API
#define NCCL_MINOR 27
#define NCCL_PATCH 7
#else
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#endif
#define NCCL_SUFFIX           ""
#define NCCL_VERSION(X, Y, Z) ((X) > 2 || (Y) > 8 ? (X)*10000 + (Y)*100 + (Z) : (X)*1000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE     (NCCL_MAJOR * 10000 + NCCL_MINOR * 100 + NCCL_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

/* Values from ncclNumOps on are made by ncclRedOpCreatePreMulSum(). */
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
    ncclScalarDevice = 0,       /* read from device memory when the operation runs */
    ncclScalarHostImmediate = 1 /* read from host memory during the call */
} ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT       INT_MIN
#define NCCL_CONFIG_UNDEF_PTR       NULL
#define NCCL_UNDEF_FLOAT            -1.0f
#define NCCL_SPLIT_NOCOLOR          -1
#define NCCL_WIN_DEFAULT            0x00
#define NCCL_WIN_COLL_SYMMETRIC     0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT     0x00
#define NCCL_CTA_POLICY_EFFICIENCY  0x01
#define NCCL_CTA_POLICY_ZERO        0x02
#define NCCL_SHRINK_DEFAULT         0x00
#define NCCL_SHRINK_ABORT           0x01
#define NCCL_REVOKE_DEFAULT         0x00

typedef struct ncclConfig_v22800 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                        \
    {                                                                                                                  \
        sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,             \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                 \
    }

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                                      \
    {                                                                                                                  \
        sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT                                         \
    }

/* Declares a function and its twin. */
#define NCCL_CALL(type, name, parameters)                                                                              \
    type name parameters;                                                                                              \
    type p##name parameters

/* ---- Library ---- */

NCCL_CALL(ncclResult_t, ncclGetVersion, (int *version));
NCCL_CALL(const char *, ncclGetErrorString, (ncclResult_t result));
NCCL_CALL(const char *, ncclGetLastError, (ncclComm_t comm));
NCCL_CALL(void, ncclResetDebugInit, (void));

/* ---- Life of a communicator ---- */

NCCL_CALL(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));
NCCL_CALL(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
NCCL_CALL(ncclResult_t, ncclCommInitRankConfig,
          (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config));
NCCL_CALL(ncclResult_t, ncclCommInitRankScalable,
          (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config));
NCCL_CALL(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int *devlist));
NCCL_CALL(ncclResult_t, ncclCommSplit,
          (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config));
NCCL_CALL(ncclResult_t, ncclCommShrink,
          (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config,
           int shrinkFlags));
/* One member makes the id; the other members pass NULL and rank -1, newcomers a NULL comm, the id and their rank. */
NCCL_CALL(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId *uniqueId));
NCCL_CALL(ncclResult_t, ncclCommGrow,
          (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm,
           ncclConfig_t *config));
NCCL_CALL(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));
NCCL_CALL(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));
NCCL_CALL(ncclResult_t, ncclCommAbort, (ncclComm_t comm));
NCCL_CALL(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));

NCCL_CALL(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError));
NCCL_CALL(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count));
NCCL_CALL(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device));
NCCL_CALL(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank));

/* ---- Memory ---- */

NCCL_CALL(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size));
NCCL_CALL(ncclResult_t, ncclMemFree, (void *ptr));
NCCL_CALL(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle));
NCCL_CALL(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle));
NCCL_CALL(ncclResult_t, ncclCommWindowRegister,
          (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags));
NCCL_CALL(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

/* ---- Operators ---- */

NCCL_CALL(ncclResult_t, ncclRedOpCreatePreMulSum,
          (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm));
NCCL_CALL(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* ---- Collectives ---- */

NCCL_CALL(ncclResult_t, ncclReduce,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
           ncclComm_t comm, cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclBcast,
          (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclBroadcast,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclAllReduce,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
           cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclReduceScatter,
          (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
           ncclComm_t comm, cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclAllGather,
          (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclAlltoAll,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclGather,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclScatter,
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclSend,
          (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
           cudaStream_t stream));
NCCL_CALL(ncclResult_t, ncclRecv,
          (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream));

/* ---- Groups ---- */

NCCL_CALL(ncclResult_t, ncclGroupStart, (void));
NCCL_CALL(ncclResult_t, ncclGroupEnd, (void));
NCCL_CALL(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

#undef NCCL_CALL

#ifdef __cplusplus
}
#endif
#endif
