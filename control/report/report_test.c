/* SPDX-License-Identifier: Apache-2.0 */
/* What is written can be read again; a sentence refuses what is damaged, hostile or of another version. */
#include "report/bundle.h"
#include "report/token.h"

#include "base/error.h"
#include "wire/boxwatch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CALLS 100

static struct blackbox_op calls[CALLS];
static struct blackbox_comm comm = {.place = 3,
                                    .id = 0xfeedbeefcafef00d,
                                    .generation = 7,
                                    .rank = 1,
                                    .nranks = 4,
                                    .state = WIRE_COMM_OPEN,
                                    .culprit = -1,
                                    .name = "world",
                                    .ops = calls,
                                    .op_count = CALLS};
static struct blackbox_event event = {
    .number = 9, .time = 5, .kind = WIRE_EVENT_JOIN, .lane = -1, .peer_rank = 2, .comm = 12, .value1 = 4};
static struct blackbox box = {.header = {.pid = 4711,
                                         .start_time = 12,
                                         .pid_namespace = 34,
                                         .boot_id = "fifteen letters",
                                         .state = WIRE_BOX_OPEN,
                                         .command = "train"},
                              .alive = true,
                              .now = 1000,
                              .realtime_offset = -5,
                              .comms = &comm,
                              .comm_count = 1,
                              .events = &event,
                              .event_count = 1};
static const struct report head = {
    .host = "node-1.rack", .agent = 0xabcdef0123456789, .number = 3, .realtime = 99, .alarm = true, .unreadable = 1};

/* Calls 0 to 97 are done, 98 waits, 99 has not begun. */
static int make_calls(void **state)
{
    for (int i = 0; i < CALLS; i++)
        calls[i] = (struct blackbox_op){.position = (uint64_t)i,
                                        .seq = (uint64_t)i + 1,
                                        .count = 10,
                                        .bytes = 40,
                                        .begin = 100,
                                        .start = 110,
                                        .end = 120,
                                        .collective = WIRE_ALLGATHER,
                                        .type = 7,
                                        .op = WIRE_OP_NONE,
                                        .root = -1,
                                        .state = WIRE_OP_DONE,
                                        .wait_peer = -1,
                                        .algorithm = "ring"};
    calls[98].state = WIRE_OP_RUNNING;
    calls[98].wait_peer = 3;
    calls[98].wait_since = 130;
    calls[98].wait_round = 2;
    calls[98].step = wire_op_step(WIRE_ALLGATHER, 1, 2, 3);
    calls[99].state = WIRE_OP_ENQUEUED;
    return 0;
}

static uint8_t *written(const struct report_process *process, size_t copies, size_t most, size_t *size)
{
    struct report_writer *writer = report_begin(&head);
    for (size_t i = 0; i < copies; i++)
        assert_int_equal(report_add(writer, process, most), i < REPORT_PROCESSES);
    report_count_unreadable(writer);
    uint8_t *bytes = report_end(writer, size);
    assert_non_null(bytes);
    return bytes;
}

