/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots in the shape of recorded jobs. A program computes while a call is under way, or was begun by exec. A
 * process waits in the kernel, or gets too little of a processor.
 */
#include "diagnosis/diagnosis_testing.h"

#include "diagnosis/process.h"

#include "base/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Late because of calls ---- */

/* Two ranks begin a call, compute for most of the time that it takes until the third one comes, and then wait. `told`:
 * black boxes know that. */
static struct made_job computing_meanwhile(bool told)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        for (uint64_t seq = 0; seq < 30; seq++) {
            uint64_t end = (31 - seq) * 100 * NS_PER_MS;
            struct blackbox_op *op = made_call(world, seq, end + (rank == 2 ? 1 : 50) * NS_PER_MS, end);
            op->waited = told ? 1 + NS_PER_MS : 0;
        }
    }
    return job;
}

static void test_computes_before_it_waits(void **state)
{
    struct made_job job = computing_meanwhile(false);
    made_expect(NULL, &job, FINDING_SLOW, 2, "was last in 30 of the last 30 calls");
    made_free(&job);
    job = computing_meanwhile(true);
    struct snapshot snapshot = {.now = made_look(&job), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    assert_int_equal(found.count, 0);
    findings_free(&found);
    made_free(&job);
}

/* ---- Processes ---- */

/* Rank 1 of 3 has called nothing after #1. */
static struct made_job behind(void)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        made_call(world, 1, 20 * NS_PER_S, 20 * NS_PER_S - NS_PER_MS);
        if (rank != 1)
            made_wait(world, 2, 1, 0);
    }
    return job;
}

static void test_waits_in_the_kernel(void **state)
{
    struct made_job before = behind(), now = behind();
    before.facts[1].state = now.facts[1].state = PROCESS_BLOCKED;
    strcpy(now.facts[1].detail, "nfs_wait_bit_killable");
    made_expect(&before, &now, FINDING_BEHIND, 1, "a network file system or a device, in nfs_wait_bit_killable");
    made_expect(&before, &now, FINDING_BEHIND, 1,
                "no debugger gets in, and it may not end before that is over: cat /proc/1001");
    made_free(&before);
    made_free(&now);
}

static void test_other_program(void **state)
{
    struct made_job job = behind();
    job.boxes[1]->alive = false;
    made_expect(NULL, &job, FINDING_DEAD, 1, "rank 1 (process 1001, dead) is waited for");
    job.facts[1].replaced = true;
    strcpy(job.facts[1].detail, "sleep");
    made_expect(NULL, &job, FINDING_REPLACED, 1,
                "rank 1 (process 1001) has become another program (sleep) and is waited for");
    job.boxes[0]->comms->state = WIRE_COMM_FAILED;
    job.boxes[0]->comms->result = TUTTI_REMOTE_ERROR;
    job.boxes[0]->comms->culprit = 1;
    made_expect(NULL, &job, FINDING_REPLACED, 1, "has become another program (sleep): communicator world failed");
    /* copies of boxes, of which all look dead */
    struct made_job copies = behind();
    for (int rank = 0; rank < 3; rank++) {
        copies.boxes[rank]->alive = false;
        copies.boxes[rank]->now -= rank == 1 ? 2 * NS_PER_S : 0;
        copies.facts[rank].replaced = true;
    }
    made_expect(NULL, &copies, FINDING_DEAD, 1, "rank 1 (process 1001, dead)");
    made_free(&job);
    made_free(&copies);
}

