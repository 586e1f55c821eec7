/* SPDX-License-Identifier: Apache-2.0 */
/* Fabrics' files: what they mean, and the sentences that refuse others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "file/hosts.h"
#include "file/read.h"
#include "file/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *examples; /* the folder of the examples */

static void load(const char *name, struct fabric *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", examples, name);
    if (fabric_load(path, out) != TUTTI_SUCCESS)
        fail_msg("%s", error_last());
}

static void test_examples(void **state)
{
    struct fabric f;
    load("pod.yaml", &f);
    assert_int_equal(f.gpus, 512);
    assert_int_equal(f.leaves, 32);
    assert_int_equal(f.leaf[31].count, 16);
    assert_int_equal(f.nic[9].port[0].leaf, 1); /* of the second host, the second rail */
    assert_true(f.uplink[0].rate == 50e9 && f.gpu_rate == 450e9 && f.latency[FABRIC_ZONE] == 35e-6);
    fabric_free(&f);
    load("campus.yaml", &f);
    assert_int_equal(f.gpus, 131072);
    assert_int_equal(f.cores, 256 * 183);
    assert_int_equal(f.zone[8].building, 1);
    assert_int_equal(fabric_distance_of(&f, 0, 131071), FABRIC_CAMPUS);
    fabric_free(&f);
}

static void test_a_fabric_that_has_grown(void **state)
{
    struct fabric f;
    load("unequal.yaml", &f);
    assert_int_equal(f.hosts, 6);
    assert_string_equal(f.host[3].name, "node04");
    assert_int_equal(f.leaf[0].count, 4);
    assert_int_equal(f.leaf[1].count, 3);
    assert_true(f.uplink[f.leaf[1].first + 2].rate == 50e9);
    assert_true(f.uplink[f.leaf[2].first + 3].down);
    assert_int_equal(f.nic[0].ports, 2);
    assert_int_equal(f.nic[0].port[1].leaf, 1);
    assert_string_equal(f.nic[5].address, "10.2.1.5");
    assert_int_equal(fabric_find_host(&f, "node06"), 5);
    assert_int_equal(f.leaf[2].ports, 3);
    fabric_free(&f);
}

#define LEAF "name: x\nrate: 1gbit\nspines: [{name: s}]\nleaves: [{name: l, uplinks: [{spine: s}]}]\n"

static void test_mistakes_are_named(void **state)
{
    static const struct {
        const char *yaml, *says;
    } wrong[] = {
        {"", "x:1:1: the file is empty"},
        {"name: x\nrate: fast\n", "x:2:7: rate: \"fast\" is not a rate"},
        {"name: x\nracks: 3\n", "x:2:1: \"racks\" is no key of a fabric"},
        {"name: x\n", "x:1:1: the fabric has no hosts"},
        {"clos: {rate: 1gbit}\n", "x:1:1: the fabric has no name"},
        {"name: x\nclos: {racks: 2}\n", "x:2:7: clos: its links have no rate"},
        {"name: x\nclos: {racks: 0}\n", "x:2:15: racks: \"0\" is not a whole number from 1 to 4096"},
        {"name: x\nrate: 1gbit\nclos: {zones: 2}\n", "cores: 2 zones need links to the core"},
        {"name: x\nrate: 1gbit\nclos: {racks: 4096, hosts: 4096}\n", "GPUs; at most 1048576"},
        {"name: x\nrate: 1gbit\nclos: {racks: 2}\nhosts: []\n", "either clos or the lists"},
        {"name: x\nlatency: {rack: 5 parsecs}\nclos: {}\n", "x:2:17: rack: \"5 parsecs\" is not a time"},
        {"name: x\nlatency: {rack: 5us, rack: 6us}\n", "rack is given twice"},
        {"name: x\nhosts: 4\n", "leaves: there are none"},
        {LEAF "hosts: 4\n", "x:5:8: hosts must be a list"},
        {LEAF "hosts: [{name: h}]\n", "x:5:9: nics: a host needs at least one"},
        {LEAF "hosts: [{nics: [{leaf: l}]}]\n", "this one has no name"},
        {LEAF "hosts: [{name: h, nics: [{leaf: m}]}]\n", "x:5:33: leaf: there is no \"m\""},
        {LEAF "hosts: [{name: h, nics: [{bond: [l]}]}]\n", "bond: write the leaves"},
        {LEAF "hosts: [{name: h, nics: [{bond: [l, l], leaf: l}]}]\n", "leaf and bond"},
        {LEAF "hosts: [{name: h, nics: [{address: over there}]}]\n", "is no IPv4 or IPv6 address"},
        {LEAF "hosts: [{name: \"h[0-1]\", nics: [{address: 10.0.0.1}]}]\n", "2 hosts cannot have the same"},
        {LEAF "hosts: [{name: \"h[0-999999999]\", nics: [{leaf: l}]}]\n", "is no name"},
        {LEAF "hosts: [{name: \"h[0-900000]\", nics: [{leaf: l}]}]\n", "hosts: more than 1048576 GPUs"},
        {LEAF "hosts: [{name: \"h[3-1]\", nics: [{leaf: l}]}]\n", "is no name"},
        {LEAF "hosts: [{name: h, nics: [{}]}, {name: h, nics: [{}]}]\n", "hosts: the name h is there twice"},
        {"name: x\nspines: [{name: s, cores: 2}]\n"
         "hosts: []\n",
         "x:2:10: rate: not told"},
        {"name: x\nrate: 1gbit\nspines: [{name: \"s[0-1]\"}]\nleaves: [{name: l, uplinks: [{spine: \"s[1-2]\"}]}]\n"
         "hosts: []\n",
         "spine: there is no \"s2\""},
        {"name: x\nrate: 1gbit\nzones: [{name: a}, {name: b}]\nspines: [{name: s, zone: a}]\n"
         "leaves: [{name: l, zone: b, uplinks: [{spine: s}]}]\nhosts: []\n",
         "spine: s is in zone a, and l in zone b"},
        {"name: x\nzones: [{name: a}, {name: b}]\nspines: [{name: s}]\nhosts: []\n",
         "this one has no zone; add \"zone: NAME\", one of the 2"},
        {"name: [x\n", "not YAML"},
        {"- a\n", "a fabric must be a mapping"},
    };
    struct fabric f;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(fabric_parse("x", wrong[i].yaml, strlen(wrong[i].yaml), &f), TUTTI_INVALID_ARGUMENT);
        if (!strstr(error_last(), wrong[i].says))
            fail_msg("%s:\n%s\nwanted: %s", wrong[i].yaml, error_last(), wrong[i].says);
        if (strncmp(error_last(), "x:", 2) != 0)
            fail_msg("no place: %s", error_last());
    }
    assert_int_equal(fabric_load("/nowhere/fabric.yaml", &f), TUTTI_INVALID_ARGUMENT);
}

