/* SPDX-License-Identifier: Apache-2.0 */
/* The checker can fail: every algorithm with one action changed, whichever it is, is refused. */
#include "algorithm/algorithm.h"
#include "schedule/checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum mutation {
    DROP,
    TWICE,
    OTHER_PEER,
    OTHER_SOURCE,
    OTHER_TARGET,
    OTHER_VECTOR_BLOCK,
    LONGER,
    REDUCE_TOO_MUCH,
    REDUCE_TOO_LITTLE,
    FLIP_FINAL,
    MUTATIONS
};
static const char *const mutation_names[] = {
    "drop",   "twice",           "other peer",        "other source", "other target", "other vector block",
    "longer", "reduce too much", "reduce too little", "flip final"};

static struct {
    const struct algorithm *original;
    int rank, round, index;
    enum mutation mutation;
    bool applied;
} mutant;

static bool is_local(const struct action *a)
{
    return a->kind == ACTION_COPY || a->kind == ACTION_REDUCE;
}

/* Insert a copy of the action after it, or take it out. */
static int shift(struct action *actions, int count, int index, int by)
{
    memmove(actions + index + (by > 0), actions + index + (by < 0),
            (size_t)(count - index - (by < 0)) * sizeof *actions);
    return count + by;
}

/* Changes *a; false where this mutation means nothing for it, or would not change what it does. */
static bool change(struct action *a, const struct shape *shape, int rank)
{
    bool reads = a->kind != ACTION_RECV, writes = a->kind != ACTION_SEND, empty = a->nblocks == 0;
    switch (mutant.mutation) {
    case OTHER_PEER:
        if (is_local(a) || shape->nranks < 3)
            return false;
        do
            a->peer = (a->peer + 1) % shape->nranks;
        while (a->peer == rank);
        return true;
    case OTHER_SOURCE:
        a->src_block++;
        return reads && !empty;
    case OTHER_TARGET:
        a->dst_block++;
        return writes && !empty;
    case OTHER_VECTOR_BLOCK:
        a->block++;
        return schedule_cuts_vector(shape->coll);
    case LONGER:
        a->nblocks++;
        return a->kind != ACTION_COPY; /* what a copy adds to SCRATCH may be overwritten before it is read */
    case REDUCE_TOO_MUCH:
        if (a->kind == ACTION_REDUCE)
            a->nsrc++;
        else if (a->kind == ACTION_RECV) {
            a->kind = ACTION_RECV_REDUCE;
            a->src_buffer = a->dst_buffer;
            a->src_block = a->dst_block;
        } else
            return false;
        return true;
    case REDUCE_TOO_LITTLE:
        if (a->kind == ACTION_REDUCE)
            a->nsrc--;
        else if (a->kind == ACTION_RECV_REDUCE) {
            a->kind = ACTION_RECV;
            a->src_buffer = a->final = 0;
            a->src_block = 0;
        } else
            return false;
        return true;
    default:
        a->final = !a->final;
        return a->kind == ACTION_REDUCE || a->kind == ACTION_RECV_REDUCE;
    }
}

static int mutant_actions(const struct shape *shape)
{
    return mutant.original->actions(shape) + 1;
}

/* There all ranks get everybody's contribution, and the root alone makes anything of that. */
static bool is_for_nothing(const struct shape *shape, int rank, const struct action *a)
{
    return shape->coll == COLL_REDUCE && strcmp(mutant.original->name, "one-shot-lines") == 0 && rank != shape->root &&
           a->kind != ACTION_SEND;
}

static int mutant_round(const struct shape *shape, int rank, int round, struct action *actions)
{
    int count = mutant.original->round(shape, rank, round, actions);
    if (rank != mutant.rank || round != mutant.round || mutant.index >= count)
        return count;
    struct action *a = &actions[mutant.index];
    if (is_for_nothing(shape, rank, a))
        return count;
    if (mutant.mutation == DROP || (mutant.mutation == TWICE && !is_local(a))) {
        mutant.applied = true;
        return shift(actions, count, mutant.index, mutant.mutation == DROP ? -1 : 1);
    }
    struct action changed = *a;
    if (mutant.mutation == TWICE || !change(&changed, shape, rank))
        return count;
    *a = changed;
    mutant.applied = true;
    return count;
}

