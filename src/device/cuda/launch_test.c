/* SPDX-License-Identifier: Apache-2.0 */
/* Grids: bounds, and that what two ends must agree on they do. */
#include "device/cuda/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define H200 132 /* processors */

static const struct kernel_room usual = {0, KERNEL_STRIPES};

static struct kernel_launch shape(enum kernel_id kernel, size_t bytes, struct kernel_room room, bool in_host)
{
    struct kernel_launch launch;
    memset(&launch, 0xa5, sizeof launch);
    kernel_shape_reduce(kernel, bytes, room, in_host, &launch);
    return launch;
}

static void test_reductions_by_size(void **state)
{
    assert_int_equal(shape(KERNEL_REDUCE_ONE, 0, usual, false).blocks, 1);
    assert_int_equal(shape(KERNEL_REDUCE_ONE, 1024, usual, false).blocks, 1);
    assert_int_equal(shape(KERNEL_REDUCE_ONE, 1024, usual, false).threads, KERNEL_LL_HALF);
    assert_int_equal(shape(KERNEL_REDUCE_ONE, 8192, usual, false).blocks, 2);
    assert_int_equal(shape(KERNEL_REDUCE_ONE, 65536, usual, false).stripes, 32);
    assert_int_equal(shape(KERNEL_REDUCE_ONE, 65536, usual, false).blocks, 16);
    assert_int_equal(shape(KERNEL_REDUCE_ONE, 65536, usual, false).threads, KERNEL_LL_THREADS);
    assert_int_equal(shape(KERNEL_REDUCE_TWO, (256 << 10) - 1, usual, false).blocks, 16);
    assert_int_equal(shape(KERNEL_REDUCE_TWO, 256 << 10, usual, false).blocks, 32); /* with 64 stripes */
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 1 << 20, usual, false).blocks, 32);
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 16 << 20, usual, false).blocks, 64);
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 1 << 30, usual, false).blocks, 32);
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 1 << 30, (struct kernel_room){48, 50}, false).blocks, 48);
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 1 << 30, usual, false).threads, KERNEL_BULK_THREADS);
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 1 << 30, usual, false).chunk, 0);
}

static void test_reductions_in_host_memory(void **state)
{
    for (int shift = 12; shift < 40; shift++) {
        const struct kernel_launch launch = shape(KERNEL_REDUCE_BULK, (size_t)1 << shift, usual, true);
        assert_int_equal(launch.blocks, shift <= 19 ? 4 : shift == 20 ? 8 : 16);
        assert_int_equal(launch.chunk, shift <= 20 ? 16384 : 32768);
    }
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 1 << 30, (struct kernel_room){0, 3}, true).blocks, 3);
}

static void test_reductions_keep_within_bounds(void **state)
{
    for (int kernel = KERNEL_REDUCE_ONE; kernel < KERNEL_COUNT; kernel++)
        for (unsigned shift = 0; shift < 40; shift++)
            for (unsigned most = 1; most <= KERNEL_STRIPES; most += 1 + most / 3) {
                const struct kernel_launch launch = shape((enum kernel_id)kernel, ((size_t)1 << shift) + 1,
                                                          (struct kernel_room){most / 2, most}, false);
                assert_int_equal(launch.kernel, kernel);
                assert_true(launch.blocks >= 1 && launch.blocks <= most && launch.stripes <= KERNEL_STRIPES);
                assert_true(launch.stripes <= 2 * launch.blocks);
                assert_true(launch.blocks <= KERNEL_CLUSTER || launch.blocks % KERNEL_CLUSTER == 0 ||
                            most % KERNEL_CLUSTER);
                assert_true(launch.blocks <= 16 || launch.blocks <= most / 2 || (shift >= 15 && launch.blocks <= 64));
            }
}

