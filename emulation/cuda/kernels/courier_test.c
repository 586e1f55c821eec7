/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that copy, and reduce, what the host orders, on the CPU. */
#include "cuda/kernels/cuda_kernels.h"

#include "base/random.h"
#include "device/cuda/kernels/kernels.h"
#include "device/reduce.h"
#include "device/type.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static void *run_courier(void *arg)
{
    const struct kernel_courier *what = arg;
    for (unsigned block = 0; block < 2; block++)
        cuda_kernel_run_block(cuda_kernel_find("tutti_courier"), what, (struct cuda_index){2, 1, 1},
                              (struct cuda_index){block, 0, 0});
    return NULL;
}

static void order(struct kernel_copy *copy, const void *to, const void *from, uint64_t bytes, uint32_t job,
                  uint32_t number, int parts)
{
    const uint64_t words[KERNEL_ORDER_PARTS / 2] = {(uintptr_t)to, (uintptr_t)from, bytes, 0, job};
    for (int i = 0; i < parts; i++) /* the kernel looks meanwhile */
        __atomic_store_n(&copy->part[i], KERNEL_ORDER_PART(words[i / 2] >> i % 2 * 32, number), __ATOMIC_RELEASE);
}

/* Orders of its own job alone, whole ones, whatever stands there of others; block 1 has none. */
static void test_courier(void **state)
{
    static unsigned char from[3][5000], to[3][5000];
    static struct kernel_copy copies[2] = {{.done = 6}, {.done = 9}};
    static uint32_t over = 3;
    struct kernel_courier what = {.copies = copies, .over = &over, .job = 4, .channels = 2};
    pthread_t thread;
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < sizeof from[i]; j++)
            from[i][j] = (unsigned char)(1 + (i + j) % 251);
    order(&copies[0], to[0], from[0], sizeof to[0], 3, 7, KERNEL_ORDER_PARTS);
    order(&copies[1], to[0], from[0], sizeof to[0], 4, 9, KERNEL_ORDER_PARTS);
    assert_int_equal(pthread_create(&thread, NULL, run_courier, &what), 0);
    for (uint32_t i = 1; i < 3; i++) {
        order(&copies[0], to[i] + i, from[i], 4000 + i, 4, 7 + i, KERNEL_ORDER_PARTS);
        while (__atomic_load_n(&copies[0].done, __ATOMIC_ACQUIRE) != 7 + i)
            sched_yield();
        assert_memory_equal(to[i] + i, from[i], 4000 + i);
        assert_int_equal(to[i][4000 + 2 * i], 0);
    }
    order(&copies[0], to[0], from[0], sizeof to[0], 4, 10, KERNEL_ORDER_FOLD);
    __atomic_store_n(&over, 4, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(copies[0].done, 9);
    assert_int_equal(copies[1].done, 9);
    assert_int_equal(to[0][0] | to[0][4999], 0);
}

/* ---- A wait ---- */

#define LONG_US 300000

static struct {
    bool counts;
    uint32_t *over, looks;
    uint64_t slept, longest; /* us; longest: where a pause was the largest part of what came before, in percent */
} waits;

/* In place of the library's: while it counts, time passes at once. */
int usleep(useconds_t us)
{
    struct timespec pause = {.tv_nsec = (long)us * 1000};
    if (!waits.counts)
        return nanosleep(&pause, NULL);
    if (waits.slept > 5000 && us * 100 / waits.slept > waits.longest)
        waits.longest = us * 100 / waits.slept;
    waits.looks++;
    waits.slept += us;
    if (waits.slept > LONG_US)
        __atomic_store_n(waits.over, 4, __ATOMIC_RELEASE);
    return 0;
}

/* Hundreds of blocks may wait for one host, on few processors: they look seldom, and are hardly late. */
static void test_wait(void **state)
{
    static struct kernel_copy copies[1];
    static uint32_t over = 3;
    const struct kernel_courier what = {.copies = copies, .over = &over, .job = 4, .channels = 1};
    waits.counts = true;
    waits.over = &over;
    cuda_kernel_run_block(cuda_kernel_find("tutti_courier"), &what, (struct cuda_index){1, 1, 1},
                          (struct cuda_index){0, 0, 0});
    waits.counts = false;
    assert_in_range(waits.looks, 1, 300);
    assert_in_range(waits.longest, 0, 12);
}

/* ---- Folds ---- */

enum { RANKS_MOST = 11, ROOM = 1024 };

/* A block serves more than one thread of the host, in whatever order these give theirs. */
#define CHANNELS 5u
#define CHANNEL  4u /* the one that folds; block 0 of two has it, and two others */

struct folds {
    struct kernel_courier what;
    struct kernel_copy copies[CHANNELS];
    uint32_t over;
    char kernel[64];
};

static uint64_t draw(void)
{
    static uint64_t last = 41;
    return mix64(last += 0x9e3779b97f4a7c15ull);
}

static uint64_t below(uint64_t end)
{
    return draw() % end;
}

