/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and operators: one row each. */
#include "device/type.h"

#include <string.h>

const unsigned char type_sizes[TUTTI_TYPE_COUNT] = {
    [TUTTI_INT8] = 1,    [TUTTI_UINT8] = 1,    [TUTTI_INT32] = 4,       [TUTTI_UINT32] = 4,
    [TUTTI_INT64] = 8,   [TUTTI_UINT64] = 8,   [TUTTI_FLOAT16] = 2,     [TUTTI_FLOAT32] = 4,
    [TUTTI_FLOAT64] = 8, [TUTTI_BFLOAT16] = 2, [TUTTI_FLOAT8_E4M3] = 1, [TUTTI_FLOAT8_E5M2] = 1,
};

struct device_type_row {
    const char *name, *alias;
};

static const struct device_type_row types[TUTTI_TYPE_COUNT] = {
    [TUTTI_INT8] = {"int8", "char"},
    [TUTTI_UINT8] = {"uint8", "byte"},
    [TUTTI_INT32] = {"int32", "int"},
    [TUTTI_UINT32] = {"uint32", "uint"},
    [TUTTI_INT64] = {"int64", "long"},
    [TUTTI_UINT64] = {"uint64", "ulong"},
    [TUTTI_FLOAT16] = {"half", "float16"},
    [TUTTI_FLOAT32] = {"float", "float32"},
    [TUTTI_FLOAT64] = {"double", "float64"},
    [TUTTI_BFLOAT16] = {"bfloat16", "bf16"},
    [TUTTI_FLOAT8_E4M3] = {"f8e4m3", "float8_e4m3"},
    [TUTTI_FLOAT8_E5M2] = {"f8e5m2", "float8_e5m2"},
};

static const char *const ops[TUTTI_OP_COUNT] = {
    [TUTTI_SUM] = "sum", [TUTTI_PROD] = "prod", [TUTTI_MAX] = "max", [TUTTI_MIN] = "min", [TUTTI_AVG] = "avg",
};

const char *type_name(tutti_type_t type)
{
    return (unsigned)type < TUTTI_TYPE_COUNT ? types[type].name : "unknown";
}

const char *op_name(tutti_op_t op)
{
    return (unsigned)op < TUTTI_OP_COUNT ? ops[op] : "unknown";
}

bool type_parse(const char *name, tutti_type_t *out)
{
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        if (strcmp(name, types[type].name) == 0 || strcmp(name, types[type].alias) == 0) {
            *out = (tutti_type_t)type;
            return true;
        }
    return false;
}

bool op_parse(const char *name, tutti_op_t *out)
{
    for (int op = 0; op < TUTTI_OP_COUNT; op++)
        if (strcmp(name, ops[op]) == 0) {
            *out = (tutti_op_t)op;
            return true;
        }
    return false;
}
