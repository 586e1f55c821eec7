/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose warps work by themselves, in lines. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_LINES_KERNEL_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_LINES_KERNEL_CUH

#include <ring_lines.cuh>
enum { LINES_WARPS = BLOCK_OF(KERNEL_LINES_THREADS) / WARP };

/* Of a launch without items all warps share out the vector. */
DEVICE struct list_vector lines_of_list(const struct kernel_list &list, uint32_t i, uint32_t warps)
{
    struct list_vector item = list_item(list, i);
    if (!list.items)
        item.stripes = warps;
    return item;
}

/* By a warp: its own shape. */
template <class E>
DEVICE void lines_shape_of(const struct kernel_reduce &what, struct lines_shape *s, uint32_t team_worker,
                           const struct list_vector &item)
{
    const bool plain = what.mode == KERNEL_BROADCAST || lines_gather<E>(what);
    if (threadIdx.x % WARP)
        return;
    lines_cut<E>(s, what, item, plain ? item.count : item.count * E::BYTES);
    s->team_worker = team_worker;
}

/* One vector, by the warps that share it out. The shape of a launch's only vector is there already. */
template <class E>
DEVICE void lines_item(const struct kernel_list &list, const arithmetic<E> &a, struct lines_shape *s,
                       uint32_t team_worker, const struct list_vector &item)
{
    const struct kernel_reduce &what = list.reduce;
    const uint32_t lane = threadIdx.x % WARP, worker = item_stripe(list, item, team_worker);
    if (worker >= item.stripes)
        return;
    if (list.items || ALONE) {
        warp_sync(); /* all lanes are done with the vector before */
        lines_shape_of<E>(what, s, team_worker, item);
        warp_sync();
    }
    const uint64_t tiles = (least(s->part, s->bytes) + LINES_TILE_BYTES - 1) / LINES_TILE_BYTES;
    lines_run<E> r = {what, *s, a, worker, 0, 0, {NULL, tile_begin(0, lane), lane}};
    if (worker >= tiles)
        return;
    r.steps = (uint32_t)((tiles - worker + item.stripes - 1) / item.stripes);
    if (what.ring) {
        ring_lines_steps(r);
        return;
    }
    r.number = load_relaxed(&window_of(what.team, what.team.rank)->reduce_lines_number[team_worker]);
    lines_steps(r);
}

/*
 * Neighbouring tiles go to different blocks: those of a short vector are on many processors. A list's launch has as
 * many warps as it has stripes, or more. A block of one thread has the stripes of several. It goes from vector to
 * vector with them, and to the lower stripe of the team first, as all blocks of all ranks do.
 */
template <class E> DEVICE void reduce_lines(const struct kernel_list &list)
{
    __shared__ struct lines_shape shapes[LINES_WARPS];
    __shared__ arithmetic<E> a;
    const uint32_t warp = threadIdx.x / WARP, index = warp * gridDim.x + blockIdx.x, items = list_items(list);
    const uint32_t stripes = list.items && list.reduce.stripes > gridDim.x ? list.reduce.stripes
                             : list.items                                  ? gridDim.x
                                                                           : blockDim.x / WARP * gridDim.x;
    if (!list.items && !ALONE)
        lines_shape_of<E>(list.reduce, &shapes[warp], index, lines_of_list(list, 0, stripes));
    if (threadIdx.x == 0)
        a = arithmetic_of<E>(list.reduce);
    barrier();
    for (uint32_t i = 0; !ALONE && index < stripes && i < items; i++)
        lines_item(list, a, &shapes[warp], list_stripe(list, index), lines_of_list(list, i, stripes));
    for (uint32_t i = 0; ALONE && i < items; i++)
        for (uint32_t low = 0; low < (list.width ? list.width : stripes); low++) {
            const uint32_t at = low >= list.first ? low - list.first : low + list.width - list.first;
            if (at < stripes && at % gridDim.x == blockIdx.x)
                lines_item(list, a, shapes, low, lines_of_list(list, i, stripes));
        }
}

#define LINES_KERNELS(type, name)                                                                                      \
    LAUNCHED(KERNEL_LINES_THREADS, tutti_reduce_lines_##name, kernel_list, what.reduce.team,                           \
             reduce_lines<element<type>>(what))

#endif