static void test_round_trip(void **state)
{
    struct report_process process = {.box = &box,
                                     .box_number = 2,
                                     .facts = {.state = PROCESS_TRACED,
                                               .tracer = 8,
                                               .tracer_name = "gdb",
                                               .at = 77,
                                               .moved = 78,
                                               .throttled = 79,
                                               .replaced = true,
                                               .detail = "sleep",
                                               .stops = 80,
                                               .killed = 81,
                                               .faults = 82,
                                               .frozen = true,
                                               .out_of_memory = true,
                                               .group = "/slurm/job_1",
                                               .thread_count = 1,
                                               .threads = {{.number = 4, .ready = true, .ran = 5, .delayed = 6}}}};
    struct report report;
    size_t size;
    box.pauses[0] = (struct blackbox_pause){12, 26, 500, WIRE_ALLREDUCE, -1, 1000, 7};
    box.pause_count = 1;
    box.samples[0] = (struct blackbox_sample){100, 2, 30, 7};
    box.samples[1] = (struct blackbox_sample){200, 4, 50, 9};
    box.sample_count = 2;
    box.counters[WIRE_COUNTER_COMMS_UNRECORDED] = 12;
    box.counters[WIRE_COUNTER_LANES_UNRECORDED] = 13;
    box.expected_since = 900, box.expected_until = 2000;
    strcpy(box.expected, "checkpoint");
    uint8_t *bytes = written(&process, 1, 10, &size);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    assert_string_equal(report.host, "node-1.rack");
    assert_int_equal(report.processes->box->pause_count, 1);
    assert_memory_equal(report.processes->box->pauses, box.pauses, sizeof box.pauses[0]);
    assert_int_equal(report.processes->box->sample_count, 2);
    assert_memory_equal(report.processes->box->samples, box.samples, 2 * sizeof box.samples[0]);
    assert_true(report.processes->box->expected_since == 900 && report.processes->box->expected_until == 2000);
    assert_string_equal(report.processes->box->expected, "checkpoint");
    box.pause_count = 0;
    assert_int_equal(report.processes->box->counters[WIRE_COUNTER_COMMS_UNRECORDED], 12);
    assert_int_equal(report.processes->box->counters[WIRE_COUNTER_LANES_UNRECORDED], 13);
    assert_true(report.agent == head.agent && report.number == 3 && report.realtime == 99 && report.alarm &&
                report.unreadable == 2 && report.count == 1);
    const struct report_process *got = report.processes;
    assert_false(got->as_before);
    assert_memory_equal(&got->facts, &process.facts, sizeof got->facts);
    assert_int_equal(got->box_number, 2);
    assert_string_equal(got->box->header.host, "node-1.rack");
    assert_string_equal(got->box->header.command, "train");
    assert_memory_equal(got->box->header.boot_id, box.header.boot_id, sizeof box.header.boot_id);
    assert_true(got->box->alive && got->box->now == 1000 && got->box->realtime_offset == -5);
    assert_memory_equal(&got->box->events[0], &event, sizeof event);
    const struct blackbox_comm *read = got->box->comms;
    assert_true(read->id == comm.id && read->generation == 7 && read->rank == 1 && read->nranks == 4 &&
                read->culprit == -1);
    assert_string_equal(read->name, "world");
    assert_int_equal(read->op_count, 10);
    for (size_t i = 0; i < read->op_count; i++)
        assert_memory_equal(&read->ops[i], &calls[CALLS - 10 + i], sizeof calls[0]);
    report_free(&report);
    free(bytes);
}

static void test_calls_not_done_are_told(void **state)
{
    struct report_process process = {.box = &box};
    struct report report;
    size_t size;
    calls[4].state = WIRE_OP_RUNNING;
    uint8_t *bytes = written(&process, 1, 1, &size);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    assert_int_equal(report.processes->box->comms->op_count, 3);
    assert_int_equal(report.processes->box->comms->ops[0].position, 4);
    report_free(&report);
    free(bytes);
}

static struct blackbox_segment segments[REPORT_SEGMENTS];
static struct blackbox_lane lane = {.place = 4,
                                    .distance = 3,
                                    .peer_pid = 99,
                                    .index = 1,
                                    .rate = 1000,
                                    .window = 8,
                                    .state = WIRE_LANE_UP,
                                    .interface = "eth0",
                                    .transport = "tcp",
                                    .segments = segments,
                                    .segment_count = REPORT_SEGMENTS};

static struct report_process with_lanes(struct blackbox *copy)
{
    for (uint32_t i = 0; i < REPORT_SEGMENTS; i++)
        segments[i] = (struct blackbox_segment){.position = i,
                                                .comm = 7,
                                                .seq = 5,
                                                .peer = 2,
                                                .length = 4096,
                                                .slice = 1,
                                                .round = 3,
                                                .status = WIRE_SEGMENT_LANDED,
                                                .ready = 10,
                                                .credit = 11,
                                                .posted = 12,
                                                .completed = 13 + i};
    *copy = box;
    copy->lanes = &lane;
    copy->lane_count = 1;
    return (struct report_process){.box = copy, .lanes = true};
}

/* Lanes are there only on demand, with their latest segments. */
static void test_lanes(void **state)
{
    const size_t most = REPORT_SEGMENTS / 2;
    struct blackbox copy;
    struct report_process process = with_lanes(&copy);
    struct report report;
    size_t size;
    uint8_t *bytes = written(&process, 1, 1, &size);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    const struct blackbox *got = report.processes->box;
    assert_int_equal(got->lane_count, 1);
    assert_true(got->lanes->place == 4 && got->lanes->peer_pid == 99 && got->lanes->index == 1 &&
                got->lanes->rate == 1000 && got->lanes->distance == 3 && got->lanes->window == 8 &&
                got->lanes->state == WIRE_LANE_UP);
    assert_string_equal(got->lanes->interface, "eth0");
    assert_string_equal(got->lanes->transport, "tcp");
    assert_int_equal(got->lanes->segment_count, most);
    for (size_t i = 0; i < most; i++)
        assert_memory_equal(&got->lanes->segments[i], &segments[most + i], sizeof segments[0]);
    report_free(&report);
    free(bytes);
    process.lanes = false;
    bytes = written(&process, 1, 1, &size);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    assert_int_equal(report.processes->box->lane_count, 0);
    report_free(&report);
    free(bytes);
}

