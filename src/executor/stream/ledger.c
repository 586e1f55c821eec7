/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor holds: for who asks, and for the black box. */
#include "executor/stream/ledger.h"

#include "engine/team.h"
#include "engine/team_open.h"
#include "executor/stream/base.h"
#include "wire/boxread.h"

#include <string.h>

void ledger_add(struct stream_base *base, enum wire_memory row, size_t bytes)
{
    const struct team *team = base->team;
    base->memory[row] += bytes;
    trace_comm_memory((team->whole ? team->whole : team)->trace, row,
                      bytes + (row == WIRE_MEMORY_TABLES ? team_memory(team) : 0));
}

void ledger_sums(struct stream_base *base, size_t *device_bytes, size_t *host_bytes)
{
    *device_bytes = *host_bytes = 0;
    for (int row = 0; row < WIRE_MEMORY_COUNT; row++)
        *(strcmp(blackbox_memory_row((size_t)row)->where, "device") == 0 ? device_bytes : host_bytes) +=
            base->memory[row];
}
