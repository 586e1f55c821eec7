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

/* Orders of its own job alone, whatever stands there of others; block 1 has none. */
static void test_courier(void **state)
{
    static unsigned char from[3][5000], to[3][5000];
    static struct kernel_copy copies[2] = {{.number = 7, .done = 6, .job = 3}, {.number = 9, .done = 9}};
    static uint32_t over = 3;
    struct kernel_courier what = {.copies = copies, .over = &over, .job = 4};
    pthread_t thread;
    copies[0].to = (uintptr_t)to[0];
    copies[0].from = (uintptr_t)from[0];
    copies[0].bytes = sizeof to[0];
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < sizeof from[i]; j++)
            from[i][j] = (unsigned char)(1 + (i + j) % 251);
    assert_int_equal(pthread_create(&thread, NULL, run_courier, &what), 0);
    for (uint32_t i = 1; i < 3; i++) {
        if (i == 1)
            __atomic_store_n(&copies[0].job, KERNEL_ORDER_OF_NOBODY(4u), __ATOMIC_RELAXED);
        copies[0].to = (uintptr_t)to[i] + i;
        copies[0].from = (uintptr_t)from[i];
        copies[0].bytes = 4000 + i;
        __atomic_store_n(&copies[0].number, 7 + i, __ATOMIC_RELEASE);
        __atomic_store_n(&copies[0].job, 4, __ATOMIC_RELEASE);
        while (__atomic_load_n(&copies[0].done, __ATOMIC_ACQUIRE) != 7 + i)
            sched_yield();
        assert_memory_equal(to[i] + i, from[i], 4000 + i);
        assert_int_equal(to[i][4000 + 2 * i], 0);
    }
    __atomic_store_n(&over, 4, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(to[0][0] | to[0][4999], 0);
    assert_int_equal(copies[1].done, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_courier)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
