/* SPDX-License-Identifier: Apache-2.0 */
/* Reads reports. The library takes the bytes apart within a budget of memory; here every number and text is checked. */
#include "report/report.h"

#include "base/error.h"
#include "report/report.pb-c.h"
#include "report/memory.h"
#include "wire/boxwatch.h"

#include <stdlib.h>
#include <string.h>

#define RANKS_MOST (1 << 24)

bool report_host_fits(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:";
    size_t length = strspn(name, allowed);
    return length && length < WIRE_BOX_NAME && name[length] == 0;
}

/* ---- Checks ---- */

/* Refuses times near the end of their range, so that sums of two do not overflow. */
static bool is_time(uint64_t ns)
{
    return ns < INT64_MAX / 2;
}

static bool op_makes_sense(const Tutti__Op *op)
{
    return op->state >= WIRE_OP_ENQUEUED && op->state <= WIRE_OP_DONE && op->collective < 256 && op->type < 256 &&
           op->op < 256 && op->root >= -1 && op->wait_peer >= -1 && op->result >= 0 && op->result < 256 &&
           op->position <= WIRE_OP_POSITION_MAX && is_time(op->begin) && is_time(op->start) && is_time(op->end) &&
           is_time(op->wait_since) && is_time(op->head_since);
}

static bool comm_makes_sense(const Tutti__Comm *comm)
{
    return comm->nranks >= 1 && comm->nranks <= RANKS_MOST && comm->rank >= 0 && comm->rank < comm->nranks &&
           comm->state >= WIRE_COMM_OPEN && comm->state <= WIRE_COMM_ABORTED && comm->culprit >= -1 &&
           is_time(comm->opened) && is_time(comm->closed);
}

static bool box_makes_sense(const Tutti__Box *box)
{
    return box->boot_id.len == sizeof((struct wire_box_header *)0)->boot_id && box->n_events <= REPORT_EVENTS &&
           box->realtime_offset > -INT64_MAX / 2 && box->realtime_offset < INT64_MAX / 2;
}

static bool facts_make_sense(const Tutti__Facts *facts)
{
    return facts->state <= PROCESS_TRACED && facts->n_threads <= FACTS_THREADS && is_time(facts->at);
}

/* Checks the sums over all processes; each process is checked where it is copied. */
static bool is_small(const Tutti__Report *report)
{
    size_t comms = 0, ops = 0;
    for (size_t i = 0; i < report->n_processes; i++) {
        const Tutti__Box *box = report->processes[i]->box;
        comms += box ? box->n_comms : 0;
        for (size_t j = 0; box && j < box->n_comms; j++)
            ops += box->comms[j]->n_ops;
    }
    return report->n_processes <= REPORT_PROCESSES && comms <= REPORT_COMMS && ops <= REPORT_OPS;
}

/* ---- Copies ---- */

static bool copy_op(struct blackbox_op *out, const Tutti__Op *op)
{
    *out = (struct blackbox_op){.position = op->position,
                                .seq = op->seq,
                                .count = op->count,
                                .bytes = op->bytes,
                                .begin = op->begin,
                                .start = op->start,
                                .end = op->end,
                                .wait_since = op->wait_since,
                                .head_since = op->head_since,
                                .collective = (int)op->collective,
                                .type = (int)op->type,
                                .op = (int)op->op,
                                .root = op->root,
                                .state = (enum wire_op_state)op->state,
                                .result = op->result,
                                .device = op->device,
                                .captured = op->captured,
                                .sends_to = op->sends_to,
                                .recvs_from = op->recvs_from,
                                .wait_peer = op->wait_peer,
                                .wait_round = op->wait_round,
                                .wait_slice = op->wait_slice,
                                .rounds = op->rounds,
                                .slices = op->slices,
                                .step = op->step,
                                .waited = op->waited};
    report_copy_text(out->algorithm, sizeof out->algorithm, op->algorithm);
    return op_makes_sense(op);
}

