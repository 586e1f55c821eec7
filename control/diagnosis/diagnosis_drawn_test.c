/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots in the shape of drawn jobs (benchmarks/diagnosis_drawn.py) of which something wrong was said, or nothing.
 * Times are those of their black boxes, rounded to milliseconds.
 */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STEPS 60

/* kind -1: nothing is found. */
static void expect(const struct made_job *before, const struct made_job *now, int kind, int rank, const char *words)
{
    struct snapshot snapshot = {.now = made_look(now), .stuck = MADE_STUCK};
    if (before)
        snapshot.before = made_look(before);
    struct findings found = diagnosis_find(&snapshot);
    if (found.count != (kind >= 0) ||
        (kind >= 0 && ((int)found.items->kind != kind || found.items->culprit.world_rank != rank ||
                       !strstr(found.items->sentence, words))))
        fail_msg("%zu findings, %s of rank %d: %s", found.count,
                 found.count ? finding_row(found.items->kind)->name : "",
                 found.count ? found.items->culprit.world_rank : -1, found.count ? found.items->sentence : "");
    findings_free(&found);
}

/* ---- Slow ranks ---- */

/* Each rank sends to the next one and receives from the one before, then all meet. Rank 2 computes 80 ms longer than
 * the others, so rank 0 waits for its message, and rank 1 in the gather. */
static struct made_job ring(bool slow)
{
    static const int slow_times[3][3] = {{18, 98, 115}, {16, 18, 34}, {98, 99, 115}};
    static const int times[3][3] = {{18, 19, 36}, {16, 18, 34}, {18, 19, 36}};
    int all = slow ? 116 : 37;
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        const int *at = slow ? slow_times[rank] : times[rank];
        for (uint64_t step = 0; step < STEPS; step++) {
            uint64_t ago = (STEPS - step) * (uint64_t)all * NS_PER_MS;
            made_in_step(world, 2 * step, ago, WIRE_RECV, at[0], at[1])->root = (rank + 2) % 3;
            made_in_step(world, 2 * step, ago, WIRE_GATHER, at[2], rank == 1 ? all - 1 : at[2])->root = 1;
            made_in_step(world, 2 * step + 1, ago, WIRE_ALLGATHER, all - 1, all);
        }
    }
    return job;
}

static void test_slow_by_messages(void **state)
{
    struct made_job job = ring(true);
    expect(NULL, &job, FINDING_SLOW, 2, "rank 2 (process 1002) hardly waits, and all others of communicator world do");
    struct made_job quick = ring(false);
    expect(NULL, &quick, -1, 0, "");
    made_free(&job);
    made_free(&quick);
}

/* The same ring, in which rank 2 stalls before each `every`-th step, for this time. Its gathers are over at once, or
 * after a millisecond: they are not what lasts until the stall is over. `device`: GPUs make the calls. `busy`: ms that
 * each message takes longer, at all ranks. */
static struct made_job loader(uint64_t stall, uint64_t every, bool device, uint64_t busy)
{
    static const uint64_t times[3][3] = {{18, 19, 36}, {16, 18, 34}, {18, 19, 36}};
    uint64_t steps = 8 * every, step_ms = 37 + busy, ago = steps * step_ms + 8 * stall; /* ms */
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        uint64_t left = ago;
        for (uint64_t step = 0; step < steps; step++) {
            uint64_t more = step % every ? 0 : stall, mine = rank == 2 ? more : 0, there = rank == 1 ? 0 : more;
            const uint64_t *at = times[rank];
            made_in_step(world, 2 * step, left * NS_PER_MS, WIRE_RECV, (int)(at[0] + mine), (int)(at[1] + busy + there))
                ->root = (rank + 2) % 3;
            made_in_step(world, 2 * step, left * NS_PER_MS, WIRE_GATHER, (int)(at[2] + busy + there),
                         (int)(36 + busy + more + (rank == 2 && step % every == 3)))
                ->root = 1;
            left -= step_ms + more;
        }
        for (size_t i = 0; i < world->op_count; i++) {
            struct blackbox_op *op = &world->ops[i];
            op->position += 10000;
            if (device)
                op->device = true, op->gpu_begin = op->begin - MADE_NOW / 2, op->gpu_end = op->end - MADE_NOW / 2;
        }
        world->opened = MADE_NOW - 100 * NS_PER_S;
        job.boxes[rank]->counter_count = WIRE_COUNTER_COUNT;
        job.boxes[rank]->counters[WIRE_COUNTER_OPERATIONS] = 5000;
    }
    return job;
}