/* Of a lane that was slow everybody hears, whether anybody looks or not; its segments are not told. What it borrowed
 * is: no rule may judge an interface by that. */
static void test_slow_lanes(void **state)
{
    struct wire_box_watch watch = {.stamp = 40, .windows = 9, .slows = 1, .rates = {[3] = 9}};
    watch.slow[0] = (struct wire_box_slow){.begin = 5, .end = 9, .ns = 4, .bytes = 7, .usual = 8, .windows = 2};
    struct blackbox copy;
    struct report_process process = with_lanes(&copy);
    struct report report;
    size_t size;
    process.lanes = false;
    lane.watch = &watch;
    lane.queue = 77;
    lane.own = true;
    lane.borrowed = 1ull << 40;
    lane.owner = 4712;
    uint8_t *bytes = written(&process, 1, 1, &size);
    lane.watch = NULL;
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    const struct blackbox *got = report.processes->box;
    assert_true(got->lane_count == 1 && got->lanes->segment_count == 0 && got->lanes->queue == 77);
    assert_true(got->lanes->own && got->lanes->borrowed == 1ull << 40 && got->lanes->owner == 4712);
    assert_non_null(got->lanes->watch);
    assert_true(got->lanes->watch->rates[3] == 9 && got->lanes->watch->windows == 9);
    assert_memory_equal(watch_slow(got->lanes->watch, 0), &watch.slow[0], sizeof watch.slow[0]);
    report_free(&report);
    free(bytes);
}

static void expect_no_sense(const struct report_process *process)
{
    struct report report;
    size_t size;
    uint8_t *bytes = written(process, 1, 1, &size);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "process 4711 makes no sense"));
    free(bytes);
}

static void test_lanes_that_lie(void **state)
{
    struct blackbox copy;
    struct report_process process = with_lanes(&copy);
    segments[REPORT_SEGMENTS - 1].status = 9;
    expect_no_sense(&process);
    process = with_lanes(&copy);
    segments[REPORT_SEGMENTS - 1].completed = INT64_MAX;
    expect_no_sense(&process);
    process = with_lanes(&copy);
    lane.state = 0;
    expect_no_sense(&process);
    lane.state = WIRE_LANE_UP;
}

static void test_as_before(void **state)
{
    struct report_process process = {.box = &box, .as_before = true};
    struct report report;
    size_t size;
    uint8_t *bytes = written(&process, 2, 64, &size);
    assert_in_range(size, 1, 150);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    assert_int_equal(report.count, 2);
    assert_true(report.processes[1].as_before && report.processes[1].box->header.pid == 4711 &&
                report.processes[1].box->comm_count == 0);
    report_free(&report);
    free(bytes);
}

static void test_no_room(void **state)
{
    struct report_process process = {.box = &box, .as_before = true};
    struct report report;
    size_t size;
    uint8_t *bytes = written(&process, REPORT_PROCESSES + 3, 64, &size);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    assert_int_equal(report.count, REPORT_PROCESSES);
    assert_int_equal(report.left_out, 3);
    report_free(&report);
    free(bytes);
}

/* ---- What is refused ---- */

static void assert_refused(const void *bytes, size_t size, const char *why)
{
    struct report report;
    assert_int_equal(report_read(bytes, size, &report), TUTTI_INVALID_USAGE);
    if (!strstr(error_last(), why))
        fail_msg("\"%s\" is not in \"%s\"", why, error_last());
    assert_null(report.processes);
}

static void test_cut_short(void **state)
{
    struct report_process process = {.box = &box};
    struct report report;
    size_t size, read = 0;
    uint8_t *bytes = written(&process, 2, 64, &size);
    for (size_t length = 0; length < size; length++)
        if (report_read(bytes, length, &report) == TUTTI_SUCCESS) { /* cut between two fields it is a shorter report */
            read++;
            report_free(&report);
        }
    assert_in_range(read, 1, 8);
    free(bytes);
}

