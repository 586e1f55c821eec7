/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits calls: what driver calls cost the thread that makes them. */
#include "limits.h"

#include "kernels.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace
{

constexpr int BURST = 50, BURSTS = 12;
constexpr int COUNT = 200, COUNT_BUSY = 60, FIRST = 10; /* few behind a gate: the queue of a stream has an end */

/* What the calls work on, all of GPU 0 (and its peer's memory). */
struct Bench {
    const Gpu *gpu;
    CUstream stream;
    CUevent event, past; /* recorded in the stream, and long done */
    CUdeviceptr peer;
    CUgraphExec graph;
};

Bench bench;

struct Call {
    const char *name;
    CUresult (*call)();
};

CUresult start(unsigned blocks, CUlaunchAttribute *attributes, unsigned count)
{
    static Nothing nothing;
    void *params[] = {&nothing};
    CUlaunchConfig config = {};
    config.gridDimX = blocks;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 512;
    config.hStream = bench.stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cuLaunchKernelEx(&config, bench.gpu->functions[NOTHING], params, nullptr);
}

CUresult launch_plain(unsigned blocks)
{
    static Nothing nothing;
    void *params[] = {&nothing};
    return cuLaunchKernel(bench.gpu->functions[NOTHING], blocks, 1, 1, 512, 1, 1, 0, bench.stream, params, nullptr);
}

CUresult launch_programmatic()
{
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    attribute.value.programmaticEvent.event = bench.event;
    attribute.value.programmaticEvent.triggerAtBlockStart = 1;
    return start(1, &attribute, 1);
}

CUresult launch_completion()
{
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    attribute.value.launchCompletionEvent.event = bench.event;
    return start(1, &attribute, 1);
}

CUresult launch_and_record()
{
    CUresult result = launch_plain(1);
    return result ? result : cuEventRecord(bench.event, bench.stream);
}

CUresult query(CUevent event)
{
    CUresult result = cuEventQuery(event);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult is_capturing()
{
    CUstreamCaptureStatus status;
    return cuStreamIsCapturing(bench.stream, &status);
}

CUresult capture_info()
{
    CUstreamCaptureStatus status;
    cuuint64_t id;
#if CUDA_VERSION >= 13000
    return cuStreamGetCaptureInfo(bench.stream, &status, &id, nullptr, nullptr, nullptr, nullptr);
#else
    return cuStreamGetCaptureInfo(bench.stream, &status, &id, nullptr, nullptr, nullptr);
#endif
}

CUresult push_pop()
{
    CUcontext old;
    CUresult result = cuCtxPushCurrent(bench.gpu->context);
    return result ? result : cuCtxPopCurrent(&old);
}

CUresult one_attribute()
{
    CUcontext context;
    return cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, bench.gpu->in);
}

CUresult attributes(unsigned count)
{
    int ordinal;
    unsigned type;
    unsigned long long id;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *values[] = {&type, &ordinal, &id};
    return cuPointerGetAttributes(count, which, values, bench.gpu->in);
}

CUresult batch()
{
    CUstreamBatchMemOpParams ops[2] = {};
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = bench.gpu->words + 64;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = bench.gpu->words;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return cuStreamBatchMemOp(bench.stream, 2, ops, 0);
}

const Call calls[] = {
    {"cuLaunchKernel, 1 block", [] { return launch_plain(1); }},
    {"cuLaunchKernel, 64 blocks", [] { return launch_plain(64); }},
    {"cuLaunchKernelEx, no attributes", [] { return start(1, nullptr, 0); }},
    {"cuLaunchKernelEx, programmatic event", launch_programmatic},
    {"cuLaunchKernelEx, launch completion event", launch_completion},
    {"cuLaunchKernel, cuEventRecord", launch_and_record},
    {"cuEventRecord", [] { return cuEventRecord(bench.event, bench.stream); }},
    {"cuEventQuery, done", [] { return query(bench.past); }},
    {"cuEventQuery, last recorded in the stream", [] { return query(bench.event); }},
    {"cuStreamQuery",
     [] {
         CUresult r = cuStreamQuery(bench.stream);
         return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
     }},
    {"cuStreamIsCapturing", is_capturing},
    {"cuStreamGetCaptureInfo", capture_info},
    {"cuCtxPushCurrent, cuCtxPopCurrent", push_pop},
    {"cuCtxSetCurrent", [] { return cuCtxSetCurrent(bench.gpu->context); }},
    {"cuPointerGetAttribute", one_attribute},
    {"cuPointerGetAttributes, 1", [] { return attributes(1); }},
    {"cuPointerGetAttributes, 3", [] { return attributes(3); }},
    {"cuStreamWaitEvent, done", [] { return cuStreamWaitEvent(bench.stream, bench.past, 0); }},
    {"cuStreamWaitValue32, own memory",
     [] { return cuStreamWaitValue32(bench.stream, bench.gpu->words, 0, CU_STREAM_WAIT_VALUE_GEQ); }},
    {"cuStreamWaitValue32, host memory",
     [] { return cuStreamWaitValue32(bench.stream, host_word(8), 0, CU_STREAM_WAIT_VALUE_GEQ); }},
    {"cuStreamWriteValue32, own memory",
     [] { return cuStreamWriteValue32(bench.stream, bench.gpu->words + 64, 0, 0); }},
    {"cuStreamWriteValue32, host memory", [] { return cuStreamWriteValue32(bench.stream, host_word(9), 0, 0); }},
    {"cuStreamBatchMemOp, write and wait", batch},
    {"cuMemcpyDtoDAsync, 4 KiB, own memory",
     [] { return cuMemcpyDtoDAsync(bench.gpu->out, bench.gpu->in, 4 * KIB, bench.stream); }},
    {"cuMemcpyDtoDAsync, 4 KiB, to a peer",
     [] { return cuMemcpyDtoDAsync(bench.peer, bench.gpu->in, 4 * KIB, bench.stream); }},
    {"cuGraphLaunch, 1 kernel", [] { return cuGraphLaunch(bench.graph, bench.stream); }},
};

double clock_cost()
{
    std::vector<double> times;
    for (int i = 0; i < 1000; i++) {
        double began = now_us();
        times.push_back(now_us() - began);
    }
    return median(times);
}

/* Nanoseconds of one call, the median. */
std::string cost(const Call &call, bool busy)
{
    static const double clock = clock_cost();
    std::vector<double> times;
    OK(cuEventRecord(bench.past, bench.stream));
    OK(cuStreamSynchronize(bench.stream));
    Gate gate(1);
    if (busy)
        gate.close(*bench.gpu, bench.stream);
    OK(cuEventRecord(bench.event, bench.stream));
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; !result && i < FIRST + (busy ? COUNT_BUSY : COUNT); i++) {
        if (!busy)
            OK(cuStreamSynchronize(bench.stream));
        double began = now_us();
        result = call.call();
        double took = now_us() - began;
        if (i >= FIRST)
            times.push_back(took);
    }
    gate.open();
    OK(cuStreamSynchronize(bench.stream));
    return result ? error_name(result) : text("%.0f", (median(times) - clock) * 1e3);
}