static void test_loader_in_messages(void **state)
{
    for (int device = 0; device < 2; device++) {
        struct made_job now = loader(1400, 8, device, 0), before = made_before(&now);
        expect(&before, &now, FINDING_SLOW, 2, "7 pauses took 9.9 s of it, the longest 1.4 s");
        for (int rank = 0; rank < 3; rank++)
            now.boxes[rank]->counters[WIRE_COUNTER_OPERATIONS] = 300; /* never quicker: it may wait for requests */
        expect(&before, &now, -1, 0, "");
        struct made_job seldom = loader(1400, 40, device, 0), long_ones = loader(3200, 8, device, 0);
        struct made_job slower = loader(2700, 25, device, 0); /* five stalls take 18 s */
        expect(NULL, &slower, FINDING_SLOW, 2, "the longest 2.7 s");
        made_free(&slower);
        struct made_job busy = loader(1400, 8, device, 80); /* rank 2 is in calls for 28 % of the time */
        expect(NULL, &busy, FINDING_SLOW, 2, "hardly waits");
        made_free(&busy);
        expect(NULL, &seldom, -1, 0, "");
        expect(NULL, &long_ones, -1, 0, "");
        free(before.facts);
        made_free(&now);
        made_free(&seldom);
        made_free(&long_ones);
    }
}

/* Two ranks issue a reduce-scatter, compute for 28 ms, issue a gather, compute, and ask for the end of both. Rank 1
 * came first and stays so; nobody waits. `quicker`: the job made ten times as many calls a second before. */
static struct made_job overlapped(bool quicker)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_comm *near = made_comm(job.boxes[rank], 1, "near", rank, 2);
        for (uint64_t step = 0; step < STEPS; step++) {
            uint64_t ago = (STEPS - step) * 56 * NS_PER_MS;
            int late = rank ? 0 : 28;
            made_in_step(near, 2 * step, ago, WIRE_REDUCE_SCATTER, late, rank ? 29 : late);
            made_in_step(near, 2 * step + 1, ago, WIRE_GATHER, 28 + late - 1, 28 + late)->root = 0;
        }
        for (size_t i = 0; i < near->op_count; i++)
            near->ops[i].position += 1000;
        near->opened = MADE_NOW - 40 * NS_PER_S;
        job.boxes[rank]->counter_count = WIRE_COUNTER_COUNT;
        job.boxes[rank]->counters[WIRE_COUNTER_OPERATIONS] = quicker ? 12000 : 1300;
    }
    return job;
}

static void test_computes_meanwhile(void **state)
{
    struct made_job job = overlapped(false), slower = overlapped(true), once = overlapped(false);
    for (int rank = 0; rank < 2; rank++) { /* as many calls a second as on average, and a third of its best */
        struct blackbox *box = once.boxes[rank];
        box->comms->opened = MADE_NOW - 400 * NS_PER_S;
        box->counters[WIRE_COUNTER_OPERATIONS] = 13000;
        for (uint64_t i = 0; i < 3; i++)
            box->samples[box->sample_count++] =
                (struct blackbox_sample){.at = MADE_NOW - (400 - 40 * i) * NS_PER_S, .calls = i * 5000};
    }
    expect(NULL, &job, -1, 0, "");
    expect(NULL, &slower, FINDING_SLOW, 0, "rank 0 (process 1000) hardly waits");
    expect(NULL, &once, FINDING_SLOW, 0, "rank 0 (process 1000) hardly waits");
    made_free(&job);
    made_free(&slower);
    made_free(&once);
}

