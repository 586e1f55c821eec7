/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits copies: what copy engines carry, and how long a stream pauses between copies. */
#include "limits.h"

#include <algorithm>

namespace
{

Pairs moved;

void push(const Gpu &from, const Gpu &to, size_t bytes, int stream)
{
    OK(cuMemcpyDtoDAsync(place(to, from), from.in, bytes, from.streams[stream]));
    moved.insert({from.index, to.index});
}

void pull(const Gpu &to, const Gpu &from, size_t bytes, int stream)
{
    OK(cuMemcpyDtoDAsync(place(to, from), from.in, bytes, to.streams[stream]));
    moved.insert({from.index, to.index});
}

using Move = void (*)(const Gpu &, const Gpu &, size_t, int);

/* One round of a pattern by one GPU. Returns how many copies it made. */
struct Pattern {
    const char *name;
    int streams;
    Move move;
    int (*round)(const Gpu &gpu, Move move, size_t bytes);
};

int pair(const Gpu &gpu, Move move, size_t bytes)
{
    if (gpu.index)
        return 0;
    move(gpu, gpu_after(gpu, 1), bytes, 0);
    return 1;
}

int ring(const Gpu &gpu, Move move, size_t bytes)
{
    move(gpu, gpu_after(gpu, 1), bytes, 0);
    return 1;
}

/* Each GPU has another peer at any time, while they stay in step. */
int turns(const Gpu &gpu, Move move, size_t bytes)
{
    for (int k = 1; k < gpu_count(); k++)
        move(gpu, gpu_after(gpu, k), bytes, 0);
    return gpu_count() - 1;
}

/* All have the same peer at a time. */
int crowd(const Gpu &gpu, Move move, size_t bytes)
{
    for (const Gpu &peer : machine.gpus)
        if (peer.index != gpu.index)
            move(gpu, peer, bytes, 0);
    return gpu_count() - 1;
}

int all_to_all(const Gpu &gpu, Move move, size_t bytes)
{
    for (int k = 1; k < gpu_count(); k++)
        move(gpu, gpu_after(gpu, k), bytes, k);
    return gpu_count() - 1;
}

const Pattern patterns[] = {
    {"one pair, pushing", 1, push, pair},
    {"ring, pushing", 1, push, ring},
    {"all peers in turns, pushing", 1, push, turns},
    {"all to one peer at a time, pushing", 1, push, crowd},
    {"all to all, a stream each, pushing", STREAMS, push, all_to_all},
    {"one pair, pulling", 1, pull, pair},
    {"ring, pulling", 1, pull, ring},
    {"all peers in turns, pulling", 1, pull, turns},
    {"all from one peer at a time, pulling", 1, pull, crowd},
    {"all to all, a stream each, pulling", STREAMS, pull, all_to_all},
};

struct Rate {
    double mean, least;
};

/* GB/s of each GPU that copies: `rounds` of the pattern in a row, the median of three times. */
Rate measure(const Pattern &pattern, size_t bytes, int rounds)
{
    std::vector<double> means, leasts;
    clear_all(bytes);
    for (int time = 0; time < 4; time++) {
        std::vector<int> copies(gpu_count());
        moved.clear();
        std::vector<double> us = together(pattern.streams, [&](Gpu &gpu) {
            for (int i = 0; i < (time ? rounds : 1); i++)
                copies[gpu.index] += pattern.round(gpu, pattern.move, bytes);
        });
        std::vector<double> rates;
        for (int g = 0; g < gpu_count(); g++)
            if (copies[g])
                rates.push_back(copies[g] * (double)bytes / us[g] * 1e-3);
        if (!time) /* the first time is for the check, and for what the driver does once */
            check_moved(pattern.name, moved, bytes);
        else
            means.push_back(mean(rates)), leasts.push_back(*std::min_element(rates.begin(), rates.end()));
    }
    return {median(means), median(leasts)};
}

void rates()
{
    const std::vector<std::pair<size_t, int>> all = {{MIB, 30}, {16 * MIB, 8}, {64 * MIB, 3}, {256 * MIB, 2}};
    Table table = {text("GB/s of each GPU that copies, by length, %d GPUs", gpu_count()), {"copy engines"}, {}};
    std::vector<std::pair<size_t, int>> sizes;
    for (const auto &size : all)
        if (size.first <= machine.most) {
            sizes.push_back(size);
            table.heads.push_back(text("%zu MiB", size.first / MIB));
        }
    table.heads.push_back("slowest GPU, longest copy");
    for (const Pattern &pattern : patterns) {
        std::vector<std::string> row = {pattern.name};
        Rate rate = {};
        for (const auto &[bytes, rounds] : sizes) {
            rate = measure(pattern, bytes, rounds);
            row.push_back(text("%.1f", rate.mean));
        }
        row.push_back(text("%.1f", rate.least));
        table.rows.push_back(row);
    }
    report_table(table);
}

/* ---- pauses ---- */

CUdeviceptr word_of(const Gpu &gpu, int at)
{
    return gpu.words + 64 * at;
}

CUstreamBatchMemOpParams batch_wait(CUdeviceptr at)
{
    CUstreamBatchMemOpParams op = {};
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = at;
    op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return op;
}

CUstreamBatchMemOpParams batch_write(CUdeviceptr at)
{
    CUstreamBatchMemOpParams op = {};
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = at;
    return op;
}

/* What stands in front of each copy and after it. Waits find what they wait for. */
struct Between {
    const char *name;
    void (*before)(const Gpu &gpu), (*after)(const Gpu &gpu);
};

void none(const Gpu &)
{
}

void wait_own(const Gpu &gpu)
{
    OK(cuStreamWaitValue32(gpu.streams[0], word_of(gpu, 0), 0, CU_STREAM_WAIT_VALUE_GEQ));
}

void wait_host(const Gpu &gpu)
{
    OK(cuStreamWaitValue32(gpu.streams[0], host_word(8), 0, CU_STREAM_WAIT_VALUE_GEQ));
}

void write_peer(const Gpu &gpu)
{
    OK(cuStreamWriteValue32(gpu.streams[0], word_of(gpu_after(gpu, 1), 4), 0, 0));
}

void write_host(const Gpu &gpu)
{
    OK(cuStreamWriteValue32(gpu.streams[0], host_word(9 + gpu.index), 0, 0));
}

void batch(const Gpu &gpu)
{
    CUstreamBatchMemOpParams ops[] = {batch_write(word_of(gpu_after(gpu, 1), 4)), batch_wait(word_of(gpu, 0))};
    OK(cuStreamBatchMemOp(gpu.streams[0], 2, ops, 0));
}

void copy_flag(const Gpu &gpu)
{
    OK(cuMemcpyDtoDAsync(word_of(gpu_after(gpu, 1), 8), word_of(gpu, 12), 4, gpu.streams[0]));
}

void record(const Gpu &gpu)
{
    OK(cuEventRecord(gpu.done[0], gpu.streams[0]));
}

void wait_event(const Gpu &gpu)
{
    OK(cuStreamWaitEvent(gpu.streams[0], gpu.done[1], 0));
}

const Between betweens[] = {
    {"wait on own memory before", wait_own, none},
    {"wait on host memory before", wait_host, none},
    {"write to the peer's memory after", none, write_peer},
    {"write to host memory after", none, write_host},
    {"wait own, copy, write peer's", wait_own, write_peer},
    {"wait host, copy, write host", wait_host, write_host},
    {"batch of write peer's, wait own after", none, batch},
    {"copy of 4 bytes to the peer after", none, copy_flag},
    {"event recorded after", none, record},
    {"done event of another stream waited for", wait_event, none},
};

/* Microseconds a copy takes, all in a ring, with what stands between copies. */
double copy_time(const Between &between, size_t bytes)
{
    constexpr int COPIES = 24;
    std::vector<double> times;
    for (int time = 0; time < 4; time++) {
        std::vector<double> us = together(1, [&](Gpu &gpu) {
            for (int i = 0; i < COPIES; i++) {
                between.before(gpu);
                ring(gpu, push, bytes);
                between.after(gpu);
            }
        });
        if (time)
            times.push_back(mean(us) / COPIES);
    }
    return median(times);
}

void pauses()
{
    Table table = {"Pause of a stream at each copy of a ring, by what stands between copies, microseconds",
                   {"between copies"},
                   {}};
    std::vector<double> alone;
    std::vector<size_t> sizes;
    std::vector<std::string> first = {"nothing (time of a copy)"};
    for (size_t bytes : {MIB, 2 * MIB, 4 * MIB, 8 * MIB})
        if (bytes <= machine.most)
            sizes.push_back(bytes);
    for (size_t bytes : sizes) {
        table.heads.push_back(text("%zu MiB", bytes / MIB));
        alone.push_back(copy_time({"", none, none}, bytes));
        first.push_back(text("%.2f", alone.back()));
    }
    table.rows.push_back(first);
    for (const Between &between : betweens) {
        std::vector<std::string> row = {between.name};
        for (size_t i = 0; i < sizes.size(); i++)
            row.push_back(text("%.2f", copy_time(between, sizes[i]) - alone[i]));
        table.rows.push_back(row);
    }
    report_table(table);
}

} // namespace

void part_copies()
{
    if (gpu_count() < 2)
        return report_note("copies between GPUs need two of them");
    fill_all(machine.most);
    rates();
    for (const Gpu &gpu : machine.gpus) { /* words that waits find as they want them */
        set_current(gpu);
        OK(cuMemsetD8(gpu.words, 0, WORDS));
        OK(cuEventRecord(gpu.done[1], gpu.streams[1]));
    }
    synchronize_all();
    pauses();
}
