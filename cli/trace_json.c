/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes as JSON: times in nanoseconds of CLOCK_REALTIME, null where there is none. */
#include "cli/trace.h"
#include "cli/trace_lanes.h"
#include "cli/trace_set.h"
#include "cli/trace_text.h"
#include "cli/trace_values.h"

#include <errno.h>
#include <string.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static json_t *rank_json(int rank)
{
    return rank >= 0 ? json_integer(rank) : json_null();
}

static json_t *ranks_json(uint32_t ranks)
{
    json_t *out = json_array();
    for (int rank = 0; rank < 32; rank++)
        if (ranks >> rank & 1)
            json_array_append_new(out, json_integer(rank));
    return out;
}

static void add_device(json_t *out, const struct blackbox *box, const struct blackbox_op *op)
{
    json_object_set_new(out, "head_ns", view_time_json(box, op->head_since));
    json_object_set_new(out, "device", json_true());
    json_object_set_new(out, "captured", json_boolean(op->captured));
    json_object_set_new(out, "gpu_begin_ns", op->gpu_end ? json_integer((json_int_t)op->gpu_begin) : json_null());
    json_object_set_new(out, "gpu_end_ns", op->gpu_end ? json_integer((json_int_t)op->gpu_end) : json_null());
    json_object_set_new(out, "sends_to", ranks_json(op->sends_to));
    json_object_set_new(out, "receives_from", ranks_json(op->recvs_from));
}

static json_t *op_json(const struct blackbox *box, const struct blackbox_comm *comm, const struct blackbox_op *op)
{
    json_t *out =
        json_pack("{s:I, s:s, s:I, s:I, s:s, s:s, s:o, s:s, s:o, s:i, s:i, s:i}", "seq", (json_int_t)op->seq,
                  "collective", blackbox_collective_name(op->collective), "count", (json_int_t)op->count, "bytes",
                  (json_int_t)op->bytes, "type", blackbox_type_name(op->type), "op", blackbox_op_name(op->op), "root",
                  rank_json(op->root), "state", phrase_state(op), "algorithm", view_text_json(op->algorithm), "result",
                  op->result, "rounds", (int)op->rounds, "slices", (int)op->slices);
    if (!out)
        return NULL;
    json_object_set_new(out, "begin_ns", view_time_json(box, op->begin));
    json_object_set_new(out, "start_ns", view_time_json(box, op->start));
    json_object_set_new(out, "end_ns", view_time_json(box, op->end));
    json_object_set_new(out, "duration_ns", json_integer((json_int_t)view_duration(op, box->now)));
    if (op->waited)
        json_object_set_new(out, "waited_ns", json_integer((json_int_t)op->waited - 1));
    json_object_set_new(out, "busbw_gbs", json_real(view_busbw(op, comm->nranks)));
    if (op->step)
        json_object_set_new(out, "step", json_string(phrase_step(op).text));
    if (op->device)
        add_device(out, box, op);
    if (op->state == WIRE_OP_RUNNING && op->wait_since)
        json_object_set_new(out, "waits",
                            json_pack("{s:o, s:i, s:i, s:o}", "peer", rank_json(op->wait_peer), "round",
                                      (int)op->wait_round, "slice", (int)op->wait_slice, "since_ns",
                                      view_time_json(box, op->wait_since)));
    return out;
}

static json_t *comm_json(const struct blackbox *box, const struct blackbox_comm *comm)
{
    json_t *ops = json_array();
    for (size_t i = 0; i < comm->op_count; i++)
        json_array_append_new(ops, op_json(box, comm, &comm->ops[i]));
    return json_pack("{s:o, s:o, s:i, s:i, s:s, s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "id",
                     view_hex_json(comm->id), "name", view_text_json(comm->name), "rank", comm->rank, "nranks",
                     comm->nranks, "state", view_comm_state(box, comm), "result", comm->result, "culprit",
                     rank_json(comm->culprit), "sentence", view_text_json(comm->sentence), "opened_ns",
                     view_time_json(box, comm->opened), "closed_ns", view_time_json(box, comm->closed), "unrecorded",
                     (json_int_t)comm->unrecorded, "captured", (json_int_t)comm->captured, "memory",
                     view_memory_json(comm), "operations", ops);
}

static json_t *event_json(const struct blackbox *box, const struct blackbox_event *event)
{
    const struct blackbox_event_row *row = blackbox_event_row(event->kind);
    json_t *out = json_pack("{s:I, s:o, s:s, s:o, s:o, s:i}", "number", (json_int_t)event->number, "time_ns",
                            view_time_json(box, event->time), "kind", row->name, "lane", rank_json(event->lane),
                            "peer_rank", rank_json(event->peer_rank), "peer_pid", (int)event->peer_pid);
    if (!out)
        return NULL;
    if (event->comm)
        json_object_set_new(out, "comm", view_hex_json(event->comm));
    if (event->peer_host)
        json_object_set_new(out, "peer_host", view_hex_json(event->peer_host));
    if (*row->value1)
        json_object_set_new(out, row->value1, json_integer((json_int_t)event->value1));
    if (*row->value2)
        json_object_set_new(out, row->value2, json_integer((json_int_t)event->value2));
    return out;
}

static json_t *counters_json(const struct blackbox *box)
{
    json_t *out = json_object();
    for (size_t i = 0; i < box->counter_count && i < WIRE_COUNTER_COUNT; i++) {
        char key[96];
        const struct blackbox_counter_row *row = blackbox_counter_row(i);
        snprintf(key, sizeof key, *row->label ? "%s{%s}" : "%s%s", row->metric, row->label);
        json_object_set_new(out, key, json_integer((json_int_t)box->counters[i]));
    }
    return out;
}

static json_t *box_json(const struct blackbox *box, uint32_t segments)
{
    json_t *comms = json_array(), *events = json_array();
    for (size_t i = 0; i < box->comm_count; i++)
        json_array_append_new(comms, comm_json(box, &box->comms[i]));
    for (size_t i = 0; i < box->event_count; i++)
        json_array_append_new(events, event_json(box, &box->events[i]));
    return json_pack("{s:o, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "path",
                     view_text_json(box->path), "pid", (int)box->header.pid, "uid", (int)box->header.uid, "state",
                     view_box_state(box), "host", view_text_json(box->header.host), "command",
                     view_text_json(box->header.command), "library", view_text_json(box->header.library),
                     "last_sign_ns", view_time_json(box, box->now), "torn", (json_int_t)box->torn, "communicators",
                     comms, "events", events, "counters", counters_json(box), "lanes", view_lanes_json(box, segments));
}

int view_json(const struct view_options *options, const struct view_set *set)
{
    struct findings findings = view_findings(options, set);
    json_t *boxes = json_array(), *verdict = view_findings_json(&findings);
    findings_free(&findings);
    for (size_t i = 0; i < set->count; i++)
        json_array_append_new(boxes, box_json(set->boxes[i], view_window(options)));
    json_t *all = json_pack("{s:i, s:o, s:o}", "version", 1, "processes", boxes, "verdict", verdict);
    bool fine = all && json_dumpf(all, stdout, JSON_INDENT(1)) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(all);
    if (!fine)
        fprintf(stderr, "tutti trace: cannot write the output: %s\n", strerror(errno));
    return fine ? 0 : 1;
}
