/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of several hosts become one look: hosts come, go, restart and lie. */
#include "master/history.h"
#include "master/job.h"
#include "master/ledger.h"

#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND NS_PER_S
#define DAY    (1700000000 * SECOND)

static uint64_t now = 1000 * SECOND;
static struct master_job job;

static int begin(void **state)
{
    now = 1000 * SECOND;
    job = (struct master_job){0};
    return 0;
}

static int end(void **state)
{
    job_free(&job);
    return 0;
}

/* A report of `count` processes, numbered from 1, of communicator 7. */
static struct report made(const char *host, uint64_t agent, uint64_t number, size_t count)
{
    struct report report = {.agent = agent,
                            .number = number,
                            .realtime = DAY - 3 * NS_PER_MS,
                            .count = count,
                            .processes = calloc(count + 1, sizeof *report.processes)};
    snprintf(report.host, sizeof report.host, "%s", host);
    for (size_t i = 0; i < count; i++) {
        struct blackbox *box = report.processes[i].box = calloc(1, sizeof *box);
        box->header.pid = (uint32_t)i + 1;
        box->header.start_time = 5;
        box->alive = true;
        box->now = 77;
        box->comms = calloc(1, sizeof *box->comms);
        box->comm_count = 1;
        box->comms->id = 7;
    }
    return report;
}

static void as_before(struct report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        report->processes[i].as_before = true;
        report->processes[i].box->comm_count = 0;
    }
}

static enum job_answer take_from(struct report report, const char *source)
{
    const struct job_origin origin = {source, "10.0.0.2 over row"};
    enum job_answer answer = job_take(&job, &report, &origin, now, DAY);
    report_free(&report);
    return answer;
}

static enum job_answer take(struct report report)
{
    return take_from(report, "10.0.0.1");
}

static size_t looked_at(void)
{
    struct job_look look;
    assert_true(job_look(&job, now, &look));
    size_t count = look.look.count;
    job_look_free(&look);
    return count;
}

static void test_merge(void **state)
{
    assert_int_equal(take(made("a", 1, 1, 2)), JOB_TAKEN);
    assert_int_equal(take(made("b", 2, 1, 3)), JOB_TAKEN);
    assert_int_equal(looked_at(), 5);
    assert_int_equal(job.hosts[0].clock, 3 * NS_PER_MS);
    struct report again = made("a", 1, 2, 1);
    as_before(&again);
    again.processes[0].box->now = 99;
    struct job_look before, after;
    assert_true(job_look(&job, now, &before));
    now += SECOND;
    assert_int_equal(take(again), JOB_TAKEN);
    assert_true(job_look(&job, now, &after));
    assert_int_equal(after.look.count, 4); /* one process is not named any more */
    assert_int_equal(after.look.boxes[0]->now, 99);
    assert_int_equal(before.look.boxes[0]->now, 77);
    assert_ptr_equal(after.look.boxes[0]->comms, before.look.boxes[0]->comms);
    assert_int_equal(after.look.facts[0].unheard, 0);
    assert_int_equal(after.look.facts[1].unheard, SECOND);
    job_free(&job); /* looks outlive the job */
    assert_int_equal(after.look.boxes[3]->comms->id, 7);
    job_look_free(&before);
    job_look_free(&after);
}

static void test_wants_all(void **state)
{
    struct report report = made("a", 1, 1, 1);
    as_before(&report);
    assert_int_equal(take(report), JOB_WANTS_ALL);
    assert_int_equal(job.count, 0);
    assert_int_equal(take(made("a", 1, 2, 1)), JOB_TAKEN);
    report = made("a", 1, 3, 2);
    as_before(&report);
    assert_int_equal(take(report), JOB_WANTS_ALL);
    assert_int_equal(looked_at(), 1);
}

