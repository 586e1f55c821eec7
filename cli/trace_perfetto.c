/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline in the Trace Event format that ui.perfetto.dev and chrome://tracing load. Each rank's process is a
 * process, each communicator a track, or several where its operations overlap. Slices are operations, instants are
 * events of lanes. */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "diagnosis/phrase.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TRACKS 8 /* of one communicator */
#define EVENT_TID  1
#define FIRST_TID  2

struct trace_perfetto_timeline {
    json_t *events;
    const struct blackbox *first; /* its clock is that of all boxes of the same boot */
    uint64_t origin;              /* CLOCK_REALTIME of time 0 */
};

static uint64_t real_time(const struct trace_perfetto_timeline *line, const struct blackbox *box, uint64_t time)
{
    bool same = memcmp(line->first->header.boot_id, box->header.boot_id, sizeof box->header.boot_id) == 0;
    return time + (uint64_t)(same ? line->first : box)->realtime_offset;
}

static json_t *us(const struct trace_perfetto_timeline *line, const struct blackbox *box, uint64_t time)
{
    return json_real((double)(int64_t)(real_time(line, box, time) - line->origin) / 1e3);
}

/* Names a process (tid 0) or a track. */
static void add_name(struct trace_perfetto_timeline *line, const char *what, const struct blackbox *box, unsigned tid,
                     const char *name)
{
    json_t *text = json_string(name);
    json_array_append_new(line->events, json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "ph", "M", "name", what, "pid",
                                                  (int)box->header.pid, "tid", (int)tid, "args", "name",
                                                  text ? text : json_string("?")));
}

/* Operations that end at once have no length of their own: they reach to the next begin, at most a microsecond. A GPU's
 * are drawn up to the next call. */
static uint64_t end_of(const struct blackbox *box, const struct blackbox_comm *comm, size_t index)
{
    const struct blackbox_op *op = &comm->ops[index];
    if (op->state != WIRE_OP_DONE)
        return box->now;
    uint64_t next = index + 1 < comm->op_count ? comm->ops[index + 1].begin : op->begin + 1000;
    if (op->device && op->end) /* it was seen to be over by then */
        return next > op->begin && next < op->end ? next : op->end;
    if (op->end)
        return op->end;
    return next > op->begin && next < op->begin + 1000 ? next : op->begin + 1000;
}

static json_t *op_args(const struct blackbox_op *op, uint64_t from)
{
    json_t *args =
        json_pack("{s:I, s:I, s:I, s:s, s:s, s:s, s:i, s:i, s:s, s:f}", "seq", (json_int_t)op->seq, "count",
                  (json_int_t)op->count, "bytes", (json_int_t)op->bytes, "type", blackbox_type_name(op->type), "op",
                  blackbox_op_name(op->op), "state", phrase_state(op), "root", op->root, "rounds", (int)op->rounds,
                  "algorithm", op->algorithm, "queued_us", (double)(from - op->begin) / 1e3);
    if (args && op->state == WIRE_OP_RUNNING && op->wait_since && op->wait_peer >= 0) {
        json_object_set_new(args, "waits_for_rank", json_integer(op->wait_peer));
        json_object_set_new(args, "round", json_integer(op->wait_round));
        json_object_set_new(args, "slice", json_integer(op->wait_slice));
    }
    return args;
}

/* The first track of the communicator that is free when the operation starts. */
static int find_track(uint64_t *busy_until, uint64_t from, uint64_t to)
{
    int track = 0;
    while (track + 1 < MAX_TRACKS && busy_until[track] > from)
        track++;
    busy_until[track] = to;
    return track;
}

static void add_op(struct trace_perfetto_timeline *line, const struct blackbox *box, const struct blackbox_comm *comm,
                   size_t index, uint64_t *busy_until)
{
    const struct blackbox_op *op = &comm->ops[index];
    uint64_t from = op->start > op->begin && !op->device ? op->start : op->begin, to = end_of(box, comm, index);
    if (to < from)
        to = from;
    int tid = (int)(FIRST_TID + comm->place * MAX_TRACKS) + find_track(busy_until, from, to);
    json_t *slice = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:f, s:o*}", "ph", "X", "cat", "collective", "name",
                              phrase_call(op).text, "pid", (int)box->header.pid, "tid", tid, "ts", us(line, box, from),
                              "dur", (double)(to - from) / 1e3, "args", op_args(op, from));
    json_array_append_new(line->events, slice);
}