/* All ranks wait in a write to the launcher, which was stopped: as a job of `tutti run` does that prints much. */
static void test_stopped_launcher(void **state)
{
    struct made_job before = made_job(3), now = made_job(3);
    for (int rank = 0; rank < 3; rank++)
        for (int look = 0; look < 2; look++) {
            struct made_job *job = look ? &now : &before;
            made_call(made_comm(job->boxes[rank], 1, "world", rank, 3), 1, 6 * NS_PER_S, 5 * NS_PER_S);
            job->facts[rank].stopped_parent = 77;
        }
    made_expect(&before, &now, FINDING_STOPPED, -1,
                "process 77, which has started ranks, is stopped, and all 3 ranks of ");
    before.facts[0].stopped_parent = before.facts[1].stopped_parent = before.facts[2].stopped_parent = 0;
    const struct snapshot snapshot = {.now = made_look(&now), .before = made_look(&before), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    assert_int_equal(found.count, 0); /* for a moment only */
    findings_free(&found);
    made_free(&before);
    made_free(&now);
}

/* ---- Too little of a processor ---- */

struct got {
    uint64_t ran, delayed, throttled; /* ms in the second between the looks */
};

static struct process_facts facts(uint64_t at, struct got got)
{
    return (struct process_facts){
        .state = PROCESS_SLEEPS,
        .at = at,
        .throttled = 1 + got.throttled * NS_PER_MS,
        .threads = {{.number = 1, .ran = got.ran * NS_PER_MS, .delayed = got.delayed * NS_PER_MS}},
        .thread_count = 1};
}

/* In each of 40 calls rank 1 comes `ms` after the others. */
static struct made_job late_by(uint64_t ms, uint64_t at, struct got one, struct got others)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        for (uint64_t seq = 0; seq < 40; seq++)
            made_call(world, seq, (4000 - 80 * seq + (rank == 1 ? 0 : ms)) * NS_PER_MS, (3999 - 80 * seq) * NS_PER_MS);
        job.facts[rank] = facts(at, rank == 1 ? one : others);
    }
    return job;
}

static void expect_late(struct got one, struct got others, enum finding_kind kind, const char *words)
{
    struct made_job before = late_by(40, MADE_NOW - NS_PER_S, (struct got){0}, (struct got){0}),
                    now = late_by(40, MADE_NOW, one, others);
    made_expect(&before, &now, kind, 1, words);
    made_free(&before);
    made_free(&now);
}

/* Where all lack processors, a rank may come late by some turns of other processes. */
static void test_late_by_turns(void **state)
{
    const struct got crowded = {100, 300, 0}, others = {100, 280, 0};
    struct made_job before = late_by(20, MADE_NOW - NS_PER_S, (struct got){0}, (struct got){0}),
                    now = late_by(20, MADE_NOW, crowded, others), free = late_by(20, MADE_NOW, others, (struct got){0});
    const struct snapshot looks[2] = {{.now = made_look(&now), .before = made_look(&before), .stuck = MADE_STUCK},
                                      {.now = made_look(&free), .before = made_look(&before), .stuck = MADE_STUCK}};
    for (int i = 0; i < 2; i++) {
        struct findings found = diagnosis_find(&looks[i]);
        assert_int_equal(found.count, i);
        findings_free(&found);
    }
    made_free(&before);
    made_free(&now);
    made_free(&free);
}

static void test_short_of_processors(void **state)
{
    const struct got others = {100, 20, 0};
    expect_late((struct got){100, 50, 0}, others, FINDING_SLOW, "was last in 40 of the last 40 calls");
    expect_late((struct got){100, 600, 0}, others, FINDING_STARVED, "gets no processor");
    expect_late((struct got){700, 250, 0}, others, FINDING_SLOW, "was last in"); /* it computes more than others */
    expect_late((struct got){300, 50, 500}, others, FINDING_STARVED, "gets no processor");
    expect_late((struct got){100, 600, 0}, (struct got){100, 500, 0}, FINDING_SLOW,
                "was last in"); /* all are crowded */
}

/* A quota stops rank 1 for 300 ms of each second, and nobody comes last; or it stops all, who are in one container. */
static void test_quota(void **state)
{
    struct made_job looks[2];
    for (int all = 0; all < 2; all++) {
        for (int i = 0; i < 2; i++) {
            const struct got none = {0}, some = {200, 20, 0}, stopped = {200, 20, 300};
            looks[i] = made_job(3);
            for (int rank = 0; rank < 3; rank++) {
                made_call(made_comm(looks[i].boxes[rank], 1, "world", rank, 3), 1, NS_PER_S, NS_PER_S - NS_PER_MS);
                looks[i].facts[rank] = facts(MADE_NOW - (i ? 0 : NS_PER_S), i == 0             ? none
                                                                            : all || rank == 1 ? stopped
                                                                                               : some);
                looks[i].facts[rank].stops = i ? 9 : 2;
                looks[i].facts[rank].faults = i ? 80 : 1;
                strcpy(looks[i].facts[rank].group, "/slurm/job_12");
            }
        }
        made_expect(
            &looks[0], &looks[1], FINDING_STARVED, all ? 0 : 1,
            all ? "ranks 0 1 2 get too few processors: the quota of their control group /slurm/job_12 was used up "
                  "for 300.0 ms of the last 1.0 s"
                : "gets no processor");
        const struct snapshot snapshot = {
            .now = made_look(&looks[1]), .before = made_look(&looks[0]), .stuck = MADE_STUCK};
        struct findings found = diagnosis_find(&snapshot);
        const char *quota = found.items->evidence[all ? 0 : 1], *pages = found.items->evidence[all ? 1 : 2];
        assert_string_equal(quota, "control group /slurm/job_12: its quota of processors was used up for 300.0 ms of "
                                   "the last 1.0 s, 7 times");
        assert_string_equal(pages, "it waited 79 times for pages of memory from a disk in the last 1.0 s: memory is "
                                   "short there");
        findings_free(&found);
        for (int rank = 0; rank < 3; rank++)
            looks[1].facts[rank].throttled = 1 + 50 * NS_PER_MS; /* now and then: no fault */
        found = diagnosis_find(&snapshot);
        assert_int_equal(found.count, 0);
        findings_free(&found);
        made_free(&looks[0]);
        made_free(&looks[1]);
    }
}

