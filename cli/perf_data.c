/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of a measurement, and the right results, computed here in plain integers without the library.
 *
 * Inputs are integers so small that every partial result, in any order, is exact in the type. Then all orders of
 * reducing give the same bits, and results are compared as bytes.
 */
#include "cli/perf_data.h"
#include "cli/perf_collectives.h"

#include "base/random.h"

#include <string.h>

const struct type_row type_rows[TUTTI_TYPE_COUNT] = {
    [TUTTI_INT8] = {"int8", " char i8 ", 1},
    [TUTTI_UINT8] = {"uint8", " u8 ", 1},
    [TUTTI_INT32] = {"int32", " int i32 ", 4},
    [TUTTI_UINT32] = {"uint32", " u32 ", 4},
    [TUTTI_INT64] = {"int64", " i64 ", 8},
    [TUTTI_UINT64] = {"uint64", " u64 ", 8},
    [TUTTI_FLOAT16] = {"half", " float16 f16 ", 2},
    [TUTTI_FLOAT32] = {"float", " float32 f32 ", 4},
    [TUTTI_FLOAT64] = {"double", " float64 f64 ", 8},
    [TUTTI_BFLOAT16] = {"bfloat16", " bf16 ", 2},
    [TUTTI_FLOAT8_E4M3] = {"f8e4m3", " float8_e4m3 fp8_e4m3 ", 1},
    [TUTTI_FLOAT8_E5M2] = {"f8e5m2", " float8_e5m2 fp8_e5m2 ", 1},
};

const char *const op_names[OP_ROWS] = {"sum", "prod", "max", "min", "avg", "mulsum"};

struct format {
    bool is_signed;
    int exponent_bits, fraction_bits; /* 0: an integer type, or the machine's own float */
    int64_t exact;                    /* every integer of at most this magnitude is a value */
};

static const struct format formats[TUTTI_TYPE_COUNT] = {
    [TUTTI_INT8] = {true, 0, 0, 127},
    [TUTTI_UINT8] = {false, 0, 0, 255},
    [TUTTI_INT32] = {true, 0, 0, INT32_MAX},
    [TUTTI_UINT32] = {false, 0, 0, UINT32_MAX},
    [TUTTI_INT64] = {true, 0, 0, (int64_t)1 << 62},
    [TUTTI_UINT64] = {false, 0, 0, (int64_t)1 << 62},
    [TUTTI_FLOAT16] = {true, 5, 10, 1 << 11},
    [TUTTI_FLOAT32] = {true, 0, 0, 1 << 24},
    [TUTTI_FLOAT64] = {true, 0, 0, (int64_t)1 << 53},
    [TUTTI_BFLOAT16] = {true, 8, 7, 1 << 8},
    [TUTTI_FLOAT8_E4M3] = {true, 4, 3, 1 << 4},
    [TUTTI_FLOAT8_E5M2] = {true, 5, 2, 1 << 3},
};

/* The bits of an integer that is a value of the format. */
static uint16_t encode_small_float(const struct format *format, int64_t value)
{
    uint32_t magnitude = (uint32_t)(value < 0 ? -value : value), sign = value < 0;
    int exponent = 0, bias = (1 << (format->exponent_bits - 1)) - 1;
    if (!magnitude)
        return 0;
    while (magnitude >> (exponent + 1))
        exponent++;
    uint32_t fraction = (uint32_t)(((uint64_t)magnitude << format->fraction_bits) >> exponent);
    fraction &= (1u << format->fraction_bits) - 1;
    return (uint16_t)(sign << (format->exponent_bits + format->fraction_bits) |
                      (uint32_t)(exponent + bias) << format->fraction_bits | fraction);
}

static void encode(void *out, tutti_type_t type, int64_t value)
{
    float single = (float)value;
    double twice = (double)value;
    uint16_t small = formats[type].exponent_bits ? encode_small_float(&formats[type], value) : 0;
    const void *source = &value; /* the low bytes of an integer, on a little-endian machine */
    if (type == TUTTI_FLOAT32)
        source = &single;
    else if (type == TUTTI_FLOAT64)
        source = &twice;
    else if (formats[type].exponent_bits)
        source = &small;
    memcpy(out, source, type_rows[type].size);
}

static uint64_t draw(size_t index, int rank, int salt)
{
    return mix64(index * 0x9e3779b97f4a7c15ull + (uint64_t)(rank + 1) * 0xd1342543de82ef95ull + (uint64_t)salt);
}

/* Draws in [-limit, limit], or [0, limit] for unsigned types. */
static int64_t within(uint64_t random, int64_t limit, bool is_signed)
{
    if (is_signed)
        return (int64_t)(random % (2 * (uint64_t)limit + 1)) - limit;
    return (int64_t)(random % ((uint64_t)limit + 1));
}

/* Terms of a sum with |partial sums| <= exact. All ranks contribute. If the type has fewer values than there are ranks,
 * every stride-th does, another set at each element. */
static int64_t term(const struct format *format, int64_t exact, int size, int rank, size_t index)
{
    int64_t limit = exact / size, stride = (size + exact - 1) / exact;
    if (limit == 0 && ((int64_t)index + rank) % stride != 0)
        return 0;
    return within(draw(index, rank, 0), limit ? limit : 1, format->is_signed);
}

