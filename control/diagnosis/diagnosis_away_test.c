/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are outside of calls for long: as they have said, as before, or at work. Nobody is blamed for these. */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Rank 0 ended its last call `away` ago; ranks 1 and 2 wait for it in the next one. */
static struct made_job job_without(uint64_t away)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *comm = made_comm(job.boxes[rank], 1, "world", rank, 3);
        made_call(comm, 7, away + NS_PER_MS, away);
        if (rank == 0)
            continue;
        struct blackbox_op *op = made_wait(comm, 8, 0, 0);
        op->begin = op->start = op->wait_since = MADE_NOW - away + NS_PER_MS;
    }
    return job;
}

static void add_pause(struct blackbox *box, uint64_t count, uint64_t longest, uint64_t before_count)
{
    box->pauses[box->pause_count++] = (struct blackbox_pause){.count = count,
                                                              .longest = longest,
                                                              .latest = MADE_NOW - 60 * NS_PER_S,
                                                              .before = WIRE_ALLREDUCE,
                                                              .after = WIRE_BARRIER,
                                                              .before_count = before_count};
}

/* Two looks, a second apart, between which rank 0 ran and moved this much. */
static struct findings find_between(struct made_job *job, uint64_t ran, uint64_t moved)
{
    struct made_job before = job_without(0);
    for (size_t i = 0; i < 3; i++) {
        struct process_facts *now = &job->facts[i], *then = &before.facts[i];
        *then = (struct process_facts){.state = PROCESS_SLEEPS, .at = MADE_NOW - NS_PER_S, .moved = 1};
        then->threads[then->thread_count++] = (struct thread_facts){.number = 1, .ran = 1};
        *now = *then;
        now->at = MADE_NOW;
        now->threads[0].ran += i ? 0 : ran;
        now->moved += i ? 0 : moved;
    }
    const struct snapshot snapshot = {
        .now = made_look(job), .before = {job->boxes, before.facts, 3}, .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    made_free(&before);
    return found;
}

static struct findings find_in(struct made_job *job)
{
    return find_between(job, 0, 0);
}

static void expect(struct findings found, enum finding_kind kind, const char *words)
{
    assert_int_equal(found.count, 1);
    if (found.items[0].kind != kind || (words && !strstr(found.items[0].sentence, words)))
        fail_msg("%s, want %s of kind %s", found.items[0].sentence, words, finding_row(kind)->name);
    assert_int_equal(found.items[0].culprit.rank, 0);
    assert_int_equal(findings_faults(&found), kind != FINDING_AWAY);
    findings_free(&found);
}

static void test_as_before(void **state)
{
    struct made_job job = job_without(12 * NS_PER_S);
    add_pause(job.boxes[0], 400, NS_PER_S, 5);
    expect(find_in(&job), FINDING_BEHIND, NULL);
    add_pause(job.boxes[0], 12, 26 * NS_PER_S, 5);
    expect(find_in(&job), FINDING_AWAY,
           "is outside of calls for 12.0 s, as it has been 12 times before, for 26.0 s at "
           "most; it is waited for by ranks 1 2 in allreduce #8");
    made_free(&job);
    job = job_without(53 * NS_PER_S); /* twice the longest pause is over */
    add_pause(job.boxes[0], 12, 26 * NS_PER_S, 5);
    expect(find_in(&job), FINDING_BEHIND, NULL);
    made_free(&job);
}

/* One pause behind the same call is enough; two pauses with other reasons, as the start of the program, are not. */
static void test_once(void **state)
{
    for (int same = 0; same < 2; same++)
        for (int times = 1; times < 4; times++) {
            struct made_job job = job_without(12 * NS_PER_S);
            add_pause(job.boxes[0], (uint64_t)times, 26 * NS_PER_S, same ? 100 : 5);
            expect(find_in(&job), same || times == 3 ? FINDING_AWAY : FINDING_BEHIND, NULL);
            made_free(&job);
        }
}

static void test_said(void **state)
{
    struct made_job job = job_without(12 * NS_PER_S);
    strcpy(job.boxes[0]->expected, "checkpoint");
    job.boxes[0]->expected_since = MADE_NOW - 12 * NS_PER_S;
    job.boxes[0]->expected_until = MADE_NOW + 48 * NS_PER_S;
    expect(find_in(&job), FINDING_AWAY, "12.0 s, for checkpoint, as it has said, for 60.0 s at most");
    job.boxes[0]->expected_until = MADE_NOW - 1;
    expect(find_in(&job), FINDING_BEHIND, NULL);
    made_free(&job);
}

/* An absence for the first time: a rank that computes or writes is at work; one that sleeps hangs, and one that works
 * for ever, too. */
static void test_works(void **state)
{
    for (int seconds = 12; seconds < 90; seconds += 60) {
        struct made_job job = job_without((uint64_t)seconds * NS_PER_S);
        enum finding_kind kind = seconds < 60 ? FINDING_AWAY : FINDING_BEHIND;
        expect(find_in(&job), FINDING_BEHIND, NULL);
        expect(find_between(&job, 800 * NS_PER_MS, 0), kind, NULL);
        expect(find_between(&job, 0, 5 << 20), kind, NULL);
        made_free(&job);
    }
}

/* A rank computes for 32 s, which is far more than usual: a fault. It is none if the rank has made few calls so far,
 * has paused for 4 s before, or writes, or if others have waited for less time. */
static void test_computes_for_ever(void **state)
{
    static const struct {
        uint64_t calls, longest, ran, moved, waited; /* s, ms, bytes, s */
        enum finding_kind kind;
    } tries[] = {{100, 0, 800, 0, 32, FINDING_BEHIND},   {100, 2, 800, 0, 32, FINDING_BEHIND},
                 {100, 4, 800, 0, 32, FINDING_AWAY},     {20, 2, 800, 0, 32, FINDING_AWAY},
                 {100, 2, 0, 5 << 20, 32, FINDING_AWAY}, {100, 2, 800, 0, 25, FINDING_AWAY}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct made_job job = job_without(32 * NS_PER_S);
        if (tries[i].longest)
            add_pause(job.boxes[0], 100, tries[i].longest * NS_PER_S, 5);
        job.boxes[0]->header.samples = WIRE_BOX_SAMPLE_AT; /* a writer that counts pauses */
        job.boxes[0]->counter_count = WIRE_COUNTER_COUNT;
        job.boxes[0]->counters[WIRE_COUNTER_OPERATIONS] = tries[i].calls;
        for (int rank = 1; rank < 3; rank++) {
            struct blackbox_op *op = &job.boxes[rank]->comms->ops[1];
            op->begin = op->start = op->wait_since = MADE_NOW - tries[i].waited * NS_PER_S;
        }
        struct findings found = find_between(&job, tries[i].ran * NS_PER_MS, tries[i].moved);
        if (tries[i].longest && tries[i].kind == FINDING_BEHIND)
            assert_string_equal(found.items->evidence[0],
                                "it is outside of calls for 32.0 s; of 100 pauses before the longest was 2.0 s");
        expect(found, tries[i].kind, NULL);
        made_free(&job);
    }
}

/* Three ranks whose last call was over `away` ago, in seconds; rank 1 has paused for `before`. Rank 0 computes. */
static void expect_idle(uint64_t away, uint64_t before, bool works, bool idle)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++)
        made_call(made_comm(job.boxes[rank], 1, "world", rank, 3), 7, away * NS_PER_S + NS_PER_MS, away * NS_PER_S);
    if (before)
        add_pause(job.boxes[1], 2, before * NS_PER_S, 100);
    if (works)
        made_call(made_comm(job.boxes[2], 2, "part", 0, 1), 1, 2 * NS_PER_S, NS_PER_S);
    struct findings found = find_between(&job, 700 * NS_PER_MS, 0);
    assert_int_equal(found.count, idle);
    if (idle) {
        assert_int_equal(found.items[0].kind, FINDING_IDLE);
        assert_non_null(strstr(found.items[0].sentence, "all 3 ranks of communicator world are outside of calls for"));
        assert_non_null(strstr(found.items[0].sentence, before ? "before was" : "no pause before"));
    }
    assert_int_equal(findings_faults(&found), 0);
    findings_free(&found);
    for (int rank = 1; rank < 3; rank++) {
        job.facts[rank].state = PROCESS_BLOCKED;
        strcpy(job.facts[rank].detail, "nfs_wait_bit_killable");
    }
    const struct snapshot both = {.now = made_look(&job), .before = made_look(&job), .stuck = MADE_STUCK};
    found = diagnosis_find(&both);
    assert_true(!idle || strcmp(found.items[0].evidence[0],
                                "ranks 1 2 wait in the kernel (state D), for a disk, a network file system or a "
                                "device, in nfs_wait_bit_killable") == 0);
    findings_free(&found);
    made_free(&job);
}

