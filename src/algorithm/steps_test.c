/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in steps, on islands of 1 to 8 ranks: proved; their bytes on rails as the formula says; and in the order
 * that is told. With TUTTI_TEST_QUICK on fewer shapes. */
#include "schedule/steps.h"
#include "algorithm/algorithm.h"
#include "algorithm/composed.h"
#include "schedule/checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 64 /* ranks */

static const struct algorithm *two_level(enum coll coll)
{
    return algorithm_find(coll, "two-level", 9);
}

static int total_of(const int *sizes, int islands)
{
    int n = 0;
    for (int i = 0; i < islands; i++)
        n += sizes[i];
    return n;
}

/* Ranks one island behind the other, or dealt to them in turn. */
static struct levels *lay(const int *sizes, int islands, bool dealt)
{
    uint64_t host[MOST];
    int left[MOST], n = total_of(sizes, islands), rank = 0;
    struct levels *levels;
    memcpy(left, sizes, (size_t)islands * sizeof *sizes);
    for (int i = 0; rank < n; i = dealt || !left[i] ? (i + 1) % islands : i)
        if (left[i]) {
            left[i]--;
            host[rank++] = (uint64_t)i;
        }
    assert_int_equal(levels_of_hosts(host, n, &levels), TUTTI_SUCCESS);
    return levels;
}

typedef void (*shape_fn)(struct shape shape);

/* Every collective, and roots: all if they are few. */
static void on_levels(const struct levels *levels, shape_fn call)
{
    int n = levels->nranks, step = n <= 9 ? 1 : n / 3;
    for (int coll = 0; coll < COLL_COUNT; coll++)
        for (int root = 0; two_level((enum coll)coll) && root < n;
             root += schedule_has_root((enum coll)coll) ? step : n)
            call((struct shape){(enum coll)coll, n, root, levels});
}

static void on_shape(const int *sizes, int islands, shape_fn call)
{
    for (int dealt = 0; dealt < 2; dealt++) {
        struct levels *levels = lay(sizes, islands, dealt);
        on_levels(levels, call);
        free(levels);
    }
}

static void on_alike(shape_fn call)
{
    bool quick = getenv("TUTTI_TEST_QUICK") != NULL;
    for (int islands = 1; islands <= 8; islands++)
        for (int each = 1; each <= 8; each++) {
            int sizes[8] = {each, each, each, each, each, each, each, each};
            if (!quick || (islands * each <= 24))
                on_shape(sizes, islands, call);
        }
}

