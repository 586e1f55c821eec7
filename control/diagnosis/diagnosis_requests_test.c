/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are away for a moment, again and again: loaders that run dry in each n-th step of a job that has been
 * quick, and servers that wait for requests. Both are drawn from a number, and looked at in each second.
 */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define CASES   60
#define STEPS   8192
#define RING    256 /* calls that a black box remembers */
#define SAMPLES 96
#define MS      NS_PER_MS
#define AT_MOST 5000.0 /* ms from one request to the next */

/* ---- Chance ---- */

static uint64_t chance;

static uint64_t drawn(uint64_t below)
{
    chance += 0x9e3779b97f4a7c15ull;
    uint64_t mixed = (chance ^ chance >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return (mixed ^ mixed >> 31) % below;
}

static double between(double low, double high)
{
    return low + (high - low) * (double)drawn(1 << 30) / (1 << 30);
}

/* As times from one request to the next, if each comes at random: thin slices of the mean, of which each may be the
 * last. */
static double at_random(double mean)
{
    int slices = 0;
    while (drawn(64))
        slices++;
    return mean * (slices + between(0, 1)) / 64;
}

/* ---- Jobs ---- */

/* The steps of a job, in milliseconds. */
struct course {
    int ranks, who, calls; /* calls of a step */
    bool messages;         /* its first call exchanges messages */
    double work, warm;     /* of a step; the time in which the job was quick */
    double away[STEPS];    /* of `who`, before each step */
    size_t steps;
};

static void add_step(struct course *course, double away)
{
    assert_true(course->steps < STEPS);
    course->away[course->steps++] = away;
}

static void draw_job(struct course *course, double warm)
{
    course->ranks = 2 + (int)drawn(3);
    course->who = (int)drawn((uint64_t)course->ranks);
    course->calls = 1 + (int)drawn(4);
    course->work = between(20, 70);
    course->warm = warm;
    course->steps = 0;
    for (double at = 0; at < warm; at += course->work)
        add_step(course, 0);
}

/* A stall in each n-th step, and some milliseconds in the others, as on a busy machine. */
static void draw_loader(struct course *course)
{
    draw_job(course, between(5000, 30000));
    int each = 2 + (int)drawn(9);
    double stall = each * course->work * between(2, 3), differs = between(0, 0.1), busy = between(0.5, 6);
    stall = stall < 200 ? 200 : stall > 2500 ? 2500 : stall;
    for (double at = 0; at < 32000; at += stall + each * course->work)
        for (int i = 0; i < each; i++)
            add_step(course, i ? at_random(busy) : stall * between(1 - differs, 1 + differs));
}

/* Requests come one by one, or many at once, or after the answer to the last one. Each leads to some steps. */
static void draw_server(struct course *course)
{
    static const uint64_t sizes[] = {1, 1, 2, 5, 10, 20};
    draw_job(course, 0);
    uint64_t size = sizes[drawn(6)], arrive = drawn(3);
    bool varied = size > 1 && drawn(2);
    double pause = (double)size * course->work * between(1.2, 6), busy = drawn(3) ? 0 : between(3, 8), free = 0;
    pause = pause > AT_MOST / 2 ? AT_MOST / 2 : pause;
    for (double came = 0; free < 42000;) {
        double mean = pause + (double)size * course->work;
        double next = arrive == 0   ? at_random(mean)
                      : arrive == 1 ? at_random(drawn(4) ? 30 : 3 * mean)
                                    : at_random(pause) + free - came;
        came += next > AT_MOST ? AT_MOST : next;
        double idle = came > free ? came - free : 0;
        uint64_t steps = varied ? 1 + (uint64_t)at_random((double)size) : size;
        for (uint64_t i = 0; i < steps; i++) {
            add_step(course, (i ? 0 : idle) + at_random(busy));
            free += course->away[course->steps - 1] + course->work;
        }
    }
}

/* ---- Looks ---- */

/* A message to one rank and one from another are in the box as a group, or by themselves. */
static void make_messages(struct blackbox_comm *comm, struct blackbox_op *op, size_t step)
{
    op->collective = WIRE_GROUP;
    if ((step * 7 + (size_t)comm->rank) % 5 < 2)
        return;
    struct blackbox_op message = *op;
    op->collective = WIRE_RECV;
    op->root = (comm->rank + comm->nranks - 1) % comm->nranks;
    op = made_call(comm, 0, 0, 0);
    message.position = op->position;
    *op = message;
    op->collective = WIRE_SEND;
    op->root = (comm->rank + 1) % comm->nranks;
    op->end = op->begin + MS / 50;
}

/* The calls of one rank in a step that begins at this time. The last call may be under way now. */
static void add_calls(struct blackbox_comm *comm, const struct course *course, size_t step, uint64_t at, uint64_t now)
{
    uint64_t work = (uint64_t)(course->work * (double)MS), away = (uint64_t)(course->away[step] * (double)MS);
    uint64_t begin = at + (comm->rank == course->who ? away : 0) + work - 3 * MS, end = at + away + work - MS;
    for (int call = 0; call < course->calls && begin <= now; call++, begin = end + MS / 50, end = begin + MS / 5) {
        struct blackbox_op *op =
            made_call(comm, step * (uint64_t)course->calls + (uint64_t)call, MADE_NOW - begin, MADE_NOW - end);
        op->count = 100 + (uint64_t)call;
        op->position = op->seq;
        if (end > now)
            op->state = WIRE_OP_RUNNING, op->end = 0, op->wait_peer = course->who, op->wait_since = begin;
        if (course->messages && call == 0)
            make_messages(comm, op, step);
        if (end > now)
            return;
    }
}

static void add_samples(struct blackbox *box, const struct course *course, const uint64_t *starts, size_t steps)
{
    for (size_t step = 0; step < steps && box->sample_count < SAMPLES; step++)
        if (!box->sample_count || starts[step] >= box->samples[box->sample_count - 1].at + NS_PER_S)
            box->samples[box->sample_count++] =
                (struct blackbox_sample){.at = starts[step], .calls = step * (uint64_t)course->calls};
    box->samples[box->sample_count++] =
        (struct blackbox_sample){.at = box->now, .calls = steps * (uint64_t)course->calls};
    box->counter_count = WIRE_COUNTER_COUNT;
    box->counters[WIRE_COUNTER_OPERATIONS] = steps * (uint64_t)course->calls;
}

/* The job as it is at this time; it began at 1 s. */
static struct made_job job_at(const struct course *course, uint64_t now)
{
    static uint64_t starts[STEPS];
    struct made_job job = made_job((size_t)course->ranks);
    size_t steps = 0, remembered = RING / (size_t)course->calls;
    for (uint64_t at = NS_PER_S; steps < course->steps && at < now; steps++) {
        starts[steps] = at;
        at += (uint64_t)((course->away[steps] + course->work) * (double)MS);
    }
    for (int rank = 0; rank < course->ranks; rank++) {
        struct blackbox_comm *comm = made_comm(job.boxes[rank], 1, "world", rank, course->ranks);
        comm->opened = NS_PER_S;
        job.boxes[rank]->now = now;
        for (size_t step = steps > remembered ? steps - remembered : 0; step < steps; step++)
            add_calls(comm, course, step, starts[step], now);
        add_samples(job.boxes[rank], course, starts, steps);
    }
    return job;
}

/* Each process ran for 5 ms in the second between two looks, and was in this state. */
static struct findings find_at(const struct course *course, uint64_t now, enum process_state state)
{
    struct made_job job = job_at(course, now), before = {job.boxes, calloc(job.count, sizeof *job.facts), job.count};
    for (size_t i = 0; i < job.count; i++) {
        struct process_facts *facts = &job.facts[i];
        *facts = (struct process_facts){.state = state, .at = now - NS_PER_S, .thread_count = 1};
        facts->threads[0].number = 1;
        before.facts[i] = *facts;
        facts->at = now;
        facts->threads[0].ran = 5 * MS;
    }
    const struct snapshot snapshot = {.now = made_look(&job), .before = made_look(&before), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    free(before.facts);
    made_free(&job);
    return found;
}

static bool is_named(const struct course *course, uint64_t now)
{
    struct findings found = find_at(course, now, PROCESS_SLEEPS);
    bool named = findings_faults(&found) > 0;
    if (named && (found.items->kind != FINDING_SLOW || found.items->culprit.world_rank != course->who))
        fail_msg("%s", found.items->sentence);
    findings_free(&found);
    return named;
}

/* How many of the drawn jobs have a verdict at one of the looks, these seconds after they had been quick? */
static int count_named(void (*draw)(struct course *), int from, int to)
{
    static struct course course;
    int count = 0;
    for (uint64_t number = 1; number <= CASES; number++) {
        bool named = false;
        chance = number * 1000;
        draw(&course);
        course.messages = number % 2;
        for (int at = from; at <= to && !named; at++)
            named = is_named(&course, NS_PER_S + (uint64_t)(course.warm * (double)MS) + (uint64_t)at * NS_PER_S);
        count += named;
    }
    return count;
}

static void test_loaders(void **state)
{
    assert_int_equal(count_named(draw_loader, 25, 25), CASES);
}

/* Many looks at requests that come in crowds find now and then that there were more before. */
static void test_servers(void **state)
{
    assert_in_range(count_named(draw_server, 3, 40), 0, CASES / 20);
}

/* A server's rank, which waits for requests, is a note. Then a file system holds all ranks outside of calls. */
static void test_stands_still(void **state)
{
    static struct course course;
    size_t notes = 0;
    for (uint64_t number = 1; number <= CASES / 4; number++) {
        double end = 1000;
        chance = number * 1000;
        draw_server(&course);
        course.steps = course.steps > 300 ? 300 : course.steps;
        for (size_t i = 0; i < course.steps; i++)
            end += course.away[i] + course.work;
        struct findings found = find_at(&course, (uint64_t)(end * (double)MS) + 16 * NS_PER_S, PROCESS_BLOCKED);
        assert_true(found.count && found.items->kind == FINDING_OUTSIDE);
        notes += found.count > 1;
        findings_free(&found);
    }
    assert_true(notes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loaders), cmocka_unit_test(test_servers),
                                       cmocka_unit_test(test_stands_still)};
    return cmocka_run_group_tests_name("diagnosis: requests", tests, NULL, NULL);
}