static void test_all_are_outside(void **state)
{
    expect_idle(40, 0, false, true);
    expect_idle(40, 12, false, true);
    expect_idle(40, 20, false, false); /* not unusual */
    expect_idle(20, 0, false, false);
    expect_idle(40, 0, true, false);
}

/* The same ranks, of which rank 1 does `works` between the looks, and rank 2 is in this state. */
static void expect_standing(uint64_t away, uint64_t before, int works, enum process_state state, bool stands)
{
    struct made_job job = made_job(3), then = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct process_facts *now = &job.facts[rank];
        made_call(made_comm(job.boxes[rank], 1, "world", rank, 3), 7, away * NS_PER_S + NS_PER_MS, away * NS_PER_S);
        *now = (struct process_facts){.state = rank == 2 ? state : PROCESS_SLEEPS, .at = MADE_NOW - NS_PER_S};
        now->moved = now->thread_count = now->threads[0].number = 1;
        then.facts[rank] = *now;
        now->at = MADE_NOW;
    }
    if (before)
        add_pause(job.boxes[1], 1, before * NS_PER_S, 100);
    job.facts[1].threads[0].ran += works == 1 ? 700 * NS_PER_MS : 0;
    job.facts[1].moved += works == 2 ? 2 << 20 : 0;
    job.facts[1].faults += works == 3;
    job.boxes[1]->expected_until = works == 4 ? MADE_NOW + 1 : 0;
    const struct snapshot both = {.now = made_look(&job), .before = {job.boxes, then.facts, 3}, .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&both);
    if (findings_faults(&found) != stands)
        fail_msg("%d s, %d s before, works %d: %s", (int)away, (int)before, works,
                 found.count ? found.items[0].sentence : "nothing");
    if (stands) {
        assert_int_equal(found.items[0].kind, FINDING_OUTSIDE);
        assert_int_equal(found.items[0].confidence, state == PROCESS_BLOCKED ? LIKELY : POSSIBLE);
        assert_int_equal(found.items[0].culprit.rank, -1);
        assert_non_null(strstr(found.items[0].sentence, "nothing gets on: all 3 ranks of communicator world are "
                                                        "outside of calls for"));
    }
    findings_free(&found);
    made_free(&then);
    made_free(&job);
}