static bool copy_comm(struct blackbox_comm *out, const Tutti__Comm *comm)
{
    *out = (struct blackbox_comm){.place = comm->place,
                                  .generation = comm->generation,
                                  .id = comm->id,
                                  .rank = comm->rank,
                                  .nranks = comm->nranks,
                                  .state = (enum wire_comm_state)comm->state,
                                  .result = comm->result,
                                  .culprit = comm->culprit,
                                  .opened = comm->opened,
                                  .closed = comm->closed,
                                  .unrecorded = comm->unrecorded,
                                  .newest_unrecorded = comm->newest_unrecorded};
    report_copy_text(out->name, sizeof out->name, comm->name);
    report_copy_text(out->sentence, sizeof out->sentence, comm->sentence);
    out->ops = comm->n_ops ? calloc(comm->n_ops, sizeof *out->ops) : NULL;
    bool fine = comm_makes_sense(comm) && (out->ops || !comm->n_ops);
    for (size_t i = 0; fine && i < comm->n_ops; i++) {
        fine = copy_op(&out->ops[i], comm->ops[i]) && (i == 0 || comm->ops[i]->position > comm->ops[i - 1]->position);
        out->op_count = i + 1;
    }
    return fine;
}

static bool copy_event(struct blackbox_event *out, const Tutti__Event *event)
{
    *out = (struct blackbox_event){event->number,    event->time,      event->kind, event->peer_pid, event->lane,
                                   event->peer_rank, event->peer_host, event->comm, event->value1,   event->value2};
    return is_time(event->time);
}

static bool copy_segment(struct blackbox_segment *out, const Tutti__Segment *segment)
{
    *out = (struct blackbox_segment){.position = segment->position,
                                     .comm = segment->comm,
                                     .seq = segment->seq,
                                     .peer = segment->peer,
                                     .length = segment->length,
                                     .slice = (uint16_t)segment->slice,
                                     .round = (uint16_t)segment->round,
                                     .status = (enum wire_segment_status)segment->status,
                                     .ready = segment->ready,
                                     .credit = segment->credit,
                                     .posted = segment->posted,
                                     .completed = segment->completed};
    return segment->status >= WIRE_SEGMENT_POSTED && segment->status <= WIRE_SEGMENT_GIVEN_UP &&
           is_time(segment->ready) && is_time(segment->credit) && is_time(segment->posted) &&
           is_time(segment->completed);
}

/* Of another size it is of another tutti, and left out. */
static bool copy_watch(struct blackbox_lane *out, const ProtobufCBinaryData *watch)
{
    if (watch->len != sizeof *out->watch)
        return true;
    out->watch = malloc(sizeof *out->watch);
    if (!out->watch)
        return false;
    memcpy(out->watch, watch->data, sizeof *out->watch);
    return watch_check(out->watch) && out->watch->stamp == WATCH_STILL;
}

static bool copy_lane(struct blackbox_lane *out, const Tutti__Lane *lane)
{
    *out = (struct blackbox_lane){.place = lane->place,
                                  .peer_pid = lane->peer_pid,
                                  .index = lane->index,
                                  .state = (enum wire_lane_state)lane->state,
                                  .rate = lane->rate,
                                  .distance = (uint16_t)lane->distance,
                                  .window = lane->window,
                                  .queue = lane->queue,
                                  .peer_queue = lane->peer_queue,
                                  .own = lane->own,
                                  .borrowed = lane->borrowed,
                                  .owner = lane->owner};
    report_copy_text(out->interface, sizeof out->interface, lane->interface);
    report_copy_text(out->transport, sizeof out->transport, lane->transport);
    out->segments = calloc(lane->n_segments + 1, sizeof *out->segments);
    bool fine = out->segments && lane->state >= WIRE_LANE_UP && lane->state <= WIRE_LANE_CLOSED &&
                copy_watch(out, &lane->watch);
    for (size_t i = 0; fine && i < lane->n_segments; i++)
        fine = copy_segment(&out->segments[out->segment_count++], lane->segments[i]);
    return fine;
}

