/* SPDX-License-Identifier: Apache-2.0 */
/* Any pattern of messages between ranks, of which each sends and receives one to and from each. */
#ifndef TUTTI_EXECUTOR_GPU_EXCHANGE_H
#define TUTTI_EXECUTOR_GPU_EXCHANGE_H

#include "executor/gpu/copy.h"

struct gpu;

tutti_result_t exchange_issue(struct gpu *gpu, struct kernel_exchange *what, enum exchange kind, CUstream stream,
                              bool capturing);

#endif