/* Two agents of one name, and one that says the same again. */
static void test_refuses(void **state)
{
    assert_int_equal(take(made("a", 1, 5, 1)), JOB_TAKEN);
    assert_int_equal(take(made("a", 1, 5, 1)), JOB_REFUSES);
    assert_non_null(strstr(error_last(), "has come before"));
    assert_int_equal(take(made("a", 2, 1, 1)), JOB_REFUSES);
    assert_non_null(strstr(error_last(), "another agent calls its host a"));
    now += JOB_SILENT_NS;
    struct report report = made("a", 2, 2, 1);
    as_before(&report); /* of another's report */
    assert_int_equal(take(report), JOB_WANTS_ALL);
    assert_int_equal(take(made("a", 2, 3, 4)), JOB_TAKEN);
    assert_int_equal(looked_at(), 4);
}

static void test_forgets(void **state)
{
    assert_int_equal(take(made("a", 1, 1, 1)), JOB_TAKEN);
    now += JOB_FORGET_NS;
    job_forget(&job, now);
    assert_int_equal(job.count, 1);
    now += 1;
    job_forget(&job, now);
    assert_int_equal(job.count, 0);
    assert_int_equal(looked_at(), 0);
}

static void test_unrecorded(void **state)
{
    struct report report = made("a", 1, 1, 2);
    report.processes[0].box->counters[WIRE_COUNTER_COMMS_UNRECORDED] = 3;
    report.processes[1].box->counters[WIRE_COUNTER_COMMS_UNRECORDED] = 4;
    report.processes[1].box->counters[WIRE_COUNTER_LANES_UNRECORDED] = 5;
    assert_int_equal(take(report), JOB_TAKEN);
    assert_int_equal(job_unrecorded(job.hosts).comms, 7);
    assert_int_equal(job_unrecorded(job.hosts).lanes, 5);
}

/* Some of many hosts are forgotten: the others are found where they are then. */
static void test_forgets_some(void **state)
{
    char name[16];
    for (unsigned i = 0; i < 1000; i++) {
        now += i == 500 ? JOB_FORGET_NS / 2 : 0;
        snprintf(name, sizeof name, "n%u", i * 7 % 1000);
        assert_int_equal(take(made(name, 1, 1, 1)), JOB_TAKEN);
    }
    now += JOB_FORGET_NS / 2 + 1;
    job_forget(&job, now);
    assert_int_equal(job.count, 500);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "n%u", i * 7 % 1000);
        assert_int_equal(take(made(name, 1, 2, 1)), JOB_TAKEN);
        assert_int_equal(job.count, i < 500 ? 501 + i : 1000);
    }
    now += JOB_FORGET_NS + 1;
    job_forget(&job, now);
    assert_int_equal(job.bytes, 0);
}

static void test_too_many_hosts(void **state)
{
    char name[16];
    for (unsigned i = 0; i < JOB_HOSTS; i++) {
        snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(take(made(name, 1, 1, 0)), JOB_TAKEN);
    }
    assert_int_equal(take(made("one-more", 1, 1, 0)), JOB_REFUSES);
    assert_non_null(strstr(error_last(), "no room for host one-more: there are 32768"));
}

/* Claims a report of this size; the calls are not there, and nobody looks at them. */
static struct report large(const char *host, uint64_t number, size_t bytes)
{
    struct report report = made(host, 1, number, 1);
    report.processes[0].box->comms->op_count = bytes / sizeof(struct blackbox_op);
    return report;
}

