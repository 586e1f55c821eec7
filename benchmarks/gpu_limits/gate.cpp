/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits: work of all GPUs that begins at once, its time, and the check of what it has moved. */
#include "limits.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>

double now_us()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

double median(std::vector<double> values)
{
    if (values.empty())
        return 0;
    std::sort(values.begin(), values.end());
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double mean(const std::vector<double> &values)
{
    return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

CUdeviceptr host_word(int at)
{
    return (CUdeviceptr)(uintptr_t)host_pointer(at);
}

uint32_t *host_pointer(int at)
{
    return machine.host + at * 16;
}

void set_current(const Gpu &gpu)
{
    OK(cuCtxSetCurrent(gpu.context));
}

void synchronize_all()
{
    for (const Gpu &gpu : machine.gpus) {
        set_current(gpu);
        OK(cuCtxSynchronize());
    }
}

Gate::Gate(int word) : word(word)
{
    __atomic_store_n(host_pointer(word), 0, __ATOMIC_RELEASE);
}

Gate::~Gate()
{
    open();
}

void Gate::close(const Gpu &gpu, CUstream stream)
{
    launch(gpu, SPIN, 1, 1, stream, 0, host_word(word), (uint32_t)1, PATIENCE_NS);
}

void Gate::open()
{
    __atomic_store_n(host_pointer(word), 1, __ATOMIC_RELEASE);
}

Blocker::Blocker(const Gpu &gpu, bool kernel) : gpu(gpu), gate(WORD)
{
    set_current(gpu);
    if (kernel)
        gate.close(gpu, gpu.streams[1]);
    else
        OK(cuStreamWaitValue32(gpu.streams[1], host_word(WORD), 1, CU_STREAM_WAIT_VALUE_GEQ));
    std::this_thread::sleep_for(std::chrono::milliseconds(3)); /* until it has begun */
}

Blocker::~Blocker()
{
    gate.open();
    cuStreamSynchronize(gpu.streams[1]); /* what is wrong with the GPU, the next call will say */
}

bool Blocker::holds()
{
    return cuStreamQuery(gpu.streams[1]) == CUDA_ERROR_NOT_READY;
}

std::vector<double> together(int streams, const std::function<void(Gpu &)> &queue)
{
    std::vector<double> times;
    synchronize_all();
    Gate gate;
    for (Gpu &gpu : machine.gpus) {
        set_current(gpu);
        gate.close(gpu, gpu.streams[0]);
        OK(cuEventRecord(gpu.begin, gpu.streams[0]));
        for (int s = 1; s < streams; s++)
            OK(cuStreamWaitEvent(gpu.streams[s], gpu.begin, 0));
    }
    for (Gpu &gpu : machine.gpus) {
        set_current(gpu);
        queue(gpu);
        for (int s = 1; s < streams; s++) {
            OK(cuEventRecord(gpu.done[s], gpu.streams[s]));
            OK(cuStreamWaitEvent(gpu.streams[0], gpu.done[s], 0));
        }
        OK(cuEventRecord(gpu.end, gpu.streams[0]));
    }
    gate.open();
    synchronize_all();
    for (const Gpu &gpu : machine.gpus) {
        float ms = 0;
        OK(cuEventElapsedTime(&ms, gpu.begin, gpu.end));
        times.push_back(ms * 1e3);
    }
    return times;
}

namespace
{

uint32_t seed_of(const Gpu &gpu)
{
    return 1000003u * (gpu.index + 1);
}

constexpr unsigned BLOCKS = 256, THREADS = 256;

} // namespace

/* The place for what comes from `from`. */
CUdeviceptr place(const Gpu &to, const Gpu &from)
{
    return to.out + from.index * machine.most;
}

void fill_all(size_t bytes)
{
    for (const Gpu &gpu : machine.gpus) {
        set_current(gpu);
        launch(gpu, FILL, BLOCKS, THREADS, gpu.streams[0], 0, gpu.in, (uint64_t)bytes / 4, seed_of(gpu));
    }
    synchronize_all();
}

void clear_all(size_t bytes)
{
    synchronize_all();
    for (const Gpu &gpu : machine.gpus) {
        set_current(gpu);
        for (const Gpu &from : machine.gpus)
            OK(cuMemsetD8Async(place(gpu, from), 0xa5, bytes, gpu.streams[0]));
    }
    synchronize_all();
}

void check_moved(const std::string &what, const Pairs &moved, size_t bytes)
{
    synchronize_all();
    for (const auto &[from, to] : moved) {
        const Gpu &gpu = machine.gpus[to], &other = machine.gpus[from];
        uint32_t wrong = 0;
        set_current(gpu);
        OK(cuMemsetD8Async(gpu.words, 0, 4, gpu.streams[0]));
        launch(gpu, CHECK, BLOCKS, THREADS, gpu.streams[0], 0, place(gpu, other), (uint64_t)bytes / 4, seed_of(other),
               gpu.words);
        OK(cuStreamSynchronize(gpu.streams[0]));
        OK(cuMemcpyDtoH(&wrong, gpu.words, sizeof(wrong)));
        if (wrong)
            complain(
                text("%s, %zu bytes from GPU %d to GPU %d: %u words are wrong", what.c_str(), bytes, from, to, wrong));
    }
}
