/* SPDX-License-Identifier: Apache-2.0 */
/* Types of elements. All that are built are contiguous: their size is their extent. */
#include <stdlib.h>
#include <string.h>

#include "mpi/types.h"
#include "mpi/errors.h"
#include "mpi/objects.h"
#include "mpi/calls.h"

#define CLASS(size)    ((size) == 1 ? 0 : (size) == 2 ? 2 : (size) == 4 ? 4 : 6)
#define SIGNED(type)   (enum basic)(BASIC_I8 + CLASS(sizeof(type)))
#define UNSIGNED(type) (enum basic)(BASIC_U8 + CLASS(sizeof(type)))

struct pair_float {
    float value;
    int place;
};
struct pair_double {
    double value;
    int place;
};
struct pair_long {
    long value;
    int place;
};
struct pair_short {
    short value;
    int place;
};
struct pair_int {
    int value, place;
};

static const struct {
    unsigned handle;
    size_t size;
    enum basic basic;
    const char *name;
} known[] = {
    {0x4c000101, 1, BASIC_I8, "MPI_CHAR"},
    {0x4c000118, 1, BASIC_I8, "MPI_SIGNED_CHAR"},
    {0x4c000102, 1, BASIC_U8, "MPI_UNSIGNED_CHAR"},
    {0x4c00010d, 1, BASIC_U8, "MPI_BYTE"},
    {0x4c00010f, 1, BASIC_NONE, "MPI_PACKED"},
    {0x4c00040e, sizeof(int), BASIC_NONE, "MPI_WCHAR"},
    {0x4c000203, sizeof(short), SIGNED(short), "MPI_SHORT"},
    {0x4c000204, sizeof(short), UNSIGNED(short), "MPI_UNSIGNED_SHORT"},
    {0x4c000405, sizeof(int), SIGNED(int), "MPI_INT"},
    {0x4c000406, sizeof(int), UNSIGNED(int), "MPI_UNSIGNED"},
    {0x4c000807, sizeof(long), SIGNED(long), "MPI_LONG"},
    {0x4c000808, sizeof(long), UNSIGNED(long), "MPI_UNSIGNED_LONG"},
    {0x4c000809, 8, BASIC_I64, "MPI_LONG_LONG"},
    {0x4c000819, 8, BASIC_U64, "MPI_UNSIGNED_LONG_LONG"},
    {0x4c00040a, 4, BASIC_F32, "MPI_FLOAT"},
    {0x4c00080b, 8, BASIC_F64, "MPI_DOUBLE"},
    {0x4c00100c, sizeof(long double), BASIC_LONG_DOUBLE, "MPI_LONG_DOUBLE"},
    {0x4c000137, 1, BASIC_I8, "MPI_INT8_T"},
    {0x4c000238, 2, BASIC_I16, "MPI_INT16_T"},
    {0x4c000439, 4, BASIC_I32, "MPI_INT32_T"},
    {0x4c00083a, 8, BASIC_I64, "MPI_INT64_T"},
    {0x4c00013b, 1, BASIC_U8, "MPI_UINT8_T"},
    {0x4c00023c, 2, BASIC_U16, "MPI_UINT16_T"},
    {0x4c00043d, 4, BASIC_U32, "MPI_UINT32_T"},
    {0x4c00083e, 8, BASIC_U64, "MPI_UINT64_T"},
    {0x4c00013f, 1, BASIC_BOOL, "MPI_C_BOOL"},
    {0x4c000133, 1, BASIC_BOOL, "MPI_CXX_BOOL"},
    {0x4c000840, 8, BASIC_C64, "MPI_C_FLOAT_COMPLEX"},
    {0x4c001041, 16, BASIC_C128, "MPI_C_DOUBLE_COMPLEX"},
    {0x4c000834, 8, BASIC_C64, "MPI_CXX_FLOAT_COMPLEX"},
    {0x4c001035, 16, BASIC_C128, "MPI_CXX_DOUBLE_COMPLEX"},
    {0x4c000843, 8, BASIC_I64, "MPI_AINT"},
    {0x4c000844, 8, BASIC_I64, "MPI_OFFSET"},
    {0x4c000845, 8, BASIC_I64, "MPI_COUNT"},
    {0x8c000000, sizeof(struct pair_float), BASIC_FLOAT_INT, "MPI_FLOAT_INT"},
    {0x8c000001, sizeof(struct pair_double), BASIC_DOUBLE_INT, "MPI_DOUBLE_INT"},
    {0x8c000002, sizeof(struct pair_long), BASIC_LONG_INT, "MPI_LONG_INT"},
    {0x8c000003, sizeof(struct pair_short), BASIC_SHORT_INT, "MPI_SHORT_INT"},
    {0x4c000816, sizeof(struct pair_int), BASIC_2INT, "MPI_2INT"},
};