/* An uplink in the file of one leaf and one spine. */
#define UP(keys)                                                                                                       \
    "name: x\nrate: 1gbit\nspines: [{name: s}]\nleaves: [{name: l, uplinks: [{spine: s, " keys "}]}]\nhosts: []\n"

static void test_mistakes_of_links_are_named(void **state)
{
    static const struct {
        const char *yaml, *says;
    } wrong[] = {
        {UP("port: \"a b\""), "x:4:47: port: \"a b\" is no name"},
        {UP("vrf: \"x;reboot\""), "vrf: \"x;reboot\" is no name"},
        {UP("address: 10.0.0.300/31"), "address: \"10.0.0.300/31\" is no IPv4 or IPv6 address"},
        {UP("address: 10.0.0.3/33"), "is no IPv4 or IPv6 address"},
        {UP("next_hop: 10.0.0.1/31"), "next_hop: \"10.0.0.1/31\" is no"},
        {UP("next_hop: [10.0.0.1, 10.0.0.2]"), "next_hop: there are two IPv4 addresses"},
        {UP("next_hop: {a: b}"), "next_hop: \"this\" is no"},
        {UP("links: 2, port: e1"), "ports and addresses are of one link"},
        {LEAF "vendor: cisko\nhosts: []\n", "vendor: \"cisko\" is none of sonic, cisco"},
        {LEAF "ranges: 0\n", "ranges: \"0\" is not a whole number from 1 to 16384"},
        {"name: x\nrate: 1gbit\nspines: [{name: s}]\nleaves: [{name: l, prefixes: 10.0.0.0/8}]\nhosts: []\n",
         "prefixes must be a list"},
        {"name: x\nrate: 1gbit\nspines: [{name: s}]\nleaves: [{name: l, prefixes: [10.0.0.0]}]\nhosts: []\n",
         "prefixes: \"10.0.0.0\" is no prefix"},
        {"name: x\nrate: 1gbit\nspines: []\nleaves: [{name: \"l[1-2]\", prefixes: [10.0.0.0/8]}]\nhosts: []\n",
         "prefixes: 2 leaves cannot have the same"},
        {LEAF "hosts: [{name: h, nics: [{port: [a, b]}]}]\n", "port: \"this\" is no name"},
        {LEAF "hosts: [{name: h, nics: [{bond: [l, l], port: a}]}]\n", "port: write the ports of both leaves"},
        {LEAF "hosts: [{name: \"h[0-1]\", nics: [{port: a}]}]\n", "port: 2 hosts cannot have the same"},
        {LEAF "hosts: [{name: h, nics: [{address: 10.2.0.5.6}]}]\n", "is no IPv4 or IPv6 address"},
        {"name: x\nclos: {rate: 1gbit}\n---\nname: y\n", "x:4:1: a second document begins"},
    };
    struct fabric f;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(fabric_parse("x", wrong[i].yaml, strlen(wrong[i].yaml), &f), TUTTI_INVALID_ARGUMENT);
        if (!strstr(error_last(), wrong[i].says))
            fail_msg("%s:\n%s\nwanted: %s", wrong[i].yaml, error_last(), wrong[i].says);
    }
}

