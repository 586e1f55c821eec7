/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of tables/ways.tbl, one by one: each is taken where it should be, at both ends of its sizes, and nowhere
 * else. */
#include "plan/duel.h"
#include "plan/row.h"

#include "base/param.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)

static struct plan_rules rules;
/* Four GPUs of four processes, in calls of floats or of single bytes, or of one process; two of two; windows in host
 * memory.
 */
static const struct plan_facts apart = {
    .nranks = 4, .copies = true, .apart = true, .lines = true, .protocols = 7, .room = {0, KERNEL_STRIPES}};
static const struct plan_facts narrow = {.nranks = 4,
                                         .copies = true,
                                         .apart = true,
                                         .lines = true,
                                         .protocols = 7,
                                         .room = {0, KERNEL_STRIPES},
                                         .element = 1};
static const struct plan_facts together = {
    .nranks = 4, .copies = true, .loads = true, .lines = true, .protocols = 7, .room = {0, KERNEL_STRIPES}};
static const struct plan_facts pair = {
    .nranks = 2, .copies = true, .apart = true, .lines = true, .protocols = 7, .room = {0, KERNEL_STRIPES}};
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
    assert_int_equal(plan.needs_bulk, kernel == KERNEL_REDUCE_BULK || kernel == KERNEL_REDUCE_LINES ||
                                          kernel == KERNEL_REDUCE_LISTED || kernel == KERNEL_REDUCE_RING ||
                                          kernel == KERNEL_CHAIN);
    assert_true(plan.launch.blocks > 0 || kernel == KERNEL_EXCHANGE || kernel == KERNEL_NONE);
}

static void test_reductions(void **state)
{
    expect(&apart, COLL_ALLREDUCE, 0, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&apart, COLL_ALLREDUCE, 64 * K, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&apart, COLL_ALLREDUCE, 64 * K + 1, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    expect(&narrow, COLL_REDUCE, 256 * K, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    expect(&narrow, COLL_REDUCE, 256 * K + 1, true, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_ALLREDUCE, 4 * M - 1, true, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_ALLREDUCE, 4 * M, true, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_REDUCE_SCATTER, M - 1, false, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_REDUCE_SCATTER, M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&narrow, COLL_REDUCE, 32 * M - 1, false, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&narrow, COLL_REDUCE, 32 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_REDUCE_SCATTER, 64 * K, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&apart, COLL_REDUCE_SCATTER, 64 * K + 1, false, WAY_LINES, KERNEL_REDUCE_LINES);
    set("TUTTI_REDUCE_LINES_TO", "0");
    expect(&narrow, COLL_REDUCE, 512 * K, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    expect(&narrow, COLL_REDUCE, 512 * K + 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
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
    /* long allreduces in lines need fewer blocks, unless the user wants more */
    assert_int_equal(plan_call(&rules, &apart, COLL_ALLREDUCE, 2 * M - 16, false).launch.blocks, 32);
    assert_int_equal(plan_call(&rules, &apart, COLL_ALLREDUCE, 2 * M, true).launch.blocks, 24);
    assert_int_equal(plan_call(&rules, &narrow, COLL_REDUCE, 4 * M - 16, false).launch.blocks, 32);
    assert_int_equal(plan_call(&rules, &narrow, COLL_REDUCE, 4 * M, false).launch.blocks, 16);
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE, 4 * M, false).launch.blocks, 24);
    assert_int_equal(plan_call(&rules, &pair, COLL_REDUCE, 4 * M, false).launch.blocks, 32);
    struct plan_facts more = apart;
    more.room.least = 28;
    assert_int_equal(plan_call(&rules, &more, COLL_ALLREDUCE, 3 * M, false).launch.blocks, 28);
    more.room.least = 64; /* for more there are no slots */
    assert_int_equal(plan_call(&rules, &more, COLL_ALLREDUCE, 3 * M, false).launch.blocks, KERNEL_LINES_BLOCKS);
    assert_int_equal(plan_call(&rules, &more, COLL_REDUCE, 3 * M, false).launch.blocks, KERNEL_LINES_BLOCKS);
    /* three ranks or more have more in flight by more blocks */
    assert_int_equal(plan_call(&rules, &narrow, COLL_REDUCE_SCATTER, 64 * M, true).launch.blocks, 64);
    assert_int_equal(plan_call(&rules, &pair, COLL_REDUCE_SCATTER, 64 * M, true).launch.blocks, 32);
    /* as much work as with a vector of all blocks */
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE_SCATTER, 256 * K, false).launch.blocks, 32);
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE_SCATTER, 256 * K, false).given, M);
}

