/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that copies what the host orders, on the CPU. */
#include "cuda/kernels/cuda_kernels.h"

#include "device/cuda/kernels/kernels.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
    const uint64_t words[KERNEL_ORDER_PARTS / 2] = {(uintptr_t)to, (uintptr_t)from, bytes, job};
    for (int i = 0; i < parts; i++) /* the kernel looks meanwhile */
        __atomic_store_n(&copy->part[i], KERNEL_ORDER_PART(words[i / 2] >> i % 2 * 32, number), __ATOMIC_RELEASE);
}

/* Orders of its own job alone, whole ones, whatever stands there of others; block 1 has none. */
static void test_courier(void **state)
{
    static unsigned char from[3][5000], to[3][5000];
    static struct kernel_copy copies[2] = {{.done = 6}, {.done = 9}};
    static uint32_t over = 3;
    struct kernel_courier what = {.copies = copies, .over = &over, .job = 4};
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
    order(&copies[0], to[0], from[0], sizeof to[0], 4, 10, KERNEL_ORDER_LAST);
    __atomic_store_n(&over, 4, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(copies[0].done, 9);
    assert_int_equal(copies[1].done, 9);
    assert_int_equal(to[0][0] | to[0][4999], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_courier)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