CUresult launch_on(const Gpu &gpu, CUstream stream)
{
    static const Nothing nothing = {};
    void *params[] = {(void *)&nothing};
    return cuLaunchKernel(gpu.functions[NOTHING], 1, 1, 1, 512, 1, 1, 0, stream, params, nullptr);
}

/* Threads that call the driver again and again, meanwhile. */
class Others
{
  public:
    ~Others()
    {
        stop = true;
        for (std::thread &thread : threads)
            thread.join();
    }
    void add(const Gpu &gpu, void (*work)(const Gpu &gpu))
    {
        threads.emplace_back([this, &gpu, work] {
            if (!cuCtxSetCurrent(gpu.context))
                while (!stop)
                    work(gpu);
        });
    }

  private:
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
};

void poll(const Gpu &gpu)
{
    cuEventQuery(gpu.end);
}

void launch_some(const Gpu &gpu)
{
    for (int i = 0; i < BURST; i++)
        launch_on(gpu, gpu.streams[0]);
    cuStreamSynchronize(gpu.streams[0]);
}

void costs()
{
    Table table = {"Nanoseconds of a call on GPU 0, medians (busy: behind a kernel that waits; poller: a second thread "
                   "calls cuEventQuery there; "
                   "launchers: a thread for each other GPU launches there)",
                   {"call", "idle", "busy", "idle, poller", "busy, poller", "idle, launchers", "busy, launchers"},
                   {}};
    for (const Call &call : calls) {
        if (!bench.peer && std::string(call.name).find("peer") != std::string::npos)
            continue;
        std::vector<std::string> row = {call.name, cost(call, false), cost(call, true)};
        {
            Others others;
            others.add(*bench.gpu, poll);
            row.push_back(cost(call, false));
            row.push_back(cost(call, true));
        }
        Others others;
        for (int k = 1; k < gpu_count(); k++)
            others.add(gpu_after(*bench.gpu, k), launch_some);
        row.push_back(gpu_count() > 1 ? cost(call, false) : "-");
        row.push_back(gpu_count() > 1 ? cost(call, true) : "-");
        table.rows.push_back(row);
    }
    report_table(table);
}