/* Where all sleep, the job stands after 30 s; where the kernel holds one, after 6 s. A rank at work may take longer. */
static void test_all_stand(void **state)
{
    expect_standing(40, 0, 0, PROCESS_SLEEPS, true);
    expect_standing(20, 0, 0, PROCESS_SLEEPS, false);
    expect_standing(7, 0, 0, PROCESS_BLOCKED, true);
    expect_standing(5, 0, 0, PROCESS_BLOCKED, false);
    expect_standing(40, 15, 0, PROCESS_SLEEPS, false);
    expect_standing(40, 25, 0, PROCESS_BLOCKED, false);
    for (int works = 1; works <= 4; works++)
        for (int blocked = 0; blocked < 2; blocked++)
            expect_standing(400, 0, works, blocked ? PROCESS_BLOCKED : PROCESS_SLEEPS, false);
}

/* 256 calls of four ranks, 20 ms apart. Before every `each`-th, rank 2 is `away`, in milliseconds. */
static struct made_job job_that_stalls(int each, uint64_t away)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *comm = made_comm(job.boxes[rank], 1, "world", rank, 4);
        uint64_t ago = (256 * 20 + 256 / (uint64_t)each * away + 100) * NS_PER_MS;
        for (int call = 1; call <= 256; call++) {
            uint64_t stall = call % each ? 0 : away * NS_PER_MS;
            ago -= 20 * NS_PER_MS;
            made_call(comm, (uint64_t)call, ago - (rank == 2 ? stall : 0), ago - stall - NS_PER_MS);
            ago -= stall;
        }
    }
    return job;
}

