/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel set that this processor can run against the scalar reference, bit by bit. */
#include "device/host/kernel.h"
#include "device/host/reference.h"

#include "base/error.h"
#include "base/param.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define MAX_SOURCES 9
#define MAX_BYTES   4096

static char *buffers[MAX_SOURCES + 2];

/* Values at which rounding, overflow, ordering or NaN rules bite, for each size of element. */
static const uint8_t special_8[] = {0x00, 0x80, 0x01, 0x81, 0x07, 0x08, 0x7e, 0xfe,
                                    0x7f, 0xff, 0x7b, 0x7c, 0xfb, 0xfc, 0x7d, 0x38};
static const uint16_t special_16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff,
                                      0x7c00, 0xfc00, 0x7c01, 0xfe00, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
                                      0x7f81, 0xffff, 0x3c00, 0x3f80, 0x007f, 0x0080};
static const uint32_t special_32[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                      0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc12345,
                                      0x7fffffff, 0xffffffff, 0x3f800000, 0xbf800000, 0x3f800001, 0x33800000};
static const uint64_t special_64[] = {0,
                                      0x8000000000000000,
                                      1,
                                      0x000fffffffffffff,
                                      0x0010000000000000,
                                      0x7fefffffffffffff,
                                      0xffefffffffffffff,
                                      0x7ff0000000000000,
                                      0xfff0000000000000,
                                      0x7ff0000000000001,
                                      0xfff8123456789abc,
                                      0x7fffffffffffffff,
                                      0xffffffffffffffff,
                                      0x3ff0000000000000,
                                      0x3ca0000000000000};

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

static uint64_t special(size_t size, uint64_t pick)
{
    switch (size) {
    case 1:
        return special_8[pick % COUNT_OF(special_8)];
    case 2:
        return special_16[pick % COUNT_OF(special_16)];
    case 4:
        return special_32[pick % COUNT_OF(special_32)];
    default:
        return special_64[pick % COUNT_OF(special_64)];
    }
}

static uint64_t random_next(void)
{
    static uint64_t state = 42;
    return mix64(state++);
}

static const uint64_t one[TUTTI_TYPE_COUNT] = {1,      1,    1,   1, 1, 1, 0x3c00, 0x3f800000, 0x3ff0000000000000,
                                               0x3f80, 0x38, 0x3c};
static const uint64_t near_one[TUTTI_TYPE_COUNT] = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x87ff, 0x80ffffff, 0x801fffffffffffff, 0x80ff, 0x8f, 0x87};

/* One element: any bits, a special value, or a number about one, where sums round. */
static void random_element(tutti_type_t type, char *p)
{
    uint64_t pick = random_next(), bits = random_next();
    if (pick % 4 == 0)
        bits = special(type_size(type), bits);
    else if (pick % 4 != 1)
        bits = one[type] ^ (bits & near_one[type]);
    memcpy(p, &bits, type_size(type));
}

static void fill(tutti_type_t type, char *p, size_t count)
{
    for (size_t i = 0; i < count; i++)
        random_element(type, p + i * type_size(type));
}