/* Rank 0 computes for 11 of the 23 ms in which its call waits for rank 1, in steps of 92 ms. The job was quicker. */
static void test_computes_in_its_waits(void **state)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        made_comm(job.boxes[rank], 1, "near", rank, 2);
        struct blackbox_comm *far = made_comm(job.boxes[rank], 2, "far", rank, 2), *near = far - 1;
        for (uint64_t step = 0; step < STEPS; step++) {
            uint64_t ago = (STEPS - step) * 92 * NS_PER_MS;
            made_in_step(near, step, ago, WIRE_ALLTOALL, rank ? 23 : 0, 23)->position += 1000;
            made_in_step(far, step, ago, WIRE_GATHER, rank ? 34 : 11, rank ? 34 : 11)->position += 1000;
        }
        near->opened = far->opened = MADE_NOW - 40 * NS_PER_S;
        job.boxes[rank]->counter_count = WIRE_COUNTER_COUNT;
        job.boxes[rank]->counters[WIRE_COUNTER_OPERATIONS] = 12000;
    }
    expect(NULL, &job, -1, 0, "");
    made_free(&job);
}

/* In a job that was quicker a broadcast from rank 3 now reaches rank 2 after 80 ms, on a slow path. Rank 2 begins a
 * barrier meanwhile, and comes late to the next one. */
static void test_late_by_a_call_before(void **state)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox *box = job.boxes[rank];
        struct blackbox_comm *world = made_comm(box, 1, "world", rank, 4);
        world->opened = MADE_NOW - 40 * NS_PER_S;
        box->counter_count = WIRE_COUNTER_COUNT;
        box->counters[WIRE_COUNTER_OPERATIONS] = 12000;
        for (uint64_t step = 0; step < STEPS; step++)
            made_in_step(world, step, (STEPS - step) * 90 * NS_PER_MS, WIRE_BARRIER, rank == 2 ? 20 : -50, 20)
                ->position += 1000;
        struct blackbox_comm *near = rank < 2 ? NULL : made_comm(box, 2, "near", rank - 2, 2);
        if (near)
            near->opened = MADE_NOW - 40 * NS_PER_S;
        for (uint64_t step = 0; near && step < STEPS; step++)
            made_in_step(near, step, (STEPS - step) * 90 * NS_PER_MS, WIRE_BROADCAST, rank == 2 ? 10 : 0,
                         rank == 2 ? 90 : 1)
                ->root = 1;
    }
    expect(NULL, &job, -1, 0, "");
    made_free(&job);
}

/* In a job that was quicker a scatter waits in the queue behind an all-to-all, whose data reach rank 0 late, over a
 * slow interface. Or rank 0 comes late to the all-to-all itself. */
static void test_late_by_the_call_before(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct made_job job = made_job(3);
        for (int rank = 0; rank < 3; rank++) {
            struct blackbox_comm *near = made_comm(job.boxes[rank], 1, "near", rank, 3);
            int from = late && rank == 0 ? 130 : 0, over = late || rank == 0 ? 150 : 20;
            near->opened = MADE_NOW - 40 * NS_PER_S;
            job.boxes[rank]->counter_count = WIRE_COUNTER_COUNT;
            job.boxes[rank]->counters[WIRE_COUNTER_OPERATIONS] = 12000;
            for (uint64_t step = 0; step < STEPS; step++) {
                uint64_t ago = (STEPS - step) * 200 * NS_PER_MS;
                made_in_step(near, 2 * step, ago, WIRE_ALLTOALL, from, over)->position += 1000;
                struct blackbox_op *scatter = made_in_step(near, 2 * step + 1, ago, WIRE_SCATTER, from + 1, 152);
                scatter->root = 1;
                scatter->position += 1000;
            }
        }
        expect(NULL, &job, late ? (int)FINDING_SLOW : -1, 0, "was last in");
        made_free(&job);
    }
}

