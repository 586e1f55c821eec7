/* SPDX-License-Identifier: Apache-2.0 */
/* Stream memory operations: a stream writes a word, or waits until a word that anyone writes has a value. */
#include "cuda/call.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define YIELDS     16
#define SLEEP_NS   20000
#define SLEEP_MOST 1000000
#define BATCH_MOST 256
#define WAIT_FLAGS 3u

static bool met(uint64_t now, uint64_t value, unsigned flags, bool wide)
{
    switch (flags & WAIT_FLAGS) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic: counters wrap */
        return wide ? (int64_t)(now - value) >= 0 : (int32_t)((uint32_t)now - (uint32_t)value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
    default: {
        uint64_t nor = ~(now | value);
        return wide ? nor != 0 : (uint32_t)nor != 0;
    }
    }
}

static uint64_t load(CUdeviceptr address, bool wide)
{
    if (wide)
        return __atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
    return __atomic_load_n((uint32_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
}

/* Yields at first, then sleeps longer and longer: waits may take whatever time the program likes. */
static void pause_for(unsigned *turn)
{
    if (++*turn < YIELDS) {
        sched_yield();
        return;
    }
    long ns = (long)SLEEP_NS * (*turn - YIELDS + 1);
    struct timespec pause = {.tv_nsec = ns > SLEEP_MOST ? SLEEP_MOST : ns};
    nanosleep(&pause, NULL);
}

static void run_one(const CUstreamBatchMemOpParams *op, CUcontext context)
{
    CUdeviceptr address = op->waitValue.address;
    bool wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    uint64_t value = wide ? op->waitValue.value64 : op->waitValue.value;
    unsigned turn = 0;
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        while (!met(load(address, wide), value, op->waitValue.flags, wide) && !context->error)
            pause_for(&turn);
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        __atomic_store_n((uint32_t *)(uintptr_t)address, (uint32_t)value, __ATOMIC_RELEASE);
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        __atomic_store_n((uint64_t *)(uintptr_t)address, value, __ATOMIC_RELEASE);
        break;
    default: /* a barrier: every write here releases what came before it */
        break;
    }
}

/* Lock held. The word must be memory that devices reach. */
static CUresult check(const CUstreamBatchMemOpParams *op)
{
    unsigned kind = op->operation;
    if (kind == CU_STREAM_MEM_OP_BARRIER)
        return CUDA_SUCCESS;
    if (kind == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool wait = kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    bool write = kind == CU_STREAM_MEM_OP_WRITE_VALUE_32 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    unsigned width = kind == CU_STREAM_MEM_OP_WAIT_VALUE_64 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
    if ((!wait && !write) || op->waitValue.address % width || op->waitValue.flags & ~(wait ? 0x40000003u : 1u))
        return CUDA_ERROR_INVALID_VALUE;
    if (wait && op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct range *range = range_find((void *)(uintptr_t)op->waitValue.address);
    return range && (range->kind != RANGE_MAPPED || range->access) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool memops_clone(struct work *to, const struct work *from)
{
    to->memops.list = malloc(from->memops.count * sizeof(*from->memops.list));
    if (to->memops.list)
        memcpy(to->memops.list, from->memops.list, from->memops.count * sizeof(*from->memops.list));
    return to->memops.list;
}

static void memops_clear(struct work *work)
{
    free(work->memops.list);
}

static void memops_run(const struct work *work)
{
    for (unsigned i = 0; i < work->memops.count; i++)
        run_one(&work->memops.list[i], work->context);
}

static const struct work_ops memops_work = {.clone = memops_clone, .clear = memops_clear, .run = memops_run};

CUresult memops_make(unsigned count, const CUstreamBatchMemOpParams *list, struct work *work)
{
    CUresult result = count && count <= BATCH_MOST && list ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !result; i++)
        result = check(&list[i]);
    if (result)
        return result;
    CUstreamBatchMemOpParams *copy = malloc(count * sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, list, count * sizeof(*copy));
    *work = (struct work){.kind = WORK_MEMOPS, .ops = &memops_work, .memops = {count, copy}};
    return CUDA_SUCCESS;
}

static CUresult submit(CUstream handle, unsigned count, const CUstreamBatchMemOpParams *list)
{
    CUstream stream;
    struct work work;
    state_lock();
    CUresult result = stream_find(handle, &stream);
    if (!result)
        result = memops_make(count, list, &work);
    if (!result) {
        work.context = stream->context;
        result = stream_submit(stream, &work, NULL);
    }
    state_unlock();
    return result;
}

static CUresult submit_one(CUstream stream, CUstreamBatchMemOpType kind, CUdeviceptr address, uint64_t value,
                           unsigned flags)
{
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof(op));
    op.operation = kind;
    op.waitValue.address = address;
    if (kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_32)
        op.waitValue.value = (uint32_t)value;
    else
        op.waitValue.value64 = value;
    op.waitValue.flags = flags;
    return submit(stream, 1, &op);
}

EXPORT CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    CALL(CALL_CONTEXT);
    return submit_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

EXPORT CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    CALL(CALL_CONTEXT);
    return submit_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    CALL(CALL_CONTEXT);
    return submit_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    CALL(CALL_CONTEXT);
    return submit_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list, unsigned flags)
{
    CALL(CALL_CONTEXT);
    return flags ? CUDA_ERROR_INVALID_VALUE : submit(stream, count, list);
}