static void test_frozen_or_out_of_memory(void **state)
{
    struct made_job job = behind();
    job.facts[1].state = PROCESS_STOPPED;
    job.facts[1].frozen = true;
    strcpy(job.facts[1].group, "/docker/77");
    made_expect(NULL, &job, FINDING_STOPPED, 1, "rank 1 (process 1001) is frozen and is waited for by ranks 0 2");
    made_expect(NULL, &job, FINDING_STOPPED, 1, "control group /docker/77 is frozen: no process of it runs");
    made_expect(NULL, &job, FINDING_STOPPED, 1, "echo 0 >cgroup.freeze in /docker/77 of /sys/fs/cgroup");
    job.boxes[1]->alive = false;
    job.facts[1] = (struct process_facts){.out_of_memory = true, .group = "/docker/77"};
    made_expect(NULL, &job, FINDING_DEAD, 1,
                "the kernel has killed it for memory, says its log: the limit was that of control group /docker/77");
    made_expect(NULL, &job, FINDING_DEAD, 1, "give it more memory (memory.max of that group");
    *job.facts[1].group = 0;
    made_expect(NULL, &job, FINDING_DEAD, 1, "says its log: the limit was the machine's");
    job.facts[1] = (struct process_facts){0};
    job.facts[2].killed = 3;
    made_expect(
        NULL, &job, FINDING_DEAD, 1,
        "of the control group of process 1002, which lives beside it, 3 processes were killed for memory so far");
    made_free(&job);
}

/* Two ranks wait for each other. What rank 1 has put on its lanes does not arrive; one lane is down. */
static void test_lanes_beside_a_hang(void **state)
{
    for (int interfaces = 1; interfaces <= 2; interfaces++) {
        struct made_job job = made_job(2);
        for (int rank = 0; rank < 2; rank++)
            made_wait(made_comm(job.boxes[rank], 1, "world", rank, 2), 2, 1 - rank, 0);
        strcpy(job.boxes[1]->header.host, "h3");
        for (int i = 0; i < 3; i++) {
            struct blackbox_lane *lane = made_lane(job.boxes[1], job.boxes[0], 3);
            strcpy(lane->interface, i == 2 && interfaces == 2 ? "eth2" : "eth1");
            made_segment(lane, 2, 5100, 5100, 5000, 4000);
            lane->segments[0].status = i == 0 ? WIRE_SEGMENT_LANDED : WIRE_SEGMENT_POSTED;
            lane->state = i == 0 ? WIRE_LANE_DOWN : WIRE_LANE_UP;
        }
        const struct snapshot snapshot = {.now = made_look(&job), .stuck = MADE_STUCK / 2};
        struct findings found = diagnosis_find(&snapshot);
        const char *words = interfaces == 1 ? "interface eth1: 1 of 3 lanes are down, and 2 segments are on their way, "
                                              "the oldest for 5.0 s"
                                            : "all interfaces of host h3: 1 of 3 lanes are down, and 2 segments are on "
                                              "their way, the oldest for 5.0 s";
        bool told = false;
        assert_int_equal(found.count, 1);
        for (size_t i = 0; i < found.items->evidence_count; i++)
            told |= strcmp(found.items->evidence[i], words) == 0;
        if (!told)
            fail_msg("%s: %s", found.items->sentence, found.items->evidence[0]);
        findings_free(&found);
        made_free(&job);
    }
}