/* Rank 3 comes late to rank 2, for whose messages ranks 0 and 1 wait. Rank 1 comes a little later than rank 0. */
static void test_one_of_two_pairs(void **state)
{
    static const int times[4][4] = {{20, 60, 60, 155}, {60, 60, 60, 155}, {20, 155, 0, 0}, {155, 155, 0, 0}};
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        made_comm(job.boxes[rank], 1, "world", rank, 4);
        struct blackbox_comm *pair = made_comm(job.boxes[rank], 2 + (uint64_t)rank / 2, "pair", rank % 2, 2),
                             *world = pair - 1;
        for (uint64_t step = 0; step < STEPS; step++) {
            uint64_t ago = (STEPS - step) * 160 * NS_PER_MS;
            made_in_step(pair, step, ago, WIRE_ALLREDUCE, times[rank][0], times[rank][1]);
            if (rank < 2)
                made_in_step(world, step, ago, WIRE_RECV, times[rank][2], times[rank][3])->root = 2;
        }
    }
    expect(NULL, &job, FINDING_SLOW, 3, "rank 3 of world (process 1003; rank 1 of pair)");
    made_free(&job);
}

/* Rank 0 waits for requests, then tells rank 1. `even`: they come every 300 ms, as from a slow rank. `lull`: the last
 * ones come more seldom. */
static struct made_job server(bool even, bool quicker, bool lull)
{
    static const uint64_t gaps[] = {300, 600, 150, 500, 900, 250, 60, 420, 800, 200}; /* ms */
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 2);
        uint64_t ago = 0;
        for (int step = 0; step < STEPS; step++)
            ago += (even ? 300 : gaps[step % 10] / (lull && step < STEPS - 12 ? 4 : 1)) + 20;
        for (int step = 0; step < STEPS; step++) {
            uint64_t gap = even ? 300 : gaps[step % 10] / (lull && step < STEPS - 12 ? 4 : 1);
            made_call(world, (uint64_t)step, (ago - (rank ? 0 : gap)) * NS_PER_MS, (ago - gap - 1) * NS_PER_MS)
                ->position += 1000;
            ago -= gap + 20;
        }
        world->opened = MADE_NOW - 100 * NS_PER_S;
        job.boxes[rank]->counter_count = WIRE_COUNTER_COUNT;
        job.boxes[rank]->counters[WIRE_COUNTER_OPERATIONS] = quicker ? 12000 : lull ? 600 : 200;
    }
    return job;
}

static void expect_server(bool even, bool quicker, bool lull, enum finding_kind kind, const char *words)
{
    struct made_job now = server(even, quicker, lull), before = made_before(&now);
    expect(&before, &now, (int)kind, 0, words);
    free(before.facts);
    made_free(&now);
}

/* The requests of the first 2 s came quickly by chance: twelve, of which each led to four calls as later ones do. */
static void test_first_requests(void **state)
{
    for (int many = 0; many < 2; many++) { /* or a hundred came, so the rank is slower than it was */
        struct made_job now = server(false, false, false);
        for (int rank = 0; rank < 2; rank++) {
            struct blackbox_comm *more = made_comm(now.boxes[rank], 2, "more", rank, 2), *world = more - 1;
            world->op_count -= 10; /* 50 remain */
            memmove(world->ops, world->ops + 10, world->op_count * sizeof *world->ops);
            world->opened = more->opened = world->ops[0].begin - 2 * NS_PER_S;
            for (size_t i = 0; i < world->op_count; i++)
                for (uint64_t call = 0; call < 3; call++)
                    made_call(more, 3 * i + call, MADE_NOW - world->ops[i].end, MADE_NOW - world->ops[i].end)
                        ->position += 1000;
            now.boxes[rank]->counters[WIRE_COUNTER_OPERATIONS] = 4 * (50 + (many ? 100 : 12));
        }
        struct made_job before = made_before(&now);
        expect(&before, &now, many ? FINDING_SLOW : FINDING_AWAY, 0,
               many ? "was last in " : "after times that differ much");
        free(before.facts);
        made_free(&now);
    }
}