static void expect_slow(int each, uint64_t away, bool slow)
{
    struct made_job job = job_that_stalls(each, away);
    struct findings found = find_in(&job);
    if (found.count != slow)
        fail_msg("every %d calls %d ms: %s", each, (int)away, found.count ? found.items[0].sentence : "nothing");
    if (slow)
        assert_true(found.items[0].kind == FINDING_SLOW && found.items[0].culprit.rank == 2 &&
                    findings_may_be_chance(&found));
    findings_free(&found);
    made_free(&job);
}

/* A loader that runs dry takes most of the time. Checkpoints do, too, and are meant. */
static void test_stalls_now_and_then(void **state)
{
    expect_slow(10, 1000, true);
    expect_slow(40, 1500, true);
    expect_slow(10, 100, false);  /* a third of the time */
    expect_slow(60, 2000, false); /* four times */
    expect_slow(40, 8000, false); /* as checkpoints */
}

/* Rank 0 has waited for rank 1 for 11.5 s, when its box is read. Rank 1, which goes on then, is read `later`, and so is
 * rank 2, which goes on with it. */
static struct findings find_read_later(uint64_t later, bool messages)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        for (uint64_t seq = 0; seq < 8; seq++)
            made_call(world, seq, (20 - seq) * NS_PER_S, (20 - seq) * NS_PER_S - NS_PER_MS);
        for (uint64_t seq = 8; rank && seq < 11; seq++) {
            struct blackbox_op *op = made_call(world, seq, 0, 0);
            op->begin = op->start = op->end = MADE_NOW - NS_PER_MS + later;
            if (messages)
                op->collective = WIRE_SEND, op->root = 3 - rank;
        }
        job.boxes[rank]->now += rank ? later : 0;
    }
    made_wait(job.boxes[0]->comms, 8, 1, 2)->wait_since -= 1500 * NS_PER_MS;
    struct findings found = find_in(&job);
    made_free(&job);
    return found;
}

static void test_goes_on_while_boxes_are_read(void **state)
{
    struct findings at_once = find_read_later(0, false), later = find_read_later(20 * NS_PER_MS, false),
                    elsewhere = find_read_later(20 * NS_PER_MS, true); /* it may exchange messages for ever */
    assert_int_equal(later.count, 0);
    assert_true(at_once.count == 1 && at_once.items->kind == FINDING_AHEAD && at_once.items->culprit.rank == 1);
    assert_true(elsewhere.count == 1 && elsewhere.items->kind == FINDING_BEHIND && elsewhere.items->culprit.rank == 1);
    findings_free(&at_once);
    findings_free(&later);
    findings_free(&elsewhere);
}

/* A note wants no second look, and comes behind what is wrong. */
static void test_notes(void **state)
{
    struct finding items[2] = {{.kind = FINDING_AWAY}, {.kind = FINDING_SLOW}};
    struct findings now = {.items = items, .count = 2}, before = {0};
    findings_confirm(&now, &before);
    assert_int_equal(now.count, 1);
    assert_int_equal(now.items[0].kind, FINDING_AWAY);
    assert_false(findings_may_be_chance(&now));
    assert_false(finding_is_hang(FINDING_AWAY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_before),
                                       cmocka_unit_test(test_once),
                                       cmocka_unit_test(test_said),
                                       cmocka_unit_test(test_works),
                                       cmocka_unit_test(test_computes_for_ever),
                                       cmocka_unit_test(test_all_are_outside),
                                       cmocka_unit_test(test_all_stand),
                                       cmocka_unit_test(test_stalls_now_and_then),
                                       cmocka_unit_test(test_goes_on_while_boxes_are_read),
                                       cmocka_unit_test(test_notes)};
    return cmocka_run_group_tests_name("diagnosis: away", tests, NULL, NULL);
}
