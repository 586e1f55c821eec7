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
    kernel_choose_reduce(mode, nranks, bytes, most, false, &launch);
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

static void test_reductions_in_host_memory(void **state)
{
    struct kernel_launch launch;
    kernel_choose_reduce(KERNEL_ALLREDUCE, 2, 2048, 0, true, &launch);
    assert_int_equal(launch.kernel, KERNEL_REDUCE_ONE);
    for (int shift = 12; shift < 40; shift++) {
        kernel_choose_reduce(KERNEL_REDUCE_SCATTER, 2, (size_t)1 << shift, 0, true, &launch);
        assert_int_equal(launch.kernel, KERNEL_REDUCE_BULK);
        assert_int_equal(launch.grid[0], shift <= 19 ? 4 : shift == 20 ? 8 : 16);
        assert_int_equal(launch.chunk, shift <= 20 ? 16384 : 32768);
    }
    kernel_choose_reduce(KERNEL_ALLREDUCE, 2, 1 << 30, 3, true, &launch);
    assert_int_equal(launch.grid[0], 3);
    assert_int_equal(choice(KERNEL_ALLREDUCE, 2, 1 << 30, 0).chunk, 0);
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

static struct kernel_exchange ways(uint64_t plain_from, uint64_t lines_from, uint64_t lines_to)
{
    return (struct kernel_exchange){.plain_from = plain_from, .lines_from = lines_from, .lines_to = lines_to};
}

static void test_stripes_of_messages(void **state)
{
    struct kernel_exchange what = ways(0, 0, 0);
    assert_int_equal(kernel_exchange_stripes(&what, 0), 0);
    assert_int_equal(kernel_exchange_stripes(&what, KERNEL_PLAIN_FROM - 1), KERNEL_EXCHANGE_MOST);
    assert_int_equal(kernel_exchange_stripes(&what, KERNEL_PLAIN_FROM), KERNEL_PLAIN_FROM / KERNEL_PLAIN_EACH);
    assert_int_equal(kernel_exchange_stripes(&what, UINT64_MAX), KERNEL_EXCHANGE_MOST);
    what = ways(1, 1, UINT64_MAX);
    assert_int_equal(kernel_exchange_stripes(&what, KERNEL_LINES_EACH), 1);
    assert_int_equal(kernel_exchange_stripes(&what, KERNEL_LINES_EACH + 1), 2);
    assert_int_equal(kernel_exchange_stripes(&what, (uint64_t)1 << 40), KERNEL_LINES_MOST);
    what.stripes = 2;
    assert_int_equal(kernel_exchange_stripes(&what, (uint64_t)1 << 40), 2);
    what = (struct kernel_exchange){.stripes = 3};
    assert_int_equal(kernel_exchange_stripes(&what, (uint64_t)1 << 40), 3);
    assert_int_equal(kernel_exchange_stripes(&what, 1), 1);
}

static void test_ways_of_messages(void **state)
{
    struct kernel_exchange what = ways(0, 0, 0);
    assert_int_equal(kernel_exchange_form(&what, KERNEL_PLAIN_FROM - 1), KERNEL_PACKETS);
    assert_int_equal(kernel_exchange_form(&what, KERNEL_PLAIN_FROM), KERNEL_PLAIN);
    what = ways(1, 5, 9);
    assert_int_equal(kernel_exchange_form(&what, 0), KERNEL_PACKETS);
    assert_int_equal(kernel_exchange_form(&what, 4), KERNEL_PLAIN);
    assert_int_equal(kernel_exchange_form(&what, 5), KERNEL_LINES);
    assert_int_equal(kernel_exchange_form(&what, 8), KERNEL_LINES);
    assert_int_equal(kernel_exchange_form(&what, 9), KERNEL_PLAIN);
    what = ways(UINT64_MAX, 9, 5);
    assert_int_equal(kernel_exchange_form(&what, 4), KERNEL_PACKETS);
    assert_int_equal(kernel_exchange_form(&what, 7), KERNEL_PLAIN);
    assert_int_equal(kernel_exchange_form(&what, (uint64_t)1 << 50), KERNEL_PLAIN);
    what = ways(UINT64_MAX, 1, 0);
    assert_int_equal(kernel_exchange_form(&what, (uint64_t)1 << 50), KERNEL_PACKETS);
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
    assert_true(kernel_window_bytes(4) <= (uint64_t)11 << 20);
    assert_true(kernel_window_bytes(KERNEL_RANKS) <= (uint64_t)25 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_by_size),
        cmocka_unit_test(test_reductions_in_host_memory),
        cmocka_unit_test(test_reductions_keep_within_bounds),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_stripes_of_messages),
        cmocka_unit_test(test_ways_of_messages),
        cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
