/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric's file: what is understood, and how mistakes are named. */
#include "base/error.h"
#include "wiring/config.h"
#include "lab/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void parse_good(const char *yaml, struct lab_topology *topology)
{
    tutti_result_t result = config_parse("t.yaml", yaml, strlen(yaml), topology);
    if (result != TUTTI_SUCCESS)
        fail_msg("%s", error_last());
}

static void test_defaults(void **state)
{
    struct lab_topology t;
    parse_good("name: a\n", &t);
    assert_int_equal(t.node_count, 8);
    assert_int_equal(t.link_count, 12);
    assert_int_equal(t.spec.mtu, 4200);
    assert_true(t.spec.ipv6);
    assert_int_equal(t.links[0].rate, 0);
    topology_free(&t);
}

static void test_addresses(void **state)
{
    struct lab_topology t;
    parse_good("name: a\nhosts: 4\nnics: 2\nrate: 200mbit\nlinks:\n  - {link: 'l*.u*', rate: 1.5gbit}\n", &t);
    const struct lab_link *nic = &t.links[topology_host_link(&t, 3, 1)], *up = &t.links[topology_uplink(&t, 1, 1)];
    assert_string_equal(nic->name, "h3.n1");
    assert_string_equal(nic->lower.ip4, "10.1.3.3");
    assert_string_equal(nic->upper.ip4, "10.1.3.2");
    assert_string_equal(nic->lower.ip6, "fd10:1:3:1::1");
    assert_string_equal(nic->lower.mac, "02:00:0a:01:03:03");
    assert_string_equal(nic->upper.port, "h3n1");
    assert_int_equal(nic->rate, 200000000);
    assert_string_equal(up->lower.ip4, "172.16.1.2");
    assert_string_equal(up->upper.ip4, "172.16.1.3");
    assert_string_equal(t.nodes[up->upper.node].name, "s1");
    assert_int_equal(up->rate, 1500000000);
    assert_true(topology_link_matches(&t, topology_uplink(&t, 1, 1), "s1.l1u1"));
    assert_int_equal(topology_find_node(&t, "l1"), 5);
    assert_int_equal(topology_find_node(&t, "h4"), -1);
    topology_free(&t);
}

static void test_wiring(void **state)
{
    struct lab_topology t;
    parse_good("name: a\nhosts: 4\nnics: 2\nleaves: 4\nwiring: rail\n", &t);
    const int expected[4][2] = {{0, 1}, {0, 1}, {2, 3}, {2, 3}};
    for (int h = 0; h < 4; h++)
        for (int k = 0; k < 2; k++)
            assert_int_equal(topology_leaf_of(&t.spec, h, k), expected[h][k]);
    t.spec.wiring = LAB_RACK;
    for (int h = 0; h < 4; h++)
        assert_int_equal(topology_leaf_of(&t.spec, h, 1), h);
    topology_free(&t);
}

/* Equations 1 and 2 of CTCCL for 8 uplinks, and its example of access lists; and a range that does not divide evenly.
 */
static void test_split(void **state)
{
    struct lab_policy policy = {.first = LAB_PORT_FIRST, .last = LAB_PORT_LAST};
    int first, last, next = LAB_PORT_FIRST;
    topology_split(&policy, 0, 8, &first, &last);
    assert_true(first == 49152 && last == 51199);
    topology_split(&policy, 7, 8, &first, &last);
    assert_true(first == 63488 && last == 65535);
    for (int i = 0; i < 3; i++, next = last + 1) {
        topology_split(&policy, i, 3, &first, &last);
        assert_int_equal(first, next);
        assert_in_range(last - first + 1, 0x4000 / 3, 0x4000 / 3 + 1);
    }
    assert_int_equal(next, 0x10000);
}

