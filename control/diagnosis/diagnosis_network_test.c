/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of ranks went: made-up calls and segments, and the exact nanoseconds that follow from them. */
#include "diagnosis/diagnosis_testing.h"
#include "diagnosis/network.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS NS_PER_MS

/* Ranks of communicator 1, each on a host of its own, dead since MADE_NOW at the latest: nothing is seen after the last
 * call. */
static struct made_job made_pair(int ranks)
{
    struct made_job job = made_job((size_t)ranks);
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(job.boxes[rank]->header.host, sizeof job.boxes[rank]->header.host, "node%d", rank);
        job.boxes[rank]->alive = false;
        made_comm(job.boxes[rank], 1, "world", rank, ranks);
    }
    return job;
}

static struct blackbox_lane *lane_to(struct made_job *job, int from, int to)
{
    return made_lane(job->boxes[from], job->boxes[to], 0);
}

static struct network_report look_at(struct made_job *job)
{
    struct network_report report;
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK};
    assert_true(network_look(&snapshot, &report));
    return report;
}

static void assert_ms(const struct moments *moments, enum moment moment, uint64_t ms)
{
    if (moments->ns[moment] != ms * MS)
        fail_msg("%s: %.3f ms, not %llu", moment_name(moment), (double)moments->ns[moment] / 1e6,
                 (unsigned long long)ms);
}

/* Rank 0 comes 100 ms before now, rank 1 60 ms; both are through 10 ms before now. Two segments of rank 0 wait for
 * credit, for data, and for a processor. */
static void each_moment_has_one_cause(void **state)
{
    struct made_job job = made_pair(2);
    made_call(job.boxes[0]->comms, 0, 100 * MS, 10 * MS);
    made_call(job.boxes[1]->comms, 0, 60 * MS, 10 * MS);
    struct blackbox_lane *lane = lane_to(&job, 0, 1);
    made_segment(lane, 0, 55, 50, 48, 40); /* receiver late 5, no processor 2, network 8 */
    made_segment(lane, 0, 30, 35, 30, 25); /* sender late 5, network 5 */
    struct network_report report = look_at(&job);
    assert_int_equal(report.count, 1);
    const struct network_job *one = report.jobs;
    assert_string_equal(one->name, "world");
    assert_int_equal(one->ranks, 2);
    assert_int_equal(one->hosts, 2);
    assert_int_equal(one->without, 1);
    assert_ms(&one->time, MOMENT_NETWORK, 13);
    assert_ms(&one->time, MOMENT_LATE, 40);
    assert_ms(&one->time, MOMENT_STARVED, 2);
    assert_ms(&one->time, MOMENT_RECEIVER, 5);
    assert_ms(&one->time, MOMENT_SENDER, 5);
    assert_ms(&one->time, MOMENT_PROGRAM, 0);
    assert_ms(&one->time, MOMENT_WAITS, 90 - 13 - 40 - 2 - 5 - 5 + 50);
    assert_int_equal(one->time.charged, 26 * MS); /* rank 1 has no data of its own, and waits for rank 0's */
    assert_int_equal(one->seen, 70 * MS);
    network_free(&report);
    made_free(&job);
}

/* Two segments of two lanes at the same time count once for a rank. Outside of calls only the network counts. */
static void lanes_overlap(void **state)
{
    struct made_job job = made_pair(2);
    for (int rank = 0; rank < 2; rank++) {
        made_call(job.boxes[rank]->comms, 0, 100 * MS, 80 * MS);
        made_call(job.boxes[rank]->comms, 1, 40 * MS, 20 * MS);
    }
    made_segment(lane_to(&job, 0, 1), 0, 95, 95, 95, 85);
    struct blackbox_lane *second = lane_to(&job, 0, 1);
    made_segment(second, 0, 95, 95, 90, 70); /* the call ended first */
    made_segment(second, 0, 65, 65, 60, 55); /* in no call */
    struct network_report report = look_at(&job);
    const struct moments *time = &report.jobs->time;
    assert_ms(time, MOMENT_NETWORK, 25 + 5);
    assert_ms(time, MOMENT_PROGRAM, 40 - 10 - 5 + 40);
    assert_ms(time, MOMENT_STARVED, 0);
    assert_int_equal(moments_sum(time), 160 * MS);
    network_free(&report);
    made_free(&job);
}