static void test_garbage(void **state)
{
    static const char text[] = "POST /report HTTP/1.1";
    static const uint8_t version[] = {0x08, 2, 0x12, 1, 'a'}, name[] = {0x08, 1, 0x12, 3, 'a', ' ', 'b'},
                         nameless[] = {0x08, 1};
    assert_refused(text, sizeof text, "no report");
    assert_refused(version, sizeof version, "a report of version 2, want 1");
    assert_refused(name, sizeof name, "whose name is none");
    assert_refused(nameless, sizeof nameless, "whose name is none");
    assert_refused("", 0, "a report of version 0, want 1");
}

/* Elements of two bytes each, which would be hundreds in memory. */
static void test_bombs(void **state)
{
    static const uint8_t start[] = {0x08, 1, 0x12, 1, 'a'};
    uint8_t *bytes = malloc(REPORT_BYTES + 1);
    memcpy(bytes, start, sizeof start);
    for (size_t i = sizeof start; i < REPORT_BYTES; i++)
        bytes[i] = (i - sizeof start) % 2 ? 0 : 0x32; /* an empty process */
    assert_refused(bytes, REPORT_BYTES - 1, "no report");
    assert_refused(bytes, sizeof start + 2 * (REPORT_PROCESSES + 1), "more than 1024 processes");
    assert_refused(bytes, REPORT_BYTES + 1, "more than 32 MiB");
    free(bytes);
}

static void refuse(const char *why)
{
    struct report_process process = {.box = &box};
    size_t size;
    uint8_t *bytes = written(&process, 1, 64, &size);
    assert_refused(bytes, size, why);
    free(bytes);
}

static void test_lies(void **state)
{
    static const char senseless[] = "process 4711 makes no sense";
    comm.rank = 4;
    refuse(senseless);
    comm.rank = 1;
    comm.state = 9;
    refuse(senseless);
    comm.state = WIRE_COMM_OPEN;
    box.now = UINT64_MAX;
    refuse(senseless);
    box.now = 1000;
    event.time = UINT64_MAX;
    refuse(senseless);
    event.time = 5;
    calls[98].wait_since = UINT64_MAX;
    refuse(senseless);
    calls[98].wait_since = 130;
    calls[97].position = 98;
    refuse(senseless);
    calls[97].position = 97;
    calls[97].result = -1;
    refuse(senseless);
}

static void test_control_characters(void **state)
{
    struct report_process process = {.box = &box};
    struct report report;
    size_t size;
    memcpy(comm.name, "wor\033[", 5);
    uint8_t *bytes = written(&process, 1, 64, &size);
    assert_int_equal(report_read(bytes, size, &report), TUTTI_SUCCESS);
    assert_string_equal(report.processes->box->comms->name, "wor?[");
    report_free(&report);
    free(bytes);
    memcpy(comm.name, "world", 5);
}

/* ---- The token ---- */

static tutti_result_t load(const char *text, struct token *token)
{
    char path[] = "/tmp/tutti-token-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    tutti_result_t result = token_load(path, token);
    unlink(path);
    return result;
}

static void test_token(void **state)
{
    struct token token;
    char longest[TOKEN_MOST + 2];
    memset(longest, 'x', sizeof longest);
    longest[TOKEN_MOST + 1] = 0;
    assert_int_equal(load("0123456789abcdef\nnot this\n", &token), TUTTI_SUCCESS);
    assert_string_equal(token.text, "0123456789abcdef");
    assert_int_equal(load(longest + 1, &token), TUTTI_SUCCESS);
    assert_int_equal(load(longest, &token), TUTTI_INVALID_USAGE);
    assert_int_equal(load("0123456789abcde\n", &token), TUTTI_INVALID_USAGE);
    assert_int_equal(load("0123456789 abcdef\n", &token), TUTTI_INVALID_USAGE);
    assert_int_equal(load("", &token), TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "is no token: want 16 to 256 characters"));
    assert_int_equal(token_load("/nonexistent/token", &token), TUTTI_SYSTEM_ERROR);
}

/* ---- Bundles ---- */

