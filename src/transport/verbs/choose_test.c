/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices and addresses are wanted. */
#include "transport/verbs/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void takes_the_ports_that_are_wished_for(void **state)
{
    static const struct {
        const char *wish, *name;
        unsigned port;
        bool taken;
    } rows[] = {
        {"", "mlx5_0", 1, true},
        {"mlx5", "mlx5_7", 2, true},
        {"mlx5_1", "mlx5_10", 1, true},
        {"=mlx5_1", "mlx5_10", 1, false},
        {"=mlx5_1", "mlx5_1", 2, true},
        {"=mlx5_1:1", "mlx5_1", 2, false},
        {"mlx5_0,mlx5_2", "mlx5_2", 1, true},
        {"mlx5_0,mlx5_2", "mlx5_1", 1, false},
        {"^mlx5_3", "mlx5_3", 1, false},
        {"^mlx5_3", "mlx5_4", 1, true},
        {"^=mlx5_3:2", "mlx5_3", 1, true},
        {"^=mlx5_3:2", "mlx5_3", 2, false},
        {"mlx5_0:2", "mlx5_0", 2, true},
        {"mlx5_0:2", "mlx5_0", 1, false},
        {"^", "mlx5_0", 1, true},
        {",,", "mlx5_0", 1, false},
        {"=mlx5_0:x", "mlx5_0", 1, false},
        {":1", "mlx5_0", 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (choose_port(rows[i].wish, rows[i].name, rows[i].port) != rows[i].taken)
            fail_msg("\"%s\" of %s:%u", rows[i].wish, rows[i].name, rows[i].port);
}

static struct ibv_gid_entry entry(uint32_t type, const uint8_t *raw)
{
    struct ibv_gid_entry made = {.gid_type = type};
    memcpy(made.gid.raw, raw, sizeof made.gid.raw);
    return made;
}

static void ranks_addresses(void **state)
{
    static const uint8_t none[16], v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
                                   global[16] = {0xfd, [15] = 1}, local[16] = {0xfe, 0x80, [15] = 1},
                                   own4[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, own6[16] = {[15] = 1};
    const struct ibv_gid_entry entries[] = {entry(IBV_GID_TYPE_ROCE_V2, v4), entry(IBV_GID_TYPE_ROCE_V2, global),
                                            entry(IBV_GID_TYPE_ROCE_V2, local), entry(IBV_GID_TYPE_ROCE_V1, v4)};
    const struct ibv_gid_entry empty = entry(IBV_GID_TYPE_ROCE_V2, none), infiniband = entry(IBV_GID_TYPE_IB, local);
    (void)state;
    for (size_t i = 1; i < sizeof entries / sizeof *entries; i++)
        assert_true(choose_gid_class(&entries[i - 1]) < choose_gid_class(&entries[i]));
    assert_true(choose_gid_class(&empty) < 0);
    assert_int_equal(choose_gid_class(&infiniband), 0);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_false(choose_is_loopback(&entries[i].gid));
    assert_true(choose_is_loopback((const union ibv_gid *)own4));
    assert_true(choose_is_loopback((const union ibv_gid *)own6));
}

static void knows_the_rates_of_ports(void **state)
{
    (void)state;
    assert_int_equal(choose_rate(1, 1), 2500);
    assert_int_equal(choose_rate(2, 4), 40000);   /* 4 lanes of QDR */
    assert_int_equal(choose_rate(2, 32), 100000); /* 4 of EDR */
    assert_int_equal(choose_rate(2, 128), 400000);
    assert_int_equal(choose_rate(16, 64), 100000); /* 2 of HDR */
    assert_int_equal(choose_rate(0, 32) + choose_rate(3, 32) + choose_rate(2, 0) + choose_rate(2, 256), 0);
}

static void finds_the_address_for_tcp(void **state)
{
    static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 7}, global[16] = {0xfd, [15] = 1},
                         local[16] = {0xfe, 0x80, [15] = 1};
    const struct ibv_gid_entry of_v4 = entry(IBV_GID_TYPE_ROCE_V2, v4), of_v6 = entry(IBV_GID_TYPE_ROCE_V2, global),
                               of_link = entry(IBV_GID_TYPE_ROCE_V2, local), of_ib = entry(IBV_GID_TYPE_IB, global);
    struct net_address at;
    char text[NET_TEXT];
    (void)state;
    assert_true(choose_ip(&of_v4, &at));
    assert_string_equal(net_format(&at, text), "10.0.0.7:0");
    assert_true(choose_ip(&of_v6, &at));
    assert_string_equal(net_format(&at, text), "[fd00::1]:0");
    assert_false(choose_ip(&of_link, &at) || choose_ip(&of_ib, &at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_ports_that_are_wished_for),
        cmocka_unit_test(ranks_addresses),
        cmocka_unit_test(knows_the_rates_of_ports),
        cmocka_unit_test(finds_the_address_for_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