/* Terms whose mean is a value of a floating type: a common number, and differences that cancel between pairs of
 * ranks. */
static int64_t float_mean(int64_t exact, int size, size_t index)
{
    int64_t limit = exact / (2 * size);
    return limit ? within(draw(index, -1, 1), limit, true) : 0;
}

static int64_t float_mean_term(int64_t exact, int size, int rank, size_t index)
{
    int64_t limit = exact / (2 * size), stride = (size + exact - 1) / exact, pair = rank / 2;
    int64_t difference = within(draw(index, (int)pair, 2), limit ? limit : 1, true);
    if ((rank ^ 1) >= size || (limit == 0 && ((int64_t)index + pair) % stride != 0))
        difference = 0;
    return float_mean(exact, size, index) + (rank & 1 ? -difference : difference);
}

/* At most three ranks contribute other factors than 1. */
static int64_t factor(const struct format *format, int size, int rank, size_t index)
{
    int stride = (size + 2) / 3;
    uint64_t random = draw(index, rank, 3);
    if ((index + (size_t)rank) % (size_t)stride != 0)
        return 1;
    int64_t most = format->exact <= 16 ? 2 : 3, value = 1 + (int64_t)(random % (uint64_t)most);
    return format->is_signed && random >> 63 ? -value : value;
}

static bool is_float(tutti_type_t type)
{
    return type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64 || formats[type].exponent_bits;
}

static int scalar_of(int rank)
{
    return 1 + rank % 2;
}

static int64_t input(const struct perf_shape *shape, int rank, size_t index)
{
    const struct format *format = &formats[shape->type];
    switch ((int)shape->op) {
    case TUTTI_PROD:
        return factor(format, shape->size, rank, index);
    case TUTTI_MAX:
    case TUTTI_MIN:
        return within(draw(index, rank, 4), format->exact, format->is_signed);
    case TUTTI_AVG:
        if (is_float(shape->type))
            return float_mean_term(format->exact, shape->size, rank, index);
        return term(format, format->exact, shape->size, rank, index);
    case OP_MULSUM:
        return term(format, format->exact / 2, shape->size, rank, index);
    default:
        return term(format, format->exact, shape->size, rank, index);
    }
}

static int64_t combine(const struct perf_shape *shape, int64_t a, int64_t b, int rank)
{
    switch ((int)shape->op) {
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case OP_MULSUM:
        return a + b * scalar_of(rank);
    default:
        return a + b;
    }
}

/* Reduces ranks 0 to `last`. An average is over all ranks. */
static int64_t reduced(const struct perf_shape *shape, size_t index, int last)
{
    int64_t value = input(shape, 0, index); /* rank 0's scalar of MULSUM is 1 */
    if (shape->op == TUTTI_AVG && is_float(shape->type))
        return float_mean(formats[shape->type].exact, shape->size, index);
    for (int rank = 1; rank <= last; rank++)
        value = combine(shape, value, input(shape, rank, index), rank);
    return shape->op == TUTTI_AVG ? value / shape->size : value;
}

void data_table(void *out, const struct perf_shape *shape, int rank, size_t start, size_t count)
{
    size_t element = type_rows[shape->type].size, most = count < DATA_PERIOD ? count : DATA_PERIOD;
    for (size_t done = 0; done < most; done++) {
        size_t i = (start + done) % DATA_PERIOD;
        char *bytes = (char *)out + i * element;
        uint64_t random = draw(i, rank, 5);
        if (!shape->collective->reduces)
            memcpy(bytes, &random, element);
        else if (rank < 0)
            encode(bytes, shape->type, reduced(shape, i, rank == DATA_REDUCED ? shape->size - 1 : data_first(rank)));
        else
            encode(bytes, shape->type, input(shape, rank, i));
    }
}

void data_scalar(void *out, tutti_type_t type, int rank)
{
    encode(out, type, scalar_of(rank));
}

void data_fill(void *out, const void *table, size_t element, size_t start, size_t count)
{
    char *bytes = out;
    for (size_t at = start % DATA_PERIOD; count > 0; at = 0) {
        size_t run = count < DATA_PERIOD - at ? count : DATA_PERIOD - at;
        memcpy(bytes, (const char *)table + at * element, run * element);
        bytes += run * element;
        count -= run;
    }
}

static size_t count_differences(const char *a, const char *b, size_t element, size_t count, size_t *first)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        if (memcmp(a + i * element, b + i * element, element) != 0 && wrong++ == 0)
            *first = i;
    return wrong;
}

size_t data_wrong(const void *data, const void *table, size_t element, size_t start, size_t count, size_t *first)
{
    const char *bytes = data;
    size_t wrong = 0, where = 0;
    for (size_t at = start % DATA_PERIOD, done = 0; done < count; at = 0) {
        size_t run = count - done < DATA_PERIOD - at ? count - done : DATA_PERIOD - at;
        const char *want = (const char *)table + at * element;
        if (memcmp(bytes + done * element, want, run * element) != 0) {
            size_t here = count_differences(bytes + done * element, want, element, run, &where);
            if (wrong == 0)
                *first = done + where;
            wrong += here;
        }
        done += run;
    }
    return wrong;
}