/* A sender of too many reports is refused, however many names it uses; others have room. */
static void test_too_much(void **state)
{
    char name[16], source[16];
    assert_int_equal(take(large("a", 1, JOB_FROM_ONE / 2)), JOB_TAKEN);
    assert_int_equal(take(large("b", 1, JOB_FROM_ONE / 2)), JOB_REFUSES);
    assert_string_equal(error_last(), "no memory for what host b tells: 10.0.0.1 has told of too much");
    assert_int_equal(take(large("b", 2, JOB_FROM_ONE / 4)), JOB_TAKEN);
    assert_int_equal(take(large("a", 2, JOB_FROM_ONE / 2)), JOB_TAKEN); /* replaces what it reported */
    struct report again = made("a", 1, 3, 1);
    as_before(&again);
    assert_int_equal(take(again), JOB_TAKEN);
    assert_string_equal(job.hosts[0].way, "10.0.0.2 over row");
    for (unsigned i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "n%u", i);
        snprintf(source, sizeof source, "10.0.1.%u", i);
        assert_int_equal(take_from(large(name, 1, JOB_BYTES / 5), source), i < 4 ? JOB_TAKEN : JOB_REFUSES);
    }
    assert_string_equal(error_last(), "no memory for what host n4 tells: all hosts together have told of 2048 MiB");
    assert_int_equal(take_from(made("c", 1, 1, 1), "10.0.2.1"), JOB_TAKEN);
}

/* Lanes are wanted while somebody looks at them. */
static void test_lanes_are_wanted(void **state)
{
    job_look_at_lanes(&job, "a", now + 2 * SECOND);
    assert_false(job_wants_lanes(&job, "a", now));
    assert_int_equal(take(made("a", 1, 1, 1)), JOB_TAKEN);
    assert_int_equal(take(made("b", 1, 1, 1)), JOB_TAKEN);
    job_look_at_lanes(&job, "a", now + 2 * SECOND);
    assert_true(job_wants_lanes(&job, "a", now));
    assert_false(job_wants_lanes(&job, "b", now));
    assert_int_equal(take(made("a", 1, 2, 1)), JOB_TAKEN);
    assert_true(job_wants_lanes(&job, "a", now + SECOND));
    assert_false(job_wants_lanes(&job, "a", now + 2 * SECOND));
}

/* Lanes of all hosts are wanted for some seconds of each half minute, and while some are slow. */
static void test_lanes_have_their_turn(void **state)
{
    uint64_t turn = 1020 * SECOND;
    assert_int_equal(take(made("a", 1, 1, 1)), JOB_TAKEN);
    assert_int_equal(take(made("b", 1, 1, 1)), JOB_TAKEN);
    assert_false(job_wants_lanes(&job, "a", turn - 1));
    assert_true(job_wants_lanes(&job, "a", turn) && job_wants_lanes(&job, "b", turn));
    assert_false(job_wants_lanes(&job, "a", turn + JOB_LANES_FOR_NS));
    job_look_closer(&job, turn + 4 * SECOND);
    assert_true(job_wants_lanes(&job, "b", turn + JOB_LANES_FOR_NS));
    assert_false(job_wants_lanes(&job, "b", turn + 4 * SECOND + JOB_LANES_FOR_NS));
    for (unsigned i = 2; i <= 2 * JOB_LANES_HOSTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%u", i);
        assert_true(i > JOB_LANES_HOSTS || job_wants_lanes(&job, "a", turn + JOB_LANES_EVERY_NS));
        assert_int_equal(take(made(name, 1, 1, 1)), JOB_TAKEN);
    }
    /* More hosts have turns of their own: in three of them each had one, and nobody two. */
    assert_int_equal(job_lanes_turns(job.count), 3);
    unsigned turns[2 * JOB_LANES_HOSTS + 1] = {0};
    for (unsigned t = 0; t < 3; t++) {
        unsigned at_once = 0;
        for (unsigned i = 0; i < job.count; i++) {
            bool wanted = job_wants_lanes(&job, job.hosts[i].name, (1050 + 30 * t) * SECOND);
            turns[i] += wanted;
            at_once += wanted;
        }
        assert_in_range(at_once, 1, JOB_LANES_HOSTS);
    }
    for (unsigned i = 0; i < job.count; i++)
        assert_int_equal(turns[i], 1);
}

