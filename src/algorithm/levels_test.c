/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes with levels: hosts of many sizes, in and out of order. Every algorithm is proved on them, and the price knows
 * them. */
#include "algorithm/algorithm.h"
#include "base/random.h"
#include "schedule/checker.h"
#include "schedule/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 24 /* ranks */

static struct levels *make(const uint64_t *host, int n)
{
    struct levels *levels;
    assert_int_equal(levels_of_hosts(host, n, &levels), TUTTI_SUCCESS);
    return levels;
}

static void assert_groups(const struct level *level, int count, int least, int most)
{
    assert_int_equal(level->groups, count);
    assert_int_equal(level->least, least);
    assert_int_equal(level->most, most);
}

static void groups(void **state)
{
    struct levels *levels = make((uint64_t[]){9, 4, 9, 4, 9, 7}, 6);
    assert_true(levels->nranks == 6 && levels->depth == 1 && !levels->in_order);
    assert_memory_equal(levels->order, ((int32_t[]){0, 2, 4, 1, 3, 5}), 24);
    assert_memory_equal(levels->position, ((int32_t[]){0, 3, 1, 4, 2, 5}), 24);
    assert_groups(levels_hosts(levels), 3, 1, 3);
    assert_memory_equal(levels_hosts(levels)->group, ((int32_t[]){0, 1, 0, 1, 0, 2}), 24);
    assert_memory_equal(levels_hosts(levels)->first, ((int32_t[]){0, 3, 5, 6}), 16);
    free(levels);
    levels = make((uint64_t[]){5, 5, 1, 1, 1}, 5);
    assert_true(levels->in_order);
    assert_ptr_equal(levels->position, levels->order);
    assert_groups(levels_hosts(levels), 2, 2, 3);
    free(levels);
    levels = make((uint64_t[]){5}, 1);
    assert_true(levels->in_order);
    assert_groups(levels_hosts(levels), 1, 1, 1);
    free(levels);
}

static void prove(const struct algorithm *algorithm, struct shape shape)
{
    char why[512] = "";
    for (int in_place = 0; in_place < 2; in_place++) {
        if (!schedule_fits(algorithm, &shape) || (in_place && !schedule_in_place_defined(shape.coll)))
            continue;
        if (schedule_check(algorithm, shape, in_place, why, sizeof why) != TUTTI_SUCCESS)
            fail_msg("%d hosts: %s", levels_hosts(shape.levels)->groups, why);
    }
}

static void prove_all(const uint64_t *host, int n)
{
    struct levels *levels = make(host, n);
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++)
            if (algorithm_row(i)->colls >> coll & 1)
                prove(algorithm_row(i),
                      (struct shape){(enum coll)coll, n, schedule_has_root((enum coll)coll) ? n / 2 : 0, levels});
    free(levels);
}

static void all_algorithms(void **state)
{
    uint64_t host[MOST], seed = 1;
    const bool quick = getenv("TUTTI_TEST_QUICK") != NULL;
    for (int n = 1; n <= MOST; n += quick && n > 4 ? 4 : 1)
        for (uint64_t hosts = 1; hosts <= 4; hosts++) {
            for (int rank = 0; rank < n; rank++) /* one host behind the other */
                host[rank] = (uint64_t)rank * hosts / (uint64_t)n;
            prove_all(host, n);
            for (int rank = 0; rank < n; rank++) /* in turn */
                host[rank] = (uint64_t)rank % hosts;
            prove_all(host, n);
            for (int rank = 0; rank < n; rank++) /* uneven */
                host[rank] = mix64(seed++) % hosts;
            prove_all(host, n);
        }
}

/* Islands 1 and 2 on each of three hosts, of which the first and the last are in rack 7. */
static void depth_of_three(void **state)
{
    const uint64_t island[12] = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, host[12] = {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3},
                   rack[12] = {7, 7, 8, 8, 7, 7, 7, 7, 8, 8, 7, 7};
    const struct levels_of of = {.nranks = 12, .depth = 3, .host = 1, .key = {island, host, rack}};
    struct levels *levels;
    assert_int_equal(levels_make(&of, &levels), TUTTI_SUCCESS);
    assert_memory_equal(levels->order, ((int32_t[]){0, 6, 1, 7, 4, 10, 5, 11, 2, 8, 3, 9}), 48);
    assert_memory_equal(levels->level[0].group, ((int32_t[]){0, 1, 4, 5, 2, 3, 0, 1, 4, 5, 2, 3}), 48);
    assert_memory_equal(levels->level[1].group, ((int32_t[]){0, 0, 2, 2, 1, 1, 0, 0, 2, 2, 1, 1}), 48);
    assert_memory_equal(levels->level[2].group, ((int32_t[]){0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0}), 48);
    assert_memory_equal(levels->level[2].first, ((int32_t[]){0, 8, 12}), 12);
    assert_ptr_equal(levels_hosts(levels), &levels->level[1]);
    assert_groups(&levels->level[0], 6, 2, 2);
    assert_groups(&levels->level[1], 3, 4, 4);
    assert_groups(&levels->level[2], 2, 4, 8);
    assert_false(levels->in_order);
    free(levels);
}

