/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor holds: for who asks, and for the black box. */
#ifndef TUTTI_EXECUTOR_GPU_LEDGER_H
#define TUTTI_EXECUTOR_GPU_LEDGER_H

#include "wire/blackbox.h"

#include <stddef.h>

struct gpu;

/* It holds so many bytes more. */
void ledger_add(struct gpu *gpu, enum wire_memory row, size_t bytes);
void gpu_memory(struct gpu *gpu, size_t *device_bytes, size_t *host_bytes);

#endif
