/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves reductions: which kernel set, which kernel, which operand. Integer averages are divided here. */
#include "device/host/kernel.h"

#include "base/error.h"
#include "base/param.h"

static const struct kernel_set *best_set(void)
{
    const struct kernel_set *best = NULL;
    for (int i = 0; kernel_sets[i]; i++)
        if (kernel_set_usable(kernel_sets[i]))
            best = kernel_sets[i];
    return best;
}

static const struct kernel_set *set_named(const char *name)
{
    for (int i = 0; kernel_sets[i]; i++)
        if (strcmp(kernel_sets[i]->name, name) == 0 && kernel_set_usable(kernel_sets[i]))
            return kernel_sets[i];
    return NULL;
}

const struct kernel_set *kernel_set_chosen(void)
{
    static const char *const names[] = {"auto", "plain", "avx2", "avx512", "neon"}; /* the choices of TUTTI_SIMD */
    int64_t choice = param_int(PARAM_SIMD);
    if (choice == 0)
        return best_set();
    return choice == 1 ? kernel_sets[0] : set_named(names[choice]);
}

const char *reduction_simd(void)
{
    const struct kernel_set *set = kernel_set_chosen();
    return set ? set->name : "none";
}

/* Integer averages: truncating division by the number of ranks. */
#define DIVIDE(name, type)                                                                                             \
    static void name(void *dst, const void *src, size_t bytes, uint64_t operand)                                       \
    {                                                                                                                  \
        for (size_t at = 0; at < bytes; at += sizeof(type)) {                                                          \
            type x;                                                                                                    \
            memcpy(&x, (const char *)src + at, sizeof x);                                                              \
            x = (type)(x / (int64_t)operand);                                                                          \
            memcpy((char *)dst + at, &x, sizeof x);                                                                    \
        }                                                                                                              \
    }
DIVIDE(divide_i8, int8_t)
DIVIDE(divide_u8, uint8_t)
DIVIDE(divide_i32, int32_t)
DIVIDE(divide_u32, uint32_t)
DIVIDE(divide_i64, int64_t)
#undef DIVIDE

static void divide_u64(void *dst, const void *src, size_t bytes, uint64_t operand)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t x;
        memcpy(&x, (const char *)src + at, sizeof x);
        x /= operand;
        memcpy((char *)dst + at, &x, sizeof x);
    }
}

static reduction_map_fn *const divide_integers[TUTTI_TYPE_COUNT] = {
    [TUTTI_INT8] = divide_i8,    [TUTTI_UINT8] = divide_u8,  [TUTTI_INT32] = divide_i32,
    [TUTTI_UINT32] = divide_u32, [TUTTI_INT64] = divide_i64, [TUTTI_UINT64] = divide_u64,
};

static uint64_t host_reduce_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint64_t)bits << 32 | bits;
}

static uint64_t host_reduce_bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t divisor(tutti_type_t type, int nranks)
{
    if (divide_integers[type])
        return (uint64_t)nranks;
    return type == TUTTI_FLOAT64 ? host_reduce_bits_of_double(nranks) : host_reduce_bits_of_float((float)nranks);
}

/* The scalar as the lanes of 8 bytes that its type is computed in: fp32 for the narrow floats. */
static uint64_t scalar_operand(const struct kernel_set *set, tutti_type_t type, const void *scalar)
{
    uint64_t bits = 0;
    memcpy(&bits, scalar, type_size(type));
    switch (type) {
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        return host_reduce_bits_of_float(set->decode(type, (uint32_t)bits));
    default:
        break;
    }
    switch (type_size(type)) {
    case 1:
        return bits * 0x0101010101010101;
    case 4:
        return bits << 32 | bits;
    default:
        return bits;
    }
}

static tutti_result_t host_reduce_check(const struct kernel_set *set, tutti_type_t type, tutti_op_t op, int nranks,
                                        const void *scalar)
{
    if (!set)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "TUTTI_SIMD=%s: this processor or build lacks these instructions; use auto",
                         param_string(PARAM_SIMD));
    if ((unsigned)type >= TUTTI_TYPE_COUNT)
        return error_set(TUTTI_INVALID_ARGUMENT, "resolving a reduction: element type %d, want 0 to %d", (int)type,
                         TUTTI_TYPE_COUNT - 1);
    if ((unsigned)op >= TUTTI_OP_COUNT)
        return error_set(TUTTI_INVALID_ARGUMENT, "resolving a reduction: operator %d, want 0 to %d", (int)op,
                         TUTTI_OP_COUNT - 1);
    if (nranks < 1)
        return error_set(TUTTI_INVALID_ARGUMENT, "resolving a reduction: %d ranks, want 1 or more", nranks);
    if (scalar && op != TUTTI_SUM)
        return error_set(TUTTI_INVALID_ARGUMENT, "resolving a reduction: a scalar goes with sum, not with %s",
                         op_name(op));
    return TUTTI_SUCCESS;
}

tutti_result_t reduction_init_from(const struct kernel_set *set, struct reduction *out, tutti_type_t type,
                                   tutti_op_t op, int nranks, const void *scalar)
{
    tutti_result_t result = host_reduce_check(set, type, op, nranks, scalar);
    if (result != TUTTI_SUCCESS)
        return result;
    int kernel = op == TUTTI_AVG ? TUTTI_SUM : (int)op;
    *out = (struct reduction){
        .type = type,
        .op = op,
        .nranks = nranks,
        .size = (unsigned)type_size(type),
        .fold = set->fold[type][kernel],
        .fold_stream = set->fold_stream[type][kernel],
    };
    if (scalar) {
        out->prepare = set->scale[type];
        out->operand = scalar_operand(set, type, scalar);
    }
    if (op == TUTTI_AVG && nranks > 1) {
        out->finish = divide_integers[type] ? divide_integers[type] : set->divide[type];
        out->operand = divisor(type, nranks);
    }
    return TUTTI_SUCCESS;
}

tutti_result_t reduction_init(struct reduction *out, tutti_type_t type, tutti_op_t op, int nranks, const void *scalar)
{
    return reduction_init_from(kernel_set_chosen(), out, type, op, nranks, scalar);
}

static void host_reduce_map(const struct reduction *r, reduction_map_fn *fn, void *dst, const void *src, size_t count)
{
    if (fn)
        fn(dst, src, count * r->size, r->operand);
    else if (dst != src)
        memcpy(dst, src, count * r->size);
}

void reduction_prepare(const struct reduction *r, void *dst, const void *src, size_t count)
{
    host_reduce_map(r, r->prepare, dst, src, count);
}

void reduction_finish(const struct reduction *r, void *dst, const void *src, size_t count)
{
    host_reduce_map(r, r->finish, dst, src, count);
}

void memory_copy_stream(void *dst, const void *src, size_t bytes)
{
    const struct kernel_set *set = kernel_set_chosen();
    if (set)
        set->copy_stream(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}
