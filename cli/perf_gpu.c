/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in the memory of GPUs: a stream for each rank, and pinned memory through which data come and go. */
#include "cli/perf.h"

#include "base/error.h"
#include "device/cuda/device.h"

#include <stdlib.h>

struct seat_gpu {
    struct cuda_device *device;
    CUstream stream;
    void *stage; /* PLACE_CHUNK bytes of pinned memory */
    CUgraphExec captured;
};

static const struct cuda_driver *cuda;

static void must(tutti_result_t result)
{
    if (result != TUTTI_SUCCESS)
        perf_die(error_last());
}

/* The end of a driver call, made in the seat's context. */
static void must_leave(CUresult result, const char *tried)
{
    cuda_leave();
    must(cuda_note(result, tried));
}

static CUdeviceptr address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

int place_gpus(void)
{
    int count = 0;
    return cuda_device_count(&count) == TUTTI_SUCCESS ? count : 0;
}

/* ---- seats ---- */

static void open_seat(struct seat *seat, int local_rank)
{
    struct seat_gpu *gpu = calloc(1, sizeof *gpu);
    int count;
    if (!gpu)
        perf_die("out of memory");
    must(cuda_driver(&cuda));
    must(cuda_device_count(&count));
    must(cuda_device_acquire(local_rank % count, &gpu->device));
    cuda_enter(gpu->device);
    CUresult got = cuda->StreamCreateWithPriority(&gpu->stream, CU_STREAM_NON_BLOCKING, 0);
    if (got == CUDA_SUCCESS)
        got = cuda->MemHostAlloc(&gpu->stage, PLACE_CHUNK, CU_MEMHOSTALLOC_PORTABLE);
    must_leave(got, "make a stream and pinned memory");
    *seat = (struct seat){.device = gpu->device->ordinal,
                          .number = gpu->device->ordinal,
                          .stream = (tutti_stream_t)gpu->stream,
                          .gpu = gpu};
    snprintf(seat->bus_id, sizeof seat->bus_id, "%s", gpu->device->bus_id);
    snprintf(seat->name, sizeof seat->name, "%s", gpu->device->name);
}

static void close_seat(struct seat *seat)
{
    cuda_enter(seat->gpu->device);
    cuda->MemFreeHost(seat->gpu->stage);
    cuda->StreamDestroy(seat->gpu->stream);
    cuda_leave();
    cuda_device_release(seat->gpu->device);
    free(seat->gpu);
}

static void synchronize(struct seat *seat, tutti_comm_t comm)
{
    tutti_result_t state = TUTTI_SUCCESS;
    cuda_enter(seat->gpu->device);
    CUresult got = cuda->StreamSynchronize(seat->gpu->stream);
    cuda_leave();
    /* a communicator that failed has let the stream go */
    perf_must(tutti_comm_get_async_error(comm, &state), "asking for errors", comm);
    perf_must(state, "synchronize", comm);
    must(cuda_note(got, "wait for the stream"));
}

/* ---- memory ---- */

static char *take(struct seat *seat, size_t bytes, bool registered)
{
    CUdeviceptr memory = 0;
    void *buffer = NULL;
    cuda_enter(seat->gpu->device);
    if (registered)
        perf_must(tutti_device_mem_alloc(&buffer, bytes), "allocating a buffer", NULL);
    CUresult got = registered ? CUDA_SUCCESS : cuda->MemAlloc(&memory, bytes);
    must_leave(got, "allocate a buffer (give a smaller -e)");
    return registered ? buffer : (char *)(uintptr_t)memory;
}

static void drop(struct seat *seat, char *buffer, bool registered)
{
    CUresult got = CUDA_SUCCESS;
    cuda_enter(seat->gpu->device);
    if (registered)
        perf_must(tutti_device_mem_free(buffer), "freeing a buffer", NULL);
    else
        got = cuda->MemFree(address(buffer));
    must_leave(got, "free a buffer");
}

static void copy(struct seat *seat, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    cuda_enter(seat->gpu->device);
    CUresult got = cuda->MemcpyAsync(to, from, bytes, seat->gpu->stream);
    if (got == CUDA_SUCCESS)
        got = cuda->StreamSynchronize(seat->gpu->stream);
    must_leave(got, "copy to or from a buffer");
}

static void set(struct seat *seat, char *at, int byte, size_t bytes)
{
    cuda_enter(seat->gpu->device);
    CUresult got = cuda->MemsetD8Async(address(at), (unsigned char)byte, bytes, seat->gpu->stream);
    if (got == CUDA_SUCCESS)
        got = cuda->StreamSynchronize(seat->gpu->stream);
    must_leave(got, "fill a buffer");
}

static char *write_stage(struct seat *seat, char *at)
{
    return seat->gpu->stage;
}

static void written(struct seat *seat, char *at, size_t bytes)
{
    copy(seat, address(at), address(seat->gpu->stage), bytes);
}

static const char *read_there(struct seat *seat, const char *at, size_t bytes)
{
    copy(seat, address(seat->gpu->stage), address(at), bytes);
    return seat->gpu->stage;
}

/* ---- graphs ---- */

static void capture(struct seat *seat)
{
    if (!cuda->StreamBeginCapture || !cuda->StreamEndCapture || !cuda->GraphInstantiate || !cuda->GraphLaunch ||
        !cuda->GraphExecDestroy || !cuda->GraphDestroy)
        perf_die("this CUDA driver has no graphs: leave out -G");
    cuda_enter(seat->gpu->device);
    /* other threads may allocate meanwhile */
    must_leave(cuda->StreamBeginCapture(seat->gpu->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin a capture");
}

static void captured(struct seat *seat)
{
    CUgraph graph;
    cuda_enter(seat->gpu->device);
    CUresult got = cuda->StreamEndCapture(seat->gpu->stream, &graph);
    if (got == CUDA_SUCCESS) {
        got = cuda->GraphInstantiate(&seat->gpu->captured, graph, 0);
        cuda->GraphDestroy(graph);
    }
    must_leave(got, "make a graph of what was captured");
}

static void replay(struct seat *seat)
{
    cuda_enter(seat->gpu->device);
    must_leave(cuda->GraphLaunch(seat->gpu->captured, seat->gpu->stream), "launch a graph");
}

static void forget(struct seat *seat)
{
    cuda_enter(seat->gpu->device);
    must_leave(cuda->GraphExecDestroy(seat->gpu->captured), "free a graph");
    seat->gpu->captured = NULL;
}

const struct perf_place place_gpu = {.open = open_seat,
                                     .close = close_seat,
                                     .take = take,
                                     .drop = drop,
                                     .set = set,
                                     .write = write_stage,
                                     .written = written,
                                     .read = read_there,
                                     .synchronize = synchronize,
                                     .capture = capture,
                                     .captured = captured,
                                     .replay = replay,
                                     .forget = forget};
