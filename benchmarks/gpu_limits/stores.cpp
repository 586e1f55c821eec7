/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits stores: what kernels move to and from peers, by number of blocks. */
#include "limits.h"

#include "kernels.h"

#include <algorithm>

namespace
{

struct Way {
    const char *name;
    Kernel kernel;
    bool pull, every; /* every peer at once, or the next one only */
};

const Way ways[] = {
    {"stores, 1 peer", MOVE, false, false}, {"stores, all", MOVE, false, true},    {"bulk, 1 peer", BULK, false, false},
    {"bulk, all", BULK, false, true},       {"loads, 1 peer", MOVE, true, false},  {"loads, all", MOVE, true, true},
    {"bulk loads, 1", BULK, true, false},   {"bulk loads, all", BULK, true, true},
};

Moves moves_of(const Gpu &gpu, const Way &way, size_t bytes, Pairs &moved)
{
    Moves m = {};
    m.bytes = bytes;
    m.peers = way.every ? gpu_count() - 1 : 1;
    for (uint32_t k = 0; k < m.peers; k++) {
        const Gpu &peer = gpu_after(gpu, k + 1), &from = way.pull ? peer : gpu, &to = way.pull ? gpu : peer;
        m.from[k] = from.in;
        m.to[k] = place(to, from);
        moved.insert({from.index, to.index});
    }
    return m;
}

void start(const Gpu &gpu, const Way &way, unsigned blocks, const Moves &m)
{
    bool bulk = way.kernel == BULK;
    launch(gpu, way.kernel, blocks, bulk ? 32 : MOVE_THREADS, gpu.streams[0], bulk ? BULK_STAGES * BULK_PIECE : 0, m);
}

/* GB/s of each GPU, the median of three launches after one that is checked. */
double measure(const Way &way, unsigned blocks, size_t bytes)
{
    std::vector<double> rates;
    clear_all(bytes);
    for (int time = 0; time < 4; time++) {
        Pairs moved;
        std::vector<double> us =
            together(1, [&](Gpu &gpu) { start(gpu, way, blocks, moves_of(gpu, way, bytes, moved)); });
        std::vector<double> each;
        for (double t : us)
            each.push_back((way.every ? gpu_count() - 1 : 1) * (double)bytes / t * 1e-3);
        if (!time)
            check_moved(text("%s, %u blocks", way.name, blocks), moved, bytes);
        else
            rates.push_back(mean(each));
    }
    return median(rates);
}

void allow_shared_memory()
{
    for (const Gpu &gpu : machine.gpus) {
        set_current(gpu);
        OK(cuFuncSetAttribute(function_of(gpu, BULK), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              BULK_STAGES * BULK_PIECE));
    }
}

} // namespace

void part_stores()
{
    if (gpu_count() < 2)
        return report_note("stores to peers need two GPUs");
    size_t bytes = std::min(machine.most, 256 * MIB); /* many pieces: no block is left with one more */
    Table table = {
        text("GB/s of each GPU by kernels, %zu MiB a peer, %d GPUs", bytes / MIB, gpu_count()), {"blocks"}, {}};
    if (machine.bulk)
        allow_shared_memory();
    else
        report_note("no bulk copies of shared memory: they need compute capability 9.0");
    for (const Way &way : ways)
        table.heads.push_back(way.name);
    fill_all(bytes);
    for (unsigned blocks : {6, 12, 24, 32, 48, 64, 128}) {
        std::vector<std::string> row = {text("%u", blocks)};
        for (const Way &way : ways)
            row.push_back(way.kernel == BULK && !machine.bulk ? "-" : text("%.1f", measure(way, blocks, bytes)));
        table.rows.push_back(row);
    }
    report_table(table);
}