/* Returns 1 if the mutation applied (and was refused). */
static int try_one(const struct algorithm *original, struct shape shape)
{
    char why[512] = "";
    struct algorithm changed = *original;
    changed.round = mutant_round;
    changed.actions = mutant_actions;
    mutant.applied = false;
    tutti_result_t result = schedule_check(&changed, shape, false, why, sizeof why);
    if (mutant.applied && result != TUTTI_INTERNAL_ERROR)
        fail_msg("%s %s with %d ranks passed with '%s' at rank %d, round %d, action %d", schedule_coll_name(shape.coll),
                 original->name, shape.nranks, mutation_names[mutant.mutation], mutant.rank, mutant.round,
                 mutant.index);
    return mutant.applied;
}

static int actions_of(const struct algorithm *original, const struct shape *shape)
{
    struct action *actions = calloc((size_t)original->actions(shape) + 1, sizeof *actions);
    assert_non_null(actions);
    int count = original->round(shape, mutant.rank, mutant.round, actions);
    free(actions);
    return count;
}

static int try_all(const struct algorithm *original, struct shape shape)
{
    int tried = 0;
    mutant.original = original;
    for (mutant.rank = 0; mutant.rank < shape.nranks; mutant.rank++)
        for (mutant.round = 0; mutant.round < original->rounds(&shape); mutant.round++)
            for (mutant.index = 0; mutant.index < actions_of(original, &shape); mutant.index++)
                for (int mutation = 0; mutation < MUTATIONS; mutation++) {
                    mutant.mutation = (enum mutation)mutation;
                    tried += try_one(original, shape);
                }
    return tried;
}

/* The checker is what is tested, and not the ranks: a sanitizer sees all of it with few of them. */
static bool quick(void)
{
    return getenv("TUTTI_TEST_QUICK") != NULL;
}

static void every_mutant_is_refused(void **state)
{
    static const int sizes[] = {2, 3, 5, 8};
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++)
            for (int s = 0; s < (quick() ? 3 : 4); s++) {
                struct shape shape = {(enum coll)coll, sizes[s], schedule_has_root((enum coll)coll) ? 1 : 0};
                if (schedule_fits(algorithm_row(i), &shape))
                    assert_true(try_all(algorithm_row(i), shape) > 2);
            }
}

/* Hosts of ranks 0, 1, 2...: alike, unlike, in turn, alone. */
static void every_mutant_on_hosts_is_refused(void **state)
{
    static const struct {
        int n;
        uint64_t host[8];
    } hosts[] = {{4, {0, 0, 1, 1}},       {4, {0, 0, 0, 1}}, {6, {0, 1, 0, 1, 0, 1}},   {6, {0, 0, 1, 1, 2, 2}},
                 {6, {0, 1, 1, 0, 1, 2}}, {3, {0, 1, 2}},    {7, {0, 0, 1, 1, 1, 1, 1}}};
    for (size_t h = 0; h < (quick() ? 3 : sizeof hosts / sizeof *hosts); h++) {
        struct levels *levels;
        assert_int_equal(levels_of_hosts(hosts[h].host, hosts[h].n, &levels), TUTTI_SUCCESS);
        for (int i = 0; i < algorithm_count(); i++)
            for (int coll = 0; coll < COLL_COUNT; coll++)
                for (int root = 0; root < (schedule_has_root((enum coll)coll) ? 2 : 1); root++) {
                    struct shape shape = {(enum coll)coll, hosts[h].n, root, levels};
                    if ((algorithm_row(i)->flags & ALGORITHM_LEVELS) && schedule_fits(algorithm_row(i), &shape))
                        assert_true(try_all(algorithm_row(i), shape) > 2);
                }
        free(levels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutant_is_refused),
        cmocka_unit_test(every_mutant_on_hosts_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