/* A server's first twelve requests, of three calls each. By chance their times differ by 0.45 of the mean. */
static void test_few_requests(void **state)
{
    static const uint64_t gaps[] = {300, 600, 250, 500, 900, 250, 460, 420, 800, 300}; /* ms */
    for (int even = 0; even < 2; even++) {
        struct made_job now = server(true, false, false);
        for (int rank = 0; rank < 2; rank++) {
            struct blackbox_comm *world = now.boxes[rank]->comms;
            uint64_t at = MADE_NOW - 8 * NS_PER_S;
            world->op_count = 36;
            for (size_t i = 0; i < world->op_count; i++) {
                uint64_t gap = i % 3 ? 0 : (even ? 300 : gaps[i / 3 % 10]) * NS_PER_MS;
                world->ops[i].begin = world->ops[i].start = at + (rank ? 0 : gap);
                world->ops[i].end = at + gap + NS_PER_MS;
                at += gap + 2 * NS_PER_MS;
            }
        }
        struct made_job before = made_before(&now);
        expect(&before, &now, even ? FINDING_SLOW : FINDING_AWAY, 0,
               even ? "was last in " : "after times that differ much");
        free(before.facts);
        made_free(&now);
    }
}

static void test_waits_for_requests(void **state)
{
    expect_server(false, false, false, FINDING_AWAY, "after times that differ much");
    expect_server(false, false, true, FINDING_AWAY, "after times that differ much");
    struct made_job crowded = server(false, false, false), before = made_before(&crowded);
    for (int rank = 0; rank < 2; rank++)
        crowded.facts[rank].threads[0].delayed = 600 * NS_PER_MS; /* as all have on that machine */
    expect(&before, &crowded, FINDING_AWAY, 0, "after times that differ much");
    free(before.facts);
    made_free(&crowded);
    expect_server(true, false, false, FINDING_SLOW, "was last in ");
    expect_server(false, true, false, FINDING_SLOW, "was last in ");
}

/* ---- Ranks that do not come ---- */

/* Rank 1 of 3 has not come to #8, for which the others wait. */
static struct made_job without_one(uint64_t waited)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        made_call(world, 7, waited + 2 * NS_PER_MS, waited + NS_PER_MS);
        struct blackbox_op *op = rank == 1 ? NULL : made_wait(world, 8, 1, 0);
        if (op)
            op->begin = op->start = op->wait_since = MADE_NOW - waited;
    }
    return job;
}

static void test_short_pause(void **state)
{
    for (uint64_t seconds = 3; seconds < 8; seconds += 4) {
        struct made_job now = without_one(seconds * NS_PER_S), before = made_before(&now);
        expect(&before, &now, seconds < 6 ? -1 : (int)FINDING_BEHIND, 1, "has not called allreduce #8");
        before.facts[1].state = now.facts[1].state = PROCESS_STOPPED;
        expect(&before, &now, FINDING_STOPPED, 1, "is stopped");
        before.facts[1].state = now.facts[1].state = PROCESS_BLOCKED;
        expect(&before, &now, FINDING_BEHIND, 1, "has not called allreduce #8");
        free(before.facts);
        made_free(&now);
    }
}

/* Two ranks have printed more than a pipe holds, which the stopped launcher does not read; the third waits for both. */
static void test_launcher_stopped(void **state)
{
    struct made_job now = without_one(3 * NS_PER_S);
    struct blackbox_comm *pair = made_comm(now.boxes[0], 2, "pair", 0, 2);
    made_call(pair, 1, 4 * NS_PER_S, 4 * NS_PER_S - NS_PER_MS);
    struct made_job before = made_before(&now);
    for (int rank = 0; rank < 3; rank++)
        before.facts[rank].stopped_parent = now.facts[rank].stopped_parent = 77;
    expect(&before, &now, FINDING_STOPPED, -1,
           "process 77, which has started ranks, is stopped, and rank 1 (process 1001) is waited for by ranks 0 2 in "
           "allreduce #8");
    before.facts[1].stopped_parent = 0; /* a moment ago it ran */
    expect(&before, &now, -1, 0, "");
    free(before.facts);
    made_free(&now);
}

/* A rank that computes outside of calls gets a thirtieth of a processor from a crowded machine. */
static void test_computes_where_all_do(void **state)
{
    struct made_job now = without_one(12 * NS_PER_S), before = made_before(&now);
    now.facts[1].threads[0].ran = 30 * NS_PER_MS;
    now.facts[1].threads[0].delayed = 650 * NS_PER_MS;
    expect(&before, &now, FINDING_AWAY, 1, "and works;");
    now.facts[1].threads[0].delayed = 300 * NS_PER_MS;
    expect(&before, &now, FINDING_BEHIND, 1, "has not called allreduce #8");
    free(before.facts);
    made_free(&now);
}

