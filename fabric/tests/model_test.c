/* SPDX-License-Identifier: Apache-2.0 */
/* Fair rates, flows over time, and the ways of flows, against results worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "model/maxmin.h"
#include "model/route.h"
#include "path/dnlb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-9 * fabs(b))

/* ---- rates ---- */

/* Link 0 has 10, link 1 has 4. Flow 0 takes both, flow 1 link 0, flow 2 link 1. */
static const double two_links[] = {10, 4};
static const uint32_t three_first[] = {0, 2, 3, 4};
static const int32_t three_link[] = {0, 1, 0, 1};

static void test_the_fullest_link_first(void **state)
{
    struct maxmin p = {2, 3, two_links, three_first, three_link, NULL};
    double rate[3];
    assert_int_equal(maxmin_rates(&p, rate), TUTTI_SUCCESS);
    NEAR(rate[0], 2.0);
    NEAR(rate[1], 8.0);
    NEAR(rate[2], 2.0);
}

static void test_a_weight_stands_for_equal_flows(void **state)
{
    const double weight[] = {1, 3, 1};
    struct maxmin p = {2, 3, two_links, three_first, three_link, weight};
    double rate[3];
    assert_int_equal(maxmin_rates(&p, rate), TUTTI_SUCCESS);
    NEAR(rate[0], 2.0);
    NEAR(rate[1], 8.0 / 3);
}

static void test_links_without_limit_and_without_rate(void **state)
{
    const double capacity[] = {INFINITY, 0};
    const uint32_t first[] = {0, 1, 2, 2};
    const int32_t link[] = {0, 1};
    const double bytes[] = {5, 5, 5};
    struct maxmin p = {2, 3, capacity, first, link, NULL};
    double rate[3], finish[3];
    assert_int_equal(maxmin_rates(&p, rate), TUTTI_SUCCESS);
    assert_true(isinf(rate[0]) && rate[1] == 0 && isinf(rate[2]));
    assert_int_equal(maxmin_finish(&p, bytes, NULL, 0, finish), TUTTI_SUCCESS);
    assert_true(finish[0] == 0 && isinf(finish[1]) && finish[2] == 0);
}

/* One link of 10: the first flow is alone for a second, then shares with the second one. */
static void test_flows_begin_and_end(void **state)
{
    const double capacity[] = {10}, bytes[] = {20, 15}, start[] = {0, 1};
    const uint32_t first[] = {0, 1, 2};
    const int32_t link[] = {0, 0};
    struct maxmin p = {1, 2, capacity, first, link, NULL};
    double finish[2];
    assert_int_equal(maxmin_finish(&p, bytes, start, 0, finish), TUTTI_SUCCESS);
    NEAR(finish[0], 3.0);
    NEAR(finish[1], 3.5);
}

/* Ends within a step count as one, and are still at their own times. */
static void test_near_ends_keep_their_times(void **state)
{
    const double capacity[] = {10, 10}, bytes[] = {10, 10.5};
    const uint32_t first[] = {0, 1, 2};
    const int32_t link[] = {0, 1};
    struct maxmin p = {2, 2, capacity, first, link, NULL};
    double finish[2];
    assert_int_equal(maxmin_finish(&p, bytes, NULL, 0.2, finish), TUTTI_SUCCESS);
    NEAR(finish[0], 1.0);
    NEAR(finish[1], 1.05);
}

struct drawn {
    struct maxmin p;
    double capacity[12], bytes[40];
    uint32_t first[41];
    int32_t link[160];
};

static void draw_case(uint64_t seed, struct drawn *d)
{
    uint64_t x = seed;
    *d = (struct drawn){.p = {12, 40, d->capacity, d->first, d->link, NULL}};
    for (int l = 0; l < 12; l++)
        d->capacity[l] = 1 + (double)((x = mix64(x + 1)) % 9);
    for (int f = 0; f < 40; f++) {
        uint32_t used = 0, n = d->first[f];
        for (int i = 0; i < 4; i++) {
            int32_t link = (int32_t)((x = mix64(x + 1)) % 12);
            if (!(used >> link & 1))
                d->link[n++] = link;
            used |= 1u << link;
        }
        d->first[f + 1] = n;
        d->bytes[f] = 7;
    }
}

/* Max-min: each flow has a full link on which no other flow is faster; and no link carries more than it can. */
static void test_rates_are_fair(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct drawn d;
        double rate[40], sum[12] = {0}, most[12] = {0};
        draw_case(seed, &d);
        assert_int_equal(maxmin_rates(&d.p, rate), TUTTI_SUCCESS);
        for (int f = 0; f < 40; f++)
            for (uint32_t i = d.first[f]; i < d.first[f + 1]; i++) {
                sum[d.link[i]] += rate[f];
                most[d.link[i]] = rate[f] > most[d.link[i]] ? rate[f] : most[d.link[i]];
            }
        for (int l = 0; l < 12; l++)
            assert_true(sum[l] <= d.capacity[l] * (1 + 1e-9));
        for (int f = 0; f < 40; f++) {
            bool bound = false;
            for (uint32_t i = d.first[f]; i < d.first[f + 1]; i++)
                bound |=
                    sum[d.link[i]] >= d.capacity[d.link[i]] * (1 - 1e-9) && rate[f] >= most[d.link[i]] * (1 - 1e-9);
            assert_true(bound);
        }
    }
}

