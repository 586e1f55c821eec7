/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels. */
#include "cuda/kernels/cuda_kernels.h"

#include "device/cuda/kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread struct cuda_index cuda_grid, cuda_block_index;
__thread bool cuda_kernel_has_waited;

#define RUN(kernel, params_type)                                                                                       \
    extern void kernel(struct params_type params);                                                                     \
    static void run_##kernel(const void *params)                                                                       \
    {                                                                                                                  \
        struct params_type copy;                                                                                       \
        memcpy(&copy, params, sizeof copy);                                                                            \
        kernel(copy);                                                                                                  \
    }
#define RUN_REDUCTIONS(type, name)                                                                                     \
    RUN(tutti_reduce_one_##name, kernel_list)                                                                          \
    RUN(tutti_reduce_two_##name, kernel_list)                                                                          \
    RUN(tutti_reduce_bulk_##name, kernel_reduce)                                                                       \
    RUN(tutti_reduce_ring_##name, kernel_reduce)                                                                       \
    RUN(tutti_reduce_lines_##name, kernel_reduce)                                                                      \
    RUN(tutti_reduce_listed_##name, kernel_list)                                                                       \
    RUN(tutti_reduce_peer_##name, kernel_peer)                                                                         \
    RUN(tutti_reduce_folded_##name, kernel_courier)
RUN(tutti_chain, kernel_chain)
RUN(tutti_courier, kernel_courier)
RUN(tutti_exchange, kernel_exchange)
RUN(tutti_messages, kernel_messages)
RUN(tutti_gather_words, kernel_list)
RUN(tutti_puts, kernel_puts)
RUN(tutti_exchange_dynamic, kernel_dynamic)
KERNEL_INTEGERS(RUN_REDUCTIONS)
KERNEL_FLOATS(RUN_REDUCTIONS)

#define ROW(kernel, params_type) {#kernel, sizeof(struct params_type), run_##kernel},
#define REDUCTION_ROWS(type, name)                                                                                     \
    ROW(tutti_reduce_one_##name, kernel_list)                                                                          \
    ROW(tutti_reduce_two_##name, kernel_list)                                                                          \
    ROW(tutti_reduce_bulk_##name, kernel_reduce)                                                                       \
    ROW(tutti_reduce_ring_##name, kernel_reduce)                                                                       \
    ROW(tutti_reduce_lines_##name, kernel_reduce)                                                                      \
    ROW(tutti_reduce_listed_##name, kernel_list)                                                                       \
    ROW(tutti_reduce_peer_##name, kernel_peer)                                                                         \
    ROW(tutti_reduce_folded_##name, kernel_courier)
static const struct cuda_kernel kernels[] = {
    ROW(tutti_chain, kernel_chain) ROW(tutti_courier, kernel_courier) ROW(tutti_exchange, kernel_exchange)
        ROW(tutti_messages, kernel_messages) ROW(tutti_gather_words, kernel_list)
            ROW(tutti_exchange_dynamic, kernel_dynamic) ROW(tutti_puts, kernel_puts) KERNEL_INTEGERS(REDUCTION_ROWS)
                KERNEL_FLOATS(REDUCTION_ROWS)};

const struct cuda_kernel *cuda_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

void cuda_kernel_run_block(const struct cuda_kernel *kernel, const void *params, struct cuda_index grid,
                           struct cuda_index block)
{
    cuda_grid = grid;
    cuda_block_index = block;
    cuda_kernel_has_waited = false;
    kernel->run(params);
    if (cuda_kernel_has_waited)
        return;
    fprintf(stderr, "%s has not waited for its stream\n", kernel->name);
    abort();
}