static bool copy_lanes(struct blackbox *out, const Tutti__Box *box)
{
    size_t segments = 0;
    for (size_t i = 0; i < box->n_lanes; i++)
        segments += box->lanes[i]->n_segments;
    if (box->n_lanes > WIRE_BOX_LANES || segments > REPORT_SEGMENTS)
        return false;
    out->lanes = box->n_lanes ? calloc(box->n_lanes, sizeof *out->lanes) : NULL;
    bool fine = out->lanes || !box->n_lanes;
    for (size_t i = 0; fine && i < box->n_lanes; i++)
        fine = copy_lane(&out->lanes[out->lane_count++], box->lanes[i]);
    return fine;
}

static bool copy_pause(struct blackbox_pause *out, const Tutti__Pause *pause)
{
    *out = (struct blackbox_pause){pause->count, pause->longest,      pause->latest,     pause->before,
                                   pause->after, pause->before_count, pause->after_count};
    return is_time(pause->longest) && is_time(pause->latest);
}

static bool copy_pauses(struct blackbox *out, const Tutti__Box *box)
{
    bool fine = box->n_pauses <= WIRE_BOX_PAUSES && is_time(box->expected_since) && is_time(box->expected_until);
    for (size_t i = 0; fine && i < box->n_pauses; i++)
        fine = copy_pause(&out->pauses[out->pause_count++], box->pauses[i]);
    out->expected_since = box->expected_since;
    out->expected_until = box->expected_until;
    report_copy_text(out->expected, sizeof out->expected, box->expected);
    return fine;
}

static bool copy_samples(struct blackbox *out, const Tutti__Box *box)
{
    bool fine = box->n_samples <= WIRE_BOX_SAMPLES + 1;
    for (size_t i = 0; fine && i < box->n_samples; i++) {
        const Tutti__Sample *one = box->samples[i], *last = i ? box->samples[i - 1] : NULL;
        fine = is_time(one->at) && (!last || (one->at > last->at && one->calls >= last->calls &&
                                              one->bytes >= last->bytes && one->called >= last->called));
        out->samples[out->sample_count++] = (struct blackbox_sample){one->at, one->calls, one->bytes, one->called};
    }
    return fine;
}

static bool copy_box(struct blackbox *out, const Tutti__Box *box)
{
    if (!box_makes_sense(box))
        return false;
    memcpy(out->header.boot_id, box->boot_id.data, sizeof out->header.boot_id);
    out->header.state = box->state;
    out->realtime_offset = box->realtime_offset;
    out->counters[WIRE_COUNTER_COMMS_UNRECORDED] = box->comms_unrecorded;
    out->counters[WIRE_COUNTER_LANES_UNRECORDED] = box->lanes_unrecorded;
    report_copy_text(out->header.command, sizeof out->header.command, box->command);
    out->comms = calloc(box->n_comms + 1, sizeof *out->comms);
    out->events = calloc(box->n_events + 1, sizeof *out->events);
    bool fine = out->comms && out->events;
    for (size_t i = 0; fine && i < box->n_comms; i++) {
        fine = copy_comm(&out->comms[i], box->comms[i]);
        out->comm_count = i + 1;
    }
    for (size_t i = 0; fine && i < box->n_events; i++)
        fine = copy_event(&out->events[out->event_count++], box->events[i]);
    return fine && copy_pauses(out, box) && copy_samples(out, box) && copy_lanes(out, box);
}

