/* SPDX-License-Identifier: Apache-2.0 */
/* The data of tutti perf: exact in every order of reducing, right as bits, and differences are found. */
#include "cli/perf_collectives.h"
#include "cli/perf_data.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The value of an element, decoded here from the formats' definitions. */
static double small_float(uint32_t bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    double fraction = (double)(bits & ((1u << fraction_bits) - 1)) / (double)(1u << fraction_bits);
    double value = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
    return bits >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

static double value_of(tutti_type_t type, const void *data, size_t index)
{
    uint64_t bits = 0;
    float single;
    double twice;
    size_t size = type_rows[type].size;
    memcpy(&bits, (const char *)data + index * size, size);
    memcpy(&single, &bits, 4);
    memcpy(&twice, &bits, 8);
    switch (type) {
    case TUTTI_INT8:
        return (int8_t)bits;
    case TUTTI_INT32:
        return (int32_t)bits;
    case TUTTI_INT64:
        return (double)(int64_t)bits;
    case TUTTI_FLOAT16:
        return small_float((uint32_t)bits, 5, 10);
    case TUTTI_BFLOAT16:
        return small_float((uint32_t)bits, 8, 7);
    case TUTTI_FLOAT8_E4M3:
        return small_float((uint32_t)bits, 4, 3);
    case TUTTI_FLOAT8_E5M2:
        return small_float((uint32_t)bits, 5, 2);
    case TUTTI_FLOAT32:
        return (double)single;
    case TUTTI_FLOAT64:
        return twice;
    default:
        return (double)bits;
    }
}

static const double exact[TUTTI_TYPE_COUNT] = {127,  255,      2147483647.0, 4294967295.0, 0x1p62, 0x1p62,
                                               2048, 16777216, 0x1p53,       256,          16,     8};

enum { MOST = 20 };

static struct perf_shape shape_of(tutti_type_t type, int op, int size)
{
    return (struct perf_shape){
        .collective = collective_find("allreduce"), .size = size, .type = type, .op = (tutti_op_t)op};
}

/* Sums of the positive and of the negative terms bound all partial sums. */
static void check_sum(tutti_type_t type, int op, int size, char *const inputs[MOST], const char *result)
{
    for (size_t i = 0; i < DATA_PERIOD; i++) {
        double up = 0, down = 0;
        for (int r = 0; r < size; r++) {
            double term = value_of(type, inputs[r], i) * (op == OP_MULSUM ? 1 + r % 2 : 1);
            *(term > 0 ? &up : &down) += term;
        }
        assert_true(up <= exact[type] && -down <= exact[type]);
        double want = op == TUTTI_AVG ? trunc((up + down) / size) : up + down;
        assert_true(value_of(type, result, i) == want);
    }
}

static void check_product(tutti_type_t type, int size, char *const inputs[MOST], const char *result)
{
    for (size_t i = 0; i < DATA_PERIOD; i++) {
        double product = 1;
        for (int r = 0; r < size; r++)
            product *= value_of(type, inputs[r], i);
        assert_true(fabs(product) <= 27 && value_of(type, result, i) == product);
    }
}

static void check_extreme(tutti_type_t type, int op, int size, char *const inputs[MOST], const char *result)
{
    for (size_t i = 0; i < DATA_PERIOD; i++) {
        double best = value_of(type, inputs[0], i);
        for (int r = 1; r < size; r++)
            best =
                op == TUTTI_MAX ? fmax(best, value_of(type, inputs[r], i)) : fmin(best, value_of(type, inputs[r], i));
        assert_true(value_of(type, result, i) == best);
    }
}

static void check_case(tutti_type_t type, int op, int size, char *const inputs[MOST], char *result)
{
    struct perf_shape shape = shape_of(type, op, size);
    for (int r = 0; r < size; r++)
        data_table(inputs[r], &shape, r, 0, DATA_PERIOD);
    data_table(result, &shape, DATA_REDUCED, 0, DATA_PERIOD);
    if (op == TUTTI_PROD)
        check_product(type, size, inputs, result);
    else if (op == TUTTI_MAX || op == TUTTI_MIN)
        check_extreme(type, op, size, inputs, result);
    else
        check_sum(type, op, size, inputs, result);
}

static void every_order_is_exact(void **state)
{
    char *inputs[MOST], *result = malloc(DATA_PERIOD * 8);
    const int most = getenv("TUTTI_TEST_QUICK") ? 10 : MOST;
    for (int r = 0; r < MOST; r++)
        inputs[r] = malloc(DATA_PERIOD * 8);
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        for (int op = 0; op < OP_ROWS; op++)
            for (int size = 1; size <= most; size += size < 5 ? 1 : 5)
                if (type_rows[type].size < 8 || op == TUTTI_PROD || type == TUTTI_FLOAT64)
                    check_case((tutti_type_t)type, op, size, inputs, result);
    for (int r = 0; r < MOST; r++)
        free(inputs[r]);
    free(result);
}

/* The data of a check must not be so small that nothing is added at all. */
static void most_ranks_contribute(void **state)
{
    static char table[DATA_PERIOD * 8];
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++) {
        struct perf_shape shape = shape_of((tutti_type_t)type, TUTTI_SUM, 4);
        int some = 0;
        data_table(table, &shape, 3, 0, DATA_PERIOD);
        for (size_t i = 0; i < DATA_PERIOD; i++)
            some += value_of((tutti_type_t)type, table, i) != 0;
        assert_true(some > DATA_PERIOD / 3);
    }
}