/* What is not told joins nobody, and a host whose ranks name two racks is in that of its first rank. */
static void untold_and_torn(void **state)
{
    const uint64_t host[6] = {0, 5, 0, 6, 5, 9}, rack[6] = {0, 3, 4, 0, 4, 4};
    const struct levels_of of = {.nranks = 6, .depth = 2, .host = 0, .key = {host, rack}};
    struct levels *levels;
    assert_int_equal(levels_make(&of, &levels), TUTTI_SUCCESS);
    assert_memory_equal(levels->order, ((int32_t[]){0, 2, 1, 4, 3, 5}), 24); /* the name 0 of a host is one */
    assert_groups(&levels->level[0], 4, 1, 2);
    assert_ptr_equal(levels->level[1].group, levels->level[0].group); /* the same groups take no room */
    free(levels);
}

/* Groups follow one another on every level, and those of a level lie in those of the next. */
static void check_order(const struct levels *levels)
{
    bool seen[MOST] = {0};
    for (int i = 0; i < levels->nranks; i++) {
        int rank = levels->order[i];
        assert_false(seen[rank]);
        seen[rank] = true;
        assert_int_equal(levels->position[rank], i);
        for (int k = 0; k < levels->depth; k++) {
            const struct level *level = &levels->level[k];
            int group = level->group[rank];
            assert_true(i >= level->first[group] && i < level->first[group + 1]);
            assert_true(i == 0 || group >= level->group[levels->order[i - 1]]);
            assert_true(k == 0 || level->groups <= levels->level[k - 1].groups);
        }
    }
}

static void any_depth(void **state)
{
    uint64_t key[LEVELS_MOST][MOST], seed = 7;
    for (int depth = 1; depth <= LEVELS_MOST; depth++)
        for (int turn = 0; turn < 50; turn++) {
            struct levels_of of = {.nranks = 1 + turn % MOST, .depth = depth, .host = turn % depth};
            struct levels *levels;
            for (int k = 0; k < depth; k++) {
                of.key[k] = key[k];
                for (int rank = 0; rank < of.nranks; rank++)
                    key[k][rank] = mix64(seed++) % 5;
            }
            assert_int_equal(levels_make(&of, &levels), TUTTI_SUCCESS);
            check_order(levels);
            for (int i = 0; i < algorithm_count(); i++)
                if (algorithm_row(i)->colls >> COLL_ALLREDUCE & 1)
                    prove(algorithm_row(i), (struct shape){COLL_ALLREDUCE, of.nranks, 0, levels});
            free(levels);
        }
}

static struct shape two_by_four(bool in_turn, struct levels **levels)
{
    uint64_t host[8];
    for (int rank = 0; rank < 8; rank++)
        host[rank] = (uint64_t)(in_turn ? rank % 2 : rank / 4);
    *levels = make(host, 8);
    return (struct shape){.coll = COLL_ALLREDUCE, .nranks = 8, .levels = *levels};
}

/* Of the vector, what the busiest host sends to others. */
static double far_of(enum coll coll, const char *name, bool in_turn, bool knows)
{
    struct levels *levels, flat;
    struct cost_far out;
    struct shape shape = two_by_four(in_turn, &levels);
    shape.coll = coll;
    flat = *levels;
    flat.in_order = true; /* as if ranks were in order already: they keep their numbers */
    shape.levels = knows ? levels : &flat;
    assert_int_equal(cost_far_walk(algorithm_find(coll, name, strlen(name)), &shape, &out), TUTTI_SUCCESS);
    free(levels);
    return out.bytes;
}

static double far(const char *name, bool in_turn, bool knows)
{
    return far_of(COLL_ALLREDUCE, name, in_turn, knows);
}

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void price_of_the_network(void **state)
{
    assert_true(near(far("two-level", false, true), 1));
    assert_true(near(far("two-level", true, true), 1));
    assert_true(near(far("ring", false, true), 1.75));
    assert_true(near(far("ring", true, true), 1.75)); /* by position */
    assert_true(near(far("ring", true, false), 7));   /* every step leaves the host */
    assert_true(near(far_of(COLL_ALLGATHER, "two-level", false, true), 0.5));
    assert_true(near(far_of(COLL_ALLGATHER, "two-level", true, true), 0.5));
    assert_true(near(far_of(COLL_ALLGATHER, "ring", false, true), 0.875));
    assert_true(near(far_of(COLL_ALLGATHER, "ring", true, true), 3.5)); /* keeps the numbers */
}

