/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor holds: for who asks, and for the black box. */
#include "executor/stream/ledger.h"

#include "engine/team.h"
#include "engine/team_open.h"
#include "executor/stream/base.h"
#include "wire/boxread.h"

#include <string.h>

static struct trace_comm *ledger_box(const struct stream_base *base)
{
    const struct team *team = base->team;
    return (team->whole ? team->whole : team)->trace;
}

void ledger_add(struct stream_base *base, enum wire_memory row, size_t bytes)
{
    __atomic_fetch_add(&base->memory[row], bytes, __ATOMIC_RELAXED);
    if (row == WIRE_MEMORY_TABLES)
        bytes += base->team_memory = team_memory(base->team);
    trace_comm_memory(ledger_box(base), row, bytes);
}

void ledger_end(struct stream_base *base)
{
    base->memory[WIRE_MEMORY_TABLES] += base->team_memory;
    for (int row = 0; row < WIRE_MEMORY_COUNT; row++)
        trace_comm_memory(ledger_box(base), (enum wire_memory)row, -(uint64_t)base->memory[row]);
}

void ledger_sums(struct stream_base *base, size_t *device_bytes, size_t *host_bytes)
{
    *device_bytes = *host_bytes = 0;
    for (int row = 0; row < WIRE_MEMORY_COUNT; row++)
        *(strcmp(blackbox_memory_row((size_t)row)->where, "device") == 0 ? device_bytes : host_bytes) +=
            __atomic_load_n(&base->memory[row], __ATOMIC_RELAXED);
}
