/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: the library's where it has them for the type, else these, on the host. */
#include <complex.h>
#include <stdlib.h>

#include "mpi/errors.h"
#include "mpi/objects.h"
#include "mpi/types.h"
#include "mpi/calls.h"
#include "tutti/tutti.h"

enum {
    NUMBER_MAX = 1,
    NUMBER_MIN,
    NUMBER_SUM,
    NUMBER_PROD,
    NUMBER_LAND,
    NUMBER_BAND,
    NUMBER_LOR,
    NUMBER_BOR,
    NUMBER_LXOR,
    NUMBER_BXOR,
    NUMBER_MINLOC,
    NUMBER_MAXLOC,
    NUMBERS
};
enum { FIRST_OP = 0x58000000 };
static const char *const names[NUMBERS] = {"",         "MPI_MAX",    "MPI_MIN",   "MPI_SUM", "MPI_PROD",
                                           "MPI_LAND", "MPI_BAND",   "MPI_LOR",   "MPI_BOR", "MPI_LXOR",
                                           "MPI_BXOR", "MPI_MINLOC", "MPI_MAXLOC"};

bool op_of(int handle, struct mpi_op *op)
{
    struct mpi_op *made = object_get(KIND_OP, handle);
    int number = handle - FIRST_OP;
    if (made)
        *op = *made;
    else if (number > 0 && number < NUMBERS)
        *op = (struct mpi_op){.commutes = 1, .number = number};
    else
        shim_fail(NULL, ERR_OP, "there is no operator of handle 0x%x", (unsigned)handle);
    return made || (number > 0 && number < NUMBERS);
}

int shim_Op_create(void *function, int commutes, int *handle, enum abi abi)
{
    struct mpi_op *op = calloc(1, sizeof(*op));
    *handle = op ? object_new(KIND_OP, op) : 0;
    if (!*handle)
        return shim_fail(NULL, ERR_NO_MEM, "MPI_Op_create: no memory");
    *op = (struct mpi_op){function, commutes, abi, 0};
    return 0;
}

int shim_Op_free(int *handle)
{
    free(object_get(KIND_OP, *handle));
    object_free(KIND_OP, *handle);
    *handle = OP_NULL;
    return 0;
}

int shim_Op_commutative(int handle, int *flag)
{
    struct mpi_op op;
    if (!op_of(handle, &op))
        return ERR_OP;
    *flag = op.commutes;
    return 0;
}

bool op_of_tutti(const struct mpi_op *op, const struct type *type, tutti_op_t *number, tutti_type_t *element)
{
    static const tutti_op_t ops[] = {[NUMBER_MAX] = TUTTI_MAX, TUTTI_MIN, TUTTI_SUM, TUTTI_PROD};
    static const int types[] = {
        [BASIC_I8] = TUTTI_INT8,     [BASIC_U8] = TUTTI_UINT8,   [BASIC_I16] = -1,          [BASIC_U16] = -1,
        [BASIC_I32] = TUTTI_INT32,   [BASIC_U32] = TUTTI_UINT32, [BASIC_I64] = TUTTI_INT64, [BASIC_U64] = TUTTI_UINT64,
        [BASIC_F32] = TUTTI_FLOAT32, [BASIC_F64] = TUTTI_FLOAT64};
    if (op->function || op->number > NUMBER_PROD || type->basic < BASIC_I8 || type->basic > BASIC_F64 ||
        types[type->basic] < 0)
        return false;
    *number = ops[op->number];
    *element = (tutti_type_t)types[type->basic];
    return true;
}

#define EACH(type, expression)                                                                                         \
    {                                                                                                                  \
        const type *x = in;                                                                                            \
        type *y = inout;                                                                                               \
        for (size_t i = 0; i < n; i++)                                                                                 \
            y[i] = (type)(expression);                                                                                 \
        return true;                                                                                                   \
    }
#define ARITHMETIC(type)                                                                                               \
    case NUMBER_SUM:                                                                                                   \
        EACH(type, x[i] + y[i])                                                                                        \
    case NUMBER_PROD:                                                                                                  \
        EACH(type, x[i] * y[i])
#define ORDERED(type)                                                                                                  \
    case NUMBER_MAX:                                                                                                   \
        EACH(type, x[i] > y[i] ? x[i] : y[i])                                                                          \
    case NUMBER_MIN:                                                                                                   \
        EACH(type, x[i] < y[i] ? x[i] : y[i])
#define LOGICAL(type)                                                                                                  \
    case NUMBER_LAND:                                                                                                  \
        EACH(type, x[i] && y[i])                                                                                       \
    case NUMBER_LOR:                                                                                                   \
        EACH(type, x[i] || y[i])                                                                                       \
    case NUMBER_LXOR:                                                                                                  \
        EACH(type, !x[i] != !y[i])
