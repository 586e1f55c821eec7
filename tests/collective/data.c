/* SPDX-License-Identifier: Apache-2.0 */
/* Exact test data. Floats hold small integers and powers of two; integers use their whole range where sums may wrap. */
#include "data.h"

#include <math.h>
#include <string.h>

static const struct format {
    const char *name;
    int size, exponent, mantissa; /* exponent 0: an integer */
    bool is_signed;
} formats[TUTTI_TYPE_COUNT] = {
    [TUTTI_INT8] = {"int8", 1, 0, 0, true},         [TUTTI_UINT8] = {"uint8", 1, 0, 0, false},
    [TUTTI_INT32] = {"int32", 4, 0, 0, true},       [TUTTI_UINT32] = {"uint32", 4, 0, 0, false},
    [TUTTI_INT64] = {"int64", 8, 0, 0, true},       [TUTTI_UINT64] = {"uint64", 8, 0, 0, false},
    [TUTTI_FLOAT16] = {"float16", 2, 5, 10, true},  [TUTTI_FLOAT32] = {"float32", 4, 8, 23, true},
    [TUTTI_FLOAT64] = {"float64", 8, 11, 52, true}, [TUTTI_BFLOAT16] = {"bfloat16", 2, 8, 7, true},
    [TUTTI_FLOAT8_E4M3] = {"e4m3", 1, 4, 3, true},  [TUTTI_FLOAT8_E5M2] = {"e5m2", 1, 5, 2, true},
};

size_t data_size(tutti_type_t type)
{
    return (size_t)formats[type].size;
}

const char *data_type_name(tutti_type_t type)
{
    return formats[type].name;
}

const char *data_op_name(int op)
{
    static const char *const names[] = {"none", "sum", "prod", "max", "min", "avg", "premul"};
    return names[op + 1];
}

