/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"
#include "wire/distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct made_job made_job(size_t processes)
{
    struct made_job job = {calloc(processes + 1, sizeof(struct blackbox *)), calloc(processes + 1, sizeof *job.facts),
                           processes};
    for (size_t i = 0; i < processes; i++) {
        struct blackbox *box = calloc(1, sizeof *box);
        box->header.pid = (uint32_t)(1000 + i);
        box->header.start_time = i + 1;
        box->header.boot_id[0] = 1;
        strcpy(box->header.host, "node7");
        box->alive = true;
        box->now = MADE_NOW;
        job.boxes[i] = box;
    }
    return job;
}

void made_free(struct made_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        blackbox_free(job->boxes[i]);
    free(job->boxes);
    free(job->facts);
}

struct look made_look(const struct made_job *job)
{
    return (struct look){job->boxes, job->facts, job->count};
}

struct made_job made_before(struct made_job *now)
{
    struct made_job before = {now->boxes, calloc(now->count, sizeof *before.facts), now->count};
    for (size_t i = 0; i < now->count; i++) {
        struct process_facts facts = {
            .state = PROCESS_SLEEPS, .at = MADE_NOW - NS_PER_S, .threads = {{.number = 1}}, .thread_count = 1};
        before.facts[i] = facts;
        facts.at = MADE_NOW;
        facts.threads[0].ran = 5 * NS_PER_MS;
        now->facts[i] = facts;
    }
    return before;
}

struct blackbox_comm *made_comm(struct blackbox *box, uint64_t id, const char *name, int rank, int nranks)
{
    box->comms = realloc(box->comms, (box->comm_count + 1) * sizeof *box->comms);
    struct blackbox_comm *comm = &box->comms[box->comm_count++];
    *comm = (struct blackbox_comm){
        .id = id, .rank = rank, .nranks = nranks, .state = WIRE_COMM_OPEN, .opened = 1, .culprit = -1};
    snprintf(comm->name, sizeof comm->name, "%s", name);
    return comm;
}

struct blackbox_op *made_call(struct blackbox_comm *comm, uint64_t seq, uint64_t begun, uint64_t ended)
{
    comm->ops = realloc(comm->ops, (comm->op_count + 1) * sizeof *comm->ops);
    struct blackbox_op *op = &comm->ops[comm->op_count];
    *op = (struct blackbox_op){.position = comm->op_count++,
                               .seq = seq,
                               .count = 100,
                               .bytes = 400,
                               .begin = MADE_NOW - begun,
                               .start = MADE_NOW - begun,
                               .end = MADE_NOW - ended,
                               .collective = WIRE_ALLREDUCE,
                               .type = TUTTI_FLOAT32,
                               .op = TUTTI_SUM,
                               .root = -1,
                               .state = WIRE_OP_DONE,
                               .wait_peer = -1,
                               .rounds = 6};
    strcpy(op->algorithm, "ring");
    return op;
}

struct blackbox_op *made_in_step(struct blackbox_comm *comm, uint64_t seq, uint64_t ago, int collective, int begin,
                                 int end)
{
    struct blackbox_op *op = made_call(comm, seq, ago - (uint64_t)begin * NS_PER_MS, ago - (uint64_t)end * NS_PER_MS);
    op->collective = collective;
    return op;
}

struct blackbox_op *made_wait(struct blackbox_comm *comm, uint64_t seq, int peer, uint32_t round)
{
    struct blackbox_op *op = made_call(comm, seq, 10000000000ull, 0);
    op->state = WIRE_OP_RUNNING;
    op->end = 0;
    op->wait_peer = peer;
    op->wait_round = round;
    op->wait_since = op->begin;
    return op;
}

void made_event(struct blackbox *box, uint32_t kind, uint64_t comm, int rank, int nranks, uint64_t ago)
{
    box->events = realloc(box->events, (box->event_count + 1) * sizeof *box->events);
    box->events[box->event_count] = (struct blackbox_event){.number = box->event_count,
                                                            .time = MADE_NOW - ago,
                                                            .kind = kind,
                                                            .lane = -1,
                                                            .peer_rank = rank,
                                                            .comm = comm,
                                                            .value1 = (uint64_t)nranks};
    box->event_count++;
}

void made_expect(const struct made_job *before, const struct made_job *now, enum finding_kind kind, int world_rank,
                 const char *words)
{
    struct snapshot snapshot = {.now = made_look(now), .stuck = MADE_STUCK};
    if (before)
        snapshot.before = made_look(before);
    struct findings found = diagnosis_find(&snapshot);
    assert_int_equal(found.count, 1);
    if (found.items->kind != kind || found.items->culprit.world_rank != world_rank ||
        !(strstr(found.items->sentence, words) || strstr(found.items->remedy, words) ||
          (found.items->evidence_count && strstr(found.items->evidence[0], words))))
        fail_msg("%s, rank %d: %s; %s; %s", finding_row(found.items->kind)->name, found.items->culprit.world_rank,
                 found.items->sentence, found.items->evidence[0], found.items->remedy);
    findings_free(&found);
}

/* The dimension in whose call a rank waits: 0 with the culprit, 1 and 2 with the ranks that wait there; 3: none. */
static int waits_in(int rank, int culprit, int tp, int pp)
{
    if (rank == culprit)
        return 3;
    if (rank / (tp * pp) != culprit / (tp * pp))
        return 2;
    return rank / tp % pp != culprit / tp % pp;
}