static int setup(void **state)
{
    for (int i = 0; i < MAX_SOURCES + 2; i++) {
        buffers[i] = malloc(MAX_BYTES);
        if (!buffers[i])
            return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    for (int i = 0; i < MAX_SOURCES + 2; i++)
        free(buffers[i]);
    return 0;
}

/* A reduction with its sources at some alignment; dst is buffer `into`: a source, or the one after all sources. */
struct trial {
    const struct kernel_set *set;
    struct reduction r;
    int nsrc, into;
    size_t count, shift;
    bool stream;
};

static void fail_trial(const struct trial *t, const char *what, size_t i)
{
    fail_msg("%s: %s %s %s, %d sources, count %zu, shift %zu, into %d, stream %d: element %zu differs", t->set->name,
             what, type_name(t->r.type), op_name(t->r.op), t->nsrc, t->count, t->shift, t->into, t->stream, i);
}

static void compare(const struct trial *t, const char *what, const char *got, const char *want)
{
    size_t size = t->r.size;
    for (size_t i = 0; i < t->count; i++)
        if (memcmp(got + i * size, want + i * size, size) != 0)
            fail_trial(t, what, i);
    for (size_t i = 0; i < 64; i++)
        if (got[t->count * size + i] != (char)0xa5)
            fail_trial(t, "wrote past the end", i);
}

static void run_trial(const struct trial *t)
{
    size_t size = t->r.size, bytes = t->count * size;
    const void *src[MAX_SOURCES], *element[MAX_SOURCES];
    char *want = buffers[MAX_SOURCES + 1], *dst = buffers[t->into] + t->shift;
    for (int s = 0; s < t->nsrc; s++) {
        src[s] = buffers[s] + (s == t->into ? t->shift : (t->shift + 3 * (size_t)s) % 61);
        fill(t->r.type, buffers[s] + ((char *)src[s] - buffers[s]), t->count);
    }
    for (size_t i = 0; i < t->count; i++) {
        for (int s = 0; s < t->nsrc; s++)
            element[s] = (const char *)src[s] + i * size;
        reference_fold(t->r.type, t->r.op == TUTTI_AVG ? TUTTI_SUM : t->r.op, want + i * size, element, t->nsrc);
    }
    memset(dst + bytes, 0xa5, 64);
    if (t->stream)
        reduction_apply_stream(&t->r, dst, src, t->nsrc, t->count);
    else
        reduction_apply(&t->r, dst, src, t->nsrc, t->count);
    compare(t, "fold", dst, want);
}

static void each_shape(struct trial t)
{
    static const size_t counts[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,   13,  15, 16,
                                    17, 23, 31, 33, 47, 63, 64, 65, 100, 129, 333};
    for (t.nsrc = 1; t.nsrc <= MAX_SOURCES; t.nsrc += getenv("TUTTI_TEST_QUICK") ? 3 : 1)
        for (size_t c = 0; c < COUNT_OF(counts); c++) {
            t.count = counts[c];
            t.stream = random_next() % 2;
            t.shift = random_next() % 3 ? random_next() % 65 : random_next() % 17 * t.r.size % 65;
            t.into = random_next() % 2 ? MAX_SOURCES : (int)(random_next() % (unsigned)t.nsrc);
            run_trial(&t);
        }
}

/* Calls fn for every usable set, type and operator. */
static void for_all(tutti_op_t first, tutti_op_t last, void (*fn)(struct trial))
{
    struct trial t = {0};
    for (int s = 0; kernel_sets[s]; s++) {
        t.set = kernel_sets[s];
        for (int type = 0; kernel_set_usable(t.set) && type < TUTTI_TYPE_COUNT; type++)
            for (tutti_op_t op = first; op <= last; op++) {
                assert_int_equal(reduction_init_from(t.set, &t.r, (tutti_type_t)type, op, 3, NULL), TUTTI_SUCCESS);
                fn(t);
            }
    }
}

static void test_fold(void **state)
{
    for_all(TUTTI_SUM, TUTTI_AVG, each_shape);
}

/* Nothing outside the buffers is touched: they lie between two pages that may not be. */
static char *fenced;
static size_t page;

static void each_fenced(struct trial t)
{
    for (t.count = 0; t.count < 150; t.count += 1 + t.count / 20)
        for (int end = 0; end < 2; end++) {
            char *src = fenced + page + (end ? page - t.count * t.r.size : 0);
            const void *sources[3] = {src, src, src};
            reduction_apply(&t.r, src, sources, 3, t.count);
            reduction_apply_stream(&t.r, src, sources, 2, t.count);
            reduction_prepare(&t.r, src, src, t.count);
            reduction_finish(&t.r, src, src, t.count);
        }
}

static void test_stays_inside(void **state)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    fenced = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(fenced != MAP_FAILED);
    assert_int_equal(mprotect(fenced + page, page, PROT_READ | PROT_WRITE), 0);
    for_all(TUTTI_SUM, TUTTI_AVG, each_fenced);
    munmap(fenced, 3 * page);
}

