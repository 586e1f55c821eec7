/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as people write them. */
#include "wire/boxread.h"
#include "wire/link.h"

#include <stdio.h>

static bool has_root(unsigned collective)
{
    return collective == WIRE_REDUCE || collective == WIRE_BROADCAST || collective == WIRE_GATHER ||
           collective == WIRE_SCATTER;
}

static const char *name_of(unsigned collective)
{
    return collective == WIRE_SIGNATURE_P2P ? "a message" : blackbox_collective_name((int)collective);
}

const char *wire_call_text(struct wire_call call, char *out, size_t size)
{
    unsigned collective = call.signature >> 28, type = call.signature >> 24 & 15, op = call.signature >> 21 & 7;
    int used = snprintf(out, size, "%s", name_of(collective));
    if (collective == WIRE_ALLTOALLV)
        used += snprintf(out + used, size - (size_t)used, " of %s", blackbox_type_name((int)type));
    else if (collective != WIRE_BARRIER)
        used += snprintf(out + used, size - (size_t)used, " of %llu %s", (unsigned long long)call.count,
                         blackbox_type_name((int)type));
    if (op != 7 && collective != WIRE_SIGNATURE_P2P)
        used += snprintf(out + used, size - (size_t)used, ", %s", blackbox_op_name((int)op));
    if (has_root(collective))
        snprintf(out + used, size - (size_t)used, ", root %d", call.root);
    return out;
}