struct made_job made_training(int tp, int pp, int dp, int culprit)
{
    static const char *const names[] = {"tensor", "pipeline", "data"};
    struct made_job job = made_job((size_t)tp * (size_t)pp * (size_t)dp);
    int sizes[3] = {tp, pp, dp}, steps[3] = {1, tp, tp * pp};
    for (int rank = 0; rank < (int)job.count; rank++)
        for (int d = 0; d < 3; d++) {
            int mine = rank / steps[d] % sizes[d], waits = waits_in(rank, culprit, tp, pp);
            struct blackbox_comm *comm = made_comm(
                job.boxes[rank], (uint64_t)d << 32 | (uint64_t)(rank - mine * steps[d]), names[d], mine, sizes[d]);
            for (uint64_t seq = 0; seq < 8; seq++)
                made_call(comm, seq, (20 - seq) * 1000000000, (20 - seq) * 1000000000 - 1000000);
            if (waits < 3 && d < waits)
                made_call(comm, 8, 11000000000, 10900000000);
            else if (d == waits)
                made_wait(comm, 8, (mine + 1) % sizes[d], 2);
        }
    return job;
}

/* ---- Lanes ---- */

#define SEGMENTS 12

struct blackbox_lane *made_lane(struct blackbox *box, const struct blackbox *peer, uint16_t distance)
{
    uint32_t index = 0;
    for (size_t i = 0; i < box->lane_count; i++)
        index += box->lanes[i].peer_pid == peer->header.pid;
    box->lanes = realloc(box->lanes, (box->lane_count + 1) * sizeof *box->lanes);
    struct blackbox_lane *lane = &box->lanes[box->lane_count];
    *lane = (struct blackbox_lane){.place = (unsigned)box->lane_count++,
                                   .peer_pid = peer->header.pid,
                                   .index = index,
                                   .distance = distance,
                                   .state = WIRE_LANE_UP,
                                   .interface = "n0",
                                   .transport = "tcp"};
    return lane;
}

void made_segments(struct blackbox_lane *lane, int to, uint32_t length, uint64_t apart, uint64_t took)
{
    uint64_t over = 0, posted = MADE_NOW - 30 * NS_PER_S;
    lane->segments = calloc(SEGMENTS, sizeof *lane->segments);
    for (lane->segment_count = 0; lane->segment_count < SEGMENTS; posted += apart) {
        over = (over > posted ? over : posted) + took;
        lane->segments[lane->segment_count] = (struct blackbox_segment){.position = lane->segment_count,
                                                                        .comm = 1,
                                                                        .peer = (uint32_t)to,
                                                                        .length = length,
                                                                        .status = WIRE_SEGMENT_LANDED,
                                                                        .ready = posted,
                                                                        .credit = posted,
                                                                        .posted = posted,
                                                                        .completed = over};
        lane->segment_count++;
    }
}

void made_segment(struct blackbox_lane *lane, uint32_t seq, int ready, int credit, int posted, int landed)
{
    lane->segments = realloc(lane->segments, (lane->segment_count + 16) * sizeof *lane->segments);
    lane->segments[lane->segment_count] =
        (struct blackbox_segment){.position = lane->segment_count,
                                  .comm = 1,
                                  .seq = seq,
                                  .peer = 1,
                                  .length = 1000,
                                  .status = WIRE_SEGMENT_LANDED,
                                  .ready = MADE_NOW - (uint64_t)ready * NS_PER_MS,
                                  .credit = MADE_NOW - (uint64_t)credit * NS_PER_MS,
                                  .posted = MADE_NOW - (uint64_t)posted * NS_PER_MS,
                                  .completed = MADE_NOW - (uint64_t)landed * NS_PER_MS};
    lane->segment_count++;
}

struct made_job made_cluster(bool (*slow)(int from, int to))
{
    struct made_job job = made_job(CLUSTER_RANKS);
    for (int rank = 0; rank < CLUSTER_RANKS; rank++) {
        int host = rank / CLUSTER_EACH;
        snprintf(job.boxes[rank]->header.host, sizeof job.boxes[rank]->header.host, "node%d", host);
        made_comm(job.boxes[rank], 1, "world", rank, CLUSTER_RANKS);
        made_comm(job.boxes[rank], 2 + (uint64_t)host, "host", rank % CLUSTER_EACH, CLUSTER_EACH);
    }
    for (int from = 0; from < CLUSTER_RANKS; from++)
        for (int to = 0; to < CLUSTER_RANKS; to++) {
            bool here = from / CLUSTER_EACH == to / CLUSTER_EACH;
            if (from == to || (!here && from % CLUSTER_EACH != to % CLUSTER_EACH))
                continue;
            struct blackbox_lane *lane = made_lane(job.boxes[from], job.boxes[to], here ? WIRE_DISTANCE_HOST : 0);
            uint64_t took =
                slow(from, to) ? CLUSTER_LATE : CLUSTER_QUICK + (uint64_t)((from * 5 + to) % 7 == 0) * CLUSTER_QUICK;
            made_segments(lane, to, 160000, NS_PER_S, here ? NS_PER_MS / 10 : took);
        }
    return job;
}