/* All pairs of 8-bit elements; all 16-bit elements with each special one, with TUTTI_TEST_QUICK with the first. */
static void each_pair(struct trial t)
{
    size_t size = t.r.size;
    const void *src[2] = {buffers[0], buffers[1]};
    if (size > 2)
        return;
    size_t few = getenv("TUTTI_TEST_QUICK") ? 1 : COUNT_OF(special_16);
    size_t values = size == 1 ? 256 : 65536, others = size == 1 ? 256 : few;
    for (size_t i = 0; i < values * others; i++) {
        uint64_t x = i % values, y = size == 1 ? i / values : special_16[i / values];
        size_t at = i % 64 * size;
        memcpy(buffers[0] + at, &x, size);
        memcpy(buffers[1] + at, &y, size);
        const void *element[2] = {buffers[0] + at, buffers[1] + at};
        reference_fold(t.r.type, t.r.op, buffers[3] + at, element, 2);
        if (i % 64 < 63)
            continue;
        reduction_apply(&t.r, buffers[2], src, 2, 64);
        if (memcmp(buffers[2], buffers[3], 64 * size) != 0)
            fail_trial(&t, "pairs", i);
    }
}

static void test_pairs(void **state)
{
    for_all(TUTTI_SUM, TUTTI_MIN, each_pair);
}

/* What the documentation promises about special values, spelled out. */
static uint64_t pair_of(tutti_type_t type, tutti_op_t op, uint64_t x, uint64_t y)
{
    struct reduction r;
    uint64_t out = 0;
    const void *src[2] = {&x, &y};
    assert_int_equal(reduction_init(&r, type, op, 2, NULL), TUTTI_SUCCESS);
    reduction_apply(&r, &out, src, 2, 1);
    return out;
}

static void test_special_values(void **state)
{
    const uint64_t nan = 0x7fc00000, inf = 0x7f800000;
    assert_int_equal(pair_of(TUTTI_FLOAT32, TUTTI_SUM, inf, 0xff800000), nan);
    assert_int_equal(pair_of(TUTTI_FLOAT32, TUTTI_SUM, 0xffc12345, 0), nan);
    assert_int_equal(pair_of(TUTTI_FLOAT32, TUTTI_MAX, 0x3f800000, 0xff812345), nan);
    assert_int_equal(pair_of(TUTTI_FLOAT32, TUTTI_MIN, 0x7f812345, 0x3f800000), nan);
    assert_int_equal(pair_of(TUTTI_FLOAT32, TUTTI_MAX, 0x80000000, 0), 0);
    assert_int_equal(pair_of(TUTTI_FLOAT32, TUTTI_MIN, 0, 0x80000000), 0x80000000);
    assert_int_equal(pair_of(TUTTI_FLOAT16, TUTTI_SUM, 0x7bff, 0x7bff), 0x7c00);
    assert_int_equal(pair_of(TUTTI_FLOAT8_E4M3, TUTTI_SUM, 0x7e, 0x7e), 0x7e);
    assert_int_equal(pair_of(TUTTI_FLOAT8_E4M3, TUTTI_SUM, 0xff, 0x00), 0x7f);
    assert_int_equal(pair_of(TUTTI_FLOAT8_E5M2, TUTTI_SUM, 0x7b, 0x7b), 0x7b);
    assert_int_equal(pair_of(TUTTI_FLOAT8_E5M2, TUTTI_SUM, 0x7c, 0x7b), 0x7c);
    assert_int_equal(pair_of(TUTTI_INT32, TUTTI_SUM, 0x7fffffff, 1), 0x80000000);
    assert_int_equal(pair_of(TUTTI_INT8, TUTTI_PROD, 0x80, 0x80), 0);
    assert_int_equal(pair_of(TUTTI_UINT64, TUTTI_MAX, 1, ~(uint64_t)0), ~(uint64_t)0);
    assert_int_equal(pair_of(TUTTI_INT64, TUTTI_MAX, 1, ~(uint64_t)0), 1);
}