/* Rank 3 makes #442 another call than ranks 1 and 2, which notice that. Rank 0 has not come so far. */
static void test_first_has_not_come(void **state)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 4);
        for (uint64_t seq = rank ? 438 : 437; seq <= (rank ? 442 : 441); seq++) { /* all remember as much */
            struct blackbox_op *op = made_call(world, seq, 3 * NS_PER_S, 3 * NS_PER_S - NS_PER_MS);
            op->collective = seq == 441 || (seq == 442 && rank == 3) ? WIRE_SCATTER : WIRE_BARRIER;
            op->root = 2;
            op->result = seq == 442 ? TUTTI_INVALID_USAGE : TUTTI_SUCCESS;
        }
        world->state = WIRE_COMM_FAILED;
        world->result = TUTTI_INVALID_USAGE;
        world->culprit = 2;
        strcpy(world->sentence, "rank 3 called scatter, rank 2 called barrier: operation 442 differs");
    }
    expect(NULL, &job, FINDING_MISMATCH, 3, "rank 3 (process 1003) called scatter");
    made_free(&job);
}

/* What a rank sends and receives in a step: two messages, or a group. */
static void exchange(struct blackbox_comm *world, uint64_t step, uint64_t ago, bool grouped)
{
    struct blackbox_op *op = made_in_step(world, step, ago, grouped ? WIRE_GROUP : WIRE_SEND, 10, grouped ? 20 : 11);
    op->bytes *= grouped ? 2 : 1;
    op->root = grouped ? -1 : (world->rank + 1) % 3;
    if (!grouped)
        made_in_step(world, step, ago, WIRE_RECV, 12, 20)->root = (world->rank + 2) % 3;
}

/* A ring of messages and an all-to-all in each step. Rank 1 makes the last all-to-all twice, where rank 2 is in its
 * receive: rank 1 notices that, and names rank 2. */
static void test_names_the_other(void **state)
{
    static const char *const texts[] = {
        "rank 2 (process 1002)",
        "rank 1 (process 1001) has made a call twice: after alltoall of 100 elements in world came send of 100",
        "rank 1 (process 1001) has made a call twice: after alltoall of 100 elements in world came group of 800"};
    for (int way = 0; way < 3; way++) { /* nobody does; messages are noted alone; some are noted as groups */
        struct made_job job = made_job(3);
        for (int rank = 0; rank < 3; rank++) {
            struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
            for (uint64_t step = 0; step < 8; step++) {
                exchange(world, step, (12 - step) * 100 * NS_PER_MS, way == 2 && step % 3 == 1);
                made_in_step(world, step, (12 - step) * 100 * NS_PER_MS, WIRE_ALLTOALL, 21, 30);
            }
            if (rank == 1 && way)
                made_in_step(world, 8, 400 * NS_PER_MS, WIRE_ALLTOALL, 10, 20);
            else
                exchange(world, 8, 400 * NS_PER_MS, false);
            world->ops[world->op_count - 1].result = TUTTI_INVALID_USAGE;
            world->state = WIRE_COMM_FAILED;
            world->result = TUTTI_INVALID_USAGE;
            world->culprit = 2;
            strcpy(world->sentence, "rank 1 waits for rank 2 in alltoall, and rank 2 for rank 1 in the receive");
        }
        expect(NULL, &job, way ? FINDING_ORDER : FINDING_FAILED, way ? 1 : 2, texts[way]);
        made_free(&job);
    }
}

/* ---- Calls that meet those of other steps ---- */

enum way { TWICE, LEFT_OUT, WORLD_TWICE, EXCHANGED, AHEAD, LATELY, BACK, DRIFTS };

/* In each of 48 steps, 50 ms apart, a pair of ranks makes a broadcast and all four a scatter. From one step on rank 3
 * does something else. DRIFTS: its broadcasts are those of a thread of its own, 49 ms apart. */
