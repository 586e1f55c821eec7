/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose warps work by themselves, in lines. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_LINES_KERNEL_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_LINES_KERNEL_CUH

#include <ring_lines.cuh>

/* Neighbouring tiles go to different blocks: those of a short vector are on many processors. */
template <class E> DEVICE void reduce_lines(const struct kernel_reduce &what)
{
    __shared__ struct lines_shape s;
    __shared__ arithmetic<E> a;
    const uint32_t lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        a = arithmetic_of<E>(what);
        lines_cut(&s, what, what.mode == KERNEL_BROADCAST ? what.count : what.count * E::BYTES);
    }
    barrier();
    const uint64_t tiles = (least(s.part, s.bytes) + LINES_TILE_BYTES - 1) / LINES_TILE_BYTES;
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

#define LINES_KERNELS(type, name)                                                                                      \
    LAUNCHED(KERNEL_LINES_THREADS, tutti_reduce_lines_##name, kernel_reduce, what.team,                                \
             reduce_lines<element<type>>(what))

#endif