/* Whatever the user wants, two launches fit on a GPU together. */
static void test_room(void **state)
{
    for (unsigned processors = 1; processors < 200; processors++)
        for (unsigned least = 0; least <= 64; least += 8)
            for (unsigned most = 0; most <= 64; most += 4) {
                const struct kernel_room room = kernel_room(processors, least, most);
                assert_true(room.most >= 1 && room.most <= KERNEL_STRIPES && room.least <= room.most);
                assert_true(processors == 1 || 2 * room.most <= processors);
                assert_true(room.most <= KERNEL_CLUSTER || room.most % KERNEL_CLUSTER == 0);
                assert_true(room.least <= KERNEL_CLUSTER || room.least % KERNEL_CLUSTER == 0);
                assert_true(!most || room.most <= most);
            }
    assert_int_equal(kernel_room(H200, 0, 0).most, KERNEL_STRIPES);
    assert_int_equal(kernel_room(H200, 32, 0).least, 32);
    assert_int_equal(kernel_room(40, 32, 0).least, 20);
    assert_int_equal(shape(KERNEL_REDUCE_BULK, 1 << 30, kernel_room(40, 0, 0), false).blocks, 20);
}

/* As of a H100; of smaller ones; of GPUs without clusters. */
static void test_clusters(void **state)
{
    struct kernel_clusters clusters = kernel_clusters(H200, 66, 31);
    assert_int_equal(clusters.processors, H200);
    assert_int_equal(kernel_cluster_of(clusters, 32), KERNEL_CLUSTER);
    assert_int_equal(kernel_cluster_of(clusters, 36), 2);
    assert_int_equal(kernel_cluster_of(clusters, 3), 1);
    assert_int_equal(kernel_cluster_of(clusters, 2), 1); /* pairs are not for few */
    clusters = kernel_clusters(114, 57, 26);             /* too little would be left beside a large launch */
    assert_int_equal(kernel_cluster_of(clusters, 32), 2);
    clusters = kernel_clusters(H200, 60, 0);
    assert_int_equal(clusters.processors, 120);
    assert_int_equal(kernel_cluster_of(clusters, 32), 2);
    clusters = kernel_clusters(H200, 0, 0);
    assert_int_equal(clusters.processors, H200);
    assert_int_equal(kernel_cluster_of(clusters, 32), 1);
}

static void check_deal(const struct kernel_exchange *what, const struct kernel_launch *launch, bool out)
{
    const uint16_t *end = out ? what->out_end : what->in_end;
    const int n = what->team.nranks, me = what->team.rank;
    assert_int_equal(end[0], 0);
    for (int k = 1; k < n; k++) {
        const uint64_t bytes = out ? what->send_bytes[(me + k) % n] : what->recv_bytes[(me + n - k) % n];
        assert_true(end[k] >= end[k - 1] + (bytes != 0) && end[k] <= launch->blocks);
        assert_true(end[k] - end[k - 1] <= (int)kernel_exchange_stripes(what, bytes));
    }
}

static void test_exchanges(void **state)
{
    struct kernel_exchange what = {.team = {.rank = 1, .nranks = 3}};
    struct kernel_launch launch;
    kernel_choose_exchange(&what, usual, false, &launch);
    assert_int_equal(launch.kernel, KERNEL_EXCHANGE);
    assert_int_equal(launch.threads, KERNEL_EXCHANGE_THREADS);
    assert_int_equal(launch.blocks, 1);
    what.recv_bytes[2] = KERNEL_EXCHANGE_BYTES + 1;
    kernel_choose_exchange(&what, usual, false, &launch);
    assert_int_equal(launch.blocks, 2);
    assert_int_equal(what.in_end[2], 2);
    what.send_bytes[0] = 3 * KERNEL_EXCHANGE_BYTES;
    kernel_choose_exchange(&what, usual, false, &launch);
    assert_int_equal(launch.blocks, 3); /* both halves of blocks are used */
    what.send_bytes[1] = what.recv_bytes[1] = 1;
    what.send[1] = &what;
    kernel_choose_exchange(&what, usual, false, &launch);
    assert_int_equal(launch.blocks, 4); /* one more for itself */
    assert_int_equal(kernel_exchange_own(&what, 2), 3);
}