uint64_t data_hash(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The bits of a value that the format holds exactly. */
static uint64_t encode(const struct format *format, double value)
{
    int exponent;
    if (value == 0)
        return 0;
    double fraction = frexp(fabs(value), &exponent);
    uint64_t bits = (uint64_t)(exponent - 1 + (1 << (format->exponent - 1)) - 1) << format->mantissa;
    bits += (uint64_t)ldexp(fraction * 2 - 1, format->mantissa);
    return bits | (uint64_t)(value < 0) << (format->exponent + format->mantissa);
}

static double decode(const struct format *format, uint64_t bits)
{
    uint64_t mantissa = bits & ((1ull << format->mantissa) - 1);
    int exponent = (int)(bits >> format->mantissa & ((1u << format->exponent) - 1)),
        bias = (1 << (format->exponent - 1)) - 1;
    bool negative = bits >> (format->exponent + format->mantissa) & 1;
    double value = exponent ? ldexp(1 + ldexp((double)mantissa, -format->mantissa), exponent - bias)
                            : ldexp((double)mantissa, 1 - bias - format->mantissa);
    return negative ? -value : value;
}

static void put(struct data_table *table, int k, uint64_t bits)
{
    memcpy(table->bytes + (size_t)k * table->size, &bits, table->size); /* little-endian machines */
}

/* Few enough ranks contribute to one element that sums stay exact: at most 8 in a type with 3 significant bits. */
static double float_input(int op, int rank, int k, uint64_t hash)
{
    int place = (rank + k) % 5;
    switch (op) {
    case TUTTI_PROD:
        return (place == 0 ? 2 : place == 1 ? 0.5 : 1) * (hash & 64 ? -1 : 1);
    case TUTTI_MAX:
    case TUTTI_MIN:
        return (double)(hash % 16) - 8;
    case DATA_PREMUL:
        return (rank + k) % 4 ? 0 : (double)(hash % 2);
    default:
        return (rank + k) % 2 ? 0 : (double)(hash % 3) - 1;
    }
}

static int64_t integer_input(const struct format *format, int op, uint64_t hash)
{
    if (op == TUTTI_MAX || op == TUTTI_MIN)
        return format->is_signed ? (int64_t)(hash % 256) - 128 : (int64_t)(hash % 256);
    if (op == TUTTI_AVG)
        return format->is_signed ? (int64_t)(hash % 15) - 7 : (int64_t)(hash % 16);
    return (int64_t)hash; /* sums and products wrap */
}

uint64_t data_scalar(tutti_type_t type, int rank)
{
    double value = rank % 2 ? 2 : 1;
    return formats[type].exponent ? encode(&formats[type], value) : (uint64_t)value;
}

static uint64_t key(int rank, int k, uint64_t seed)
{
    return data_hash(data_hash(seed, (uint64_t)rank), (uint64_t)k);
}

void data_input(struct data_table *table, tutti_type_t type, int op, int rank, uint64_t seed)
{
    const struct format *format = &formats[type];
    table->size = (size_t)format->size;
    for (int k = 0; k < DATA_PERIOD; k++) {
        uint64_t hash = key(rank, k, seed);
        if (op == DATA_COPY)
            put(table, k, hash);
        else if (format->exponent)
            put(table, k, encode(format, float_input(op, rank, k, hash)));
        else
            put(table, k, (uint64_t)integer_input(format, op, hash));
    }
}

static double float_result(int op, int nranks, int k, uint64_t seed)
{
    double sum = 0;
    for (int rank = 0; rank < nranks; rank++) {
        double x = float_input(op, rank, k, key(rank, k, seed));
        if (rank == 0)
            sum = x;
        else if (op == TUTTI_PROD)
            sum *= x;
        else if (op == TUTTI_MAX || op == TUTTI_MIN)
            sum = (op == TUTTI_MAX) == (x > sum) ? x : sum;
        else
            sum += op == DATA_PREMUL && rank % 2 ? 2 * x : x;
    }
    return op == TUTTI_AVG ? sum / nranks : sum;
}

static uint64_t integer_result(const struct format *format, int op, int nranks, int k, uint64_t seed)
{
    uint64_t sum = 0;
    for (int rank = 0; rank < nranks; rank++) {
        int64_t x = integer_input(format, op, key(rank, k, seed));
        if (rank == 0)
            sum = (uint64_t)x;
        else if (op == TUTTI_PROD)
            sum *= (uint64_t)x;
        else if (op == TUTTI_MAX || op == TUTTI_MIN)
            sum = (op == TUTTI_MAX) == (x > (int64_t)sum) ? (uint64_t)x : sum;
        else
            sum += op == DATA_PREMUL && rank % 2 ? 2 * (uint64_t)x : (uint64_t)x;
    }
    return op == TUTTI_AVG ? (uint64_t)((int64_t)sum / nranks) : sum;
}

/* The nearest value of the format, of an average that may need rounding. */
static uint64_t encode_near(const struct format *format, double value)
{
    int exponent;
    double fraction = frexp(value, &exponent);
    return encode(format, ldexp(nearbyint(ldexp(fraction, format->mantissa + 1)), exponent - format->mantissa - 1));
}

void data_result(struct data_table *table, tutti_type_t type, int op, int nranks, uint64_t seed)
{
    const struct format *format = &formats[type];
    table->size = (size_t)format->size;
    for (int k = 0; k < DATA_PERIOD; k++)
        put(table, k,
            format->exponent ? encode_near(format, float_result(op, nranks, k, seed))
                             : integer_result(format, op, nranks, k, seed));
}

void data_fill(void *to, const struct data_table *table, size_t shift, size_t count)
{
    unsigned char *at = to;
    for (size_t k = shift % DATA_PERIOD; count;) {
        size_t run = count < DATA_PERIOD - k ? count : DATA_PERIOD - k;
        memcpy(at, table->bytes + k * table->size, run * table->size);
        at += run * table->size;
        count -= run;
        k = 0;
    }
}

bool data_same(const void *got, const void *want, tutti_type_t type, bool rounds)
{
    const struct format *format = &formats[type];
    uint64_t a = 0, b = 0;
    if (!memcmp(got, want, (size_t)format->size))
        return true;
    if (!rounds || !format->exponent)
        return false;
    memcpy(&a, got, (size_t)format->size);
    memcpy(&b, want, (size_t)format->size);
    double x = decode(format, a), y = decode(format, b);
    return fabs(x - y) <= ldexp(fabs(y), -format->mantissa);
}
