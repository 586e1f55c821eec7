/* SPDX-License-Identifier: Apache-2.0 */
/* Types and operators. */
#ifndef TUTTI_MPI_TYPES_H
#define TUTTI_MPI_TYPES_H

#include "mpi/shim.h"

enum basic {
    BASIC_NONE,
    BASIC_I8,
    BASIC_U8,
    BASIC_I16,
    BASIC_U16,
    BASIC_I32,
    BASIC_U32,
    BASIC_I64,
    BASIC_U64,
    BASIC_F32,
    BASIC_F64,
    BASIC_LONG_DOUBLE,
    BASIC_C64,
    BASIC_C128,
    BASIC_BOOL,
    BASIC_FLOAT_INT,
    BASIC_DOUBLE_INT,
    BASIC_LONG_INT,
    BASIC_SHORT_INT,
    BASIC_2INT
};
struct type {
    size_t size; /* bytes, without holes */
    enum basic basic;
    size_t items; /* basic ones in it */
    const char *name;
};
bool type_of(int handle, struct type *type); /* false, and said */
struct mpi_op {
    void *function;
    int commutes;
    enum abi abi;
    int number; /* of a built-in one: 1 maximum ... 12 maximum with its place */
};
bool op_of(int handle, struct mpi_op *op);
/* inout = in op inout, `count` elements of the type; an error class and a sentence where the type does not have the
 * operator. */
int fold(const struct mpi_op *op, int type_handle, const struct type *type, const void *in, void *inout, size_t count);
bool op_of_tutti(const struct mpi_op *op, const struct type *type, tutti_op_t *number, tutti_type_t *element);

#endif