static struct made_job shifted(enum way way)
{
    const uint64_t all = 48, odd = way == LATELY ? 42 : 25;
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        made_comm(job.boxes[rank], 1, "world", rank, 4);
        struct blackbox_comm *near = made_comm(job.boxes[rank], 2 + (uint64_t)rank / 2, "near", rank % 2, 2);
        struct blackbox_comm *world = near - 1;
        for (uint64_t step = 0; step < all; step++) {
            uint64_t ago = (all - step) * 50 * NS_PER_MS;
            bool here = rank == 3 && step == odd, later = here && way == EXCHANGED;
            int at = later ? 35 : rank == 3 && way == DRIFTS ? 10 - (int)step : 10;
            size_t calls = here && (way == TWICE || way == LATELY || way == BACK)                  ? 2
                           : (here && way == LEFT_OUT) || (way == BACK && rank == 3 && step == 40) ? 0
                           : rank == 3 && step == 0 && way == AHEAD                                ? 2
                                                                                                   : 1;
            for (size_t i = 0; i < calls; i++)
                made_in_step(near, near->op_count, ago, WIRE_BROADCAST, at + (int)i, at + (int)i)->root = 1;
            for (int i = 0; i < (here && way == WORLD_TWICE ? 2 : 1); i++)
                made_in_step(world, world->op_count, ago, WIRE_SCATTER, 30 + i, 30 + i)->root = 3;
        }
    }
    return job;
}

/* Calls that a rank makes in another order, once or always, or from another thread, are no fault: each meets the one
 * that is meant. */
static void test_shifted(void **state)
{
    static const char *const words[] = {
        "has made a call twice: after broadcast of 100 elements in near came scatter of 100 elements in world each of "
        "17 times, and now broadcast of 100 elements in near; since then the rank is one call ahead in near, and data",
        "has left out a call: after scatter of 100 elements in world came broadcast of 100 elements in near each of 17 "
        "times, and now scatter of 100 elements in world; since then the rank is one call behind in near, and data",
        "the rank is one call ahead in world, and data of different steps meet"};
    for (enum way way = TWICE; way <= DRIFTS; way++) {
        struct made_job job = shifted(way);
        expect(NULL, &job, way < EXCHANGED ? (int)FINDING_ORDER : -1, 3, way < EXCHANGED ? words[way] : "");
        made_free(&job);
    }
}

/* Ranks of three hosts wait for each other in one call: their lanes may say why, so the circle is told later. */
static void test_circle_of_hosts(void **state)
{
    for (uint64_t seconds = 4; seconds < 9; seconds += 4)
        for (int hosts = 1; hosts < 4; hosts += 2) {
            struct made_job job = made_job(3);
            for (int rank = 0; rank < 3; rank++) {
                struct blackbox_op *op =
                    made_wait(made_comm(job.boxes[rank], 1, "world", rank, 3), 8, (rank + 1) % 3, 0);
                op->begin = op->start = op->wait_since = MADE_NOW - seconds * NS_PER_S;
                snprintf(job.boxes[rank]->header.host, sizeof job.boxes[rank]->header.host, "node%d", rank % hosts);
            }
            expect(NULL, &job, seconds < 7 && hosts > 1 ? -1 : (int)FINDING_CIRCLE, -1, "wait for each other");
            made_free(&job);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_by_messages),
        cmocka_unit_test(test_computes_meanwhile),
        cmocka_unit_test(test_few_requests),
        cmocka_unit_test(test_waits_for_requests),
        cmocka_unit_test(test_short_pause),
        cmocka_unit_test(test_launcher_stopped),
        cmocka_unit_test(test_computes_where_all_do),
        cmocka_unit_test(test_circle_of_hosts),
        cmocka_unit_test(test_first_has_not_come),
        cmocka_unit_test(test_loader_in_messages),
        cmocka_unit_test(test_computes_in_its_waits),
        cmocka_unit_test(test_one_of_two_pairs),
        cmocka_unit_test(test_late_by_a_call_before),
        cmocka_unit_test(test_late_by_the_call_before),
        cmocka_unit_test(test_names_the_other),
        cmocka_unit_test(test_first_requests),
        cmocka_unit_test(test_shifted),
    };
    return cmocka_run_group_tests_name("diagnosis of drawn jobs", tests, NULL, NULL);
}
