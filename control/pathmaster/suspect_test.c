/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that are drawn are found, all of them, and nothing else is blamed. */
#include "pathmaster/suspect.h"

#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LEAVES 6
#define SPINES 4
#define PARTS  (2 * LEAVES * SPINES + 2 * LEAVES)
#define PATHS  (LEAVES * (LEAVES - 1) * SPINES)
#define NOISE  2e-5

struct net {
    int leaves;
    double loss[PARTS], rate[PARTS];
    struct suspect_path path[PATHS];
    int paths;
    uint64_t drawn;
};

static double draw(struct net *net)
{
    return (double)(mix64(net->drawn++) >> 11) / (double)(1ull << 53);
}

static int up(int leaf, int spine)
{
    return leaf * SPINES + spine;
}

static int down(int leaf, int spine)
{
    return LEAVES * SPINES + up(leaf, spine);
}

static void net_open(struct net *net, int leaves, uint64_t seed)
{
    *net = (struct net){.leaves = leaves, .drawn = seed << 32};
    for (int i = 0; i < PARTS; i++)
        net->rate[i] = 1;
}

/* Each path's probes, one by one, and trains. */
static void probe(struct net *net, int probes)
{
    net->paths = 0;
    for (int a = 0; a < net->leaves; a++)
        for (int b = 0; b < net->leaves; b++)
            for (int s = 0; a != b && s < SPINES; s++) {
                struct suspect_path *path = &net->path[net->paths++];
                *path = (struct suspect_path){
                    .parts = 4,
                    .part = {up(a, s), down(b, s), 2 * LEAVES * SPINES + a, 2 * LEAVES * SPINES + LEAVES + b},
                    .sent = (uint64_t)probes};
                double pass = 1 - NOISE, rate = 1;
                for (int k = 0; k < path->parts; k++) {
                    pass *= 1 - net->loss[path->part[k]];
                    rate = fmin(rate, net->rate[path->part[k]]);
                }
                for (int i = 0; i < probes; i++)
                    path->lost += draw(net) > pass;
                for (int k = 0; k < SUSPECT_TRAINS; k++)
                    path->rate[k] = rate * (0.9 + 0.1 * draw(net));
            }
}

/* Exactly the parts that have faults. */
static void check(struct net *net)
{
    struct suspect found[PARTS];
    bool blamed[PARTS] = {false};
    int count = suspects_find(net->path, net->paths, PARTS, found, PARTS);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++)
        blamed[found[i].part] = true;
    for (int i = 0; i < PARTS; i++)
        if (blamed[i] != (net->loss[i] > 0 || net->rate[i] < 1))
            fail_msg("part %d of %d: loss %g, rate %g, %s", i, PARTS, net->loss[i], net->rate[i],
                     blamed[i] ? "blamed" : "not blamed");
}

static void test_drawn_faults(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct net net;
        net_open(&net, 3 + (int)(seed % 4), seed);
        for (uint64_t i = 0; i < seed % (net.leaves > 3 ? 3 : 2); i++) { /* of 3 leaves, 2 faulty ones hide the third */
            int at = (int)(draw(&net) * net.leaves * SPINES);
            double kind = draw(&net);
            if (kind < 0.3)
                net.loss[at] = net.loss[at + LEAVES * SPINES] = 1;
            else if (kind < 0.6)
                net.loss[at + (kind < 0.45 ? 0 : LEAVES * SPINES)] = kind < 0.5 ? 0.012 : 1;
            else if (kind < 0.8)
                net.rate[at] = net.rate[at + LEAVES * SPINES] = 0.5;
        }
        probe(&net, 1500);
        check(&net);
    }
}

static void test_little_evidence_blames_nobody(void **state)
{
    struct suspect found[PARTS];
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct net net;
        net_open(&net, 4, 7000 + seed);
        net.loss[up(1, 2)] = 0.01;
        probe(&net, (int)(seed * 4));
        int count = suspects_find(net.path, net.paths, PARTS, found, PARTS);
        for (int i = 0; i < count; i++)
            assert_int_equal(found[i].part, up(1, 2));
    }
}

/* Many probes to one host, some of them lost, and next to none to others: they have not seen it yet. */
static void test_one_host_alone_blames_no_link(void **state)
{
    struct suspect found[PARTS];
    struct net net;
    net_open(&net, 4, 9);
    for (int told = 0; told < 2; told++) {
        probe(&net, 1000);
        for (int i = 0; i < net.paths; i++) {
            struct suspect_path *path = &net.path[i];
            bool over = path->part[0] == up(0, 1), first = path->part[1] == down(1, 1);
            path->sent = over && !first && !told ? 10 : 1000;
            path->lost = over && (first || told) ? 10 : 0;
        }
        assert_int_equal(suspects_find(net.path, net.paths, PARTS, found, PARTS), told);
    }
    assert_int_equal(found[0].part, up(0, 1));
}

static void test_a_host_is_not_its_links(void **state)
{
    struct net net;
    net_open(&net, 4, 3);
    net.loss[2 * LEAVES * SPINES + 2] = 0.3;          /* what it sends */
    net.rate[2 * LEAVES * SPINES + LEAVES + 1] = 0.4; /* what another one gets */
    probe(&net, 400);
    check(&net);
}

static void test_noise_of_all_is_no_fault(void **state)
{
    struct suspect found[PARTS];
    struct net net;
    net_open(&net, 4, 4);
    for (int i = 0; i < LEAVES * SPINES; i++)
        net.loss[i] = 0.02;
    probe(&net, 400);
    assert_int_equal(suspects_find(net.path, net.paths, PARTS, found, PARTS), 0);
}

/* Between two leaves an uplink and the link behind it have the same path, unless the spine answers. */
static void test_two_leaves(void **state)
{
    struct suspect found[PARTS];
    struct net net;
    net_open(&net, 2, 5);
    net.loss[up(0, 1)] = 1;
    probe(&net, 100);
    assert_int_equal(suspects_find(net.path, net.paths, PARTS, found, PARTS), 2);
    assert_true(found[0].twin && found[1].twin);
    for (int i = 0; i < net.paths; i++)
        if (net.path[i].lost)
            net.path[i].alive = 2; /* not what comes behind the spine */
    assert_int_equal(suspects_find(net.path, net.paths, PARTS, found, PARTS), 1);
    assert_int_equal(found[0].part, up(0, 1));
    assert_false(found[0].twin);
}

static void test_no_paths(void **state)
{
    struct suspect found[2];
    assert_int_equal(suspects_find(NULL, 0, 4, found, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn_faults),
        cmocka_unit_test(test_little_evidence_blames_nobody),
        cmocka_unit_test(test_one_host_alone_blames_no_link),
        cmocka_unit_test(test_a_host_is_not_its_links),
        cmocka_unit_test(test_noise_of_all_is_no_fault),
        cmocka_unit_test(test_two_leaves),
        cmocka_unit_test(test_no_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