/* Two GPUs pass each other 16 MiB, and keep as much: neither the peer's blocks nor its own are few. */
static void test_long_exchanges(void **state)
{
    struct kernel_exchange what = {.team = {.rank = 1, .nranks = 2},
                                   .send_bytes = {16 << 20, 16 << 20},
                                   .recv_bytes = {16 << 20, 16 << 20},
                                   .recv = {0, &what}};
    struct kernel_launch launch;
    kernel_choose_exchange(&what, usual, false, &launch);
    assert_int_equal(what.out_end[1], KERNEL_EXCHANGE_MOST);
    assert_int_equal(launch.blocks, KERNEL_EXCHANGE_MOST + 24);
    kernel_choose_exchange(&what, kernel_room(40, 0, 0), false, &launch);
    assert_int_equal(launch.blocks, 20);
}

/* To and from everybody, of any length, in any room. */
static void test_exchanges_keep_within_bounds(void **state)
{
    for (int n = 1; n <= KERNEL_RANKS; n++)
        for (unsigned shift = 0; shift < 40; shift++)
            for (unsigned most = 1; most <= KERNEL_STRIPES; most += 1 + most / 3) {
                struct kernel_exchange what = {.team = {.rank = n / 2, .nranks = n}, .recv = {&what}};
                struct kernel_launch launch;
                for (int p = 0; p < n; p++) {
                    what.send_bytes[p] = ((uint64_t)1 << shift) >> (p == n / 2 ? 0 : p);
                    what.recv_bytes[p] = ((uint64_t)1 << shift) >> (p == n / 2 ? 0 : n - p);
                }
                kernel_choose_exchange(&what, (struct kernel_room){0, most}, shift % 2, &launch);
                const unsigned usual_most = shift % 2 || shift < 17 ? 16 : 64,
                               bound = most < usual_most ? most : usual_most;
                assert_true(launch.blocks >= 1 && launch.blocks <= (bound < (unsigned)n ? (unsigned)n : bound));
                check_deal(&what, &launch, true);
                check_deal(&what, &launch, false);
            }
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
        for (unsigned most = 1; most <= KERNEL_STRIPES; most += 1 + most / 3) {
            kernel_choose_chain((uint64_t)1 << shift, (struct kernel_room){0, most}, &launch);
            assert_int_equal(launch.kernel, KERNEL_CHAIN);
            assert_int_equal(launch.threads, KERNEL_CHAIN_THREADS);
            assert_true(launch.blocks >= 1 && launch.blocks <= (shift < 20 ? 16 : 64) && launch.blocks <= most);
        }
    kernel_choose_chain(KERNEL_CHAIN_EACH + 1, usual, &launch);
    assert_int_equal(launch.blocks, 2);
    kernel_choose_chain((uint64_t)512 << 10, usual, &launch);
    assert_int_equal(launch.blocks, 16);
    kernel_choose_chain((uint64_t)1 << 30, usual, &launch);
    assert_int_equal(launch.blocks, 64);
}

static void test_chunks_begin_with_lines(void **state)
{
    for (uint64_t bytes = 1; bytes < (uint64_t)1 << 33; bytes = bytes * 3 + 7)
        for (int n = 2; n <= KERNEL_RANKS; n++)
            assert_int_equal(kernel_plain_chunk(bytes, n) % KERNEL_LINE, 0);
}

static void test_sizes(void **state)
{
    assert_int_equal(kernel_bulk_bytes(1), 0);
    assert_true(kernel_bulk_bytes(4) <= (uint64_t)72 << 20);
    assert_true(kernel_bulk_bytes(KERNEL_RANKS) > kernel_bulk_bytes(4));
    assert_int_equal(kernel_dynamic_begin(1), KERNEL_CONTROL_BYTES);
    assert_int_equal(kernel_window_bytes(1), KERNEL_CONTROL_BYTES + sizeof(struct kernel_dynamic_words));
    assert_true(kernel_window_bytes(4) <= (uint64_t)11 << 20);
    assert_true(kernel_window_bytes(KERNEL_RANKS) <= (uint64_t)25 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_by_size),
        cmocka_unit_test(test_reductions_in_host_memory),
        cmocka_unit_test(test_reductions_keep_within_bounds),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_long_exchanges),
        cmocka_unit_test(test_exchanges_keep_within_bounds),
        cmocka_unit_test(test_stripes_of_messages),
        cmocka_unit_test(test_ways_of_messages),
        cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_chunks_begin_with_lines),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