/* Least of the vector that a host of four can have from the other one is half of it, and in turn what it gives. */
static void far_exchanges_are_small(void **state)
{
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        assert_true(near(far_of(COLL_ALLGATHER, "far-doubling", in_turn, true), 0.5));
        assert_true(near(far_of(COLL_REDUCE_SCATTER, "far-halving", in_turn, true), 0.5));
        assert_true(near(far_of(COLL_ALLREDUCE, "far-halving", in_turn, true), 1));
    }
    assert_true(near(far_of(COLL_ALLGATHER, "doubling", false, true), 2));
    assert_true(near(far_of(COLL_REDUCE_SCATTER, "halving", false, true), 2));
    assert_true(near(far_of(COLL_ALLREDUCE, "halving", false, true), 4));
}

/* Hosts of one rank each, of which those of a rack are near one another. */
static void hosts_of_one_rank(void **state)
{
    const uint64_t host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, rack[8] = {1, 2, 1, 2, 1, 2, 1, 2}, none[8] = {0},
                   same[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint64_t *const racks[3] = {rack, none, same};
    for (int i = 0; i < 3; i++) {
        const struct levels_of of = {.nranks = 8, .depth = 2, .host = 0, .key = {host, racks[i]}};
        struct levels *levels;
        assert_int_equal(levels_make(&of, &levels), TUTTI_SUCCESS);
        assert_null(levels_between_hosts(levels));
        assert_true(!levels_of_schedules(levels) == (i > 0));
        for (int row = 0; row < algorithm_count(); row++)
            for (int coll = 0; coll < COLL_COUNT; coll++)
                if (algorithm_row(row)->colls >> coll & 1)
                    prove(algorithm_row(row), (struct shape){(enum coll)coll, 8, 0, levels});
        if (i == 0) { /* the first peer of rank 0 is of the other rack, though rank 2 is not */
            struct action action[16];
            const struct shape shape = {COLL_ALLGATHER, 8, 0, levels};
            const struct algorithm *algorithm = algorithm_find(COLL_ALLGATHER, "far-doubling", 12);
            assert_int_equal(schedule_round(algorithm, &shape, 0, 0, action), 3);
            assert_int_equal(action[1].peer, 1);
            assert_int_equal(schedule_round(algorithm, &shape, 0, 2, action), 2);
            assert_int_equal(action[0].peer, 2);
        }
        free(levels);
    }
}

static void price_in_seconds(void **state)
{
    static const struct cost_model model = {.alpha = 1e-6, .overhead = 1e-7, .beta = 1e-10, .gamma = 1e-11};
    static const struct cost_network network = {.alpha = 2e-5, .overhead = 1e-6, .beta = 1e-8, .links = 1},
                                     four = {.alpha = 2e-5, .overhead = 1e-6, .beta = 1e-8, .links = 4};
    struct levels *levels;
    struct shape shape = two_by_four(false, &levels);
    struct cost_terms terms[2];
    struct cost_far crossing[2];
    double seconds[2], rails[2], sliced[2];
    for (int i = 0; i < 2; i++) {
        const struct algorithm *algorithm = algorithm_find(COLL_ALLREDUCE, i ? "ring" : "two-level", i ? 4 : 9);
        assert_int_equal(cost_terms(algorithm, &shape, &terms[i]), TUTTI_SUCCESS);
        assert_int_equal(cost_far_walk(algorithm, &shape, &crossing[i]), TUTTI_SUCCESS);
        seconds[i] = cost_far_seconds(&terms[i], &model, &crossing[i], &network, 1e6, 1);
        rails[i] = cost_far_seconds(&terms[i], &model, &crossing[i], &four, 1e8, 1);
        sliced[i] = cost_far_seconds(&terms[i], &model, &crossing[i], &four, 1e8, 16);
    }
    free(levels);
    assert_true(crossing[0].rounds == 2 && crossing[1].rounds == 14);
    assert_true(seconds[0] < 0.6 * seconds[1]);
    /* a ring's one pair of ranks has no use for further links */
    assert_true(near(crossing[0].rank_bytes, 0.25) && near(crossing[1].rank_bytes, 1.75));
    assert_true(rails[0] < 0.2 * rails[1]);
    assert_true(sliced[0] < 0.95 * rails[0]);
    assert_int_equal(cost_far_walk(algorithm_row(0), &(struct shape){COLL_ALLREDUCE, 8, 0}, &crossing[0]),
                     TUTTI_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups),
        cmocka_unit_test(depth_of_three),
        cmocka_unit_test(untold_and_torn),
        cmocka_unit_test(any_depth),
        cmocka_unit_test(all_algorithms),
        cmocka_unit_test(price_of_the_network),
        cmocka_unit_test(price_in_seconds),
        cmocka_unit_test(far_exchanges_are_small),
        cmocka_unit_test(hosts_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
