/* SPDX-License-Identifier: Apache-2.0 */
/* Writes reports: a tree of messages, which the library turns into bytes and frees. */
#include "report/report.h"

#include "report/report.pb-c.h"
#include "wire/boxwatch.h"

#include <stdlib.h>
#include <string.h>

struct report_writer {
    Tutti__Report *report;
    size_t comms, ops;
    bool failed;
};

/* Makes room for `count` pointers. The message counts them one after another, so that it can be freed at any time. */
static void *pointers(size_t count)
{
    return calloc(count + 1, sizeof(void *));
}

struct report_writer *report_begin(const struct report *head)
{
    struct report_writer *writer = calloc(1, sizeof *writer);
    Tutti__Report *report = writer ? malloc(sizeof *report) : NULL;
    if (!report) {
        free(writer);
        return NULL;
    }
    *report = (Tutti__Report)TUTTI__REPORT__INIT;
    report->version = REPORT_VERSION;
    report->host = strdup(head->host);
    report->agent = head->agent;
    report->number = head->number;
    report->realtime = head->realtime;
    report->alarm = head->alarm;
    report->has_lanes = head->has_lanes;
    report->left_out = head->left_out;
    report->unreadable = head->unreadable;
    report->processes = pointers(REPORT_PROCESSES);
    writer->report = report;
    writer->failed = !report->host || !report->processes;
    return writer;
}

/* ---- Parts of a process ---- */

static Tutti__Op *op_message(const struct blackbox_op *op)
{
    Tutti__Op *out = malloc(sizeof *out);
    if (!out)
        return NULL;
    *out = (Tutti__Op)TUTTI__OP__INIT;
    out->position = op->position;
    out->seq = op->seq;
    out->count = op->count;
    out->bytes = op->bytes;
    out->begin = op->begin;
    out->start = op->start;
    out->end = op->end;
    out->wait_since = op->wait_since;
    out->head_since = op->head_since;
    out->collective = (uint32_t)op->collective;
    out->type = (uint32_t)op->type;
    out->op = (uint32_t)op->op;
    out->root = op->root;
    out->state = op->state;
    out->result = op->result;
    out->device = op->device;
    out->captured = op->captured;
    out->sends_to = op->sends_to;
    out->recvs_from = op->recvs_from;
    out->wait_peer = op->wait_peer;
    out->wait_round = op->wait_round;
    out->wait_slice = op->wait_slice;
    out->rounds = op->rounds;
    out->slices = op->slices;
    out->step = op->step;
    out->waited = op->waited;
    out->algorithm = *op->algorithm ? strdup(op->algorithm) : NULL;
    return out;
}

static bool is_sent(const struct blackbox_comm *comm, size_t op, size_t calls)
{
    return comm->ops[op].state != WIRE_OP_DONE || op + calls >= comm->op_count;
}

static bool add_ops(Tutti__Comm *out, const struct blackbox_comm *comm, size_t calls)
{
    out->ops = pointers(comm->op_count);
    if (!out->ops)
        return false;
    for (size_t i = 0; i < comm->op_count; i++) {
        if (!is_sent(comm, i, calls))
            continue;
        Tutti__Op *op = op_message(&comm->ops[i]);
        if (!op)
            return false;
        out->ops[out->n_ops++] = op;
    }
    return true;
}

static bool add_comm(Tutti__Box *box, const struct blackbox_comm *comm, size_t calls)
{
    Tutti__Comm *out = malloc(sizeof *out);
    if (!out)
        return false;
    *out = (Tutti__Comm)TUTTI__COMM__INIT;
    box->comms[box->n_comms++] = out;
    out->place = comm->place;
    out->id = comm->id;
    out->generation = comm->generation;
    out->rank = comm->rank;
    out->nranks = comm->nranks;
    out->state = comm->state;
    out->result = comm->result;
    out->culprit = comm->culprit;
    out->opened = comm->opened;
    out->closed = comm->closed;
    out->unrecorded = comm->unrecorded;
    out->newest_unrecorded = comm->newest_unrecorded;
    out->name = strdup(comm->name);
    out->sentence = *comm->sentence ? strdup(comm->sentence) : NULL;
    return out->name && add_ops(out, comm, calls);
}

static bool add_event(Tutti__Box *box, const struct blackbox_event *event)
{
    Tutti__Event *out = malloc(sizeof *out);
    if (!out)
        return false;
    *out = (Tutti__Event)TUTTI__EVENT__INIT;
    box->events[box->n_events++] = out;
    out->number = event->number;
    out->time = event->time;
    out->kind = event->kind;
    out->peer_pid = event->peer_pid;
    out->lane = event->lane;
    out->peer_rank = event->peer_rank;
    out->peer_host = event->peer_host;
    out->comm = event->comm;
    out->value1 = event->value1;
    out->value2 = event->value2;
    return true;
}