/* ---- several GPUs, several threads ---- */

/* Nanoseconds of a launch by a thread of its own, in bursts. */
double bursts(const Gpu &gpu, CUstream stream)
{
    std::vector<double> times;
    OK(cuCtxSetCurrent(gpu.context));
    for (int i = 0; i < BURSTS; i++) {
        double began = now_us();
        for (int k = 0; k < BURST; k++)
            OK(launch_on(gpu, stream));
        times.push_back((now_us() - began) / BURST);
        OK(cuStreamSynchronize(stream));
    }
    return median(times) * 1e3;
}

struct Worker {
    const Gpu *gpu;
    CUstream stream;
    double ns = 0;
    std::string said;
};

/* All begin together. The slowest one's time. */
double in_threads(std::vector<Worker> workers)
{
    std::atomic<size_t> ready{0};
    std::vector<std::thread> threads;
    double most = 0;
    for (Worker &worker : workers)
        threads.emplace_back([&ready, &workers, &worker] {
            ready++;
            while (ready < workers.size())
                std::this_thread::yield();
            try {
                worker.ns = bursts(*worker.gpu, worker.stream);
            } catch (const Failure &failure) {
                worker.said = failure.what();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const Worker &worker : workers) {
        most = std::max(most, worker.ns);
        if (!worker.said.empty())
            throw Failure(worker.said);
    }
    return most;
}

double in_turns()
{
    std::vector<double> times;
    for (int i = 0; i < BURSTS; i++) {
        double began = now_us();
        for (int k = 0; k < BURST; k++)
            for (const Gpu &gpu : machine.gpus) {
                OK(cuCtxSetCurrent(gpu.context));
                OK(launch_on(gpu, gpu.streams[0]));
            }
        times.push_back((now_us() - began) / BURST / gpu_count());
        synchronize_all();
    }
    return median(times) * 1e3;
}

void launching()
{
    Table table = {"Nanoseconds of a cuLaunchKernel of 1 block, in bursts of 50", {"who launches", "ns"}, {}};
    std::vector<Worker> own, shared;
    for (const Gpu &gpu : machine.gpus)
        own.push_back({&gpu, gpu.streams[0], 0, ""});
    for (CUstream stream : bench.gpu->streams)
        shared.push_back({bench.gpu, stream, 0, ""});
    table.rows.push_back({"one thread, one GPU", text("%.0f", in_threads({own[0]}))});
    table.rows.push_back(
        {text("one thread, %d GPUs in turns, with cuCtxSetCurrent", gpu_count()), text("%.0f", in_turns())});
    table.rows.push_back({text("%d threads, a GPU each, the slowest", gpu_count()), text("%.0f", in_threads(own))});
    table.rows.push_back(
        {text("%d threads, streams of one GPU, the slowest", STREAMS), text("%.0f", in_threads(shared))});
    set_current(*bench.gpu);
    report_table(table);
}

CUgraphExec one_kernel()
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(bench.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(launch_plain(1));
    OK(cuStreamEndCapture(bench.stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

} // namespace

void part_calls()
{
    const Gpu &gpu = machine.gpus[0];
    set_current(gpu);
    function_of(gpu, NOTHING);
    OK(cuMemsetD8(gpu.words, 0, WORDS));
    *host_pointer(8) = *host_pointer(9) = 0;
    bench = {&gpu, gpu.streams[0], nullptr, nullptr, gpu_count() > 1 ? gpu_after(gpu, 1).out : 0, nullptr};
    OK(cuEventRecord(gpu.end, bench.stream));
    OK(cuEventCreate(&bench.event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&bench.past, CU_EVENT_DISABLE_TIMING));
    bench.graph = one_kernel();
    costs();
    launching();
    OK(cuGraphExecDestroy(bench.graph));
    OK(cuEventDestroy(bench.event));
    OK(cuEventDestroy(bench.past));
}