/* fp32 accumulation: 1 and three halves of an ulp are lost one by one in fp16, kept in one fold. */
static void test_rounds_once(void **state)
{
    struct reduction r;
    uint16_t one_half[4] = {0x3c00, 0x1000, 0x1000, 0x1000}, out;
    const void *src[4] = {one_half, one_half + 1, one_half + 2, one_half + 3};
    assert_int_equal(reduction_init(&r, TUTTI_FLOAT16, TUTTI_SUM, 4, NULL), TUTTI_SUCCESS);
    reduction_apply(&r, &out, src, 4, 1);
    assert_int_equal(out, 0x3c02);
}

static void run_map(struct trial t, bool prepare, const void *scalar)
{
    size_t size = t.r.size;
    char *src = buffers[0] + t.shift, *dst = t.into ? buffers[1] + t.shift : src, *want = buffers[2];
    fill(t.r.type, src, t.count);
    for (size_t i = 0; i < t.count; i++) {
        if (prepare)
            reference_scale(t.r.type, want + i * size, src + i * size, scalar);
        else
            reference_divide(t.r.type, want + i * size, src + i * size, t.r.nranks);
    }
    memset(dst + t.count * size, 0xa5, 64);
    if (prepare)
        reduction_prepare(&t.r, dst, src, t.count);
    else
        reduction_finish(&t.r, dst, src, t.count);
    compare(&t, prepare ? "prepare" : "finish", dst, want);
}

static void each_map(struct trial t)
{
    tutti_type_t type = t.r.type;
    char scalar[8];
    for (t.count = 0; t.count < 140; t.count += t.count < 40 ? 1 : 13) {
        t.shift = random_next() % 65;
        t.into = random_next() % 2;
        random_element(type, scalar);
        assert_int_equal(reduction_init_from(t.set, &t.r, type, TUTTI_SUM, 3, scalar), TUTTI_SUCCESS);
        assert_true(reduction_needs_prepare(&t.r) && !reduction_needs_finish(&t.r));
        run_map(t, true, scalar);
        int nranks = 2 + (int)(random_next() % (t.count % 2 ? 7 : 200000));
        assert_int_equal(reduction_init_from(t.set, &t.r, type, TUTTI_AVG, nranks, NULL), TUTTI_SUCCESS);
        assert_true(reduction_needs_finish(&t.r) && !reduction_needs_prepare(&t.r));
        run_map(t, false, NULL);
    }
}

static void test_maps(void **state)
{
    for_all(TUTTI_SUM, TUTTI_SUM, each_map);
}

static void test_maps_without_work_copy(void **state)
{
    struct reduction r;
    int32_t in[3] = {1, -2, 3}, out[3] = {0};
    assert_int_equal(reduction_init(&r, TUTTI_INT32, TUTTI_SUM, 4, NULL), TUTTI_SUCCESS);
    assert_false(reduction_needs_prepare(&r) || reduction_needs_finish(&r));
    reduction_prepare(&r, out, in, 3);
    assert_memory_equal(out, in, sizeof in);
    memset(out, 0, sizeof out);
    reduction_finish(&r, out, in, 3);
    assert_memory_equal(out, in, sizeof in);
    reduction_finish(&r, in, in, 3);
    assert_memory_equal(out, in, sizeof in);
    assert_int_equal(reduction_init(&r, TUTTI_INT32, TUTTI_AVG, 1, NULL), TUTTI_SUCCESS);
    assert_false(reduction_needs_finish(&r));
}

static void test_copies(void **state)
{
    for (int s = 0; kernel_sets[s]; s++)
        for (size_t bytes = 0; kernel_set_usable(kernel_sets[s]) && bytes < 1500; bytes += 1 + bytes / 9) {
            size_t to = random_next() % 64, from = random_next() % 64;
            fill(TUTTI_UINT8, buffers[0], MAX_BYTES);
            memset(buffers[1], 0xa5, MAX_BYTES);
            kernel_sets[s]->copy_stream(buffers[1] + to, buffers[0] + from, bytes);
            assert_memory_equal(buffers[1] + to, buffers[0] + from, bytes);
            assert_int_equal((uint8_t)buffers[1][to + bytes], 0xa5);
            assert_true(to == 0 || (uint8_t)buffers[1][to - 1] == 0xa5);
        }
    memory_copy(buffers[1], buffers[0], 100);
    memory_copy_stream(buffers[2], buffers[0], 1000);
    assert_memory_equal(buffers[1], buffers[0], 100);
    assert_memory_equal(buffers[2], buffers[0], 1000);
}

