/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of tables/ways.tbl, one by one: each is taken where it should be, at both ends of its sizes, and nowhere
 * else. */
#include "plan/plan.h"

#include "base/param.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)

static struct plan_rules rules;
/* Four GPUs of four processes, or of one; windows in host memory. */
static const struct plan_facts apart = {
    .nranks = 4, .copies = true, .apart = true, .lines = true, .protocols = 7, .room = {0, KERNEL_STRIPES}};
static const struct plan_facts together = {
    .nranks = 4, .copies = true, .loads = true, .lines = true, .protocols = 7, .room = {0, KERNEL_STRIPES}};
static const struct plan_facts in_host = {.nranks = 4, .in_host = true, .protocols = 7, .room = {0, KERNEL_STRIPES}};

/* Settings as NAME=VALUE, for the rules of one test. */
static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    param_reload();
    plan_rules(false, &rules);
}

static void expect(const struct plan_facts *facts, enum coll coll, uint64_t bytes, bool capturing, enum way way,
                   enum kernel_id kernel)
{
    struct plan plan = plan_call(&rules, facts, coll, bytes, capturing);
    assert_string_equal(way_name(plan.way)->text, way_name(way)->text);
    assert_string_equal(plan_kernel_name(plan.launch.kernel), plan_kernel_name(kernel));
    assert_int_equal(plan.bytes, bytes);
    assert_int_equal(plan.needs_bulk,
                     kernel == KERNEL_REDUCE_BULK || kernel == KERNEL_REDUCE_LINES || kernel == KERNEL_CHAIN);
    assert_true(plan.launch.blocks > 0 || kernel == KERNEL_EXCHANGE || kernel == KERNEL_NONE);
}

static void test_reductions(void **state)
{
    expect(&apart, COLL_ALLREDUCE, 0, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&apart, COLL_ALLREDUCE, 64 * K, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&apart, COLL_ALLREDUCE, 64 * K + 1, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    expect(&apart, COLL_REDUCE, 256 * K - 1, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    expect(&apart, COLL_REDUCE, 256 * K, true, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_REDUCE, 32 * M - 1, false, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_REDUCE, 32 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_REDUCE_SCATTER, 64 * K - 1, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&apart, COLL_REDUCE_SCATTER, 64 * K, false, WAY_LINES, KERNEL_REDUCE_LINES);
    set("TUTTI_REDUCE_LINES_TO", "0");
    expect(&apart, COLL_REDUCE, 512 * K, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    expect(&apart, COLL_REDUCE, 512 * K + 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_REDUCE_SCATTER, 64 * K, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&apart, COLL_REDUCE_SCATTER, 64 * K + 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    set("TUTTI_REDUCE_LINES_TO", NULL);
    expect(&apart, COLL_ALLREDUCE, 128 * M - 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    struct plan_facts three = apart;
    three.nranks = 3; /* 256 KiB are no multiple of three */
    expect(&three, COLL_ALLREDUCE, 256 * K / 3, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&three, COLL_ALLREDUCE, 256 * K / 3 + 1, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE, 1, false).mode, KERNEL_REDUCE);
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE_SCATTER, 1, false).mode, KERNEL_REDUCE_SCATTER);
    /* as much work as with a vector of all blocks */
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE_SCATTER, 256 * K, false).launch.blocks, 32);
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE_SCATTER, 256 * K, false).given, M);
}