static void test_dead(void **state)
{
    struct report report = made("a", 1, 1, 2);
    report.processes[0].box->alive = report.processes[1].box->alive = false;
    report.processes[1].box->comms->id = 8;
    assert_int_equal(take(report), JOB_TAKEN);
    assert_int_equal(take(made("b", 1, 1, 1)), JOB_TAKEN);
    assert_int_equal(looked_at(), 3);
    now += JOB_DEAD_NS; /* then only a missed rank counts */
    assert_int_equal(looked_at(), 2);
}

/* ---- The ledger ---- */

struct told {
    size_t begun, ended;
};

static void on_begin(void *context, struct verdict *verdict)
{
    ((struct told *)context)->begun++;
}

static void on_end(void *context, const struct verdict *verdict)
{
    ((struct told *)context)->ended++;
}

static void update_sure(struct ledger *ledger, struct told *told, enum finding_kind kind, uint64_t process,
                        enum confidence confidence)
{
    const struct ledger_events events = {told, on_begin, on_end};
    struct finding one = {.kind = kind, .confidence = confidence, .culprit = {.process = process, .peer = -1}};
    const struct findings findings = {.items = &one, .count = process != 0};
    ledger_update(ledger, &findings, DAY, &events);
}

static void update(struct ledger *ledger, struct told *told, enum finding_kind kind, uint64_t process)
{
    update_sure(ledger, told, kind, process, finding_is_hang(kind) ? CERTAIN : LIKELY);
}

static void test_not_certain(void **state)
{
    struct ledger ledger = {0};
    struct told told = {0};
    update_sure(&ledger, &told, FINDING_FAILED, 1, LIKELY);
    update_sure(&ledger, &told, FINDING_FAILED, 2, LIKELY);
    assert_int_equal(told.begun, 0);
    update_sure(&ledger, &told, FINDING_FAILED, 2, LIKELY);
    assert_int_equal(told.begun, 1);
    update_sure(&ledger, &told, FINDING_FAILED, 3, LIKELY);
    update_sure(&ledger, &told, FINDING_DEAD, 3, CERTAIN);
    assert_int_equal(told.begun, 2);
}

static void test_hang(void **state)
{
    struct ledger ledger = {0};
    struct told told = {0};
    update(&ledger, &told, FINDING_STOPPED, 1);
    update(&ledger, &told, FINDING_STOPPED, 1);
    update(&ledger, &told, FINDING_DEAD, 1); /* the same verdict */
    assert_int_equal(told.begun, 1);
    assert_int_equal(ledger.items[0].finding.kind, FINDING_DEAD);
    update(&ledger, &told, FINDING_STOPPED, 2); /* another verdict */
    assert_int_equal(told.begun, 2);
    for (int i = 0; i < LEDGER_OVER; i++)
        update(&ledger, &told, FINDING_STOPPED, 0);
    assert_int_equal(told.ended, 2);
    assert_int_equal(ledger.count, 0);
    assert_int_equal(ledger.total, 2);
    assert_int_equal(ledger.by_kind[FINDING_STOPPED], 2);
}

/* Findings for which one look or the ledger has no place are counted. */
static void test_left_out(void **state)
{
    struct ledger ledger = {0};
    struct told told = {0};
    const struct ledger_events events = {&told, on_begin, on_end};
    const struct findings none = {.left_out = 3};
    for (uint64_t process = 1; process <= LEDGER_MOST + 2; process++) {
        for (size_t i = 0; i < ledger.count; i++)
            ledger.items[i].missed = 0; /* as if it were found, too */
        update(&ledger, &told, FINDING_STOPPED, process);
    }
    assert_int_equal(ledger.count, LEDGER_MOST);
    assert_int_equal(ledger.left_out, 1);
    ledger_update(&ledger, &none, DAY, &events);
    assert_int_equal(ledger.left_out, 3);
}