static void known_bits(void **state)
{
    static const struct {
        tutti_type_t type;
        uint64_t one, two;
    } cases[] = {{TUTTI_FLOAT16, 0x3c00, 0x4000},
                 {TUTTI_BFLOAT16, 0x3f80, 0x4000},
                 {TUTTI_FLOAT8_E4M3, 0x38, 0x40},
                 {TUTTI_FLOAT8_E5M2, 0x3c, 0x40},
                 {TUTTI_FLOAT32, 0x3f800000, 0x40000000},
                 {TUTTI_FLOAT64, 0x3ff0000000000000, 0x4000000000000000},
                 {TUTTI_INT8, 1, 2},
                 {TUTTI_UINT64, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bits = 0;
        data_scalar(&bits, cases[i].type, 0);
        assert_true(bits == cases[i].one);
        data_scalar(&bits, cases[i].type, 1);
        assert_true(bits == cases[i].two);
    }
}

static void differences_are_found(void **state)
{
    enum { COUNT = 3 * DATA_PERIOD + 100, START = 5000 };
    struct perf_shape shape = shape_of(TUTTI_INT32, TUTTI_SUM, 2);
    int32_t *table = malloc(DATA_PERIOD * 4), *data = malloc(COUNT * 4);
    size_t first = 0;
    data_table(table, &shape, 0, 0, DATA_PERIOD);
    data_fill(data, table, 4, START, COUNT);
    assert_int_equal(data_wrong(data, table, 4, START, COUNT, &first), 0);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(data[i], table[(START + i) % DATA_PERIOD]);
    data[COUNT - 1] ^= 1;
    data[20000] ^= 1 << 30;
    data[20001] ^= 1;
    assert_int_equal(data_wrong(data, table, 4, START, COUNT, &first), 3);
    assert_int_equal(first, 20000);
    assert_true(data_wrong(data + 4096, table, 4, START, COUNT - 4096, &first) > COUNT / 2);
    free(table);
    free(data);
}

static void ranks_differ(void **state)
{
    static char a[DATA_PERIOD * 8], b[DATA_PERIOD * 8];
    struct perf_shape shape = {.collective = collective_find("allgather"), .size = 4, .type = TUTTI_UINT8};
    size_t first;
    data_table(a, &shape, 0, 0, DATA_PERIOD);
    data_table(b, &shape, 1, 0, DATA_PERIOD);
    assert_true(data_wrong(a, b, 1, 0, DATA_PERIOD, &first) > DATA_PERIOD / 2);
}

/* Only used data are worked out, also where they begin at the end of the period and go on at its start. */
static void parts_of_the_period(void **state)
{
    enum { START = 3 * DATA_PERIOD - 10, COUNT = 25 };
    struct perf_shape shape = shape_of(TUTTI_INT32, TUTTI_SUM, 3);
    int32_t *whole = malloc(DATA_PERIOD * 4), *part = calloc(DATA_PERIOD, 4), data[COUNT];
    size_t first, set = 0;
    data_table(whole, &shape, DATA_REDUCED, 0, DATA_PERIOD);
    data_table(part, &shape, DATA_REDUCED, START, COUNT);
    data_fill(data, whole, 4, START, COUNT);
    assert_int_equal(data_wrong(data, part, 4, START, COUNT, &first), 0);
    for (size_t i = 0; i < DATA_PERIOD; i++)
        set += part[i] != 0;
    assert_true(set <= COUNT);
    free(whole);
    free(part);
}

static void names_of_collectives(void **state)
{
    assert_ptr_equal(collective_find("reduce-scatter"), collective_find("reduce_scatter"));
    assert_non_null(collective_find("alltoallv"));
    assert_null(collective_find("allreduc"));
    assert_null(collective_find("allreduce_"));
    assert_null(collective_find("_allreduce"));
    assert_null(collective_find("allreduceperf"));
    assert_null(collective_find("all__reduce"));
    assert_ptr_equal(collective_find("all_reduce_perf"), collective_find("allreduce"));
    assert_ptr_equal(collective_find("reduce_scatter_perf"), collective_find("reduce-scatter"));
    assert_null(collective_find(""));
}

/* What one rank sends another must be what the other expects, at the place it looks. */
static void uneven_parts_fit(void **state)
{
    enum { SIZE = 5 };
    struct perf_shape shape = {
        .collective = collective_find("alltoallv"), .size = SIZE, .part = 77, .count = SIZE * 77};
    size_t plans[SIZE][4 * SIZE];
    struct piece piece;
    for (int r = 0; r < SIZE; r++)
        collective_vectors(&shape, r, plans[r]);
    for (int r = 0; r < SIZE; r++)
        for (int k = 0; k < SIZE; k++) {
            assert_true(shape.collective->piece(&shape, r, k, &piece));
            assert_int_equal(piece.count, plans[k][r]);
            assert_int_equal(piece.count, plans[r][2 * SIZE + k]);
            assert_int_equal(piece.from_at, plans[k][SIZE + r]);
            assert_int_equal(piece.at, plans[r][3 * SIZE + k]);
            assert_true(piece.at + piece.count <= shape.count);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_is_exact), cmocka_unit_test(most_ranks_contribute),
        cmocka_unit_test(known_bits),           cmocka_unit_test(differences_are_found),
        cmocka_unit_test(ranks_differ),         cmocka_unit_test(parts_of_the_period),
        cmocka_unit_test(names_of_collectives), cmocka_unit_test(uneven_parts_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