static void on_unlike(shape_fn call)
{
    static const int sizes[][8] = {
        {3, 1},    {1, 3},       {2, 3}, {4, 2, 3}, {8, 1},          {2, 2, 1}, {5, 3, 3, 1}, {1, 1, 2},
        {7, 3, 5}, {8, 5, 8, 6}, {6, 4}, {1, 8, 2}, {4, 4, 4, 4, 3}, {3, 8},    {5, 2},       {8, 7, 6, 5, 4, 3, 2, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int islands = 0;
        while (islands < 8 && sizes[i][islands])
            islands++;
        on_shape(sizes[i], islands, call);
    }
}

static void prove(struct shape shape)
{
    char why[512] = "";
    for (int in_place = 0; in_place < 1 + schedule_in_place_defined(shape.coll); in_place++)
        if (schedule_check(two_level(shape.coll), shape, in_place, why, sizeof why) != TUTTI_SUCCESS)
            fail_msg("%d islands of %d to %d: %s", levels_hosts(shape.levels)->groups,
                     levels_hosts(shape.levels)->least, levels_hosts(shape.levels)->most, why);
}

static void every_row_is_right(void **state)
{
    on_alike(prove);
    on_unlike(prove);
}

/* Blocks that leave their island, and between the ranks of which pairs. */
static void count_rails(struct shape shape)
{
    const struct algorithm *row = two_level(shape.coll);
    const struct level *hosts = levels_hosts(shape.levels);
    struct action *actions = calloc((size_t)row->actions(&shape) + 1, sizeof *actions);
    double blocks = 0;
    assert_non_null(actions);
    for (int round = 0; round < row->rounds(&shape); round++)
        for (int rank = 0; rank < shape.nranks; rank++) {
            int count = schedule_round(row, &shape, rank, round, actions);
            assert_true(count <= row->actions(&shape));
            for (int i = 0; i < count; i++) {
                const struct action *a = &actions[i];
                if (a->kind != ACTION_SEND || hosts->group[a->peer] == hosts->group[rank])
                    continue;
                blocks += a->nblocks;
                if (hosts->least == hosts->most)
                    assert_int_equal(shape.levels->position[rank] % hosts->most,
                                     shape.levels->position[a->peer] % hosts->most);
            }
        }
    double difference = blocks / row->blocks(&shape) - steps_rail_vectors(&shape);
    if (difference > 1e-9 || difference < -1e-9)
        fail_msg("%s, %d ranks on %d islands, root %d: %g vectors over rails, not %g", schedule_coll_name(shape.coll),
                 shape.nranks, hosts->groups, shape.root, blocks / row->blocks(&shape), steps_rail_vectors(&shape));
    free(actions);
}

static void rails_carry_what_is_told(void **state)
{
    on_alike(count_rails);
    on_unlike(count_rails);
}

/* Of equal islands in order an alltoall sends one message to each peer on the rail. */
static void one_message_a_rail_peer(void **state)
{
    static const int sizes[] = {4, 4, 4};
    struct levels *levels = lay(sizes, 3, false);
    struct shape shape = {COLL_ALLTOALL, 12, 0, levels};
    struct action actions[200];
    int messages = 0;
    assert_true(two_level(COLL_ALLTOALL)->actions(&shape) <= 200);
    int count = schedule_round(two_level(COLL_ALLTOALL), &shape, 5, 1, actions);
    for (int i = 0; i < count; i++)
        if (actions[i].kind == ACTION_SEND) {
            messages++;
            assert_int_equal(actions[i].peer % 4, 1);
            assert_int_equal(actions[i].nblocks, 4);
        }
    assert_int_equal(messages, 2);
    free(levels);
}

static void assert_span(enum coll coll, const struct levels *levels, int index, int begin, int end)
{
    struct shape shape = {coll, levels->nranks, 0, levels};
    struct steps_span span = steps_when(composed_steps(coll), &shape, index);
    if (span.begin != begin || span.end != end)
        fail_msg("%s: step %d has rounds %d to %d, not %d to %d", schedule_coll_name(coll), index, span.begin, span.end,
                 begin, end);
}

static void steps_come_in_order(void **state)
{
    struct levels *alike = lay((const int[]){2, 2, 2}, 3, false), *unlike = lay((const int[]){3, 1, 2}, 3, false);
    assert_span(COLL_ALLREDUCE, alike, 0, 0, 2);
    assert_span(COLL_ALLREDUCE, alike, 1, 1, 5); /* begins where the first reduces */
    assert_span(COLL_ALLREDUCE, alike, 2, 5, 6);
    assert_span(COLL_ALLGATHER, alike, 1, 0, 2); /* beside the first */
    assert_span(COLL_ALLGATHER, alike, 2, 1, 3);
    assert_span(COLL_ALLGATHER, unlike, 1, 1, 3);
    assert_span(COLL_ALLGATHER, unlike, 2, 2, 4);
    assert_span(COLL_SCATTER, alike, 2, 2, 2); /* columns of one rank have nothing to deal */
    assert_span(COLL_SCATTER, unlike, 2, 2, 3);
    free(alike);
    free(unlike);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_right),
        cmocka_unit_test(rails_carry_what_is_told),
        cmocka_unit_test(one_message_a_rail_peer),
        cmocka_unit_test(steps_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