static void test_results_by_copy_engines(void **state)
{
    expect(&apart, COLL_ALLREDUCE, 128 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    assert_int_equal(plan_call(&rules, &apart, COLL_ALLREDUCE, 128 * M, false).mode, KERNEL_REDUCE_OWN);
    expect(&apart, COLL_ALLREDUCE, 128 * M, true, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_REDUCE, 128 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    struct plan_facts other = apart;
    other.apart = false; /* some share a process */
    expect(&other, COLL_ALLREDUCE, 128 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    other = apart;
    other.nranks = 6; /* parts of less than 24 MiB are not copied */
    expect(&other, COLL_ALLREDUCE, 144 * M - 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&other, COLL_ALLREDUCE, 144 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    other.copies = false;
    expect(&other, COLL_ALLREDUCE, 144 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
}

static void test_memory_where_it_lies(void **state)
{
    expect(&together, COLL_ALLREDUCE, 512 * K - 1, false, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&together, COLL_ALLREDUCE, 512 * K, true, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    expect(&together, COLL_ALLREDUCE, 32 * M, false, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    expect(&together, COLL_ALLREDUCE, 32 * M + 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&together, COLL_REDUCE_SCATTER, 128 * K, false, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    set("TUTTI_PEER_MOST", "0");
    expect(&together, COLL_ALLREDUCE, 512 * K, false, WAY_LINES, KERNEL_REDUCE_LINES);
    set("TUTTI_PEER_MOST", "1T"); /* and before results are copied */
    expect(&together, COLL_ALLREDUCE, 128 * M, false, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    set("TUTTI_PEER_MOST", NULL);
}

static void test_windows_in_host_memory(void **state)
{
    expect(&in_host, COLL_ALLREDUCE, 2 * K, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&in_host, COLL_ALLREDUCE, 2 * K + 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&in_host, COLL_REDUCE_SCATTER, 128 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&in_host, COLL_BROADCAST, 512 * K, false, WAY_FAN, KERNEL_CHAIN);
    assert_int_equal(plan_call(&rules, &in_host, COLL_ALLREDUCE, M, false).chunk, 16 * K);
    set("TUTTI_BULK_CHUNK", "4K");
    assert_int_equal(plan_call(&rules, &in_host, COLL_ALLREDUCE, M, false).chunk, 4 * K);
    set("TUTTI_BULK_CHUNK", NULL);
}

static void test_broadcasts(void **state)
{
    struct plan_facts pair = apart, zero = apart;
    pair.nranks = 2;
    expect(&pair, COLL_BROADCAST, 64 * M, false, WAY_EXCHANGE, KERNEL_EXCHANGE);
    expect(&apart, COLL_BROADCAST, 512 * K - 1, false, WAY_EXCHANGE, KERNEL_EXCHANGE);
    expect(&apart, COLL_BROADCAST, 512 * K, false, WAY_FAN, KERNEL_CHAIN);
    expect(&apart, COLL_BROADCAST, 32 * M, true, WAY_FAN, KERNEL_CHAIN);
    expect(&apart, COLL_BROADCAST, 32 * M + 1, true, WAY_CHAIN, KERNEL_CHAIN);
    assert_int_equal(plan_call(&rules, &apart, COLL_BROADCAST, M, false).chunk, 64 * K);
    set("TUTTI_CHAIN_COPY_FROM", "1");
    expect(&apart, COLL_BROADCAST, 512 * K - 1, false, WAY_EXCHANGE, KERNEL_EXCHANGE);
    expect(&apart, COLL_BROADCAST, 512 * K, false, WAY_COPY_CHAIN, KERNEL_NONE);
    expect(&apart, COLL_BROADCAST, 512 * K, true, WAY_FAN, KERNEL_CHAIN);
    assert_int_equal(plan_call(&rules, &apart, COLL_BROADCAST, 24 * M, false).chunk, M);
    assert_int_equal(plan_call(&rules, &apart, COLL_BROADCAST, 48 * M + 24, false).chunk, 2 * M + 4 * K);
    set("TUTTI_CHAIN_COPY_FROM", NULL);
    zero.zero = true;
    plan_rules(true, &rules);
    expect(&zero, COLL_BROADCAST, 512 * K, false, WAY_COPY_CHAIN, KERNEL_NONE);
    expect(&zero, COLL_BROADCAST, 512 * K, true, WAY_EXCHANGE, KERNEL_EXCHANGE);
    expect(&zero, COLL_ALLREDUCE, 1, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    plan_rules(false, &rules);
}

static void test_exchanges(void **state)
{
    for (int coll = 0; coll < COLL_COUNT; coll++)
        if (!schedule_reduces((enum coll)coll) && coll != COLL_BROADCAST)
            for (int shift = 0; shift < 40; shift++)
                expect(shift % 2 ? &together : &apart, (enum coll)coll, (uint64_t)1 << shift, shift % 3 == 0,
                       WAY_EXCHANGE, KERNEL_EXCHANGE);
}

static void test_forms(void **state)
{
    struct plan_forms forms = plan_forms(&rules, &apart);
    assert_int_equal(forms.copy_from[0], 12 * M);
    assert_int_equal(forms.copy_from[1], 24 * M);
    assert_int_equal(forms.lines_to, 6 * M);
    assert_int_equal(plan_forms(&rules, &in_host).plain_from, 8 * K);
    assert_int_equal(plan_forms(&rules, &in_host).lines_to, 0);
    assert_true(plan_forms(&rules, &in_host).copy_from[0] == UINT64_MAX); /* nothing is copied */
    struct plan_facts facts = apart;
    facts.protocols = 1u << KERNEL_LINES;
    assert_int_equal(plan_forms(&rules, &facts).lines_from, 1);
    assert_true(plan_forms(&rules, &facts).lines_to == UINT64_MAX);
    facts.lines = false;
    assert_true(plan_forms(&rules, &facts).plain_from ==
                UINT64_MAX); /* neither of the two others: the first of them stands in */
    plan_rules(true, &rules);
    assert_int_equal(plan_forms(&rules, &apart).copy_from[1], 1);
    plan_rules(false, &rules);
}

static void test_protocols(void **state)
{
    assert_int_equal(plan_protocols(), 7);
    set("TUTTI_PROTO", "ll,simple");
    assert_int_equal(plan_protocols(), 1u << KERNEL_PACKETS | 1u << KERNEL_PLAIN);
    set("TUTTI_PROTO", "^LL128");
    assert_int_equal(plan_protocols(), 1u << KERNEL_PACKETS | 1u << KERNEL_PLAIN);
    set("TUTTI_PROTO", "^LL,LL128,Simple"); /* something must be left */
    assert_int_equal(plan_protocols(), 7);
    set("TUTTI_PROTO", NULL);
}

/* Every row, with the schedule that it names. */
static void test_each_way_has_a_schedule(void **state)
{
    struct way_flows flows = {0};
    const struct plan_facts *all[] = {&apart, &together, &in_host};
    for (int coll = 0; coll < COLL_SCAN; coll++) /* GPUs do not scan */
        for (int shift = 0; shift < 40; shift++)
            for (int i = 0; i < 6; i++) {
                struct plan plan = plan_call(&rules, all[i % 3], (enum coll)coll, (uint64_t)1 << shift, i > 2);
                assert_non_null(way_find(&flows, plan.way, (enum coll)coll, 1, 2, all[i % 3]->nranks));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_results_by_copy_engines),
        cmocka_unit_test(test_memory_where_it_lies),
        cmocka_unit_test(test_windows_in_host_memory),
        cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_each_way_has_a_schedule),
    };
    setenv("TUTTI_DEBUG", "none", 1);
    plan_rules(false, &rules);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
