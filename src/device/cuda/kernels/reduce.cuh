/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the three kernels of an element type. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_CUH

#include <over.cuh>
#include <reduce_bulk.cuh>
#include <reduce_ll.cuh>

#define REDUCE_KERNELS(type, name)                                                                                     \
    LAUNCHED(KERNEL_LL_THREADS, tutti_reduce_one_##name, kernel_list, what.reduce.team,                                \
             reduce_stripes<element<type>, false>(what))                                                               \
    LAUNCHED(KERNEL_LL_THREADS, tutti_reduce_two_##name, kernel_list, what.reduce.team,                                \
             reduce_stripes<element<type>, true>(what))                                                                \
    LAUNCHED(KERNEL_BULK_THREADS, tutti_reduce_bulk_##name, kernel_reduce, what.team, reduce_bulk<element<type>>(what))

#endif