/* A rank that computes outside of calls, on a machine where it gets a third of a processor. */
static void test_computes_on_a_crowded_machine(void **state)
{
    struct made_job before = behind(), now = behind();
    for (int rank = 0; rank < 3; rank++) {
        before.facts[rank] = facts(MADE_NOW - NS_PER_S, (struct got){0});
        now.facts[rank] = facts(MADE_NOW, rank == 1 ? (struct got){300, 600, 0} : (struct got){5, 1, 0});
    }
    made_expect(&before, &now, FINDING_AWAY, 1, "and works;");
    now.facts[1] = facts(MADE_NOW, (struct got){30, 60, 0});
    made_expect(&before, &now, FINDING_BEHIND, 1, "it sleeps, or waits for something");
    made_free(&before);
    made_free(&now);
}

/* ---- Slower than before ---- */

enum {
    SLOWER,
    UNTIMED, /* most calls have no end in the box */
    LARGER_MESSAGES,
    COMPUTES,
    COMPUTES_UNTIMED,
    YOUNG,
    AS_BEFORE,
    LONG_AGO,
    LATE,
    SILENT,
    ALL_SILENT,
    ONE_HOST,
    ONE_HOST_LARGER,
    IN_THE_KERNEL,
    ONE_IN_THE_KERNEL,
    OFTEN_IN_THE_KERNEL, /* at neither look */
    HOWS
};

#define HOUR (3600 * NS_PER_S)

/* Samples every `apart`, from `ago` before now until `until`, with these calls and bytes a second. */
static void sample(struct blackbox *box, uint64_t ago, uint64_t until, uint64_t apart, uint64_t calls, uint64_t bytes)
{
    struct blackbox_sample next = {MADE_NOW - ago, 0, 0, 0};
    if (box->sample_count)
        next = box->samples[box->sample_count - 1];
    else
        box->samples[box->sample_count++] = next;
    for (uint64_t at = ago; at > until; at -= apart) {
        next.at += apart;
        next.calls += calls * apart / NS_PER_S;
        next.bytes += bytes * apart / NS_PER_S;
        box->samples[box->sample_count++] = next;
    }
}

/* In the last 12 s each rank has made a call every second, and 20 a second before: for 48 s, or for hours until 20 h
 * ago. A job did so of which two of four hosts had got slow interfaces. */
static struct made_job slower(uint64_t ago, int how)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox *box = job.boxes[rank];
        struct blackbox_comm *world = made_comm(box, 1, "world", rank, 3);
        for (uint64_t seq = 0; seq < 20; seq++) {
            uint64_t begun = (20 - seq) * NS_PER_S,
                     took = how == COMPUTES || how == COMPUTES_UNTIMED || how >= IN_THE_KERNEL ? 300 : 900;
            if (how == LATE && rank == 1 && seq % 2) /* too seldom for a rank that is slow */
                begun -= 600 * NS_PER_MS, took = 300;
            struct blackbox_op *op = made_call(world, seq, begun, begun - took * NS_PER_MS);
            op->position += 1000;
            op->end = (how == UNTIMED || how == COMPUTES_UNTIMED) && seq % 3 ? 0 : op->end;
        }
        uint64_t bytes = how == LARGER_MESSAGES ? 900000 : 10000, before = 1000000;
        if (how == ALL_SILENT || how == IN_THE_KERNEL ||
            (how == SILENT && rank == 2)) /* its host's other ranks send for it */
            bytes = before = 0;
        if (how == LONG_AGO) {
            sample(box, 30 * HOUR, 20 * HOUR, HOUR / 2, 20, 1000000);
            sample(box, 20 * HOUR, 0, HOUR / 2, 1, bytes);
            sample(box, 0, 0, 1, 0, 0);
        } else {
            sample(box, how == YOUNG ? 36 * NS_PER_S : 60 * NS_PER_S, 12 * NS_PER_S, 4 * NS_PER_S,
                   how == AS_BEFORE ? 1 : 20, before);
            sample(box, 12 * NS_PER_S, 0, 4 * NS_PER_S, 1, bytes);
        }
        if (how >= IN_THE_KERNEL && how < OFTEN_IN_THE_KERNEL && rank < (how == IN_THE_KERNEL ? 2 : 1))
            job.facts[rank].state = PROCESS_BLOCKED;
        if (how == OFTEN_IN_THE_KERNEL)
            job.facts[rank].watched = 20, job.facts[rank].blocked = rank ? 11 : 7;
        for (size_t i = 0; (how == ONE_HOST || how == ONE_HOST_LARGER) && i < box->sample_count;
             i++) { /* in shared memory: nothing is sent */
            uint64_t calls = box->samples[i].calls, quick = calls < 960 ? calls : 960;
            box->samples[i].called = 1000 * quick + (how == ONE_HOST ? 1000 : 20000) * (calls - quick);
            box->samples[i].bytes = 0;
        }
        box->now -= ago;
        box->realtime_offset = 24 * (int64_t)HOUR - MADE_NOW + (how == LONG_AGO ? 0 : 7200 * (int64_t)NS_PER_S);
    }
    return job;
}

