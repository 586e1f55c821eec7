/* SPDX-License-Identifier: Apache-2.0 */
/* Small wrong algorithms, each with one sin, and the sentence that the checker finds for it; and the facts of
 * schedule.h. */
#include "schedule/checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int one(const struct shape *shape)
{
    return 1;
}

static int two(const struct shape *shape)
{
    return 2;
}

static int eight(const struct shape *shape)
{
    return 8;
}

static int ranks(const struct shape *shape)
{
    return shape->nranks;
}

static int none(const struct shape *shape)
{
    return 0;
}

static int scratch_ranks(const struct shape *shape, int rank)
{
    return shape->nranks;
}

typedef int (*round_fn)(const struct shape *, int, int, struct action *);

static struct algorithm sinner(enum coll coll, int (*rounds)(const struct shape *), int (*blocks)(const struct shape *),
                               round_fn round)
{
    return (struct algorithm){.name = "sinner",
                              .colls = 1u << coll,
                              .rounds = rounds,
                              .blocks = blocks,
                              .scratch = scratch_ranks,
                              .actions = eight,
                              .round = round};
}

static void expect(const struct algorithm *algorithm, struct shape shape, bool in_place, const char *sentence)
{
    char why[512] = "";
    tutti_result_t result = schedule_check(algorithm, shape, in_place, why, sizeof why);
    if (!sentence && result != TUTTI_SUCCESS)
        fail_msg("refused: %s", why);
    if (sentence && (result != TUTTI_INTERNAL_ERROR || !strstr(why, sentence)))
        fail_msg("wanted '%s', got result %d, '%s'", sentence, result, why);
}

static struct action send_in(int peer, int block)
{
    return (struct action){
        .kind = ACTION_SEND, .src_buffer = BUFFER_IN, .peer = peer, .src_block = block, .block = block, .nblocks = 1};
}

static struct action receive(int peer, enum buffer buffer, int at, int block)
{
    return (struct action){.kind = ACTION_RECV,
                           .dst_buffer = (uint8_t)buffer,
                           .peer = peer,
                           .dst_block = at,
                           .block = block,
                           .nblocks = 1};
}

static struct action copy_in(enum buffer buffer, int at, int block)
{
    return (struct action){.kind = ACTION_COPY,
                           .dst_buffer = (uint8_t)buffer,
                           .src_block = block,
                           .dst_block = at,
                           .block = block,
                           .nblocks = 1};
}

/* Everyone has everything in SCRATCH, but adds it up in an order of its own: the right set, other bits. */
static int own_order(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (round == 1) {
        actions[0] = (struct action){.kind = ACTION_REDUCE,
                                     .src_buffer = BUFFER_SCRATCH,
                                     .dst_buffer = BUFFER_OUT,
                                     .final = 1,
                                     .nblocks = 1,
                                     .nsrc = n};
        return 1;
    }
    actions[count++] = copy_in(BUFFER_SCRATCH, 0, 0);
    for (int i = 1; i < n; i++) {
        actions[count++] = send_in((me + i) % n, 0);
        actions[count++] = receive((me + i) % n, BUFFER_SCRATCH, i, 0);
    }
    return count;
}

static void other_order_on_each_rank(void **state)
{
    struct algorithm a = sinner(COLL_ALLREDUCE, two, one, own_order);
    expect(&a, (struct shape){COLL_ALLREDUCE, 3, 0}, false, "another order");
    expect(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, false, NULL); /* a + b is b + a */
}

/* Each sums one half, then the other, from IN: right, but in place the second round sends what the first has changed.
 */
static int swap_halves(const struct shape *shape, int me, int round, struct action *actions)
{
    int peer = 1 - me;
    actions[0] = round == 0 ? send_in(peer, peer) : send_in(peer, me);
    actions[1] = (struct action){.kind = ACTION_RECV_REDUCE,
                                 .dst_buffer = BUFFER_OUT,
                                 .final = 1,
                                 .peer = peer,
                                 .src_block = round == 0 ? me : peer,
                                 .dst_block = round == 0 ? me : peer,
                                 .block = round == 0 ? me : peer,
                                 .nblocks = 1};
    return 2;
}

static void wrong_only_in_place(void **state)
{
    struct algorithm a = sinner(COLL_ALLREDUCE, two, ranks, swap_halves);
    expect(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, false, NULL);
    expect(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, true, "rank");
}

static int calls;

static int moody(const struct shape *shape, int me, int round, struct action *actions)
{
    actions[0] = copy_in(BUFFER_OUT, 0, 0);
    actions[0].block = calls++ % 2;
    return 1;
}

static int forgetful(const struct shape *shape, int me, int round, struct action *actions)
{
    actions[0].kind = ACTION_COPY;
    return 1;
}

static int talkative(const struct shape *shape, int me, int round, struct action *actions)
{
    return 9;
}

