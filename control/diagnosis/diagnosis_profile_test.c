/* SPDX-License-Identifier: Apache-2.0 */
/* What calls, lanes and ranks took: made-up calls and segments, and the exact nanoseconds that follow from them. */
#include "diagnosis/diagnosis_testing.h"
#include "diagnosis/profile.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS NS_PER_MS

static struct blackbox_lane *lane_to(struct made_job *job, int from, int to)
{
    return made_lane(job->boxes[from], job->boxes[to], 0);
}

static struct profile look_within(struct made_job *job, uint64_t window)
{
    struct profile profile;
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK};
    assert_true(profile_look(&snapshot, window, &profile));
    return profile;
}

static struct profile look_at(struct made_job *job)
{
    return look_within(job, 0);
}

/* Two steps of two calls. The second call of the second step takes 20 ms. 3 ms are registering, 4 ms waiting for the
 * peer's word alone, 9 ms data on two lanes. */
static void calls_are_taken_apart(void **state)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_comm *comm = made_comm(job.boxes[rank], 1, "world", rank, 2);
        for (uint64_t seq = 10; seq < 14; seq++)
            made_call(comm, seq, (140 - 30 * (seq - 10)) * MS, (120 - 30 * (seq - 10)) * MS)->count = seq % 2 + 1;
    }
    job.boxes[0]->comms[0].ops[3].registering = 3 * MS;
    lane_to(&job, 0, 1);
    lane_to(&job, 0, 1);
    struct blackbox_lane *lane = &job.boxes[0]->lanes[0], *second = &job.boxes[0]->lanes[1];
    made_segment(lane, 13, 50, 46, 46, 40);
    made_segment(lane, 13, 50, 44, 44, 38); /* its word came while the other segment was under way */
    made_segment(second, 13, 40, 40, 39, 37);
    made_segment(second, 12, 70, 70, 70, 65);
    lane->segments[2] = lane->segments[0];
    lane->segments[2].comm = 2; /* of another communicator */
    lane->segment_count = 3;
    struct profile profile = look_at(&job);
    assert_int_equal(profile.call_count, 8);
    const struct profile_call *call = &profile.calls[3];
    assert_int_equal(call->op->seq, 13);
    assert_int_equal(call->step, 1);
    assert_string_equal(call->interface, "n0");
    assert_int_equal(call->bytes, 3000);
    assert_int_equal(call->registering, 3 * MS);
    assert_int_equal(call->control, 4 * MS);
    assert_int_equal(call->data, 9 * MS);
    assert_int_equal(call->rest, 4 * MS);
    assert_int_equal(profile.calls[2].bytes, 1000);
    assert_int_equal(profile.calls[1].step, 0);
    assert_int_equal(profile.calls[1].rest, 20 * MS);
    assert_null(profile.calls[7].interface);
    profile_free(&profile);
    lane->segments[0].position = 5; /* some segments of earlier calls may be forgotten */
    profile = look_at(&job);
    assert_int_equal(profile.call_count, 4);
    profile_free(&profile);
    made_free(&job);
}

static void lanes_have_pauses(void **state)
{
    struct made_job job = made_job(2);
    made_comm(job.boxes[0], 1, "world", 0, 2);
    made_comm(job.boxes[1], 1, "world", 1, 2);
    struct blackbox_lane *lane = lane_to(&job, 0, 1);
    made_segment(lane, 1, 100, 100, 100, 90);
    made_segment(lane, 1, 100, 100, 98, 88);
    made_segment(lane, 1, 60, 60, 60, 50);
    made_segment(lane, 1, 60, 60, 59, 50);
    lane->segments[3].status = WIRE_SEGMENT_LOST;
    lane_to(&job, 1, 0); /* a lane that has carried nothing */
    struct profile profile = look_at(&job);
    assert_int_equal(profile.lane_count, 1);
    assert_int_equal(profile.lanes[0].segments, 3);
    assert_int_equal(profile.lanes[0].bytes, 3000);
    assert_int_equal(profile.lanes[0].span, 50 * MS);
    assert_int_equal(profile.lanes[0].busy, 22 * MS);
    assert_int_equal(profile.lanes[0].gap, 38 * MS);
    assert_int_equal(profile.rank_count, 1);
    assert_false(profile.ranks[0].slow);
    profile_free(&profile);
    made_free(&job);
}

/* A communicator of messages only, but for its first call. One rank has forgotten that call, as its ring is full of
 * sends. */
static void messages_are_no_steps(void **state)
{
    struct made_job job = made_job(2);
    struct blackbox_comm *comm = made_comm(job.boxes[0], 1, "world", 0, 2);
    for (uint64_t seq = 11; seq < 14; seq++)
        made_call(comm, seq, (140 - 10 * (seq - 10)) * MS, (135 - 10 * (seq - 10)) * MS)->collective = WIRE_SEND;
    made_call(made_comm(job.boxes[1], 1, "world", 1, 2), 10, 140 * MS, 135 * MS);
    struct profile profile = look_at(&job);
    assert_int_equal(profile.call_count, 1);
    assert_int_equal(profile.calls[0].op->seq, 10);
    assert_int_equal(profile.calls[0].step, 0);
    profile_free(&profile);
    made_free(&job);
}

static bool of_rank_5(int from, int to)
{
    return from == 5;
}

static void a_slow_rank_is_told(void **state)
{
    struct made_job job = made_cluster(of_rank_5);
    struct profile profile = look_at(&job);
    assert_int_equal(profile.rank_count, CLUSTER_RANKS);
    for (size_t i = 0; i < profile.rank_count; i++)
        assert_int_equal(profile.ranks[i].slow, i == 5);
    profile_free(&profile);
    made_free(&job);
}

static bool of_nobody(int from, int to)
{
    return false;
}

/* Rank 4 has become slow in the last three of 12 segments: on the whole the rank was as quick as the others. */
static void a_rank_becomes_slow(void **state)
{
    struct made_job job = made_cluster(of_nobody);
    for (size_t i = 0; i < job.boxes[4]->lane_count; i++) {
        struct blackbox_lane *lane = &job.boxes[4]->lanes[i];
        for (size_t at = lane->segment_count - 3; at < lane->segment_count; at++)
            lane->segments[at].completed += 15 * MS;
    }
    for (uint64_t window = 0; window < 22 * NS_PER_S; window += 21500 * MS) {
        struct profile profile = look_within(&job, window);
        for (size_t i = 0; i < profile.rank_count; i++)
            assert_int_equal(profile.ranks[i].slow, i == 4 && window);
        assert_int_equal(profile.rank_count, CLUSTER_RANKS);
        profile_free(&profile);
    }
    made_free(&job);
}

static void nothing_is_survived(void **state)
{
    struct made_job job = made_job(0);
    struct profile profile = look_at(&job);
    assert_int_equal(profile.call_count + profile.lane_count + profile.rank_count, 0);
    profile_free(&profile);
    made_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_taken_apart), cmocka_unit_test(lanes_have_pauses),
        cmocka_unit_test(messages_are_no_steps), cmocka_unit_test(a_slow_rank_is_told),
        cmocka_unit_test(a_rank_becomes_slow),   cmocka_unit_test(nothing_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