static void test_rates(void **state)
{
    uint64_t rate = 7;
    char text[24];
    assert_true(config_parse_rate("none", &rate) && rate == 0);
    assert_true(config_parse_rate("200mbit", &rate) && rate == 200000000);
    assert_true(config_parse_rate("0.5Gbit", &rate) && rate == 500000000);
    static const char *const bad[] = {"",        "200",     "mbit",     "-1mbit",  "1kbit",
                                      "nanmbit", "1e9gbit", "200 mbit", "200mbits"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(config_parse_rate(bad[i], &rate));
    assert_int_equal(rate, 500000000);
    config_format_rate(1500000000, text, sizeof text);
    assert_string_equal(text, "1.5gbit");
}

/* In bytes: two MiB at least, a quarter of a second, or what the file says. */
static void test_queues(void **state)
{
    static const struct {
        const char *yaml;
        uint64_t rate;
        const char *limit;
    } cases[] = {{"name: a\n", 8000000, " limit 2097152\n"},
                 {"name: a\n", 200000000, " limit 6250000\n"},
                 {"name: a\n", 1000000000000, " limit 268435456\n"},
                 {"name: a\nqueue: 512K\n", 200000000, " limit 524288\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lab_topology t;
        struct text out = {0};
        parse_good(cases[i].yaml, &t);
        plan_rate(&t, "u0", cases[i].rate, false, &out);
        assert_non_null(strstr(out.data, cases[i].limit));
        text_free(&out);
        topology_free(&t);
    }
}

static void test_names(void **state)
{
    assert_true(config_name_ok("clos-2_b"));
    assert_false(config_name_ok(""));
    assert_false(config_name_ok("2clos"));
    assert_false(config_name_ok("../x"));
    assert_false(config_name_ok("a2345678901234567890123456789012x"));
}

struct mistake {
    const char *yaml, *place, *advice;
};

static const struct mistake mistakes[] = {
    {"", "t.yaml:1:1:", "the file is empty"},
    {"hosts: 4\n", "t.yaml:1:1:", "add a line such as \"name: clos\""},
    {"name: a\nhosts: 4\n hots: 3\n", "t.yaml:3:", "not YAML"},
    {"name: a\nhots: 4\n", "t.yaml:2:1:", "the keys are: name, hosts, nics"},
    {"name: a\nhosts: many\n", "t.yaml:2:8:", "\"many\" is not a whole number from 1 to 250"},
    {"name: a\nhosts: 0\n", "t.yaml:2:8:", "from 1 to 250"},
    {"name: a\nhosts: 99999999999999999999\n", "t.yaml:2:8:", "from 1 to 250"},
    {"name: a\nhosts: [1]\n", "t.yaml:2:8:", "from 1 to 250"},
    {"name: a\nhosts: 3\nhosts: 4\n", "t.yaml:3:1:", "given twice"},
    {"name: a/b\n", "t.yaml:1:7:", "not a name"},
    {"name: a\nrate: 200\n", "t.yaml:2:7:", "such as 200mbit"},
    {"name: a\nwiring: star\n", "t.yaml:2:9:", "write rack"},
    {"name: a\nipv6: perhaps\n", "t.yaml:2:7:", "neither true nor false"},
    {"name: a\nqueue: 1\n", "t.yaml:2:8:", "such as 512K"},
    {"name: a\nmtu: 100\n", "t.yaml:2:6:", "from 1280"},
    {"name: a\nspines: 0\n", "t.yaml:2:9:", "at least 1 spine"},
    {"name: a\nnics: 4\nwiring: rail\nleaves: 6\n", "t.yaml:4:9:", "one leaf for each of the 4 NICs"},
    {"name: a\nspines: 64\nuplinks: 2\n", "t.yaml:3:10:", "at most 64"},
    {"- a\n- b\n", "t.yaml:1:1:", "must be a mapping"},
    {"name: a\nlinks: 4\n", "t.yaml:2:8:", "must be a list"},
    {"name: a\nlinks:\n  - {rate: 1gbit}\n", "t.yaml:3:5:", "which link?"},
    {"name: a\nlinks:\n  - {link: x9, rate: 1gbit}\n", "t.yaml:3:5:", "no link is named \"x9\""},
    {"name: a\npolicies:\n  - {leaf: l7}\n", "t.yaml:3:12:", "the last leaf is l1"},
    {"name: a\npolicies:\n  - {leaf: 7}\n", "t.yaml:3:12:", "such as l0, or all"},
    {"name: a\npolicies:\n  - {uplink: u2}\n", "t.yaml:3:14:", "the last uplink is u1"},
    {"name: a\npolicies:\n  - {uplink: 2}\n", "t.yaml:3:14:", "such as u0, or split"},
    {"name: a\npolicies:\n  - {dscp: 64}\n", "t.yaml:3:12:", "from 0 to 63"},
    {"name: a\npolicies:\n  - {ports: 9-5}\n", "t.yaml:3:13:", "FIRST-LAST"},
    {"name: a\npolicies:\n  - {ports: 1-70000}\n", "t.yaml:3:13:", "FIRST-LAST"},
    {"name: a\npolicies:\n  - {ports: 5-5}\n", "t.yaml:3:13:", "cannot be split"},
    {"name: a\nleaves: 1\nspines: 0\npolicies:\n  - {ports: 5-9}\n", "t.yaml:5:5:", "has no spines"},
    {"name: \"a\\0b\"\n", "t.yaml:1:7:", "not a name"},
    {"name: &x {a: *x}\n", "t.yaml:1:", "not a name"},
};

static void test_mistakes(void **state)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct lab_topology t;
        tutti_result_t result = config_parse("t.yaml", mistakes[i].yaml, strlen(mistakes[i].yaml), &t);
        if (result != TUTTI_INVALID_ARGUMENT ||
            strncmp(error_last(), mistakes[i].place, strlen(mistakes[i].place)) != 0 ||
            !strstr(error_last(), mistakes[i].advice))
            fail_msg("case %zu: %d \"%s\" instead of \"%s ... %s\"", i, (int)result, error_last(), mistakes[i].place,
                     mistakes[i].advice);
        assert_null(t.nodes);
    }
}