/* Pricing relies on it: the last of equal flows ends when the busiest link is done. */
static void test_equal_flows_end_with_the_busiest_link(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct drawn d;
        double finish[40], load[12], each[40], last = 0, bound = 0;
        draw_case(seed, &d);
        maxmin_bound(&d.p, d.bytes, load, each);
        assert_int_equal(maxmin_finish(&d.p, d.bytes, NULL, 0, finish), TUTTI_SUCCESS);
        for (int f = 0; f < 40; f++) {
            assert_true(finish[f] <= each[f] * (1 + 1e-9));
            last = finish[f] > last ? finish[f] : last;
            bound = each[f] > bound ? each[f] : bound;
        }
        NEAR(last, bound);
    }
}

/* ---- ways ---- */

static const struct fabric_clos small = {.buildings = 2,
                                         .zones = 2,
                                         .racks = 2,
                                         .hosts = 4,
                                         .gpus = 4,
                                         .nics = 2,
                                         .ports = 1,
                                         .rail = 1,
                                         .spines = 2,
                                         .uplinks = 2,
                                         .cores = 3,
                                         .rate = 100,
                                         .uplink = 100,
                                         .core = 50,
                                         .trunk = 1000};

static void make(const struct fabric_clos *clos, struct fabric *out)
{
    *out = (struct fabric){.name = "small", .latency = {1, 1, 1, 1, 1}, .gpu_rate = INFINITY};
    assert_int_equal(fabric_from_clos(clos, out), TUTTI_SUCCESS);
}

/* A path goes up and down over switches that are joined. */
static void check_path(const struct fabric *f, const struct route_flow *flow, const int32_t *link, int count)
{
    char name[64];
    enum fabric_distance distance = fabric_distance_of(f, flow->from, flow->to);
    static const int lengths[] = {2, 2, 4, 6, 8};
    int32_t uplinks = fabric_uplink_link(f, 0, FABRIC_UP), cores = fabric_core_link(f, 0, FABRIC_UP);
    assert_int_equal(count, lengths[distance]);
    for (int i = 0; i < count; i++) {
        fabric_link_name(f, link[i], name, sizeof name);
        assert_non_null(strstr(name, i < count / 2 ? "up" : "down"));
    }
    if (distance < FABRIC_ZONE)
        return;
    const struct fabric_uplink *up = &f->uplink[(link[1] - uplinks) / 2];
    const struct fabric_uplink *down = &f->uplink[(link[count - 2] - uplinks) / 2];
    assert_false(up->down || down->down);
    assert_int_equal(up->leaf, f->nic[fabric_nic_of(f, flow->from, 0)].port[0].leaf);
    assert_int_equal(down->leaf, f->nic[fabric_nic_of(f, flow->to, 0)].port[0].leaf);
    if (distance == FABRIC_ZONE) {
        assert_int_equal(up->spine, down->spine);
    } else {
        assert_int_equal(f->core[(link[2] - cores) / 2].spine, up->spine);
        assert_int_equal(f->core[(link[count - 3] - cores) / 2].spine, down->spine);
    }
}

static void test_paths_lead_where_they_should(void **state)
{
    struct fabric f;
    make(&small, &f);
    f.uplink[1].down = f.uplink[6].down = f.uplink[20].down = true;
    for (enum route_way way = 0; way < ROUTE_WAYS; way++) {
        struct router router;
        assert_int_equal(router_open(&f, way, 7, &router), TUTTI_SUCCESS);
        for (int32_t from = 0; from < f.gpus; from++)
            for (int32_t to = 0; to < f.gpus; to++) {
                struct route_flow flow = {from, to, (from + to) % 4, 4, 1};
                int32_t link[ROUTE_LINKS];
                int count = router_path(&router, &flow, link);
                if (from == to)
                    assert_int_equal(count, 0);
                else
                    check_path(&f, &flow, link, count);
            }
        router_close(&router);
    }
    fabric_free(&f);
}

/* Equation 3: the uplink of a lane; and the same number down. */
static void test_steering_is_the_equation(void **state)
{
    struct fabric f;
    struct router router;
    make(&small, &f);
    assert_int_equal(router_open(&f, ROUTE_STEERED, 1, &router), TUTTI_SUCCESS);
    for (int host = 0; host < 4; host++)
        for (int lane = 0; lane < 8; lane++) {
            struct route_flow flow = {host * 4, (host + 4) * 4, lane, 8, 1}; /* racks 0 and 1 of a zone */
            int32_t link[ROUTE_LINKS], first = fabric_uplink_link(&f, 0, FABRIC_UP);
            assert_int_equal(router_path(&router, &flow, link), 4);
            unsigned number = dnlb_uplink((unsigned)host, 8, (unsigned)lane, 4);
            assert_int_equal((link[1] - first) / 2 - f.leaf[0].first, number);
            int32_t down = (link[2] - first) / 2;
            assert_int_equal(down - f.leaf[f.uplink[down].leaf].first, number);
        }
    router_close(&router);
    fabric_free(&f);
}