bool type_of(int handle, struct type *type)
{
    struct type *made = object_get(KIND_TYPE, handle);
    if (made) {
        *type = *made;
        return true;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].handle == (unsigned)handle) {
            *type = (struct type){known[i].size, known[i].basic, 1, known[i].name};
            return true;
        }
    shim_fail(NULL, ERR_TYPE,
              "tutti knows no datatype of handle 0x%x: types of C are built, and contiguous ones of them",
              (unsigned)handle);
    return false;
}

static int keep(const struct type *type, int *handle)
{
    struct type *made = malloc(sizeof(*made));
    if (made)
        *made = *type;
    *handle = made ? object_new(KIND_TYPE, made) : 0;
    return *handle ? 0 : shim_fail(NULL, ERR_NO_MEM, "no memory for a datatype");
}

int shim_Type_contiguous(int count, int handle, int *made)
{
    struct type type;
    if (!type_of(handle, &type))
        return ERR_TYPE;
    if (count < 0)
        return shim_fail(NULL, ERR_COUNT, "MPI_Type_contiguous: count %d", count);
    type.size *= count;
    type.items *= count;
    type.name = "";
    return keep(&type, made);
}

int shim_Type_dup(int handle, int *made)
{
    struct type type;
    return type_of(handle, &type) ? keep(&type, made) : ERR_TYPE;
}

int shim_Type_commit(int *handle)
{
    struct type type;
    return type_of(*handle, &type) ? 0 : ERR_TYPE;
}

int shim_Type_free(int *handle)
{
    free(object_get(KIND_TYPE, *handle));
    object_free(KIND_TYPE, *handle);
    *handle = TYPE_NULL;
    return 0;
}

int shim_Type_get_name(int handle, char *name, int *length)
{
    struct type type;
    if (!type_of(handle, &type))
        return ERR_TYPE;
    strcpy(name, type.name);
    *length = (int)strlen(name);
    return 0;
}

int shim_Type_size(int handle, int *size)
{
    struct type type;
    if (!type_of(handle, &type))
        return ERR_TYPE;
    *size = type.size > INT32_MAX ? UNDEFINED : (int)type.size;
    return 0;
}

int shim_Type_size_x(int handle, MPI_Count *size)
{
    struct type type;
    if (!type_of(handle, &type))
        return ERR_TYPE;
    *size = (MPI_Count)type.size;
    return 0;
}

int shim_Type_get_extent_x(int handle, MPI_Count *low, MPI_Count *extent)
{
    *low = 0;
    return shim_Type_size_x(handle, extent);
}

int shim_Type_get_true_extent_x(int handle, MPI_Count *low, MPI_Count *extent)
{
    return shim_Type_get_extent_x(handle, low, extent);
}

int shim_Type_get_extent(int handle, MPI_Aint *low, MPI_Aint *extent)
{
    MPI_Count size = 0;
    int result = shim_Type_size_x(handle, &size);
    *low = 0;
    *extent = (MPI_Aint)size;
    return result;
}

int shim_Type_get_true_extent(int handle, MPI_Aint *low, MPI_Aint *extent)
{
    return shim_Type_get_extent(handle, low, extent);
}

int shim_Get_count(const struct status *s, int handle, int *count)
{
    struct type type;
    if (!type_of(handle, &type))
        return ERR_TYPE;
    int64_t whole = type.size ? s->bytes / (int64_t)type.size : 0;
    *count = (type.size && s->bytes % (int64_t)type.size) || whole > INT32_MAX ? UNDEFINED : (int)whole;
    return 0;
}

int shim_Get_elements_x(const struct status *s, int handle, MPI_Count *count)
{
    struct type type;
    if (!type_of(handle, &type))
        return ERR_TYPE;
    size_t one = type.items ? type.size / type.items : 0;
    *count = !one ? 0 : s->bytes % (int64_t)one ? UNDEFINED : s->bytes / (int64_t)one;
    return 0;
}

int shim_Get_elements(const struct status *s, int handle, int *count)
{
    MPI_Count all = 0;
    int result = shim_Get_elements_x(s, handle, &all);
    *count = all > INT32_MAX ? UNDEFINED : (int)all;
    return result;
}

int shim_Test_cancelled(const struct status *s, int *flag)
{
    *flag = s->cancelled;
    return 0;
}
