/* SPDX-License-Identifier: Apache-2.0 */
/* Names of what the numbers in a black box stand for. Types and operators are spelled as the nccl-tests spell them. */
#include "wire/boxread.h"

#include <string.h>

static const char *const collectives[] = {
    [WIRE_ALLREDUCE] = "allreduce",
    [WIRE_REDUCE] = "reduce",
    [WIRE_BROADCAST] = "broadcast",
    [WIRE_ALLGATHER] = "allgather",
    [WIRE_ALLTOALL] = "alltoall",
    [WIRE_ALLTOALLV] = "alltoallv",
    [WIRE_REDUCE_SCATTER] = "reduce_scatter",
    [WIRE_GATHER] = "gather",
    [WIRE_SCATTER] = "scatter",
    [WIRE_BARRIER] = "barrier",
    [WIRE_SEND] = "send",
    [WIRE_RECV] = "recv",
    [WIRE_GROUP] = "group",
    [WIRE_SCAN] = "scan",
    [WIRE_PUT] = "put",
    [WIRE_SIGNAL] = "signal",
    [WIRE_GET] = "get",
    [WIRE_FLUSH] = "flush",
    [WIRE_WAIT_SIGNAL] = "wait_signal",
};

static const char *const types[TUTTI_TYPE_COUNT] = {
    [TUTTI_INT8] = "int8",         [TUTTI_UINT8] = "uint8",        [TUTTI_INT32] = "int32",
    [TUTTI_UINT32] = "uint32",     [TUTTI_INT64] = "int64",        [TUTTI_UINT64] = "uint64",
    [TUTTI_FLOAT16] = "half",      [TUTTI_FLOAT32] = "float",      [TUTTI_FLOAT64] = "double",
    [TUTTI_BFLOAT16] = "bfloat16", [TUTTI_FLOAT8_E4M3] = "f8e4m3", [TUTTI_FLOAT8_E5M2] = "f8e5m2",
};

static const char *const ops[TUTTI_OP_COUNT] = {
    [TUTTI_SUM] = "sum", [TUTTI_PROD] = "prod", [TUTTI_MAX] = "max", [TUTTI_MIN] = "min", [TUTTI_AVG] = "avg",
};

#define NAME_OF(table, index) ((unsigned)(index) < sizeof(table) / sizeof *(table) ? (table)[index] : "?")

const char *blackbox_collective_name(int collective)
{
    return NAME_OF(collectives, collective);
}

const char *blackbox_type_name(int type)
{
    return type == WIRE_OP_NONE ? "" : NAME_OF(types, type);
}

const char *blackbox_op_name(int op)
{
    if (op == WIRE_OP_NONE)
        return "";
    return op == WIRE_OP_PREMUL ? "premul" : NAME_OF(ops, op);
}

static const struct blackbox_event_row event_rows[WIRE_EVENT_COUNT] = {
#define EVENT(id, name, value1, value2, help) [WIRE_EVENT_##id] = {name, value1, value2, help},
#include "tables/events.tbl"
#undef EVENT
};

const struct blackbox_event_row *blackbox_event_row(uint32_t kind)
{
    static const struct blackbox_event_row unknown = {"?", "value1", "value2", "Not known to this reader"};
    return kind > WIRE_EVENT_NONE && kind < WIRE_EVENT_COUNT ? &event_rows[kind] : &unknown;
}

static const struct blackbox_counter_row counter_rows[WIRE_COUNTER_COUNT] = {
#define COUNTER(id, metric, label, help) [WIRE_COUNTER_##id] = {metric, label, help},
#include "tables/counters.tbl"
#undef COUNTER
};

const struct blackbox_counter_row *blackbox_counter_row(size_t counter)
{
    static const struct blackbox_counter_row unknown = {"unknown", "", "Not known to this reader"};
    return counter < WIRE_COUNTER_COUNT ? &counter_rows[counter] : &unknown;
}

static const struct blackbox_memory_row memory_rows[WIRE_MEMORY_COUNT] = {
#define MEMORY(id, name, where, help) [WIRE_MEMORY_##id] = {name, where, help},
#include "tables/memory.tbl"
#undef MEMORY
};

const struct blackbox_memory_row *blackbox_memory_row(size_t row)
{
    static const struct blackbox_memory_row unknown = {"?", "?", "Not known to this reader"};
    return row < WIRE_MEMORY_COUNT ? &memory_rows[row] : &unknown;
}

uint64_t blackbox_memory(const struct blackbox_comm *comm, const char *where)
{
    uint64_t sum = 0;
    for (size_t row = 0; row < WIRE_BOX_MEMORY; row++)
        if (!where || strcmp(blackbox_memory_row(row)->where, where) == 0)
            sum += comm->memory[row];
    return sum;
}