static void not_a_pure_function(void **state)
{
    struct algorithm a = sinner(COLL_ALLREDUCE, one, one, moody);
    struct shape shape = {COLL_ALLREDUCE, 1, 0};
    expect(&a, shape, false, "two calls gave different actions");
    a.round = forgetful;
    expect(&a, shape, false, "two calls gave different actions");
    a.round = talkative;
    expect(&a, shape, false, "at most 8 were declared");
}

/* One rank, one bad action. */
static struct action bad;

static int one_bad(const struct shape *shape, int me, int round, struct action *actions)
{
    actions[0] = bad;
    return 1;
}

static void refuse(struct action action, const char *sentence)
{
    struct algorithm a = sinner(COLL_ALLREDUCE, one, two, one_bad);
    bad = action;
    expect(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, false, sentence);
}

static void single_actions(void **state)
{
    refuse((struct action){.kind = 9, .nblocks = 1}, "unknown action");
    refuse(send_in(2, 0), "with peer 2");
    refuse(send_in(0, 0), "with peer 0");
    refuse(send_in(-1, 0), "with peer -1");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = BUFFER_OUT}, "of 0 blocks");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = BUFFER_OUT, .nblocks = 3}, "vector blocks 0..2 of 2");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = BUFFER_OUT, .block = 2, .nblocks = 1},
           "vector blocks 2..2 of 2");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = BUFFER_OUT, .block = 1, .nblocks = 1},
           "names vector block 1");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = BUFFER_IN, .nblocks = 1}, "writes IN");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = 7, .nblocks = 1}, "outside buffer 7");
    refuse(copy_in(BUFFER_SCRATCH, 2, 0), "outside buffer 2");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = BUFFER_OUT, .nblocks = 1, .final = 1}, "does not have");
    refuse((struct action){.kind = ACTION_COPY, .dst_buffer = BUFFER_OUT, .nblocks = 1, .peer = 1}, "does not have");
    refuse((struct action){.kind = ACTION_COPY, .src_buffer = BUFFER_SCRATCH, .dst_buffer = BUFFER_OUT, .nblocks = 1},
           "undefined");
    refuse((struct action){.kind = ACTION_REDUCE, .src_buffer = BUFFER_SCRATCH, .dst_buffer = BUFFER_OUT, .nblocks = 1},
           "0 sources");
    refuse((struct action){.kind = ACTION_REDUCE, .dst_buffer = BUFFER_OUT, .nblocks = 1, .nsrc = 2},
           "different blocks");
    refuse(
        (struct action){
            .kind = ACTION_REDUCE, .src_buffer = BUFFER_SCRATCH, .dst_buffer = BUFFER_SCRATCH, .nblocks = 1, .nsrc = 1},
        "overlaps");
    refuse(send_in(1, 0), "rank 1: send with peer 1");
    refuse(receive(1, BUFFER_OUT, 0, 0), "rank 1: recv with peer 1");
}

/* Hazards: rank 0 sends OUT[0] while it receives into it, or receives twice into one block. */
static int hazard_kind;

static int hazards(const struct shape *shape, int me, int round, struct action *actions)
{
    int peer = 1 - me;
    actions[0] = copy_in(BUFFER_OUT, 0, 0);
    actions[1] = send_in(peer, 0);
    actions[1].src_buffer = hazard_kind == 0 ? BUFFER_OUT : BUFFER_IN;
    actions[2] = receive(peer, BUFFER_OUT, 0, 0);
    actions[3] = send_in(peer, 0);
    actions[4] = actions[2];
    return hazard_kind == 1 ? 5 : 3;
}

static void hazards_in_a_round(void **state)
{
    struct algorithm a = sinner(COLL_ALLREDUCE, one, one, hazards);
    hazard_kind = 0;
    expect(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, false, "while a recv writes it");
    hazard_kind = 1;
    expect(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, false, "written twice");
    hazard_kind = 2;
    expect(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, true, "while a recv writes it"); /* IN is OUT */
}

static int unmatched_kind;

static int unmatched(const struct shape *shape, int me, int round, struct action *actions)
{
    if (unmatched_kind == 0 && me == 0)
        actions[0] = send_in(1, 0);
    else if (unmatched_kind == 1 && me == 0)
        actions[0] = receive(1, BUFFER_OUT, 0, 0);
    else if (unmatched_kind == 2)
        actions[0] = me == 0 ? send_in(1, 0) : receive(0, BUFFER_OUT, 1, 1);
    else
        return 0;
    return 1;
}