/* A rank that is in the kernel for four fifths of the time, beside one that sleeps. */
static void test_states_are_watched(void **state)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                if (!rank && vfork() == 0) { /* its parent waits in the kernel */
                    poll(NULL, 0, 40);
                    _exit(0);
                }
                poll(NULL, 0, 10);
                waitpid(-1, NULL, WNOHANG);
            }
        }
        job.facts[rank].pid = (uint32_t)child;
    }
    while (!job.facts[0].blocked)
        process_facts_watch(job.facts, 2, 200 * NS_PER_MS);
    for (int rank = 0; rank < 2; rank++) {
        kill((pid_t)job.facts[rank].pid, SIGKILL);
        waitpid((pid_t)job.facts[rank].pid, NULL, 0);
    }
    assert_true(job.facts[0].watched >= job.facts[0].blocked);
    assert_true(job.facts[1].watched > job.facts[1].blocked);
    made_free(&job);
}

static void expect_slower(int how, const struct findings *found)
{
    static const char *const sentences[HOWS] = {
        [SLOWER] = "communicator world is slow since 01:59: each rank made 1.0 calls a second in the last 12.0 s, and "
                   "20.0 at best; nobody stands out",
        [UNTIMED] = "communicator world is slow since 01:59: each rank made 1.0 calls a second in the last 12.0 s, and "
                    "20.0 at best; nobody stands out",
        [LONG_AGO] = "communicator world is slow since 04:00 on 1970-01-01: each rank made 1.0 calls a second in the "
                     "last 1800.0 s, and 20.0 at best; nobody stands out",
        [LATE] = "communicator world is slow since 01:59: each rank made 1.0 calls a second in the last 12.0 s, and "
                 "20.0 at best; rank 1 (process 1001) stands out: others waited for it for 28 % of the latest calls' "
                 "time",
        [ONE_HOST] = "communicator world is slow since 01:59: each rank made 1.0 calls a second in the last 12.0 s, "
                     "and 20.0 at best; nobody stands out",
        [IN_THE_KERNEL] = "communicator world is slow since 01:59: each rank made 1.0 calls a second in the last 12.0 "
                          "s, and 20.0 at best; nobody stands out",
        [OFTEN_IN_THE_KERNEL] = "communicator world is slow since 01:59: each rank made 1.0 calls a second in the last "
                                "12.0 s, and 20.0 at best; nobody stands out",
        [SILENT] = "communicator world is slow since 01:59: each rank made 1.0 calls a second in the last 12.0 s, and "
                   "20.0 at best; nobody stands out",
    };
    if (found->count != (sentences[how] != NULL))
        fail_msg("%d: %s", how, found->count ? found->items->sentence : "nothing");
    if (!found->count)
        return;
    assert_int_equal(found->items->kind, FINDING_SLOWED);
    assert_string_equal(found->items->sentence, sentences[how]);
    if (how == ONE_HOST)
        assert_string_equal(found->items->evidence[0], "its best: from 01:59 for 32.0 s, 2e+04 bytes a second in "
                                                       "collectives of each rank; now 1e+03");
    if (how == IN_THE_KERNEL || how == OFTEN_IN_THE_KERNEL)
        assert_string_equal(found->items->evidence[found->items->evidence_count - 1],
                            how == IN_THE_KERNEL ? "ranks 0 1 wait in the kernel (state D), for a disk, a network file "
                                                   "system or a device"
                                                 : "ranks 1 2 wait in the kernel (state D), for a disk, a network file "
                                                   "system or a device");
    if (how == SLOWER) {
        assert_string_equal(found->items->evidence[0],
                            "its best: from 01:59 for 32.0 s, 1e+06 bytes a second of each rank; now 1e+04");
        assert_string_equal(found->items->evidence[1], "of the time ranks are outside of calls for 10 %");
        assert_string_equal(found->items->evidence[2], "of the time in calls: 100 % in allreduce");
    }
}

