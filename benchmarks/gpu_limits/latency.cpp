/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits latency: flags and packets to and fro, fences, barriers, launches. */
#include "limits.h"

#include "kernels.h"

#include <algorithm>

namespace
{

constexpr size_t RESULTS = WORDS - 4096; /* in a GPU's words; flags lie below */
constexpr int ROUNDS = 500;

void clear_words()
{
    synchronize_all();
    for (const Gpu &gpu : machine.gpus) {
        set_current(gpu);
        OK(cuMemsetD8(gpu.words, 0, WORDS));
    }
    synchronize_all();
}

struct Result {
    uint64_t ns, state;
};

Result result_of(const Gpu &gpu, int at = 0)
{
    Result result;
    set_current(gpu);
    OK(cuMemcpyDtoH(&result, gpu.words + RESULTS + at * sizeof(result), sizeof(result)));
    return result;
}

/* Nanoseconds of one way, of messages that go to and fro between a block of each. */
double talk(Kernel kernel, const Gpu &a, const Gpu &b, const char *what)
{
    const Gpu *ends[] = {&a, &b};
    clear_words();
    for (int i = 0; i < 2; i++) {
        Talk t = {ends[i]->words + 4096 * i,
                  ends[!i]->words + 4096 * !i,
                  ends[i]->words + RESULTS + 16 * i,
                  PATIENCE_NS,
                  ROUNDS,
                  i == 0};
        set_current(*ends[i]);
        launch(*ends[i], kernel, 1, 1, ends[i]->streams[i], 0, t);
    }
    synchronize_all();
    for (int i = 0; i < 2; i++)
        if (result_of(*ends[i], i).state != 1)
            complain(text("%s between GPUs %d and %d: a message did not come, or not as it was sent", what, a.index,
                          b.index));
    return result_of(a).ns / (2.0 * ROUNDS);
}

void talks()
{
    Table table = {"A message from kernel to kernel, one way, nanoseconds", {"by", "within a GPU", "to a peer"}, {}};
    const Gpu &a = machine.gpus[0];
    const std::pair<const char *, Kernel> ways[] = {{"flag: st.release.sys, ld.acquire.sys", FLAGS},
                                                    {"packet: 16 volatile bytes", PACKETS}};
    for (const auto &[name, kernel] : ways) {
        std::string away = gpu_count() > 1 ? text("%.0f", talk(kernel, a, gpu_after(a, 1), name)) : "-";
        table.rows.push_back({name, text("%.0f", talk(kernel, a, a, name)), away});
    }
    report_table(table);
}

/* Nanoseconds of a round of stores, a fence and a barrier of the block. */
double fence(const Gpu &gpu, CUdeviceptr to, unsigned threads, uint32_t stores)
{
    Fence f = {to, gpu.words + RESULTS, ROUNDS, stores};
    clear_words();
    set_current(gpu);
    launch(gpu, FENCE, 1, threads, gpu.streams[0], 0, f);
    synchronize_all();
    return result_of(gpu).ns / (double)ROUNDS;
}

void fences()
{
    Table table = {"__threadfence_system and __syncthreads after stores of 16 bytes, nanoseconds",
                   {"threads x stores", "own memory", "a peer's"},
                   {}};
    const std::pair<unsigned, uint32_t> loads[] = {{1, 0}, {512, 0}, {1, 1}, {32, 1}, {512, 1}, {512, 8}};
    const Gpu &gpu = machine.gpus[0];
    for (const auto &[threads, stores] : loads) {
        std::string away = gpu_count() > 1 ? text("%.0f", fence(gpu, gpu_after(gpu, 1).out, threads, stores)) : "-";
        table.rows.push_back(
            {text("%u x %u", threads, stores), text("%.0f", fence(gpu, gpu.out, threads, stores)), away});
    }
    report_table(table);
}

double barrier(Kernel kernel, unsigned blocks, int count)
{
    constexpr uint32_t ROUNDS_HERE = 200;
    Team team = {{}, 0, PATIENCE_NS, 0, (uint32_t)count, ROUNDS_HERE, 0};
    clear_words();
    for (int g = 0; g < count; g++)
        team.words[g] = machine.gpus[g].words;
    for (int g = 0; g < count; g++) {
        const Gpu &gpu = machine.gpus[g];
        team.me = g;
        team.result = gpu.words + RESULTS;
        set_current(gpu);
        launch(gpu, kernel, blocks, 256, gpu.streams[0], 0, team);
    }
    synchronize_all();
    double most = 0;
    for (int g = 0; g < count; g++) {
        Result result = result_of(machine.gpus[g]);
        most = std::max(most, result.ns / (double)ROUNDS_HERE);
        if (result.state)
            complain(text("%s, %u blocks, %d GPUs: GPU %d waited in vain", kernel_names[kernel], blocks, count, g));
    }
    return most;
}

void barriers()
{
    Table table = {"A barrier of running kernels, nanoseconds",
                   {"GPUs", "blocks", "each block with its namesakes", "all blocks of all"},
                   {}};
    for (int count = 1; count <= gpu_count(); count *= 2)
        for (unsigned blocks : {1, 16, 64})
            table.rows.push_back({text("%d", count), text("%u", blocks), text("%.0f", barrier(MEET, blocks, count)),
                                  text("%.0f", barrier(BARRIER, blocks, count))});
    report_table(table);
}

/* ---- launches ---- */

constexpr int LAUNCHES = 20;

void nothing(const Gpu &gpu, unsigned blocks, unsigned threads)
{
    launch(gpu, NOTHING, blocks, threads, gpu.streams[0], 0, Nothing{});
}

CUgraphExec graph_of(const Gpu &gpu, unsigned blocks, unsigned threads)
{
    CUgraph graph;
    CUgraphExec exec;
    set_current(gpu);
    OK(cuStreamBeginCapture(gpu.streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < LAUNCHES; i++)
        nothing(gpu, blocks, threads);
    OK(cuStreamEndCapture(gpu.streams[0], &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

/* Microseconds on the GPU, of one of twenty. */
double in_a_row(const std::function<void(Gpu &)> &twenty)
{
    std::vector<double> times;
    for (int time = 0; time < 6; time++) {
        std::vector<double> us = together(1, [&](Gpu &gpu) {
            if (!gpu.index)
                twenty(gpu);
        });
        if (time)
            times.push_back(us[0] / LAUNCHES);
    }
    return median(times);
}

/* Microseconds on the host, from the call to the end of the kernel. */
double launch_and_wait(const Gpu &gpu, unsigned blocks, unsigned threads)
{
    std::vector<double> times;
    set_current(gpu);
    for (int time = 0; time < 60; time++) {
        double began = now_us();
        nothing(gpu, blocks, threads);
        OK(cuStreamSynchronize(gpu.streams[0]));
        if (time >= 10)
            times.push_back(now_us() - began);
    }
    return median(times);
}

void launches()
{
    Table table = {"Kernels that do nothing, microseconds each",
                   {"blocks x threads", "graph of 20", "20 queued", "launch and synchronize"},
                   {}};
    const Gpu &gpu = machine.gpus[0];
    const std::pair<unsigned, unsigned> grids[] = {{1, 32}, {1, 512}, {16, 512}, {64, 512}, {128, 512}};
    for (const auto &grid : grids) {
        unsigned blocks = grid.first, threads = grid.second;
        CUgraphExec exec = graph_of(gpu, blocks, threads);
        double graph = in_a_row([&](Gpu &g) { OK(cuGraphLaunch(exec, g.streams[0])); });
        double queued = in_a_row([&](Gpu &g) {
            for (int i = 0; i < LAUNCHES; i++)
                nothing(g, blocks, threads);
        });
        OK(cuGraphExecDestroy(exec));
        table.rows.push_back({text("%u x %u", blocks, threads), text("%.2f", graph), text("%.2f", queued),
                              text("%.2f", launch_and_wait(gpu, blocks, threads))});
    }
    report_table(table);
}

} // namespace

void part_latency()
{
    talks();
    fences();
    barriers();
    launches();
}
