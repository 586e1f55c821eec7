/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar reductions for the tests. Narrow floats are decoded by arithmetic and encoded by searching the nearest value.
 */
#include "device/host/reference.h"

#include <math.h>

struct reference_shape {
    int exponent, mantissa;
    unsigned largest, infinity, nan; /* infinity 0: the format has none */
    bool saturates;
};

static struct reference_shape shape_of(tutti_type_t type)
{
    switch (type) {
    case TUTTI_FLOAT16:
        return (struct reference_shape){5, 10, 0x7bff, 0x7c00, 0x7e00, false};
    case TUTTI_BFLOAT16:
        return (struct reference_shape){8, 7, 0x7f7f, 0x7f80, 0x7fc0, false};
    case TUTTI_FLOAT8_E4M3:
        return (struct reference_shape){4, 3, 0x7e, 0, 0x7f, true};
    default:
        return (struct reference_shape){5, 2, 0x7b, 0x7c, 0x7e, true};
    }
}

static bool narrow(tutti_type_t type)
{
    return type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16 || type == TUTTI_FLOAT8_E4M3 || type == TUTTI_FLOAT8_E5M2;
}

static double finite_value(struct reference_shape s, unsigned magnitude)
{
    int bias = (1 << (s.exponent - 1)) - 1;
    unsigned exponent = magnitude >> s.mantissa, mantissa = magnitude & ((1u << s.mantissa) - 1);
    if (exponent == 0)
        return ldexp(mantissa, 1 - bias - s.mantissa);
    return ldexp((1u << s.mantissa) + mantissa, (int)exponent - bias - s.mantissa);
}

float reference_decode(tutti_type_t type, unsigned bits)
{
    struct reference_shape s = shape_of(type);
    unsigned sign = 1u << (s.exponent + s.mantissa), magnitude = bits & (sign - 1);
    double value = NAN;
    if (magnitude <= s.largest)
        value = finite_value(s, magnitude);
    else if (magnitude == s.infinity)
        value = INFINITY;
    return (float)(bits & sign ? -value : value);
}

/* The finite magnitude nearest to `value`, ties to the even one, as if the format went one step beyond its largest. */
static unsigned reference_nearest(struct reference_shape s, double value)
{
    unsigned low = 0, high = s.largest + 1;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (finite_value(s, middle) <= value)
            low = middle;
        else
            high = middle;
    }
    double below = value - finite_value(s, low), above = finite_value(s, high) - value;
    if (below < above || (below == above && low % 2 == 0))
        return low;
    return high;
}

unsigned reference_encode(tutti_type_t type, float value)
{
    struct reference_shape s = shape_of(type);
    unsigned sign = signbit(value) ? 1u << (s.exponent + s.mantissa) : 0;
    if (isnan(value))
        return s.nan;
    if (isinf(value))
        return sign | (s.infinity ? s.infinity : s.largest);
    unsigned magnitude = reference_nearest(s, fabs((double)value));
    if (magnitude > s.largest)
        magnitude = s.saturates ? s.largest : s.infinity;
    return sign | magnitude;
}

static float canonical_float(float x)
{
    uint32_t bits = 0x7fc00000;
    if (isnan(x))
        memcpy(&x, &bits, sizeof x);
    return x;
}

static double canonical_double(double x)
{
    uint64_t bits = 0x7ff8000000000000;
    if (isnan(x))
        memcpy(&x, &bits, sizeof x);
    return x;
}

static bool is_float(tutti_type_t type)
{
    return narrow(type) || type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64;
}

static double load_float(tutti_type_t type, const void *p)
{
    float single;
    double twice;
    uint16_t bits = 0;
    if (type == TUTTI_FLOAT64) {
        memcpy(&twice, p, sizeof twice);
        return twice;
    }
    if (type == TUTTI_FLOAT32) {
        memcpy(&single, p, sizeof single);
        return single;
    }
    memcpy(&bits, p, type_size(type));
    return reference_decode(type, bits);
}

static void save_float(tutti_type_t type, void *p, double value)
{
    float single = canonical_float((float)value);
    double twice = canonical_double(value);
    if (type == TUTTI_FLOAT64) {
        memcpy(p, &twice, sizeof twice);
    } else if (type == TUTTI_FLOAT32) {
        memcpy(p, &single, sizeof single);
    } else {
        uint16_t bits = (uint16_t)reference_encode(type, single);
        memcpy(p, &bits, type_size(type));
    }
}

/* IEEE 754-2019 maximum and minimum: a NaN wins, and -0 < +0. */
static double extreme(double x, double y, bool larger)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return (signbit(x) != 0) == larger ? y : x;
    return (x > y) == larger ? x : y;
}

static double combine_float(tutti_type_t type, tutti_op_t op, double x, double y)
{
    if (op == TUTTI_MAX || op == TUTTI_MIN)
        return extreme(x, y, op == TUTTI_MAX);
    if (type == TUTTI_FLOAT64)
        return op == TUTTI_SUM ? x + y : x * y;
    return op == TUTTI_SUM ? (float)x + (float)y : (float)x * (float)y;
}

static bool is_signed(tutti_type_t type)
{
    return type == TUTTI_INT8 || type == TUTTI_INT32 || type == TUTTI_INT64;
}

static uint64_t load_integer(tutti_type_t type, const void *p)
{
    uint64_t x = 0;
    size_t size = type_size(type);
    memcpy(&x, p, size);
    if (is_signed(type) && size < 8 && x >> (8 * size - 1))
        x |= ~(uint64_t)0 << 8 * size;
    return x;
}

static uint64_t combine_integer(tutti_type_t type, tutti_op_t op, uint64_t x, uint64_t y)
{
    bool less = is_signed(type) ? (int64_t)x < (int64_t)y : x < y;
    switch (op) {
    case TUTTI_SUM:
        return x + y;
    case TUTTI_PROD:
        return x * y;
    case TUTTI_MAX:
        return less ? y : x;
    default:
        return less ? x : y;
    }
}

static void fold_integers(tutti_type_t type, tutti_op_t op, void *dst, const void *const *src, int nsrc)
{
    uint64_t x = load_integer(type, src[0]);
    for (int s = 1; s < nsrc; s++)
        x = combine_integer(type, op, x, load_integer(type, src[s]));
    memcpy(dst, &x, type_size(type));
}

void reference_fold(tutti_type_t type, tutti_op_t op, void *dst, const void *const *src, int nsrc)
{
    if (nsrc == 1) {
        memmove(dst, src[0], type_size(type));
        return;
    }
    if (!is_float(type)) {
        fold_integers(type, op, dst, src, nsrc);
        return;
    }
    double x = load_float(type, src[0]);
    for (int s = 1; s < nsrc; s++)
        x = combine_float(type, op, x, load_float(type, src[s]));
    save_float(type, dst, x);
}

void reference_scale(tutti_type_t type, void *dst, const void *src, const void *scalar)
{
    uint64_t product = load_integer(type, src) * load_integer(type, scalar);
    if (is_float(type))
        save_float(type, dst, combine_float(type, TUTTI_PROD, load_float(type, src), load_float(type, scalar)));
    else
        memcpy(dst, &product, type_size(type));
}

void reference_divide(tutti_type_t type, void *dst, const void *src, int n)
{
    if (is_float(type)) {
        double x = load_float(type, src);
        save_float(type, dst, type == TUTTI_FLOAT64 ? x / n : (float)x / (float)n);
        return;
    }
    uint64_t x = load_integer(type, src);
    uint64_t quotient = is_signed(type) ? (uint64_t)((int64_t)x / n) : x / (uint64_t)n;
    memcpy(dst, &quotient, type_size(type));
}