static void test_files(void **state)
{
    struct lab_topology t;
    assert_int_equal(config_load("/nonexistent/x.yaml", &t), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "/nonexistent/x.yaml: No such file"));
    assert_int_equal(config_load("/", &t), TUTTI_INVALID_ARGUMENT);
}

static tutti_result_t count_rule(const struct netlink_rule *rule, void *context)
{
    int *last = context;
    assert_true(rule->last < 65535); /* what the kernel refuses */
    assert_true(rule->priority > *last || rule->family != 2);
    *last = rule->priority;
    return TUTTI_SUCCESS;
}

/* Routes follow the state of the leaf's ends: without u0, everything goes by u1, and u0's table passes on. */
static void test_routes(void **state)
{
    struct lab_topology t;
    struct plan_state up[12];
    struct text out = {0};
    int last = 0;
    parse_good("name: a\npolicies:\n  - {uplink: split}\n", &t);
    for (int i = 0; i < 12; i++)
        up[i] = (struct plan_state){true, true};
    plan_routes(&t, topology_node(&t, LAB_LEAF, 0), up, &out);
    assert_non_null(
        strstr(out.data, "replace 10.1.0.0/16 nexthop via 172.16.0.1 dev u0 nexthop via 172.16.0.3 dev u1\n"));
    assert_non_null(strstr(out.data, "replace 10.1.0.0/16 via 172.16.0.1 dev u0 table 100\n"));
    text_clear(&out);
    up[topology_uplink(&t, 0, 0)].lower_up = false;
    plan_routes(&t, topology_node(&t, LAB_LEAF, 0), up, &out);
    assert_non_null(strstr(out.data, "replace 10.1.0.0/16 nexthop via 172.16.0.3 dev u1\n"));
    assert_non_null(strstr(out.data, "replace throw 10.1.0.0/16 table 100\n"));
    text_clear(&out);
    plan_routes(&t, topology_node(&t, LAB_LEAF, 1), up, &out);
    assert_non_null(strstr(out.data, "replace 10.0.0.0/16 nexthop via 172.16.1.3 dev u1\n"));
    assert_int_equal(plan_rules(&t, topology_node(&t, LAB_LEAF, 1), count_rule, &last), TUTTI_SUCCESS);
    assert_int_equal(last, 1002);
    text_free(&out);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_addresses), cmocka_unit_test(test_wiring),
        cmocka_unit_test(test_split),    cmocka_unit_test(test_rates),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_queues),   cmocka_unit_test(test_mistakes),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