static void messages_without_partner(void **state)
{
    struct algorithm a = sinner(COLL_ALLREDUCE, one, two, unmatched);
    struct shape shape = {COLL_ALLREDUCE, 2, 0};
    unmatched_kind = 0;
    expect(&a, shape, false, "send to rank 1 has no receive");
    unmatched_kind = 1;
    expect(&a, shape, false, "receive from rank 1 has no send");
    unmatched_kind = 2;
    expect(&a, shape, false, "receives blocks 1+1 where rank 0 sends 0+1");
    unmatched_kind = 3;
    expect(&a, shape, false, "0 contributions, not the 2");
}

static int short_barrier(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks;
    actions[0] = (struct action){.kind = ACTION_SEND, .peer = (me + 1) % n};
    actions[1] = (struct action){.kind = ACTION_RECV, .dst_buffer = BUFFER_IN, .peer = (me + n - 1) % n};
    return 2;
}

static void barrier_that_is_too_short(void **state)
{
    struct algorithm a = sinner(COLL_BARRIER, two, none, short_barrier);
    expect(&a, (struct shape){COLL_BARRIER, 4, 0}, false, "leaves the barrier before");
    expect(&a, (struct shape){COLL_BARRIER, 3, 0}, false, NULL);
}

static int reducing_gather(const struct shape *shape, int me, int round, struct action *actions)
{
    actions[0] = (struct action){
        .kind = ACTION_REDUCE, .src_buffer = BUFFER_IN, .dst_buffer = BUFFER_OUT, .nblocks = 1, .nsrc = 1};
    return 1;
}

static int scratch_alltoallv(const struct shape *shape, int me, int round, struct action *actions)
{
    actions[0] = copy_in(BUFFER_SCRATCH, 0, me);
    return 1;
}

static void rules_of_collectives(void **state)
{
    char why[256];
    struct algorithm a = sinner(COLL_GATHER, one, ranks, reducing_gather);
    expect(&a, (struct shape){COLL_GATHER, 2, 0}, false, "reduces in a collective that does not");
    a = sinner(COLL_ALLTOALLV, one, ranks, scratch_alltoallv);
    expect(&a, (struct shape){COLL_ALLTOALLV, 2, 0}, false, "scratch has no block sizes");
    assert_int_equal(schedule_check(&a, (struct shape){COLL_ALLTOALLV, 2, 0}, true, why, sizeof why),
                     TUTTI_INVALID_ARGUMENT);
    assert_int_equal(schedule_check(&a, (struct shape){COLL_ALLREDUCE, 2, 0}, false, why, sizeof why),
                     TUTTI_INVALID_ARGUMENT);
    assert_int_equal(schedule_check(&a, (struct shape){COLL_ALLTOALLV, 0, 0}, false, why, sizeof why),
                     TUTTI_INVALID_ARGUMENT);
    assert_int_equal(schedule_check(&a, (struct shape){COLL_ALLTOALLV, 2, 2}, false, why, sizeof why),
                     TUTTI_INVALID_ARGUMENT);
}

static void names(void **state)
{
    for (int coll = 0; coll < COLL_COUNT; coll++) {
        const char *name = schedule_coll_name((enum coll)coll);
        assert_int_equal(schedule_coll_find(name, strlen(name)), coll);
    }
    assert_int_equal(schedule_coll_find("ReduceScatter", 13), COLL_REDUCE_SCATTER);
    assert_int_equal(schedule_coll_find("reduce_scatter", 14), COLL_REDUCE_SCATTER);
    assert_int_equal(schedule_coll_find("AllReduce:ring", 9), COLL_ALLREDUCE);
    assert_int_equal(schedule_coll_find("all", 3), COLL_COUNT);
    assert_int_equal(schedule_coll_find("", 0), COLL_COUNT);
    assert_string_equal(schedule_coll_name(COLL_COUNT), "unknown");
    assert_string_equal(schedule_kind_name(ACTION_RECV_REDUCE), "recv-reduce");
    assert_string_equal(schedule_kind_name((enum action_kind)77), "unknown");
}

static void spans(void **state)
{
    /* 10 elements in 4 blocks of 3: 3 3 3 1. In 8 blocks of 2: three are empty. */
    assert_int_equal(schedule_span(10, 3, 0, 1), 3);
    assert_int_equal(schedule_span(10, 3, 3, 1), 1);
    assert_int_equal(schedule_span(10, 3, 2, 2), 4);
    assert_int_equal(schedule_span(10, 2, 5, 3), 0);
    assert_int_equal(schedule_span(10, 2, 0, 8), 10);
    assert_int_equal(schedule_span(0, 0, 0, 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_order_on_each_rank),
        cmocka_unit_test(wrong_only_in_place),
        cmocka_unit_test(not_a_pure_function),
        cmocka_unit_test(single_actions),
        cmocka_unit_test(hazards_in_a_round),
        cmocka_unit_test(messages_without_partner),
        cmocka_unit_test(barrier_that_is_too_short),
        cmocka_unit_test(rules_of_collectives),
        cmocka_unit_test(names),
        cmocka_unit_test(spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