static void add_comm(struct trace_perfetto_timeline *line, const struct blackbox *box, const struct blackbox_comm *comm)
{
    uint64_t busy_until[MAX_TRACKS] = {0};
    char name[128];
    for (size_t i = 0; i < comm->op_count; i++)
        add_op(line, box, comm, i, busy_until);
    for (unsigned i = 0; i < MAX_TRACKS; i++) {
        snprintf(name, sizeof name, "%s rank %d/%d", comm->name, comm->rank, comm->nranks);
        if (i == 0 || busy_until[i])
            add_name(line, "thread_name", box, FIRST_TID + comm->place * MAX_TRACKS + i, name);
    }
}

static void add_event(struct trace_perfetto_timeline *line, const struct blackbox *box,
                      const struct blackbox_event *event)
{
    const struct blackbox_event_row *row = blackbox_event_row(event->kind);
    json_t *args = json_pack("{s:i, s:i, s:i}", "peer_pid", (int)event->peer_pid, "peer_rank", event->peer_rank, "lane",
                             event->lane);
    if (args && *row->value1)
        json_object_set_new(args, row->value1, json_integer((json_int_t)event->value1));
    if (args && *row->value2)
        json_object_set_new(args, row->value2, json_integer((json_int_t)event->value2));
    json_array_append_new(line->events, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:o*}", "ph", "i", "s", "t",
                                                  "cat", "link", "name", row->name, "pid", (int)box->header.pid, "tid",
                                                  EVENT_TID, "ts", us(line, box, event->time), "args", args));
}

static void add_box(struct trace_perfetto_timeline *line, const struct blackbox *box)
{
    char name[300];
    int rank = -1, nranks = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        if (box->comms[i].nranks > nranks) {
            nranks = box->comms[i].nranks;
            rank = box->comms[i].rank;
        }
    snprintf(name, sizeof name, "rank %d (pid %u%s) %.100s", rank, box->header.pid, box->alive ? "" : ", dead",
             box->header.command);
    add_name(line, "process_name", box, 0, name);
    json_array_append_new(line->events,
                          json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "ph", "M", "name", "process_sort_index", "pid",
                                    (int)box->header.pid, "tid", 0, "args", "sort_index", rank));
    add_name(line, "thread_name", box, EVENT_TID, "links");
    for (size_t i = 0; i < box->comm_count; i++)
        add_comm(line, box, &box->comms[i]);
    for (size_t i = 0; i < box->event_count; i++)
        add_event(line, box, &box->events[i]);
}

static uint64_t find_origin(const struct trace_perfetto_timeline *line, const struct view_set *set)
{
    uint64_t origin = UINT64_MAX;
    for (size_t i = 0; i < set->count; i++) {
        uint64_t opened = real_time(line, set->boxes[i], set->boxes[i]->header.opened.monotonic_ns);
        origin = opened < origin ? opened : origin;
    }
    return origin;
}

int view_perfetto(const struct view_options *options, const struct view_set *set)
{
    struct trace_perfetto_timeline line = {.events = json_array(), .first = set->count ? set->boxes[0] : NULL};
    line.origin = find_origin(&line, set);
    for (size_t i = 0; i < set->count; i++)
        add_box(&line, set->boxes[i]);
    char origin[32];
    snprintf(origin, sizeof origin, "%" PRIu64, set->count ? line.origin : 0);
    json_t *all = json_pack("{s:s, s:{s:s, s:s}, s:o}", "displayTimeUnit", "ns", "otherData", "producer", "tutti trace",
                            "origin_realtime_ns", origin, "traceEvents", line.events);
    bool fine = all && json_dump_file(all, options->perfetto, JSON_COMPACT) == 0;
    json_decref(all);
    if (!fine)
        fprintf(stderr, "tutti trace: writing %s: %m\n", options->perfetto);
    return fine ? 0 : 1;
}