/* Forgotten times are not told: the ring of a lane begins in the middle of the second call. */
static void what_was_forgotten_is_left_out(void **state)
{
    struct made_job job = made_pair(2);
    for (int rank = 0; rank < 2; rank++)
        for (uint64_t seq = 0; seq < 4; seq++)
            made_call(job.boxes[rank]->comms, seq, (100 - 20 * seq) * MS, (90 - 20 * seq) * MS);
    struct blackbox_lane *lane = lane_to(&job, 0, 1);
    made_segment(lane, 0, 75, 75, 75, 72);
    made_segment(lane, 0, 55, 55, 55, 52);
    lane->segments[0].position = 7;
    struct network_report report = look_at(&job);
    assert_int_equal(report.jobs->seen, (75 - 30 + 100 - 30) / 2 * MS + MS / 2);
    assert_ms(&report.jobs->time, MOMENT_NETWORK, 6);
    /* each call is a step, those of rank 0 from its third on */
    assert_int_equal(report.jobs->period, 1);
    assert_int_equal(report.jobs->step_count, 3);
    assert_int_equal(report.jobs->steps[0].ranks, 1);
    assert_int_equal(report.jobs->steps[2].ranks, 2);
    assert_int_equal(report.jobs->steps[2].first, 2);
    assert_int_equal(moments_sum(&report.jobs->steps[2].time), 40 * MS);
    assert_ms(&report.jobs->steps[2].time, MOMENT_NETWORK, 3);
    assert_ms(&report.jobs->steps[2].time, MOMENT_PROGRAM, 20);
    network_free(&report);
    made_free(&job);
}

/* Calls of three sizes, again and again. */
static void steps_repeat(void **state)
{
    struct made_job job = made_pair(2);
    for (int rank = 0; rank < 2; rank++)
        for (uint64_t seq = 0; seq < 11; seq++)
            made_call(job.boxes[rank]->comms, seq, (110 - 10 * seq) * MS, (105 - 10 * seq) * MS)->count = 1 + seq % 3;
    struct network_report report = look_at(&job);
    assert_int_equal(report.jobs->period, 3);
    assert_int_equal(report.jobs->step_count, 3); /* the fourth has not ended */
    assert_int_equal(report.jobs->steps[1].first, 3);
    assert_int_equal(report.jobs->steps[1].longest, 30 * MS);
    assert_ms(&report.jobs->steps[1].time, MOMENT_WAITS, 30);
    network_free(&report);
    made_free(&job);
}

static void interfaces_are_summed(void **state)
{
    struct made_job job = made_pair(3);
    for (int rank = 0; rank < 3; rank++)
        made_call(job.boxes[rank]->comms, 0, 100 * MS, 0);
    struct blackbox_lane *lane = lane_to(&job, 0, 1);
    lane->rate = 100;
    for (int i = 0; i < 8; i++)
        made_segment(lane, 0, 90 - 5 * i, 90 - 5 * i, 90 - 5 * i, 88 - 5 * i);
    made_segment(lane, 0, 10, 10, 10, 9);
    lane->segments[8].length = 5;
    lane->segments[9] = lane->segments[8];
    lane->segments[9].status = WIRE_SEGMENT_LOST;
    lane->segment_count++;
    made_segment(lane_to(&job, 0, 2), 0, 89, 89, 89, 86); /* the same interface, a millisecond of it at the same time */
    struct network_report report = look_at(&job);
    assert_int_equal(report.jobs->interface_count, 1);
    const struct network_interface *one = report.jobs->interfaces;
    assert_string_equal(one->host, "node0");
    assert_string_equal(one->name, "n0");
    assert_int_equal(one->segments, 10);
    assert_int_equal(one->bytes, 9005);
    assert_int_equal(one->busy, (8 * 2 + 1 + 2) * MS);
    assert_int_equal(one->length, 1000);
    assert_int_equal(one->median, 2 * MS);
    assert_int_equal(one->rate, 100);
    network_free(&report);
    made_free(&job);
}