static bool add_segment(Tutti__Lane *lane, const struct blackbox_segment *segment)
{
    Tutti__Segment *out = malloc(sizeof *out);
    if (!out)
        return false;
    *out = (Tutti__Segment)TUTTI__SEGMENT__INIT;
    lane->segments[lane->n_segments++] = out;
    out->position = segment->position;
    out->comm = segment->comm;
    out->seq = segment->seq;
    out->peer = segment->peer;
    out->length = segment->length;
    out->slice = segment->slice;
    out->round = segment->round;
    out->status = segment->status;
    out->ready = segment->ready;
    out->credit = segment->credit;
    out->posted = segment->posted;
    out->completed = segment->completed;
    return true;
}

static bool add_watch(Tutti__Lane *lane, const struct wire_box_watch *watch)
{
    if (!watch)
        return true;
    struct wire_box_watch *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    *copy = *watch;
    copy->stamp = WATCH_STILL;
    lane->watch = (ProtobufCBinaryData){sizeof *copy, (uint8_t *)copy};
    return true;
}

static bool add_lane(Tutti__Box *box, const struct blackbox_lane *lane, size_t most)
{
    size_t first = lane->segment_count > most ? lane->segment_count - most : 0;
    Tutti__Lane *out = malloc(sizeof *out);
    if (!out)
        return false;
    *out = (Tutti__Lane)TUTTI__LANE__INIT;
    box->lanes[box->n_lanes++] = out;
    out->place = lane->place;
    out->peer_pid = lane->peer_pid;
    out->index = lane->index;
    out->state = lane->state;
    out->rate = lane->rate;
    out->window = lane->window;
    out->distance = lane->distance;
    out->interface = strdup(lane->interface);
    out->transport = strdup(lane->transport);
    out->queue = lane->queue;
    out->peer_queue = lane->peer_queue;
    out->own = lane->own;
    out->borrowed = lane->borrowed;
    out->owner = lane->owner;
    out->segments = pointers(most);
    bool fine = out->interface && out->transport && out->segments && add_watch(out, lane->watch);
    for (size_t i = first; fine && i < lane->segment_count; i++)
        fine = add_segment(out, &lane->segments[i]);
    return fine;
}

/* all: else those that were slow at some time, without segments. */
static bool add_lanes(Tutti__Box *out, const struct blackbox *box, bool all)
{
    size_t most = all ? REPORT_SEGMENTS / (box->lane_count + 1) : 0, slow = 0;
    out->lanes = pointers(box->lane_count);
    bool fine = out->lanes != NULL;
    for (size_t i = 0; fine && i < box->lane_count && slow < REPORT_SLOW_LANES; i++) {
        const struct blackbox_lane *lane = &box->lanes[i];
        bool was_slow = lane->watch && lane->watch->slows;
        slow += was_slow && !all;
        if (all || was_slow)
            fine = add_lane(out, lane, most);
    }
    return fine;
}

static bool add_pause(Tutti__Box *box, const struct blackbox_pause *pause)
{
    Tutti__Pause *out = malloc(sizeof *out);
    if (!out)
        return false;
    *out = (Tutti__Pause)TUTTI__PAUSE__INIT;
    box->pauses[box->n_pauses++] = out;
    out->count = pause->count;
    out->longest = pause->longest;
    out->latest = pause->latest;
    out->before = pause->before;
    out->after = pause->after;
    out->before_count = pause->before_count;
    out->after_count = pause->after_count;
    return true;
}

static bool add_samples(Tutti__Box *out, const struct blackbox *box)
{
    out->samples = pointers(box->sample_count);
    bool fine = out->samples != NULL;
    for (size_t i = 0; fine && i < box->sample_count; i++) {
        Tutti__Sample *one = malloc(sizeof *one);
        if (!(fine = one != NULL))
            break;
        *one = (Tutti__Sample)TUTTI__SAMPLE__INIT;
        one->at = box->samples[i].at;
        one->calls = box->samples[i].calls;
        one->bytes = box->samples[i].bytes;
        one->called = box->samples[i].called;
        out->samples[out->n_samples++] = one;
    }
    return fine;
}

static bool add_pauses(Tutti__Box *out, const struct blackbox *box)
{
    out->pauses = pointers(box->pause_count);
    out->expected = strdup(box->expected);
    out->expected_since = box->expected_since;
    out->expected_until = box->expected_until;
    bool fine = out->pauses && out->expected;
    for (size_t i = 0; fine && i < box->pause_count; i++)
        fine = add_pause(out, &box->pauses[i]);
    return fine;
}

