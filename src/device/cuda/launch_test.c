/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel choice: bounds, and that what two ends must agree on they do. */
#include "device/cuda/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct kernel_launch choice(enum kernel_mode mode, int nranks, size_t bytes, unsigned most)
{
    struct kernel_launch launch;
    memset(&launch, 0xa5, sizeof launch);
    kernel_choose_reduce(mode, nranks, bytes, most, &launch);
    return launch;
}

static void test_reductions_by_size(void **state)
{
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 0, 0).kernel, KERNEL_REDUCE_ONE);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 0, 0).grid[0], 1);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 1024, 0).grid[0], 1);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 65536, 0).kernel, KERNEL_REDUCE_ONE);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 65536, 0).grid[0], 32);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 65536, 0).threads, KERNEL_LL_THREADS);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 262144, 0).kernel, KERNEL_REDUCE_TWO);
    assert_int_equal(choice(KERNEL_REDUCE, 4, 262144, 0).kernel, KERNEL_REDUCE_TWO);
    assert_int_equal(choice(KERNEL_REDUCE_SCATTER, 4, 262144, 0).kernel, KERNEL_REDUCE_BULK);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 1 << 30, 0).kernel, KERNEL_REDUCE_BULK);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 16 << 20, 0).grid[0], KERNEL_STRIPES);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 1 << 30, 0).grid[0], KERNEL_STRIPES / 2);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 1 << 30, 48).grid[0], 48);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 4, 1 << 30, 0).threads, KERNEL_BULK_THREADS);
}

static void test_reductions_keep_within_bounds(void **state)
{
    for (int mode = KERNEL_ALLREDUCE; mode <= KERNEL_REDUCE; mode++)
        for (int n = 1; n <= KERNEL_RANKS; n++)
            for (unsigned shift = 0; shift < 40; shift++)
                for (unsigned most = 0; most < 80; most += 1 + most / 3) {
                    const struct kernel_launch launch = choice((enum kernel_mode)mode, n, ((size_t)1 << shift) + 1, most);
                    assert_true(launch.kernel != KERNEL_EXCHANGE && launch.kernel < KERNEL_COUNT);
                    assert_true(launch.grid[0] >= 1 && launch.grid[0] <= KERNEL_STRIPES);
                    assert_true(!most || launch.grid[0] <= most);
                    assert_int_equal(launch.grid[1], 1);
                    assert_true(mode != KERNEL_REDUCE_SCATTER || launch.kernel != KERNEL_REDUCE_TWO);
                }
}

static void test_exchanges(void **state)
{
    struct kernel_exchange what = {.team = {.rank = 1, .nranks = 3}};
    struct kernel_launch launch;
    kernel_choose_exchange(&what, &launch);
    assert_int_equal(launch.kernel, KERNEL_EXCHANGE);
    assert_int_equal(launch.grid[0], 1);
    assert_int_equal(launch.grid[1], 3);
    what.recv_bytes[2] = KERNEL_EXCHANGE_BYTES + 1;
    kernel_choose_exchange(&what, &launch);
    assert_int_equal(launch.grid[0], 2);
    what.send_bytes[0] = 3 * KERNEL_EXCHANGE_BYTES;
    kernel_choose_exchange(&what, &launch);
    assert_int_equal(launch.grid[0], 3);
    what.send_bytes[1] = (uint64_t)1 << 40;
    kernel_choose_exchange(&what, &launch);
    assert_int_equal(launch.grid[0], KERNEL_EXCHANGE_MOST);
    assert_true(KERNEL_EXCHANGE_MOST <= KERNEL_STRIPES);
    assert_int_equal(launch.threads, KERNEL_EXCHANGE_THREADS);
}

static void test_stripes_of_messages(void **state)
{
    assert_int_equal(kernel_exchange_stripes(0, 0), 0);
    assert_int_equal(kernel_exchange_stripes(KERNEL_PLAIN_FROM - 1, 0), KERNEL_EXCHANGE_MOST);
    assert_int_equal(kernel_exchange_stripes(KERNEL_PLAIN_FROM, 0), KERNEL_PLAIN_FROM / KERNEL_PLAIN_EACH);
    assert_int_equal(kernel_exchange_stripes(UINT64_MAX, 0), KERNEL_EXCHANGE_MOST);
    assert_int_equal(kernel_exchange_stripes(1, 1), 1);
    assert_true(kernel_exchange_plain(1, 1) && !kernel_exchange_plain(0, 1));
    assert_true(kernel_exchange_plain(KERNEL_PLAIN_FROM, 0) && !kernel_exchange_plain(KERNEL_PLAIN_FROM - 1, 0));
    assert_false(kernel_exchange_plain((uint64_t)1 << 50, UINT64_MAX));
}

static void test_broadcasts(void **state)
{
    struct kernel_launch launch;
    for (unsigned shift = 0; shift < 64; shift++)
        for (unsigned most = 0; most < 80; most += 1 + most / 3) {
            kernel_choose_chain((uint64_t)1 << shift, most, &launch);
            assert_int_equal(launch.kernel, KERNEL_CHAIN);
            assert_int_equal(launch.threads, KERNEL_CHAIN_THREADS);
            assert_true(launch.grid[0] >= 1 && launch.grid[0] <= KERNEL_STRIPES && launch.grid[1] == 1);
            assert_true(!most || launch.grid[0] <= most);
        }
    kernel_choose_chain(KERNEL_CHAIN_EACH + 1, 0, &launch);
    assert_int_equal(launch.grid[0], 2);
    kernel_choose_chain((uint64_t)4 << 20, 0, &launch);
    assert_int_equal(launch.grid[0], KERNEL_STRIPES);
    kernel_choose_chain((uint64_t)1 << 30, 0, &launch);
    assert_int_equal(launch.grid[0], KERNEL_STRIPES);
}

static void test_sizes(void **state)
{
    assert_int_equal(kernel_bulk_bytes(1), 0);
    assert_true(kernel_bulk_bytes(4) <= (uint64_t)32 << 20);
    assert_true(kernel_bulk_bytes(KERNEL_RANKS) > kernel_bulk_bytes(4));
    assert_int_equal(kernel_window_bytes(1), KERNEL_CONTROL_BYTES);
    assert_true(kernel_window_bytes(4) <= (uint64_t)8 << 20);
    assert_true(kernel_window_bytes(KERNEL_RANKS) <= (uint64_t)12 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_by_size),
        cmocka_unit_test(test_reductions_keep_within_bounds),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_stripes_of_messages),
        cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