static void test_slow(void **state)
{
    struct ledger ledger = {0};
    struct told told = {0};
    for (int i = 0; i < 2; i++) { /* by chance, twice */
        update(&ledger, &told, FINDING_SLOW, 1);
        update(&ledger, &told, FINDING_SLOW, 1);
        update(&ledger, &told, FINDING_SLOW, 0);
    }
    assert_int_equal(told.begun + told.ended, 0);
    for (int i = 0; i < LEDGER_SLOW; i++) {
        assert_int_equal(told.begun, 0);
        update(&ledger, &told, FINDING_SLOW, 1);
    }
    assert_int_equal(told.begun, 1);
    update(&ledger, &told, FINDING_SLOW, 0);
    update(&ledger, &told, FINDING_SLOW, 1);
    assert_int_equal(told.ended, 0);
}

static void test_full(void **state)
{
    struct ledger ledger = {0};
    struct told told = {0};
    for (uint64_t i = 1; i <= LEDGER_MOST + 5; i++) {
        update(&ledger, &told, FINDING_STOPPED, i);
        for (size_t j = 0; j < ledger.count; j++)
            ledger.items[j].missed = 0;
    }
    assert_int_equal(told.begun, LEDGER_MOST);
}

/* ---- The history ---- */

static void test_history(void **state)
{
    char dir[] = "/tmp/tutti-history-XXXXXX", path[64], command[80];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/history", dir);
    struct verdict verdict = {.finding = {.kind = FINDING_STOPPED,
                                          .confidence = CERTAIN,
                                          .culprit = {.world_rank = 3, .rank = 3, .peer = -1, .host = "a"},
                                          .sentence = "it's \"stopped\""},
                              .began = DAY,
                              .number = 1};
    struct history *history = history_open(path, "job");
    assert_true((verdict.row = history_begin(history, &verdict)) > 0);
    assert_true(history_end(history, &verdict, DAY + 2 * SECOND));
    assert_true(history_note(history, verdict.row, "exit status 0"));
    assert_true(history_begin(history, &verdict) > verdict.row);
    char again[160];
    history_again(history, "h3", DAY + 3 * SECOND, again, sizeof again);
    assert_string_equal(again, "");
    history_again(history, verdict.finding.culprit.host, DAY + 3 * SECOND, again, sizeof again);
    if (!strstr(again, " again: the 3rd verdict in 7 days (before: ") ||
        !strstr(again, " 2), the latest of them began "))
        fail_msg("%s", again);
    history_again(history, verdict.finding.culprit.host, DAY + 8ull * 24 * 3600 * SECOND, again, sizeof again);
    assert_string_equal(again, ""); /* longer ago */
    snprintf(verdict.again, sizeof verdict.again, "host h again");
    verdict_say_again(&verdict);
    assert_string_equal(verdict.finding.evidence[verdict.finding.evidence_count - 1], "host h again");
    history_close(history);
    history = history_open(path, "job"); /* an open verdict is over now */
    json_t *rows = history_json(history, 10), *last = json_array_get(rows, 0), *first = json_array_get(rows, 1);
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(json_string_value(json_object_get(first, "text")), "it's \"stopped\"");
    assert_string_equal(json_string_value(json_object_get(first, "hook")), "exit status 0");
    assert_true(json_real_value(json_object_get(first, "ended")) == (double)(DAY / SECOND) + 2);
    assert_true(json_real_value(json_object_get(last, "ended")) > 0);
    json_decref(rows);
    history_close(history);
    assert_null(history_open("/nonexistent/history", "job"));
    assert_non_null(strstr(error_last(), "opening the history /nonexistent/history: unable to open"));
    assert_null(history_open("/proc/self/exe", "job"));
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_merge),
        CASE(test_wants_all),
        CASE(test_refuses),
        CASE(test_forgets),
        CASE(test_too_many_hosts),
        CASE(test_unrecorded),
        CASE(test_forgets_some),
        CASE(test_too_much),
        CASE(test_lanes_are_wanted),
        CASE(test_lanes_have_their_turn),
        CASE(test_dead),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_not_certain),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_history),
    };
    return cmocka_run_group_tests_name("master", tests, NULL, NULL);
}
