/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor holds: for who asks, and for the black box. */
#include "executor/gpu/ledger.h"

#include "engine/team_open.h"
#include "executor/gpu/gpu.h"
#include "wire/boxread.h"

#include <string.h>

void ledger_add(struct gpu *gpu, enum wire_memory row, size_t bytes)
{
    gpu->memory[row] += bytes;
    trace_comm_memory(gpu->team->trace, row,
                      gpu->memory[row] + (row == WIRE_MEMORY_TABLES ? team_memory(gpu->team) : 0));
}

void gpu_memory(struct gpu *gpu, size_t *device_bytes, size_t *host_bytes)
{
    *device_bytes = *host_bytes = 0;
    for (int row = 0; row < WIRE_MEMORY_COUNT; row++)
        *(strcmp(blackbox_memory_row((size_t)row)->where, "device") == 0 ? device_bytes : host_bytes) +=
            gpu->memory[row];
}