static void test_decode_of_reference(void **state)
{
    static const tutti_type_t types[] = {TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2};
    for (size_t i = 0; i < COUNT_OF(types); i++)
        for (unsigned bits = 0; bits < (type_size(types[i]) == 1 ? 256u : 65536u); bits++) {
            float value = reference_decode(types[i], bits);
            if (value == value)
                assert_int_equal(reference_encode(types[i], value), bits);
        }
    assert_true(reference_decode(TUTTI_FLOAT8_E4M3, 0x7e) == 448 && reference_decode(TUTTI_FLOAT8_E5M2, 0x7b) == 57344);
    assert_true(reference_decode(TUTTI_FLOAT16, 0x3555) == 0x1.554p-2f &&
                reference_decode(TUTTI_BFLOAT16, 1) == 0x1p-133f);
}

static void test_bad_arguments(void **state)
{
    struct reduction r;
    int32_t two = 2;
    assert_int_equal(reduction_init(&r, (tutti_type_t)12, TUTTI_SUM, 2, NULL), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "element type 12"));
    assert_int_equal(reduction_init(&r, (tutti_type_t)-1, TUTTI_SUM, 2, NULL), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(reduction_init(&r, TUTTI_INT32, (tutti_op_t)5, 2, NULL), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "operator 5"));
    assert_int_equal(reduction_init(&r, TUTTI_INT32, TUTTI_SUM, 0, NULL), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "0 ranks"));
    assert_int_equal(reduction_init(&r, TUTTI_INT32, TUTTI_MAX, 2, &two), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "not with max"));
    assert_int_equal(reduction_init_from(NULL, &r, TUTTI_INT32, TUTTI_SUM, 2, NULL), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "TUTTI_SIMD"));
}

static void test_simd_choice(void **state)
{
    static const char *const names[] = {"auto", "plain", "avx2", "avx512", "neon"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        setenv("TUTTI_SIMD", names[i], 1);
        param_reload();
        const struct kernel_set *set = kernel_set_chosen();
        assert_true(i > 1 || set != NULL);
        assert_true(i != 1 || set == kernel_sets[0]);
        assert_true(!set || kernel_set_usable(set));
        assert_true(i < 2 || !set || strcmp(set->name, names[i]) == 0);
        assert_string_equal(reduction_simd(), set ? set->name : "none");
    }
    unsetenv("TUTTI_SIMD");
    param_reload();
}

static void test_names(void **state)
{
    tutti_type_t type;
    tutti_op_t op;
    for (int i = 0; i < TUTTI_TYPE_COUNT; i++) {
        assert_true(type_parse(type_name((tutti_type_t)i), &type));
        assert_int_equal(type, i);
        assert_true(type_size(type) == 1 || type_size(type) == 2 || type_size(type) == 4 || type_size(type) == 8);
    }
    for (int i = 0; i < TUTTI_OP_COUNT; i++) {
        assert_true(op_parse(op_name((tutti_op_t)i), &op));
        assert_int_equal(op, i);
    }
    assert_true(type_parse("float32", &type) && type == TUTTI_FLOAT32);
    assert_false(type_parse("quad", &type) || op_parse("xor", &op));
    assert_int_equal(type_size((tutti_type_t)12), 0);
    assert_string_equal(type_name((tutti_type_t)-1), "unknown");
    assert_string_equal(op_name((tutti_op_t)5), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_of_reference),
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_rounds_once),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_maps_without_work_copy),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_simd_choice),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_stays_inside),
    };
    for (int i = 0; kernel_sets[i]; i++)
        printf("# kernels %s: %s\n", kernel_sets[i]->name,
               kernel_set_usable(kernel_sets[i]) ? "tested" : "not on this processor");
    return cmocka_run_group_tests(tests, setup, teardown);
}