static bool fill_box(Tutti__Box *out, const struct blackbox *box, size_t calls)
{
    size_t first = box->event_count > REPORT_EVENTS ? box->event_count - REPORT_EVENTS : 0;
    out->boot_id.data = malloc(sizeof box->header.boot_id);
    out->command = strdup(box->header.command);
    out->comms = pointers(box->comm_count);
    out->events = pointers(REPORT_EVENTS);
    bool fine = out->boot_id.data && out->command && out->comms && out->events;
    if (fine) {
        out->boot_id.len = sizeof box->header.boot_id;
        memcpy(out->boot_id.data, box->header.boot_id, sizeof box->header.boot_id);
    }
    out->state = box->header.state;
    out->realtime_offset = box->realtime_offset;
    out->comms_unrecorded = box->counters[WIRE_COUNTER_COMMS_UNRECORDED];
    out->lanes_unrecorded = box->counters[WIRE_COUNTER_LANES_UNRECORDED];
    for (size_t i = 0; fine && i < box->comm_count; i++)
        fine = add_comm(out, &box->comms[i], calls);
    for (size_t i = first; fine && i < box->event_count; i++)
        fine = add_event(out, &box->events[i]);
    return fine && add_pauses(out, box) && add_samples(out, box);
}

static bool add_thread(Tutti__Facts *facts, const struct thread_facts *thread)
{
    Tutti__Thread *out = malloc(sizeof *out);
    if (!out)
        return false;
    *out = (Tutti__Thread)TUTTI__THREAD__INIT;
    facts->threads[facts->n_threads++] = out;
    out->number = thread->number;
    out->ready = thread->ready;
    out->ran = thread->ran;
    out->delayed = thread->delayed;
    return true;
}

static bool fill_facts(Tutti__Facts *out, const struct process_facts *facts)
{
    out->state = facts->state;
    out->tracer = facts->tracer;
    out->tracer_name = *facts->tracer_name ? strdup(facts->tracer_name) : NULL;
    out->at = facts->at;
    out->moved = facts->moved;
    out->throttled = facts->throttled;
    out->replaced = facts->replaced;
    out->detail = *facts->detail ? strdup(facts->detail) : NULL;
    out->stops = facts->stops;
    out->killed = facts->killed;
    out->faults = facts->faults;
    out->frozen = facts->frozen;
    out->out_of_memory = facts->out_of_memory;
    out->group = *facts->group ? strdup(facts->group) : NULL;
    out->threads = pointers(FACTS_THREADS);
    bool fine = out->threads != NULL;
    for (size_t i = 0; fine && i < facts->thread_count; i++)
        fine = add_thread(out, &facts->threads[i]);
    return fine;
}

/* ---- A process ---- */

static bool fill_process(Tutti__Process *out, const struct report_process *process, size_t calls)
{
    const struct wire_box_header *header = &process->box->header;
    out->pid = header->pid;
    out->start_time = header->start_time;
    out->pid_namespace = header->pid_namespace;
    out->box_number = process->box_number;
    out->alive = process->box->alive;
    out->now = process->box->now;
    if (!(out->facts = malloc(sizeof *out->facts)))
        return false;
    *out->facts = (Tutti__Facts)TUTTI__FACTS__INIT;
    if (!fill_facts(out->facts, &process->facts))
        return false;
    if (process->as_before)
        return true;
    if (!(out->box = malloc(sizeof *out->box)))
        return false;
    *out->box = (Tutti__Box)TUTTI__BOX__INIT;
    return fill_box(out->box, process->box, calls) && add_lanes(out->box, process->box, process->lanes);
}

/* Counts what this process adds. False: a report has no room for it. */
static bool has_room(struct report_writer *writer, const struct report_process *process, size_t calls)
{
    const struct blackbox *box = process->box;
    size_t comms = writer->comms + (process->as_before ? 0 : box->comm_count), ops = writer->ops;
    for (size_t i = 0; !process->as_before && i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            ops += is_sent(&box->comms[i], j, calls);
    if (writer->report->n_processes == REPORT_PROCESSES || comms > REPORT_COMMS || ops > REPORT_OPS)
        return false;
    writer->comms = comms;
    writer->ops = ops;
    return true;
}

bool report_add(struct report_writer *writer, const struct report_process *process, size_t calls)
{
    Tutti__Report *report = writer->report;
    if (writer->failed || !has_room(writer, process, calls)) {
        report->left_out += !writer->failed;
        return false;
    }
    Tutti__Process *out = malloc(sizeof *out);
    if (out) {
        *out = (Tutti__Process)TUTTI__PROCESS__INIT;
        report->processes[report->n_processes++] = out;
    }
    writer->failed = !out || !fill_process(out, process, calls);
    return !writer->failed;
}

void report_count_unreadable(struct report_writer *writer)
{
    writer->report->unreadable++;
}

uint8_t *report_end(struct report_writer *writer, size_t *size)
{
    uint8_t *bytes = NULL;
    if (!writer->failed) {
        *size = tutti__report__get_packed_size(writer->report);
        bytes = malloc(*size + 1);
    }
    if (bytes)
        tutti__report__pack(writer->report, bytes);
    tutti__report__free_unpacked(writer->report, NULL);
    free(writer);
    return bytes;
}
