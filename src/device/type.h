/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and operators: sizes and the names that users and nccl-tests give them. */
#ifndef TUTTI_DEVICE_TYPE_H
#define TUTTI_DEVICE_TYPE_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>

extern const unsigned char type_sizes[TUTTI_TYPE_COUNT];

/* Bytes of one element; 0 if `type` is none. */
static inline size_t type_size(tutti_type_t type)
{
    return (unsigned)type < TUTTI_TYPE_COUNT ? type_sizes[type] : 0;
}

/* int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2; "unknown" if `type` is none. */
const char *type_name(tutti_type_t type);

/* sum prod max min avg; "unknown" if `op` is none. */
const char *op_name(tutti_op_t op);

/* The reverse: false, and *out untouched, if the name is unknown. Takes fp16, float32 and the like as well. */
bool type_parse(const char *name, tutti_type_t *out);
bool op_parse(const char *name, tutti_op_t *out);

#endif