static bool copy_facts(struct process_facts *out, const Tutti__Facts *facts)
{
    if (!facts)
        return true;
    if (!facts_make_sense(facts))
        return false;
    *out = (struct process_facts){.state = (enum process_state)facts->state,
                                  .tracer = facts->tracer,
                                  .at = facts->at,
                                  .moved = facts->moved,
                                  .throttled = facts->throttled,
                                  .replaced = facts->replaced,
                                  .stops = facts->stops,
                                  .killed = facts->killed,
                                  .faults = facts->faults,
                                  .frozen = facts->frozen,
                                  .out_of_memory = facts->out_of_memory};
    report_copy_text(out->tracer_name, sizeof out->tracer_name, facts->tracer_name);
    report_copy_text(out->detail, sizeof out->detail, facts->detail);
    report_copy_text(out->group, sizeof out->group, facts->group);
    for (size_t i = 0; i < facts->n_threads; i++)
        out->threads[out->thread_count++] = (struct thread_facts){.number = facts->threads[i]->number,
                                                                  .ready = facts->threads[i]->ready,
                                                                  .ran = facts->threads[i]->ran,
                                                                  .delayed = facts->threads[i]->delayed};
    return true;
}

static bool copy_process(struct report_process *out, const Tutti__Process *process, const char *host)
{
    struct blackbox *box = out->box = calloc(1, sizeof *box);
    out->box_number = process->box_number;
    out->as_before = !process->box;
    if (!box || !is_time(process->now))
        return false;
    box->header.pid = process->pid;
    box->header.start_time = process->start_time;
    box->header.pid_namespace = process->pid_namespace;
    report_copy_text(box->header.host, sizeof box->header.host, host);
    box->alive = process->alive;
    box->now = process->now;
    return copy_facts(&out->facts, process->facts) && (!process->box || copy_box(box, process->box));
}

static tutti_result_t copy_report(struct report *out, const Tutti__Report *report)
{
    if (report->version != REPORT_VERSION)
        return error_note(TUTTI_INVALID_USAGE, "a report of version %u, want %u: agent and master must be of one tutti",
                          report->version, REPORT_VERSION);
    if (!report_host_fits(report->host))
        return error_note(TUTTI_INVALID_USAGE,
                          "a report of a host whose name is none: want letters, digits, and .-_: alone");
    if (!is_small(report))
        return error_note(TUTTI_INVALID_USAGE, "a report of more than %u processes, %u communicators or %u calls",
                          REPORT_PROCESSES, REPORT_COMMS, REPORT_OPS);
    report_copy_text(out->host, sizeof out->host, report->host);
    out->agent = report->agent;
    out->number = report->number;
    out->realtime = report->realtime;
    out->alarm = report->alarm;
    out->has_lanes = report->has_lanes;
    out->left_out = report->left_out;
    out->unreadable = report->unreadable;
    out->processes = calloc(report->n_processes + 1, sizeof *out->processes);
    for (size_t i = 0; out->processes && i < report->n_processes; i++)
        if (!copy_process(&out->processes[out->count++], report->processes[i], out->host))
            return error_note(TUTTI_INVALID_USAGE, "a report in which process %u makes no sense",
                              report->processes[i]->pid);
    return out->processes ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "reading a report: no memory");
}

tutti_result_t report_read(const void *bytes, size_t size, struct report *out)
{
    size_t budget = REPORT_MEMORY;
    ProtobufCAllocator allocator = report_allocator(&budget);
    *out = (struct report){0};
    if (size > REPORT_BYTES)
        return error_note(TUTTI_INVALID_USAGE, "a report of more than %u MiB", REPORT_BYTES >> 20);
    Tutti__Report *report = tutti__report__unpack(&allocator, size, bytes);
    if (!report)
        return error_note(TUTTI_INVALID_USAGE, "no report: it is cut short, too large, or something else");
    tutti_result_t result = copy_report(out, report);
    tutti__report__free_unpacked(report, &allocator);
    if (result != TUTTI_SUCCESS)
        report_free(out);
    return result;
}

void report_free(struct report *report)
{
    for (size_t i = 0; i < report->count; i++)
        blackbox_free(report->processes[i].box);
    free(report->processes);
    *report = (struct report){0};
}