#define BITS(type)                                                                                                     \
    case NUMBER_BAND:                                                                                                  \
        EACH(type, x[i] & y[i])                                                                                        \
    case NUMBER_BOR:                                                                                                   \
        EACH(type, x[i] | y[i])                                                                                        \
    case NUMBER_BXOR:                                                                                                  \
        EACH(type, x[i] ^ y[i])
#define FOLD(name, type, ...)                                                                                          \
    static bool fold_##name(int number, const void *in, void *inout, size_t n)                                         \
    {                                                                                                                  \
        switch (number) {                                                                                              \
            __VA_ARGS__                                                                                                \
        default:                                                                                                       \
            return false;                                                                                              \
        }                                                                                                              \
    }
#define INTEGER(name, type) FOLD(name, type, ARITHMETIC(type) ORDERED(type) LOGICAL(type) BITS(type))
#define REAL(name, type)    FOLD(name, type, ARITHMETIC(type) ORDERED(type) LOGICAL(type))
/* Of equal values the lower place. */
#define BETTER(compare) (x[i].value compare y[i].value || (x[i].value == y[i].value && x[i].place < y[i].place))
#define PLACED(name, kind)                                                                                             \
    struct placed_##name {                                                                                             \
        kind value;                                                                                                    \
        int place;                                                                                                     \
    };                                                                                                                 \
    FOLD(name, struct placed_##name, case NUMBER_MINLOC                                                                \
         : PICK(struct placed_##name, <) case NUMBER_MAXLOC                                                            \
         : PICK(struct placed_##name, >))
#define PICK(type, compare)                                                                                            \
    {                                                                                                                  \
        const type *x = in;                                                                                            \
        type *y = inout;                                                                                               \
        for (size_t i = 0; i < n; i++)                                                                                 \
            if (BETTER(compare))                                                                                       \
                y[i] = x[i];                                                                                           \
        return true;                                                                                                   \
    }

INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
INTEGER(u64, uint64_t)
REAL(f32, float)
REAL(f64, double)
REAL(long_double, long double)
FOLD(c64, float complex, ARITHMETIC(float complex))
FOLD(c128, double complex, ARITHMETIC(double complex))
FOLD(bool, bool, LOGICAL(bool) ORDERED(bool) BITS(bool))
PLACED(float_int, float)
PLACED(double_int, double)
PLACED(long_int, long)
PLACED(short_int, short)
PLACED(2int, int)

static bool (*const folds[])(int, const void *, void *, size_t) = {
    [BASIC_I8] = fold_i8,
    [BASIC_U8] = fold_u8,
    [BASIC_I16] = fold_i16,
    [BASIC_U16] = fold_u16,
    [BASIC_I32] = fold_i32,
    [BASIC_U32] = fold_u32,
    [BASIC_I64] = fold_i64,
    [BASIC_U64] = fold_u64,
    [BASIC_F32] = fold_f32,
    [BASIC_F64] = fold_f64,
    [BASIC_LONG_DOUBLE] = fold_long_double,
    [BASIC_C64] = fold_c64,
    [BASIC_C128] = fold_c128,
    [BASIC_BOOL] = fold_bool,
    [BASIC_FLOAT_INT] = fold_float_int,
    [BASIC_DOUBLE_INT] = fold_double_int,
    [BASIC_LONG_INT] = fold_long_int,
    [BASIC_SHORT_INT] = fold_short_int,
    [BASIC_2INT] = fold_2int,
};

int fold(const struct mpi_op *op, int type_handle, const struct type *type, const void *in, void *inout, size_t count)
{
    if (op->function) {
        int length = (int)count;
        uintptr_t wide = (unsigned)type_handle;
        if (op->abi == ABI_MPICH)
            ((void (*)(const void *, void *, int *, int *))op->function)(in, inout, &length, &type_handle);
        else
            ((void (*)(const void *, void *, int *, uintptr_t *))op->function)(in, inout, &length, &wide);
        return 0;
    }
    if (type->basic != BASIC_NONE && folds[type->basic](op->number, in, inout, count * type->items))
        return 0;
    return shim_fail(NULL, ERR_OP, "%s of elements of %s is not defined", names[op->number],
                     *type->name ? type->name : "a type that the program made");
}

int shim_Reduce_local(const void *in, void *inout, int count, int type_handle, int op_handle)
{
    struct mpi_op op;
    struct type type;
    if (!op_of(op_handle, &op))
        return ERR_OP;
    if (!type_of(type_handle, &type))
        return ERR_TYPE;
    return fold(&op, type_handle, &type, in, inout, count);
}
