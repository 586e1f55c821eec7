/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose warps work by themselves, in lines. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_LINES_KERNEL_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_LINES_KERNEL_CUH

#include <ring_lines.cuh>

enum { LINES_WARPS = BLOCK_OF(KERNEL_LINES_THREADS) / WARP };

template <class E> DEVICE uint64_t lines_bytes(const struct kernel_reduce &what, uint64_t count)
{
    return what.mode == KERNEL_BROADCAST || lines_gather<E>(what) ? count : count * E::BYTES;
}

/* Of the vector or block that the shape is of, up to the end of an owner's part. */
DEVICE uint64_t lines_tiles(const struct lines_shape &s)
{
    return (least(s.part, s.bytes) + LINES_TILE_BYTES - 1) / LINES_TILE_BYTES;
}

/* Neighbouring tiles go to different blocks: those of a short vector are on many processors. */
template <class E> DEVICE void reduce_lines(const struct kernel_reduce &what)
{
    __shared__ struct lines_shape s;
    __shared__ arithmetic<E> a;
    const uint32_t lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        const struct list_vector all = {what.in, what.out, what.count, blockDim.x / WARP * gridDim.x, 0};
        a = arithmetic_of<E>(what);
        lines_cut<E>(&s, what, all, lines_bytes<E>(what, what.count));
    }
    barrier();
    const uint64_t tiles = lines_tiles(s);
    lines_run<E> r = {what, s, a, threadIdx.x / WARP * gridDim.x + blockIdx.x, 0, 0, {NULL, tile_begin(0, lane), lane}};
    if (r.worker >= tiles)
        return;
    r.steps = (uint32_t)((tiles - r.worker + s.workers - 1) / s.workers);
    if (what.ring) {
        ring_lines_steps(r);
        return;
    }
    r.number = load_relaxed(&window_of(what.team, what.team.rank)->reduce_lines_number[r.worker]);
    lines_steps(r);
}

/* One vector of a list, by the warps that share it out. */
template <class E>
DEVICE void lines_item(const struct kernel_list &list, const arithmetic<E> &a, struct lines_shape *s,
                       uint32_t team_worker, const struct list_vector &item)
{
    const struct kernel_reduce &what = list.reduce;
    const uint32_t lane = threadIdx.x % WARP, worker = item_stripe(list, item, team_worker);
    if (worker >= item.stripes)
        return;
    warp_sync(); /* all lanes are done with the vector before */
    if (lane == 0) {
        lines_cut<E>(s, what, item, lines_bytes<E>(what, item.count));
        s->team_worker = team_worker;
    }
    warp_sync();
    const uint64_t tiles = lines_tiles(*s);
    lines_run<E> r = {what, *s, a, worker, 0, 0, {NULL, tile_begin(0, lane), lane}};
    if (worker >= tiles)
        return;
    r.steps = (uint32_t)((tiles - worker + item.stripes - 1) / item.stripes);
    r.number = load_relaxed(&window_of(what.team, what.team.rank)->reduce_lines_number[team_worker]);
    lines_steps(r);
}

/*
 * A list, with as many warps as the launch has stripes, or more. A block of one thread has the stripes of several. It
 * goes from vector to vector with them, and to the lower stripe of the team first, as all blocks of all ranks do.
 */
template <class E> DEVICE void reduce_listed(const struct kernel_list &list)
{
    __shared__ struct lines_shape shapes[LINES_WARPS];
    __shared__ arithmetic<listed<E>> a;
    const uint32_t warp = threadIdx.x / WARP, index = warp * gridDim.x + blockIdx.x, items = list_items(list);
    const uint32_t stripes = list.reduce.stripes > gridDim.x ? list.reduce.stripes : gridDim.x;
    if (threadIdx.x == 0)
        a = arithmetic_of<listed<E>>(list.reduce);
    barrier();
    for (uint32_t i = 0; !ALONE && index < stripes && i < items; i++)
        lines_item(list, a, &shapes[warp], list_stripe(list, index), list_item(list, i));
    for (uint32_t i = 0; ALONE && i < items; i++)
        for (uint32_t low = 0; low < (list.width ? list.width : stripes); low++) {
            const uint32_t at = low >= list.first ? low - list.first : low + list.width - list.first;
            if (at < stripes && at % gridDim.x == blockIdx.x)
                lines_item(list, a, shapes, low, list_item(list, i));
        }
}

#define LINES_KERNELS(type, name)                                                                                      \
    LAUNCHED(KERNEL_LINES_THREADS, tutti_reduce_lines_##name, kernel_reduce, what.team,                                \
             reduce_lines<element<type>>(what))                                                                        \
    LAUNCHED(KERNEL_LINES_THREADS, tutti_reduce_listed_##name, kernel_list, what.reduce.team,                          \
             reduce_listed<element<type>>(what))

#endif