/* Links keep the order of the file, however many there are, and their own words. */
static void test_links_have_words_of_their_own(void **state)
{
    char yaml[8192], name[16];
    struct fabric f;
    int used = snprintf(yaml, sizeof yaml,
                        "name: x\nrate: 1gbit\nvendor: sonic\nranges: 9\nspines: [{name: s}]\n"
                        "leaves:\n- name: l\n  vendor: linux\n  prefixes: [10.1.0.0/16, fd00::/8]\n"
                        "  uplinks:\n");
    for (int i = 0; i < 40; i++)
        used += snprintf(yaml + used, sizeof yaml - (size_t)used,
                         "  - {spine: s, port: e%d, spine_port: f%d, vrf: v%d, address: [10.0.%d.0/31, fd01::%d], "
                         "next_hop: [fd02::%d, 10.0.%d.1]}\n",
                         i, i, i, i, i, i, i);
    snprintf(yaml + used, sizeof yaml - (size_t)used, "hosts: [{name: h, nics: [{port: e99}]}]\n");
    assert_int_equal(fabric_parse("x", yaml, strlen(yaml), &f), TUTTI_SUCCESS);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "e%d", i);
        assert_string_equal(fabric_word(&f, f.uplink[i].wire.port), name);
        assert_int_equal(f.uplink[i].wire.line, 11 + i);
    }
    assert_string_equal(fabric_word(&f, f.uplink[7].wire.address[0]), "10.0.7.0/31");
    assert_string_equal(fabric_word(&f, f.uplink[7].wire.next[1]), "fd02::7");
    assert_string_equal(fabric_word(&f, f.uplink[39].wire.vrf), "v39");
    assert_string_equal(fabric_word(&f, f.uplink[39].wire.far_port), "f39");
    assert_string_equal(fabric_word(&f, f.leaf[0].own.prefixes), "10.1.0.0/16 fd00::/8");
    assert_string_equal(fabric_word(&f, f.leaf[0].own.vendor), "linux");
    assert_string_equal(fabric_word(&f, f.spine[0].own.vendor), "sonic");
    assert_int_equal(f.leaf[0].own.ranges, 9);
    assert_string_equal(fabric_word(&f, f.nic[0].port[0].name), "e99");
    assert_string_equal(fabric_word(&f, 0), "");
    fabric_free(&f);
}

static void test_values(void **state)
{
    double value;
    struct name_range range;
    char name[FABRIC_NAME];
    assert_true(value_rate("400gbit", &value) && value == 50e9);
    assert_true(value_rate("none", &value) && isinf(value));
    assert_false(value_rate("-1gbit", &value) || value_rate("1", &value) || value_rate("nangbit", &value));
    assert_true(value_time("1.5ms", &value) && value == 1.5e-3);
    assert_false(value_time("5", &value) || value_time("infs", &value));
    assert_true(name_range("r[08-11]-a", &range) && range.count == 4);
    name_of(&range, 2, name);
    assert_string_equal(name, "r10-a");
    name_of(&range, 0, name);
    assert_string_equal(name, "r08-a");
    assert_false(name_range("a b", &range) || name_range("a[1-2", &range) || name_range("", &range));
}

static void test_lists_of_hosts(void **state)
{
    struct fabric f;
    struct host_list list;
    load("unequal.yaml", &f);
    const char *good = "# a job\nnode02 slots=2\n\nnode05.example.org slots=2\n10.2.0.6:2\nnode01:2";
    assert_int_equal(host_list_parse("hosts", good, &f, false, &list), TUTTI_SUCCESS);
    assert_int_equal(list.count, 4);
    assert_string_equal(list.line[0].text, "node02 slots=2");
    assert_int_equal(list.line[1].host, 4);
    assert_int_equal(list.line[2].host, 5);
    assert_int_equal(list.line[3].host, 0);
    host_list_free(&list);
    assert_int_equal(host_list_parse("hosts", "node01\nnode09\n", &f, false, &list), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "hosts:2: host: the fabric unequal has no \"node09\""));
    assert_int_equal(host_list_parse("hosts", "node01\nnode01 slots=2\n", &f, false, &list), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "hosts:2: host: node01 is there twice"));
    assert_int_equal(host_list_parse("hosts", "node01\nnode01\n", &f, true, &list), TUTTI_SUCCESS);
    host_list_free(&list);
    assert_int_equal(host_list_parse("hosts", "\n# none\n", &f, false, &list), TUTTI_INVALID_ARGUMENT);
    fabric_free(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_a_fabric_that_has_grown),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_mistakes_of_links_are_named),
        cmocka_unit_test(test_links_have_words_of_their_own),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lists_of_hosts),
    };
    examples = argc > 1 ? argv[1] : "examples/fabric";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