static void test_slower_than_before(void **state)
{
    setenv("TZ", "UTC", 1);
    tzset();
    for (int how = SLOWER; how < HOWS; how++) {
        struct made_job before = slower(NS_PER_S, how), now = slower(0, how);
        const struct snapshot snapshot = {.now = made_look(&now), .before = made_look(&before), .stuck = MADE_STUCK};
        struct findings found = diagnosis_find(&snapshot);
        expect_slower(how, &found);
        findings_free(&found);
        made_free(&before);
        made_free(&now);
    }
}

/* One rank is late in each call. */
static struct findings find_slower(int late)
{
    struct made_job before = slower(NS_PER_S, SLOWER), now = slower(0, SLOWER);
    struct blackbox_comm *world = now.boxes[late]->comms;
    for (size_t i = 0; i < world->op_count; i++)
        world->ops[i].begin += 350 * NS_PER_MS, world->ops[i].start = world->ops[i].begin;
    const struct snapshot snapshot = {.now = made_look(&now), .before = made_look(&before), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    assert_true(found.count == 1 && found.items->kind == FINDING_SLOW && found.items->culprit.rank == late);
    made_free(&before);
    made_free(&now);
    return found;
}

/* In each look another rank is slow: by chance, if the job is as quick as ever. */
static void test_slower_whoever_is(void **state)
{
    struct findings first = find_slower(1), second = find_slower(1), third = find_slower(2), fourth = find_slower(0);
    findings_confirm(&second, &first);
    assert_true(second.count == 1 && second.items->kind == FINDING_SLOW);
    findings_confirm(&third, &second);
    assert_true(third.count == 1 && third.items->kind == FINDING_SLOWED && *third.items->remedy);
    free(third.slower);
    third.slower = NULL, third.count = 0; /* it was as quick as ever */
    findings_confirm(&fourth, &third);
    assert_int_equal(fourth.count, 0);
    findings_free(&first);
    findings_free(&second);
    findings_free(&third);
    findings_free(&fourth);
}

/* While the job is slow, an interface that is slow until now is evidence and no note. */
static void test_slower_by_an_interface(void **state)
{
    struct made_job before = slower(NS_PER_S, SLOWER), now = slower(0, SLOWER);
    strcpy(now.boxes[1]->header.host, "node7");
    struct wire_box_watch *watch = calloc(1, sizeof *watch);
    *watch = (struct wire_box_watch){.windows = 500, .slows = 1};
    watch->slow[0] = (struct wire_box_slow){
        MADE_NOW - 12 * NS_PER_S, MADE_NOW - NS_PER_S, 11 * NS_PER_S, 110000000, 100000000, 9, 0};
    made_lane(now.boxes[1], now.boxes[0], 0)->watch = watch;
    const struct snapshot snapshot = {.now = made_look(&now), .before = made_look(&before), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items->evidence[3],
                        "interface n0 of host node7: what goes out of it is slow since 01:59:48, by 1 of its 1 lanes: "
                        "10.0 MB/s, usual 100.0 MB/s, network");
    findings_free(&found);
    watch->slow[0].end -= 10 * NS_PER_S;
    found = diagnosis_find(&snapshot);
    assert_true(found.count == 2 && found.items[1].kind == FINDING_HICCUP);
    findings_free(&found);
    made_free(&before);
    made_free(&now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computes_before_it_waits),
        cmocka_unit_test(test_waits_in_the_kernel),
        cmocka_unit_test(test_other_program),
        cmocka_unit_test(test_late_by_turns),
        cmocka_unit_test(test_short_of_processors),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_lanes_beside_a_hang),
        cmocka_unit_test(test_frozen_or_out_of_memory),
        cmocka_unit_test(test_computes_on_a_crowded_machine),
        cmocka_unit_test(test_states_are_watched),
        cmocka_unit_test(test_slower_than_before),
        cmocka_unit_test(test_slower_whoever_is),
        cmocka_unit_test(test_slower_by_an_interface),
        cmocka_unit_test(test_stopped_launcher),
    };
    return cmocka_run_group_tests_name("diagnosis of programs", tests, NULL, NULL);
}