static void test_bundle(void **state)
{
    struct relayed reports[] = {{(const uint8_t *)"one", 3, "10.0.0.1", {"row", "hall"}, 2},
                                {(const uint8_t *)"", 0, "", {""}, 0}};
    const struct bundle wanted = {.reports = reports, .count = 2, .complaint = "no\n\x1b[31mgood"};
    struct bundle got;
    size_t size;
    uint8_t *bytes = bundle_write(&wanted, &size);
    assert_int_equal(bundle_read(bytes, size, &got), TUTTI_SUCCESS);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.reports[0].size, 3);
    assert_memory_equal(got.reports[0].bytes, "one", 3);
    assert_string_equal(got.reports[0].from, "10.0.0.1");
    assert_int_equal(got.reports[0].hops, 2);
    assert_string_equal(got.reports[0].via[1], "hall");
    assert_int_equal(got.reports[1].size, 0);
    assert_int_equal(got.reports[1].hops, 0);
    assert_string_equal(got.complaint, "no??[31mgood");
    bundle_free(&got);
    for (size_t cut = 0; cut < size; cut++) /* a piece, or a sentence; never more than there was */
        if (bundle_read(bytes, cut, &got) == TUTTI_SUCCESS) {
            assert_true(got.count <= 2);
            bundle_free(&got);
        }
    assert_int_equal(bundle_read(bytes, BUNDLE_BYTES + 1, &got), TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "more than 33 MiB"));
    free(bytes);
}

static void test_bundle_makes_no_sense(void **state)
{
    struct relayed one = {(const uint8_t *)"", 0, "", {"a b"}, 1};
    struct relayed *many = calloc(BUNDLE_REPORTS + 1, sizeof *many);
    struct bundle bundle = {.reports = &one, .count = 1}, got;
    size_t size;
    uint8_t *bytes = bundle_write(&bundle, &size);
    assert_int_equal(bundle_read(bytes, size, &got), TUTTI_INVALID_USAGE);
    free(bytes);
    bundle = (struct bundle){.reports = many, .count = BUNDLE_REPORTS + 1};
    bytes = bundle_write(&bundle, &size);
    assert_int_equal(bundle_read(bytes, size, &got), TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "more than 1024 reports"));
    free(bytes);
    free(many);
}

static void test_answers(void **state)
{
    const struct bundle_answer wanted[] = {{200, "taken"}, {409, "no"}};
    struct verdict_list told = {.master = 7,
                                .count = 2,
                                .news = {{.number = 4, .verdict = 1, .rank = -1, .text = "begins"},
                                         {.number = 9, .rank = 3, .process = 17, .over = 1, .text = "en\nds"}}},
                        heard;
    struct bundle_answer got[3];
    size_t size;
    uint8_t *bytes = answers_write(wanted, 2, &told, &size);
    assert_int_equal(answers_read(bytes, size, got, 2, &heard), TUTTI_SUCCESS);
    assert_int_equal(heard.master, 7);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.news[0].rank, -1);
    assert_string_equal(heard.news[0].text, "begins");
    assert_true(heard.news[1].number == 9 && heard.news[1].rank == 3 && heard.news[1].process == 17);
    assert_true(heard.news[1].over);
    assert_string_equal(heard.news[1].text, "en?ds");
    assert_int_equal(got[1].status, 409);
    assert_string_equal(got[0].sentence, "taken");
    assert_int_equal(answers_read(bytes, size, got, 1, &heard), TUTTI_INVALID_USAGE);
    assert_int_equal(answers_read(bytes, size, got, 3, &heard), TUTTI_INVALID_USAGE);
    assert_int_equal(answers_read(bytes, size - 1, got, 2, &heard), TUTTI_INVALID_USAGE);
    free(bytes);
    told.news[1].number = 4; /* news that does not rise */
    bytes = answers_write(wanted, 2, &told, &size);
    assert_int_equal(answers_read(bytes, size, got, 2, &heard), TUTTI_INVALID_USAGE);
    free(bytes);
    const struct bundle_answer senseless = {7, ""};
    bytes = answers_write(&senseless, 1, &heard, &size);
    assert_int_equal(answers_read(bytes, size, got, 1, &heard), TUTTI_INVALID_USAGE);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_round_trip, make_calls),
        cmocka_unit_test_setup(test_calls_not_done_are_told, make_calls),
        cmocka_unit_test_setup(test_lanes, make_calls),
        cmocka_unit_test_setup(test_slow_lanes, make_calls),
        cmocka_unit_test_setup(test_lanes_that_lie, make_calls),
        cmocka_unit_test_setup(test_as_before, make_calls),
        cmocka_unit_test_setup(test_no_room, make_calls),
        cmocka_unit_test_setup(test_cut_short, make_calls),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test_setup(test_lies, make_calls),
        cmocka_unit_test_setup(test_control_characters, make_calls),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_bundle),
        cmocka_unit_test(test_bundle_makes_no_sense),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