static void jobs_are_apart(void **state)
{
    struct made_job job = made_job(5);
    for (int i = 0; i < 5; i++)
        made_call(made_comm(job.boxes[i], i < 2 ? 1 : 2, i < 2 ? "small" : "large", i < 2 ? i : i - 2, i < 2 ? 2 : 3),
                  0, 50 * MS, 10 * MS);
    struct network_report report = look_at(&job);
    assert_int_equal(report.count, 2);
    assert_string_equal(report.jobs[0].name, "large");
    assert_int_equal(report.jobs[0].ranks, 3);
    assert_int_equal(report.jobs[0].hosts, 1);
    assert_int_equal(report.jobs[0].without, 3);
    assert_int_equal(report.jobs[1].ranks, 2);
    network_free(&report);
    made_free(&job);
}

/* ---- What is said ---- */

static void assert_concludes(struct made_job *job, const char *words)
{
    char said[FINDING_SENTENCE];
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK};
    struct findings findings = diagnosis_find(&snapshot);
    struct network_report report = look_at(job);
    network_conclude(report.jobs, &findings, said, sizeof said);
    if (!strstr(said, words))
        fail_msg("\"%s\" does not say \"%s\"", said, words);
    network_free(&report);
    findings_free(&findings);
}

static bool at_host_1(int from, int to)
{
    return from / CLUSTER_EACH == 1 || to / CLUSTER_EACH == 1;
}

static bool nowhere(int from, int to)
{
    return false;
}

static void play_calls(struct made_job *job, uint64_t last)
{
    for (size_t i = 0; i < job->count; i++)
        for (uint64_t seq = 0; seq < 31; seq++)
            made_call(job->boxes[i]->comms, seq, 31 * NS_PER_S - seq * NS_PER_S, 31 * NS_PER_S - seq * NS_PER_S - last);
}

static void it_concludes(void **state)
{
    struct made_job job = made_cluster(nowhere);
    play_calls(&job, 10 * MS);
    assert_concludes(&job, "nothing says that the network is to blame, nor has it much of the time: ");
    made_free(&job);
    job = made_cluster(at_host_1);
    play_calls(&job, 80 * MS);
    assert_concludes(&job, "the network is to blame, as a verdict says: ");
    made_free(&job);
    job = made_pair(2);
    made_call(job.boxes[0]->comms, 0, 100 * MS, 0);
    made_call(job.boxes[1]->comms, 0, 100 * MS, 0);
    assert_concludes(&job, "so nothing is said of the network");
    made_segment(lane_to(&job, 0, 1), 0, 90, 90, 90, 70);
    assert_concludes(&job, "but it has a part of the time: ranks had data on its way between hosts for 10.0 % of it, "
                           "20.0 % if a call counts as with the rank whose data took longest");
    job.boxes[0]->lanes[0].segments[0].completed = MADE_NOW;
    assert_concludes(&job, "but it has much of the time: ");
    made_free(&job);
}

/* ---- Numbers that make no sense ---- */

static void nonsense_is_survived(void **state)
{
    struct made_job job = made_pair(2);
    const uint64_t odd[] = {0, 1, UINT64_MAX, UINT64_MAX / 2, MADE_NOW, 1ull << 63};
    struct blackbox_lane *lane = lane_to(&job, 0, 1);
    for (size_t i = 0; i < 16; i++) {
        struct blackbox_op *op = made_call(job.boxes[i % 2]->comms, odd[i % 6], 100, 50);
        op->begin = odd[(i + 1) % 6];
        op->end = odd[(i + 3) % 6];
        op->position = odd[(i / 6) % 6];
        made_segment(lane, 0, 9, 8, 7, 6);
        lane->segments[i].ready = odd[i % 6];
        lane->segments[i].credit = odd[(i + 2) % 6];
        lane->segments[i].posted = odd[(i / 2) % 6];
        lane->segments[i].completed = odd[(i / 3) % 6];
    }
    struct network_report report = look_at(&job);
    network_free(&report);
    made_free(&job);
    job = made_job(0);
    report = look_at(&job);
    assert_int_equal(report.count, 0);
    network_free(&report);
    made_free(&job);
    job = made_job(3); /* without communicators */
    report = look_at(&job);
    assert_int_equal(report.count, 0);
    network_free(&report);
    made_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_moment_has_one_cause),
        cmocka_unit_test(lanes_overlap),
        cmocka_unit_test(what_was_forgotten_is_left_out),
        cmocka_unit_test(steps_repeat),
        cmocka_unit_test(interfaces_are_summed),
        cmocka_unit_test(jobs_are_apart),
        cmocka_unit_test(it_concludes),
        cmocka_unit_test(nonsense_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