/* Two ranks: one hop carries no more than two. */
static void test_pairs(void **state)
{
    struct plan_facts without = pair;
    expect(&pair, COLL_ALLREDUCE, 96 * K - 1, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&pair, COLL_ALLREDUCE, 96 * K, false, WAY_ONE_SHOT_LINES, KERNEL_REDUCE_LINES);
    expect(&pair, COLL_ALLREDUCE, 576 * K - 1, true, WAY_ONE_SHOT_LINES, KERNEL_REDUCE_LINES);
    expect(&pair, COLL_ALLREDUCE, 576 * K, true, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&pair, COLL_REDUCE, 96 * K - 1, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&pair, COLL_REDUCE, 96 * K, false, WAY_ONE_SHOT_LINES, KERNEL_REDUCE_LINES);
    expect(&pair, COLL_REDUCE_SCATTER, 128 * K - 1, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&pair, COLL_REDUCE_SCATTER, 128 * K, false, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&pair, COLL_ALLREDUCE, 32 * M - 1, false, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&pair, COLL_ALLREDUCE, 32 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    without.lines = false;
    expect(&without, COLL_ALLREDUCE, 256 * K, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
}

/* Three ranks or more; elements whose partial sums lose nothing. */
static void test_rings(void **state)
{
    struct plan_facts without = apart;
    without.lines = false;
    expect(&apart, COLL_REDUCE, 128 * K - 1, false, WAY_TWO_SHOT, KERNEL_REDUCE_TWO);
    expect(&apart, COLL_REDUCE, 128 * K, true, WAY_RING_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_REDUCE, 96 * M - 1, false, WAY_RING_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_REDUCE, 96 * M, false, WAY_RING, KERNEL_REDUCE_RING);
    assert_int_equal(plan_call(&rules, &apart, COLL_REDUCE, 96 * M, false).launch.blocks, 32);
    expect(&without, COLL_REDUCE, 96 * M - 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&without, COLL_REDUCE, 96 * M, false, WAY_RING, KERNEL_REDUCE_RING);
    expect(&pair, COLL_REDUCE, 128 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&narrow, COLL_REDUCE, 128 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&in_host, COLL_REDUCE, 128 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_REDUCE_SCATTER, 16 * M - 1, true, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_REDUCE_SCATTER, 16 * M, true, WAY_RING, KERNEL_REDUCE_RING);
    expect(&narrow, COLL_REDUCE_SCATTER, 16 * M, true, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_ALLREDUCE, 192 * M - 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&apart, COLL_ALLREDUCE, 192 * M, false, WAY_RING_COPY, KERNEL_REDUCE_RING);
    assert_int_equal(plan_call(&rules, &apart, COLL_ALLREDUCE, 192 * M, false).mode, KERNEL_REDUCE_OWN);
    expect(&apart, COLL_ALLREDUCE, 192 * M, true, WAY_BULK, KERNEL_REDUCE_BULK); /* copy engines are not captured */
}

/* Halves are rounded at each rank where a rooted reduction goes round, or all do, as the user has it. */
static void test_halves(void **state)
{
    struct plan_facts halves = apart;
    halves.element = 2;
    expect(&halves, COLL_REDUCE, 128 * K, true, WAY_RING_LINES, KERNEL_REDUCE_LINES);
    expect(&halves, COLL_REDUCE, 96 * M, false, WAY_RING, KERNEL_REDUCE_RING);
    expect(&halves, COLL_REDUCE_SCATTER, 16 * M, true, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&halves, COLL_ALLREDUCE, 192 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    set("TUTTI_RING_HALVES", "none");
    expect(&halves, COLL_REDUCE, 96 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    set("TUTTI_RING_HALVES", "all");
    expect(&halves, COLL_REDUCE, 96 * M, false, WAY_RING, KERNEL_REDUCE_RING);
    expect(&halves, COLL_REDUCE_SCATTER, 16 * M, true, WAY_RING, KERNEL_REDUCE_RING);
    expect(&halves, COLL_ALLREDUCE, 192 * M, false, WAY_RING_COPY, KERNEL_REDUCE_RING);
    expect(&narrow, COLL_REDUCE, 96 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    set("TUTTI_RING_HALVES", NULL);
}

/* A user who leaves kernels few processors: reading needs fewer of them for the same. */
static void test_rings_want_room(void **state)
{
    struct plan_facts few = apart;
    few.room = kernel_room(132, 0, 27);
    expect(&few, COLL_ALLREDUCE, 192 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    assert_true(plan_call(&rules, &few, COLL_ALLREDUCE, 192 * M, false).reads);
    uint64_t part = 64 * M / (uint64_t)few.nranks;
    expect(&few, COLL_REDUCE_SCATTER, part, false, WAY_BULK, KERNEL_REDUCE_BULK);
    assert_true(plan_call(&rules, &few, COLL_REDUCE_SCATTER, part, false).reads);
    expect(&few, COLL_REDUCE_SCATTER, part, true, WAY_RING, KERNEL_REDUCE_RING); /* not read */
    expect(&few, COLL_REDUCE, 96 * M, false, WAY_RING, KERNEL_REDUCE_RING);      /* nor is this */
    set("TUTTI_READ_FROM", "0");
    expect(&few, COLL_ALLREDUCE, 192 * M, false, WAY_RING_COPY, KERNEL_REDUCE_RING);
    set("TUTTI_READ_FROM", NULL);
    set("TUTTI_RING_LEAST", "24");
    expect(&few, COLL_ALLREDUCE, 192 * M, false, WAY_RING_COPY, KERNEL_REDUCE_RING);
    set("TUTTI_RING_LEAST", NULL);
    few.room = kernel_room(132, 0, 28);
    expect(&few, COLL_ALLREDUCE, 192 * M, false, WAY_RING_COPY, KERNEL_REDUCE_RING);
    expect(&few, COLL_REDUCE_SCATTER, part, false, WAY_RING, KERNEL_REDUCE_RING);
}

static void test_results_by_copy_engines(void **state)
{
    expect(&narrow, COLL_ALLREDUCE, 192 * M - 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&narrow, COLL_ALLREDUCE, 192 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    set("TUTTI_GATHER_FROM", "128M");
    expect(&narrow, COLL_ALLREDUCE, 128 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    assert_int_equal(plan_call(&rules, &narrow, COLL_ALLREDUCE, 128 * M, false).mode, KERNEL_REDUCE_OWN);
    expect(&apart, COLL_ALLREDUCE, 128 * M, true, WAY_BULK, KERNEL_REDUCE_BULK);
    struct plan_facts other = apart;
    other.apart = false; /* some share a process */
    expect(&other, COLL_ALLREDUCE, 128 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    other = narrow;
    other.nranks = 6; /* parts of less than 24 MiB are not copied */
    expect(&other, COLL_ALLREDUCE, 144 * M - 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&other, COLL_ALLREDUCE, 144 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    other.copies = false;
    expect(&other, COLL_ALLREDUCE, 144 * M, false, WAY_BULK, KERNEL_REDUCE_BULK);
    set("TUTTI_GATHER_FROM", NULL);
}

static void expect_reads(const struct plan_facts *facts, enum coll coll, uint64_t bytes, bool capturing, bool reads)
{
    struct plan plan = plan_call(&rules, facts, coll, bytes, capturing);
    assert_int_equal(plan.reads, reads);
    assert_true(!reads || plan.launch.blocks == 24);
}

static void test_contributions_that_are_read(void **state)
{
    uint64_t part = 64 * M / (uint64_t)apart.nranks;
    expect_reads(&narrow, COLL_REDUCE_SCATTER, part - 1, false, false);
    expect_reads(&narrow, COLL_REDUCE_SCATTER, part, false, true);
    expect_reads(&narrow, COLL_REDUCE_SCATTER, part, true, false); /* a graph's memory may be gone */
    expect_reads(&narrow, COLL_ALLREDUCE, 192 * M, false, true);
    expect_reads(&narrow, COLL_ALLREDUCE, 192 * M - 1, false, false); /* its kernel carries results, too */
    expect_reads(&narrow, COLL_REDUCE, 192 * M, false, false);
    expect_reads(&pair, COLL_REDUCE_SCATTER, 32 * M, false, true);
    expect_reads(&in_host, COLL_REDUCE_SCATTER, 256 * M, false, false);
    struct plan_facts other = narrow;
    other.copies = false; /* nobody maps anybody's memory */
    expect_reads(&other, COLL_REDUCE_SCATTER, 256 * M, false, false);
    other = narrow;
    other.room = kernel_room(132, 0, 8);
    assert_int_equal(plan_call(&rules, &other, COLL_REDUCE_SCATTER, 256 * M, false).launch.blocks, 8);
    set("TUTTI_READ_FROM", "0");
    expect_reads(&narrow, COLL_REDUCE_SCATTER, 256 * M, false, false);
    set("TUTTI_READ_FROM", NULL);
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
    struct plan_facts symmetric = apart;
    symmetric.symmetric = true;
    expect(&symmetric, COLL_ALLREDUCE, 4 * M - 1, false, WAY_LINES, KERNEL_REDUCE_LINES);
    expect(&symmetric, COLL_ALLREDUCE, 4 * M, true, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    expect(&symmetric, COLL_ALLREDUCE, 32 * M, false, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    expect(&symmetric, COLL_ALLREDUCE, 32 * M + 1, false, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&symmetric, COLL_REDUCE_SCATTER, M, false, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    assert_int_equal(plan_call(&rules, &symmetric, COLL_ALLREDUCE, 4 * M, false).launch.blocks, 32);
    assert_int_equal(plan_call(&rules, &symmetric, COLL_REDUCE_SCATTER, 8 * M, false).launch.blocks, 48);
    symmetric.nranks = 2; /* loads are as fast as stores then, but for what copy engines carry */
    expect(&symmetric, COLL_ALLREDUCE, 64 * M, true, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
    expect(&symmetric, COLL_ALLREDUCE, 64 * M + 1, true, WAY_BULK, KERNEL_REDUCE_BULK);
    expect(&symmetric, COLL_ALLREDUCE, 192 * M, false, WAY_BULK_COPY, KERNEL_REDUCE_BULK);
    expect(&symmetric, COLL_REDUCE_SCATTER, 1024 * M, true, WAY_PEER_LOAD, KERNEL_REDUCE_PEER);
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
    struct plan_facts zero = apart, without = apart;
    without.lines = false;
    expect(&pair, COLL_BROADCAST, 64 * M, false, WAY_EXCHANGE, KERNEL_EXCHANGE);
    expect(&apart, COLL_BROADCAST, 128 * K - 1, false, WAY_EXCHANGE, KERNEL_EXCHANGE);
    expect(&apart, COLL_BROADCAST, 128 * K, true, WAY_RING_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_BROADCAST, 96 * M - 1, false, WAY_RING_LINES, KERNEL_REDUCE_LINES);
    expect(&apart, COLL_BROADCAST, 96 * M, true, WAY_RING, KERNEL_REDUCE_RING);
    expect(&narrow, COLL_BROADCAST, 96 * M, true, WAY_RING, KERNEL_REDUCE_RING); /* nothing is summed */
    expect(&without, COLL_BROADCAST, 512 * K - 1, false, WAY_EXCHANGE, KERNEL_EXCHANGE);
    expect(&without, COLL_BROADCAST, 512 * K, false, WAY_FAN, KERNEL_CHAIN);
    expect(&without, COLL_BROADCAST, 32 * M, true, WAY_FAN, KERNEL_CHAIN);
    expect(&without, COLL_BROADCAST, 32 * M + 1, true, WAY_RING, KERNEL_REDUCE_RING);
    expect(&in_host, COLL_BROADCAST, 32 * M + 1, true, WAY_CHAIN, KERNEL_CHAIN);
    assert_int_equal(plan_call(&rules, &without, COLL_BROADCAST, M, false).chunk, 64 * K);
    set("TUTTI_CHAIN_COPY_FROM", "1");
    expect(&apart, COLL_BROADCAST, 1, false, WAY_COPY_CHAIN, KERNEL_NONE);
    expect(&apart, COLL_BROADCAST, 512 * K, true, WAY_RING_LINES, KERNEL_REDUCE_LINES);
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

static enum kernel_id kernel_of_blocks(const struct plan_facts *facts, enum coll coll, uint64_t bytes)
{
    return plan_call(&rules, facts, coll, bytes, false).launch.kernel;
}

/* Of four ranks; short blocks of all go like small vectors. */
static void test_exchanges(void **state)
{
    for (int coll = 0; coll < COLL_COUNT; coll++)
        if (!schedule_reduces((enum coll)coll) && coll != COLL_BROADCAST)
            for (int shift = 0; shift < 40; shift++) {
                bool words = (coll == COLL_ALLGATHER || coll == COLL_ALLTOALL) && shift <= 16;
                expect(shift % 2 ? &together : &apart, (enum coll)coll, (uint64_t)1 << shift, shift % 3 == 0,
                       WAY_EXCHANGE, words ? KERNEL_GATHER : KERNEL_EXCHANGE);
            }
}

static void test_blocks_in_words(void **state)
{
    struct plan_facts facts = pair;
    assert_int_equal(kernel_of_blocks(&facts, COLL_ALLGATHER, 80 * K - 1), KERNEL_GATHER);
    assert_int_equal(kernel_of_blocks(&facts, COLL_ALLGATHER, 80 * K), KERNEL_EXCHANGE); /* lines carry less */
    facts.lines = false;
    assert_int_equal(kernel_of_blocks(&facts, COLL_ALLTOALL, 128 * K - 1), KERNEL_GATHER);
    assert_int_equal(kernel_of_blocks(&facts, COLL_ALLTOALL, 128 * K), KERNEL_EXCHANGE); /* plain data */
    facts = pair;
    facts.protocols = 1u << KERNEL_LINES;
    assert_int_equal(kernel_of_blocks(&facts, COLL_ALLGATHER, K), KERNEL_EXCHANGE);
    assert_int_equal(kernel_of_blocks(&in_host, COLL_ALLGATHER, K), KERNEL_EXCHANGE);
    facts = pair;
    facts.nranks = 1;
    assert_int_equal(kernel_of_blocks(&facts, COLL_ALLGATHER, K), KERNEL_EXCHANGE);
    plan_rules(true, &rules); /* copy engines carry everything */
    assert_int_equal(kernel_of_blocks(&pair, COLL_ALLGATHER, K), KERNEL_EXCHANGE);
    plan_rules(false, &rules);
}

static void test_forms(void **state)
{
    struct plan_forms forms = plan_forms(&rules, &apart);
    assert_int_equal(forms.copy_from[0], 4 * M);
    assert_int_equal(forms.copy_from[1], 24 * M);
    assert_int_equal(forms.lines_to, 4 * M);
    assert_int_equal(plan_forms(&rules, &in_host).plain_from, 8 * K);
    assert_int_equal(plan_forms(&rules, &in_host).lines_to, 0);
    assert_int_equal(forms.invite_from, 4 * M);
    assert_int_equal(plan_forms(&rules, &in_host).invite_from, 0);        /* nobody reaches anybody's memory */
    assert_true(plan_forms(&rules, &in_host).copy_from[0] == UINT64_MAX); /* nothing is copied */
    struct plan_facts facts = apart;
    facts.copies = false;
    assert_int_equal(plan_forms(&rules, &facts).invite_from, 0); /* nobody maps anybody's memory */
    assert_int_equal(plan_forms(&rules, &facts).lines_to, 6 * M);
    facts.apart = false;
    assert_int_equal(plan_forms(&rules, &facts).invite_from, 4 * M);
    facts = apart;
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

enum { ROOT = 1, OTHER = 2 };

/* By the definition of the collective: whose data a rank cannot do without, and who cannot do without its. The root of
 * a rooted one needs all or is needed by all, and the others may pass on what is not for them. */
static void expect_needs(const struct way_needs *needs, enum coll coll, int rank, int nranks)
{
    const uint32_t others = ((1u << nranks) - 1) & ~(1u << rank), root = 1u << ROOT;
    const bool out = coll == COLL_BROADCAST || coll == COLL_SCATTER, in = coll == COLL_REDUCE || coll == COLL_GATHER;
    if (rank == ROOT || !(in || out)) {
        assert_int_equal(needs->from, out ? 0 : others);
        if (coll != COLL_REDUCE) /* others may add up what it gives */
            assert_int_equal(needs->to, in ? 0 : others);
        return;
    }
    assert_int_equal((in ? needs->to : needs->from) & root, root);
    if (coll == COLL_BROADCAST)
        assert_int_equal(needs->to & root, 0);
    if (coll == COLL_GATHER || coll == COLL_SCATTER)
        assert_int_equal(needs->from | needs->to, root);
}

/* Every row, with the schedule that it names, and who needs whom in it. */
static void test_each_way_has_a_schedule(void **state)
{
    (void)state;
    static struct way_flows flows[2];
    const int ranks[] = {ROOT, OTHER};
    const struct plan_facts *all[] = {&apart, &together, &in_host};
    for (int coll = 0; coll < COLL_SCAN; coll++) /* GPUs do not scan */
        for (int shift = 0; shift < 40; shift++)
            for (int i = 0; i < 12; i++) {
                const struct plan_facts *facts = all[i % 3];
                struct plan plan = plan_call(&rules, facts, (enum coll)coll, (uint64_t)1 << shift, i > 5);
                const struct way_flow *found =
                    way_find(&flows[i & 1], plan.way, (enum coll)coll, ROOT, ranks[i & 1], facts->nranks);
                assert_non_null(found);
                expect_needs(found->needs, (enum coll)coll, ranks[i & 1], facts->nranks);
            }
}

/* Through a chain a rank needs those before it, and all behind need it; another root has other needs, which the
 * first one's do not replace. */
static void test_needs_by_others(void **state)
{
    (void)state;
    static struct way_flows flows;
    const struct way_needs *first = way_find(&flows, WAY_CHAIN, COLL_BROADCAST, 1, 2, 4)->needs;
    assert_int_equal(first->from | first->to, 0xb); /* straight they are two */
    const struct way_needs *second = way_find(&flows, WAY_CHAIN, COLL_BROADCAST, 2, 2, 4)->needs;
    assert_int_equal(second->from, 0);
    assert_int_equal(second->to, 0xb);
    assert_ptr_equal(way_find(&flows, WAY_CHAIN, COLL_BROADCAST, 1, 2, 4)->needs, first);
    assert_int_equal(first->from | first->to, 0xb);
}

/* Every parameter of a row is once in tables/duels.tbl. The ways of those that are tuned differ somewhere in between
 * the sizes measured, and one of the ways is the row's. */
static bool meets(const struct plan_duel *duel, const struct plan_facts *facts, enum way way)
{
    bool met = false;
    const char *ways[2];
    for (uint64_t bytes = duel->least; bytes <= duel->most; bytes *= 4)
        if (plan_duel_ways(duel, facts, bytes, ways))
            met |= strcmp(ways[0], way_name(way)->text) == 0 || strcmp(ways[1], way_name(way)->text) == 0;
    return met;
}

static void expect_duel(uint64_t parameter, const struct plan_row *row)
{
    int found = 0;
    for (int i = 0; i < PLAN_DUELS; i++) {
        struct plan_duel duel = plan_duel(i);
        if (duel.id != parameter)
            continue;
        found++;
        if (duel.untuned)
            continue;
        if (!meets(&duel, &apart, row->way) && !meets(&duel, &together, row->way) && !meets(&duel, &pair, row->way))
            fail_msg("%s: no size in between is carried by %s", param_row(duel.id)->name, way_name(row->way)->text);
        assert_true(row->quantity != ALL); /* tutti tune counts the bytes of a vector, and of messages */
        assert_true(duel.largest == (row->below.kind == LIMIT_PAST && row->below.value == parameter));
    }
    if (found != 1)
        fail_msg("%s is in %d rows of tables/duels.tbl", param_row((enum param_id)parameter)->name, found);
}

static void test_parameters_of_rows_are_tuned(void **state)
{
    for (int i = 0; i < PLAN_ROWS; i++) {
        const struct plan_limit limits[] = {plan_table[i].from, plan_table[i].below};
        for (int k = 0; k < 2; k++)
            if (limits[k].kind >= LIMIT_AT)
                expect_duel(limits[k].value, &plan_table[i]);
    }
}

static struct plan_duel duel_of(enum param_id id)
{
    int i = 0;
    while (plan_duel(i).id != id)
        i++;
    return plan_duel(i);
}

static void expect_ways(enum param_id id, const struct plan_facts *facts, uint64_t bytes, enum way first,
                        enum way second)
{
    struct plan_duel duel = duel_of(id);
    const char *ways[2];
    assert_int_equal(plan_duel_ways(&duel, facts, bytes, ways), first != second);
    assert_string_equal(ways[0], way_name(first)->text);
    assert_string_equal(ways[1], way_name(second)->text);
}

static void test_duels_follow_from_rows(void **state)
{
    expect_ways(PARAM_PEER_FROM, &together, M, WAY_LINES, WAY_PEER_LOAD);
    expect_ways(PARAM_PEER_FROM, &apart, M, WAY_LINES, WAY_LINES);
    expect_ways(PARAM_REDUCE_LINES_FROM, &apart, 512 * K, WAY_TWO_SHOT, WAY_LINES);
    expect_ways(PARAM_REDUCE_LINES_TO, &pair, 64 * M, WAY_LINES, WAY_BULK);
    expect_ways(PARAM_BULK_FROM, &apart, 4 * M, WAY_LINES, WAY_BULK);
    expect_ways(PARAM_BULK_FROM, &pair, 4 * M, WAY_LINES, WAY_LINES);
    expect_ways(PARAM_REDUCE_LINES_TO, &together, 4 * M, WAY_PEER_LOAD, WAY_PEER_LOAD);
    expect_ways(PARAM_RING_COPY_FROM, &apart, 256 * M, WAY_BULK_COPY, WAY_RING_COPY);
    expect_ways(PARAM_GATHER_FROM, &narrow, 256 * M, WAY_BULK, WAY_BULK_COPY);
    expect_ways(PARAM_RING_FROM, &apart, 64 * M, WAY_BULK, WAY_RING);
    expect_ways(PARAM_RING_LINES_TO, &apart, 64 * M, WAY_RING_LINES, WAY_RING);
    expect_ways(PARAM_RING_LINES_FROM, &apart, 256 * K, WAY_TWO_SHOT, WAY_RING_LINES);
    struct plan_facts without = apart;
    without.lines = false;
    expect_ways(PARAM_GATHER_FROM, &apart, 64 * M, WAY_BULK, WAY_BULK); /* parts are too short to be copied */
    expect_ways(PARAM_CHAIN_FROM, &without, 256 * K, WAY_EXCHANGE, WAY_FAN);
    expect_ways(PARAM_CHAIN_FAN, &without, 64 * K, WAY_FAN, WAY_RING); /* with chains from 1 byte on */
    expect_ways(PARAM_CHAIN_COPY_FROM, &apart, 64 * M, WAY_RING_LINES, WAY_COPY_CHAIN);
    assert_string_equal(duel_of(PARAM_CHAIN_FAN).with, "TUTTI_CHAIN_FROM=1");
    assert_string_equal(duel_of(PARAM_CHAIN_FROM).with, "");
    assert_string_equal(duel_of(PARAM_CHAIN_FAN).collectives[0], "broadcast");
    assert_string_equal(duel_of(PARAM_GATHER_FROM).collectives[0], "allreduce");
}

/* Calls of a group that are together long enough go in lines, each over some of the warps. */
static void test_groups(void **state)
{
    struct plan_facts four = apart, two = pair, alone = pair;
    four.together = two.together = 16;
    alone.together = 1;
    expect(&two, COLL_ALLREDUCE, 16 * K, false, WAY_ONE_SHOT_LINES, KERNEL_REDUCE_LISTED);
    expect(&two, COLL_ALLREDUCE, 16 * K - 1, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&alone, COLL_ALLREDUCE, 64 * K, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&two, COLL_ALLREDUCE, 576 * K, true, WAY_LINES, KERNEL_REDUCE_LISTED);
    expect(&four, COLL_ALLREDUCE, 16 * K, true, WAY_LINES, KERNEL_REDUCE_LISTED);
    expect(&four, COLL_REDUCE_SCATTER, 1 * M, false, WAY_LINES, KERNEL_REDUCE_LISTED);
    expect(&four, COLL_REDUCE, 64 * K, false, WAY_ONE_SHOT, KERNEL_REDUCE_ONE);
    expect(&four, COLL_ALLGATHER, 1 * M, false, WAY_EXCHANGE, KERNEL_REDUCE_LISTED);
    expect(&four, COLL_ALLTOALL, 1 * M, false, WAY_EXCHANGE, KERNEL_EXCHANGE);
    assert_true(plan_call(&rules, &four, COLL_ALLREDUCE, 4 * M, false).launch.kernel != KERNEL_REDUCE_LISTED);
    assert_int_equal(plan_call(&rules, &two, COLL_ALLGATHER, 1 * M, false).launch.stripes, 28);
    two.together = 200;
    assert_int_equal(plan_call(&rules, &two, COLL_REDUCE_SCATTER, 1 * M, false).launch.stripes, 35);
    assert_int_equal(plan_call(&rules, &two, COLL_ALLREDUCE, 4 * M - 1, false).launch.stripes, 70); /* ten rounds */
    two.together = 16;
    assert_int_equal(plan_call(&rules, &two, COLL_ALLGATHER, 16 * K, false).launch.stripes, 9);
    assert_int_equal(plan_call(&rules, &four, COLL_ALLREDUCE, 64 * K, false).launch.stripes, 9);
    set("TUTTI_GROUP_SPREAD", "0");
    assert_true(plan_call(&rules, &two, COLL_ALLREDUCE, 64 * K, false).launch.kernel != KERNEL_REDUCE_LISTED);
    set("TUTTI_GROUP_SPREAD", NULL);
    set("TUTTI_GROUP_LINES_FROM", "0");
    assert_true(plan_call(&rules, &two, COLL_ALLREDUCE, 64 * K, false).launch.kernel != KERNEL_REDUCE_LISTED);
    set("TUTTI_GROUP_LINES_FROM", NULL);
    set("TUTTI_GROUP_LINES_TO", "64K");
    assert_true(plan_call(&rules, &two, COLL_ALLREDUCE, 64 * K, false).launch.kernel != KERNEL_REDUCE_LISTED);
    set("TUTTI_GROUP_LINES_TO", "1T");
    expect(&four, COLL_ALLREDUCE, 4095 * M, true, WAY_LINES, KERNEL_REDUCE_LISTED);
    assert_true(plan_call(&rules, &four, COLL_ALLREDUCE, 4096 * M, true).launch.kernel != KERNEL_REDUCE_LISTED);
    set("TUTTI_GROUP_LINES_TO", NULL);
    struct plan_facts zero = four;
    set("TUTTI_COPY_FROM", "1");
    assert_true(plan_call(&rules, &zero, COLL_ALLGATHER, 64 * K, false).launch.kernel !=
                KERNEL_REDUCE_LISTED); /* copy engines have that */
    set("TUTTI_COPY_FROM", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_rings_want_room),
        cmocka_unit_test(test_results_by_copy_engines),
        cmocka_unit_test(test_contributions_that_are_read),
        cmocka_unit_test(test_memory_where_it_lies),
        cmocka_unit_test(test_windows_in_host_memory),
        cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_blocks_in_words),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_each_way_has_a_schedule),
        cmocka_unit_test(test_needs_by_others),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_parameters_of_rows_are_tuned),
        cmocka_unit_test(test_duels_follow_from_rows),
    };
    setenv("TUTTI_DEBUG", "none", 1);
    plan_rules(false, &rules);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
