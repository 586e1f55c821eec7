/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the three kernels of an element type. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_CUH

#include <over.cuh>
#include <reduce_bulk.cuh>
#include <reduce_ll.cuh>

#define REDUCE_KERNELS(type, name)                                                                                     \
    KERNEL(KERNEL_LL_THREADS) tutti_reduce_one_##name(PARAMETER(struct kernel_reduce) what)                            \
    {                                                                                                                  \
        launch_begins(what.team);                                                                                      \
        reduce_stripes<element<type>, false>(what);                                                                    \
        launch_over(what.team);                                                                                        \
    }                                                                                                                  \
    KERNEL(KERNEL_LL_THREADS) tutti_reduce_two_##name(PARAMETER(struct kernel_reduce) what)                            \
    {                                                                                                                  \
        launch_begins(what.team);                                                                                      \
        reduce_stripes<element<type>, true>(what);                                                                     \
        launch_over(what.team);                                                                                        \
    }                                                                                                                  \
    KERNEL(KERNEL_BULK_THREADS) tutti_reduce_bulk_##name(PARAMETER(struct kernel_reduce) what)                         \
    {                                                                                                                  \
        launch_begins(what.team);                                                                                      \
        reduce_bulk<element<type>>(what);                                                                              \
        launch_over(what.team);                                                                                        \
    }

#endif
