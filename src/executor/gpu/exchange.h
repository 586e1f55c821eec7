/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges: any pattern of messages in which each rank sends and receives at most one to and from each. */
#ifndef TUTTI_EXECUTOR_GPU_EXCHANGE_H
#define TUTTI_EXECUTOR_GPU_EXCHANGE_H

#include "executor/gpu/copy.h"

struct gpu;

/* Of a collective: do messages of `bytes` bytes go by slots, neither copied nor to memory that peers are invited to? A
 * list of launches has one step, which tells of no user's memory. */
bool exchange_by_slots(const struct gpu *gpu, uint64_t bytes);

/* Stripes of a message of `bytes` bytes. */
uint32_t exchange_stripes(const struct gpu *gpu, uint64_t bytes);

/* The sizes from which messages have other forms. */
void exchange_take_forms(const struct gpu *gpu, struct kernel_exchange *what);

tutti_result_t exchange_issue(struct gpu *gpu, struct kernel_exchange *what, enum exchange kind, CUstream stream,
                              bool capturing);

#endif