static double fullest(const struct fabric *f, const struct router *router)
{
    double most = 0;
    for (int32_t l = 0; l < fabric_links(f); l++)
        if (router->load[l] / router->capacity[l] > most)
            most = router->load[l] / router->capacity[l];
    return most;
}

/* Every host of a rack sends to the same host of the other rack, over 4 lanes: the uplinks can carry exactly that. */
static void test_a_master_fills_all_uplinks_alike(void **state)
{
    struct fabric f;
    struct route_flow flow[16];
    uint32_t first[17];
    int32_t link[16 * ROUTE_LINKS];
    double most[ROUTE_WAYS];
    make(&small, &f);
    for (int i = 0; i < 16; i++)
        flow[i] = (struct route_flow){i / 4 * 4, (i / 4 + 4) * 4, i % 4, 4, 1};
    for (enum route_way way = 0; way < ROUTE_WAYS; way++) {
        struct router router;
        assert_int_equal(router_open(&f, way, 3, &router), TUTTI_SUCCESS);
        assert_int_equal(router_paths(&router, flow, 16, first, link), -1);
        most[way] = fullest(&f, &router);
        router_forget(&router, 16, first, link);
        assert_true(fullest(&f, &router) < 1e-12);
        router_close(&router);
    }
    NEAR(most[ROUTE_STEERED], 4.0 / 100);
    NEAR(most[ROUTE_ALLOCATED], 4.0 / 100);
    assert_true(most[ROUTE_ECMP] > 1.2 * most[ROUTE_ALLOCATED]);
    fabric_free(&f);
}

static void test_bonded_ports_keep_to_their_side(void **state)
{
    struct fabric_clos clos = small;
    struct fabric f;
    bool crossed = false;
    clos.ports = 2;
    make(&clos, &f);
    for (enum route_way way = 0; way < ROUTE_WAYS; way++) {
        struct router router;
        assert_int_equal(router_open(&f, way, 1, &router), TUTTI_SUCCESS);
        for (int lane = 0; lane < 16; lane++) {
            struct route_flow flow = {0, 16, lane, 16, 1};
            int32_t link[ROUTE_LINKS];
            char from[64], to[64];
            int count = router_path(&router, &flow, link);
            fabric_link_name(&f, link[0], from, sizeof from);
            fabric_link_name(&f, link[count - 1], to, sizeof to);
            bool same = !strstr(from, "left") == !strstr(to, "left");
            crossed |= !same;
            assert_true(same || way == ROUTE_ECMP);
            if (way != ROUTE_ECMP) /* lanes in turn */
                assert_int_equal(strstr(from, "left") ? 0 : 1, lane % 2);
        }
        router_close(&router);
    }
    assert_true(crossed);
    fabric_free(&f);
}

static void test_a_leaf_that_is_cut_off_is_told(void **state)
{
    struct fabric f;
    make(&small, &f);
    for (int32_t u = f.leaf[2].first; u < f.leaf[2].first + f.leaf[2].count; u++)
        f.uplink[u].down = true;
    for (enum route_way way = 0; way < ROUTE_WAYS; way++) {
        struct router router;
        int32_t link[ROUTE_LINKS];
        struct route_flow there = {0, 16, 0, 1, 1}, back = {16, 0, 0, 1, 1}, far = {40, 16, 0, 1, 1};
        assert_int_equal(router_open(&f, way, 1, &router), TUTTI_SUCCESS);
        assert_int_equal(router_path(&router, &there, link), -1);
        assert_int_equal(router_path(&router, &back, link), -1);
        assert_int_equal(router_path(&router, &far, link), -1);
        router_close(&router);
    }
    fabric_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fullest_link_first),
        cmocka_unit_test(test_a_weight_stands_for_equal_flows),
        cmocka_unit_test(test_links_without_limit_and_without_rate),
        cmocka_unit_test(test_flows_begin_and_end),
        cmocka_unit_test(test_near_ends_keep_their_times),
        cmocka_unit_test(test_rates_are_fair),
        cmocka_unit_test(test_equal_flows_end_with_the_busiest_link),
        cmocka_unit_test(test_paths_lead_where_they_should),
        cmocka_unit_test(test_steering_is_the_equation),
        cmocka_unit_test(test_a_master_fills_all_uplinks_alike),
        cmocka_unit_test(test_bonded_ports_keep_to_their_side),
        cmocka_unit_test(test_a_leaf_that_is_cut_off_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