static void *run_folds(void *arg)
{
    struct folds *f = arg;
    cuda_kernel_run_block(cuda_kernel_find(f->kernel), &f->what, (struct cuda_index){2, 1, 1},
                          (struct cuda_index){0, 0, 0});
    return NULL;
}

static void carry_out(struct kernel_copy *copy, const uint64_t words[4], uint32_t fold, uint32_t number)
{
    for (int i = 0; i < KERNEL_ORDER_JOB; i++)
        __atomic_store_n(&copy->part[i], KERNEL_ORDER_PART(words[i / 2] >> i % 2 * 32, number), __ATOMIC_RELEASE);
    __atomic_store_n(&copy->part[KERNEL_ORDER_JOB], KERNEL_ORDER_PART(4, number), __ATOMIC_RELEASE);
    __atomic_store_n(&copy->part[KERNEL_ORDER_FOLD], KERNEL_ORDER_PART(fold, number), __ATOMIC_RELEASE);
    while (__atomic_load_n(&copy->done, __ATOMIC_ACQUIRE) != number)
        sched_yield();
}

static unsigned char blocks[RANKS_MOST * ROOM + 64], got[ROOM + 64], wanted[ROOM + 64], own_block[ROOM + 64];

/* Any bits, NaNs among them. The block of this rank lies elsewhere, and is not where the others' are. */
static void fold_once(struct folds *f, tutti_type_t type, int op, int nranks, size_t bytes, uint32_t number)
{
    const void *from[RANKS_MOST];
    struct reduction reduction;
    size_t skip = below(4) ? 0 : type_size(type), count = bytes / type_size(type);
    int rank = (int)below((uint64_t)nranks);
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = (unsigned char)draw();
    for (size_t i = 0; i < sizeof own_block; i++)
        own_block[i] = (unsigned char)draw();
    for (int p = 0; p < nranks; p++)
        from[p] = p == rank ? own_block + skip : blocks + skip + (size_t)p * bytes;
    memset(got, 0xee, sizeof got);
    memset(wanted, 0xee, sizeof wanted);
    int divisor = nranks > 1 && f->what.divisor ? f->what.divisor : nranks;
    assert_int_equal(reduction_init(&reduction, type, (tutti_op_t)op, divisor, NULL), TUTTI_SUCCESS);
    reduction_apply(&reduction, wanted, from, nranks, count);
    if (reduction_needs_finish(&reduction))
        reduction_finish(&reduction, wanted, wanted, count);
    const uint64_t words[4] = {(uintptr_t)got, (uintptr_t)(blocks + skip), bytes, (uintptr_t)(own_block + skip)};
    carry_out(&f->copies[CHANNEL], words, kernel_fold(nranks, rank), number);
    assert_memory_equal(got, wanted, sizeof got);
}

/* Each element by the scalar, as a reduction of the block alone would have it. */
static void scale_once(struct folds *f, tutti_type_t type, size_t bytes, uint32_t number)
{
    uint64_t scalar = draw() >> (64 - 8 * type_size(type));
    struct reduction reduction;
    for (size_t i = 0; i < sizeof own_block; i++)
        own_block[i] = (unsigned char)draw();
    memset(got, 0xee, sizeof got);
    memset(wanted, 0xee, sizeof wanted);
    assert_int_equal(reduction_init(&reduction, type, TUTTI_SUM, 2, &scalar), TUTTI_SUCCESS);
    reduction_prepare(&reduction, wanted, own_block, bytes / type_size(type));
    const uint64_t words[4] = {(uintptr_t)got, scalar, bytes, (uintptr_t)own_block};
    carry_out(&f->copies[CHANNEL], words, kernel_fold(1, 0) | KERNEL_FOLD_SCALES, number);
    assert_memory_equal(got, wanted, sizeof got);
}

static void test_folds(void **state)
{
    static const int ops[] = {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX, TUTTI_AVG, TUTTI_AVG};
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        for (size_t op = 0; op < sizeof ops / sizeof *ops; op++) {
            static struct folds f;
            pthread_t thread;
            uint32_t number = 0;
            memset(&f, 0, sizeof f);
            f.over = 3;
            f.what = (struct kernel_courier){
                .copies = f.copies, .over = &f.over, .job = 4, .channels = CHANNELS, .op = ops[op]};
            f.what.divisor = op + 1 == sizeof ops / sizeof *ops ? 11 : 0; /* an average of more than are folded */
            snprintf(f.kernel, sizeof f.kernel, "tutti_reduce_folded_%s", type_name((tutti_type_t)type));
            assert_int_equal(pthread_create(&thread, NULL, run_folds, &f), 0);
            for (int nranks = 1; nranks <= RANKS_MOST; nranks++)
                fold_once(&f, (tutti_type_t)type, ops[op], nranks,
                          (1 + below(ROOM / 8)) * type_size((tutti_type_t)type), ++number);
            if (ops[op] == TUTTI_SUM)
                scale_once(&f, (tutti_type_t)type, 40 * type_size((tutti_type_t)type), ++number);
            __atomic_store_n(&f.over, 4, __ATOMIC_RELEASE);
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_courier), cmocka_unit_test(test_wait),
                                       cmocka_unit_test(test_folds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
