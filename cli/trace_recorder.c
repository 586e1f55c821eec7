/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations in the form of PyTorch's Flight Recorder, version 2.10, one file for each rank. Global ranks are those
 * of the communicator with most ranks. Other communicators' members are found by their boxes; where one is missing, its
 * rank within the communicator stands in.
 */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/trace_text.h"

#include "base/clock.h"
#include "base/param.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct export
{
    const struct view_options *options;
    struct trace_member *members; /* ordered by communicator and rank */
    size_t count;
    uint64_t world; /* id */
    int nranks;
};

/* Names that the analyzer knows, which stops at others: a barrier's is NCCL's, and a scan's the nearest by sizes. */
static const char *const names[] = {
    [WIRE_ALLREDUCE] = "all_reduce",
    [WIRE_REDUCE] = "reduce",
    [WIRE_BROADCAST] = "broadcast",
    [WIRE_ALLGATHER] = "all_gather",
    [WIRE_GATHER] = "gather",
    [WIRE_REDUCE_SCATTER] = "_reduce_scatter_base",
    [WIRE_SCATTER] = "scatter",
    [WIRE_BARRIER] = "all_reduce_barrier",
    [WIRE_SCAN] = "all_reduce",
    [WIRE_ALLTOALL] = "all_to_all",
    [WIRE_SEND] = "send",
    [WIRE_RECV] = "recv",
    [WIRE_ALLTOALLV] = "all_to_all",
    [WIRE_GROUP] = "coalesced",
    [WIRE_PUT] = "coalesced", /* the analyzer knows no windows */
    [WIRE_SIGNAL] = "coalesced",
    [WIRE_GET] = "coalesced",
    [WIRE_FLUSH] = "coalesced",
    [WIRE_WAIT_SIGNAL] = "coalesced",
};

/* Numbers of messages and collectives differ: the analyzer takes a message with the number of the collective before for
 * its part. */
#define FIRST_P2P (1u << 30)

static const char *const types[] = {
    [TUTTI_INT8] = "Char",
    [TUTTI_UINT8] = "Byte",
    [TUTTI_INT32] = "Int",
    [TUTTI_UINT32] = "UInt32",
    [TUTTI_INT64] = "Long",
    [TUTTI_UINT64] = "UInt64",
    [TUTTI_FLOAT16] = "Half",
    [TUTTI_FLOAT32] = "Float",
    [TUTTI_FLOAT64] = "Double",
    [TUTTI_BFLOAT16] = "BFloat16",
    [TUTTI_FLOAT8_E4M3] = "Float8_e4m3fn",
    [TUTTI_FLOAT8_E5M2] = "Float8_e5m2",
};

/* The communicator with most ranks; the first by id of several. */
static void find_world(struct export *export)
{
    for (size_t i = 0; i < export->count; i++)
        if (export->members[i].comm->nranks > export->nranks) {
            export->nranks = export->members[i].comm->nranks;
            export->world = export->members[i].comm->id;
        }
}

/* The global rank of a member; -1 when its process has none. */
static int owner(const struct export *export, const struct trace_member *member)
{
    const struct blackbox_comm *comm = member->comm;
    if (comm->id == export->world || comm->nranks == export->nranks)
        return comm->rank;
    for (size_t i = 0; i < member->box->comm_count; i++)
        if (member->box->comms[i].id == export->world)
            return member->box->comms[i].rank;
    return -1;
}

/* Global ranks of a communicator as Python writes a list. The caller frees the text. */
static char *ranks_text(const struct export *export, const struct blackbox_comm *comm)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (int rank = 0; rank < comm->nranks && rank < 1 << 20; rank++) {
        int global = -1;
        for (size_t i = 0; i < export->count && comm->nranks != export->nranks && global < 0; i++)
            if (export->members[i].comm->id == comm->id && export->members[i].comm->rank == rank)
                global = owner(export, &export->members[i]);
        fprintf(out, "%s%d", rank ? ", " : "[", global < 0 ? rank : global);
    }
    fputc(']', out);
    return fclose(out) == 0 ? text : NULL;
}

static struct phrase group_name(const struct blackbox_comm *comm)
{
    struct phrase word;
    snprintf(word.text, sizeof word.text, "%016" PRIx64, comm->id);
    return word;
}

static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_string("undefined");
}

static json_t *time_json(const struct blackbox *box, uint64_t time)
{
    return time ? json_integer((json_int_t)(time + (uint64_t)box->realtime_offset)) : json_null();
}

/* The elements that a collective reads (or writes) on one rank. */
static json_t *sizes(const struct blackbox_op *op, int nranks, bool output)
{
    bool many = op->collective == WIRE_ALLTOALL || (op->collective == WIRE_ALLGATHER && output) ||
                (op->collective == WIRE_GATHER && output) || (op->collective == WIRE_REDUCE_SCATTER && !output) ||
                (op->collective == WIRE_SCATTER && !output);
    return json_pack("[[I]]", (json_int_t)(many ? op->count * (uint64_t)nranks : op->count));
}

static void profiling_name(const struct blackbox_op *op, int rank, char *out, size_t size)
{
    const char *name = op->collective < WIRE_COLLECTIVE_COUNT ? names[op->collective] : "coalesced";
    if (op->collective == WIRE_SEND)
        snprintf(out, size, "nccl:send %d->%d", rank, op->root);
    else if (op->collective == WIRE_RECV)
        snprintf(out, size, "nccl:recv %d<-%d", rank, op->root);
    else
        snprintf(out, size, "nccl:%s", name);
}

static const char *state_name(const struct blackbox_op *op)
{
    static const char *const states[] = {"scheduled", "scheduled", "started", "completed"};
    return states[op->state & 3];
}

/* The sequence numbers of one communicator so far. */
struct numbers {
    uint64_t collective, p2p;
};

static json_t *entry(const struct trace_member *member, const struct blackbox_op *op, json_int_t record, int group,
                     struct numbers *numbers)
{
    const struct blackbox_comm *comm = member->comm;
    bool p2p = op->collective >= WIRE_SEND; /* a group too */
    char name[64];
    const char *type = op->type < TUTTI_TYPE_COUNT ? types[op->type] : "Byte";
    numbers->p2p += p2p;
    if (op->collective < WIRE_SEND) /* sends and receives are counted apart */
        numbers->collective = op->seq;
    profiling_name(op, comm->rank, name, sizeof name);
    json_t *out = json_pack(
        "{s:[], s:I, s:i, s:[s,o], s:I, s:I, s:I, s:s, s:o, s:o, s:[s], s:o, s:[s], s:s, s:o, s:o, s:b, s:I, s:b}",
        "frames", "record_id", record, "pg_id", group, "process_group", group_name(comm).text, text_json(comm->name),
        "collective_seq_id", (json_int_t)numbers->collective, "p2p_seq_id", (json_int_t)(FIRST_P2P + numbers->p2p),
        "op_id", (json_int_t)op->position + 1, "profiling_name", name, "time_created_ns",
        time_json(member->box, op->begin), "input_sizes", sizes(op, comm->nranks, false), "input_dtypes", type,
        "output_sizes", sizes(op, comm->nranks, true), "output_dtypes", type, "state", state_name(op),
        "time_discovered_started_ns", time_json(member->box, op->start), "time_discovered_completed_ns",
        time_json(member->box, op->end), "retired", op->state == WIRE_OP_DONE, "timeout_ms",
        (json_int_t)param_int(PARAM_TIMEOUT), "is_p2p", p2p);
    if (out && op->end)
        json_object_set_new(out, "duration_ms", json_real((double)view_duration(op, 0) / 1e6));
    return out;
}

static void add_status(json_t *status, const struct blackbox_comm *comm, int group)
{
    json_int_t last[4] = {-1, -1, -1, -1};
    for (size_t i = 0; i < comm->op_count; i++)
        for (int state = WIRE_OP_ENQUEUED; comm->ops[i].collective < WIRE_SEND && state <= (int)comm->ops[i].state;
             state++)
            if ((json_int_t)comm->ops[i].seq > last[state])
                last[state] = (json_int_t)comm->ops[i].seq;
    json_object_set_new(status, phrase_number((uint64_t)group).text,
                        json_pack("{s:I, s:I, s:I}", "last_enqueued_collective", last[WIRE_OP_ENQUEUED],
                                  "last_started_collective", last[WIRE_OP_RUNNING], "last_completed_collective",
                                  last[WIRE_OP_DONE]));
}

static int by_time(const void *left, const void *right)
{
    json_int_t a = json_integer_value(json_object_get(*(json_t *const *)left, "time_created_ns"));
    json_int_t b = json_integer_value(json_object_get(*(json_t *const *)right, "time_created_ns"));
    return a < b ? -1 : a > b;
}

/* Sorts the entries of a rank by time and numbers them, because one recorder numbers all. Takes the reference to
 * `entries`. */
static json_t *in_order(json_t *entries)
{
    size_t count = json_array_size(entries);
    json_t **sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted)
        return entries;
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(entries, i);
    qsort(sorted, count, sizeof *sorted, by_time);
    json_t *out = json_array();
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(sorted[i], "record_id", json_integer((json_int_t)i));
        json_array_append(out, sorted[i]);
    }
    free(sorted);
    json_decref(entries);
    return out;
}

/* The number of the first call that all ranks have. Rings of two ranks may not reach back equally far, and the analyzer
 * must see the same first call on all. */
static uint64_t aligned_from(const struct export *export, const struct blackbox_comm *comm)
{
    uint64_t from = 0;
    for (size_t i = 0; i < export->count; i++) {
        const struct blackbox_comm *other = export->members[i].comm;
        if (other->id != comm->id || !other->op_count || other->ops[0].position == 0)
            continue;
        size_t first = 0;
        while (first < other->op_count && other->ops[first].collective >= WIRE_SEND)
            first++;
        if (first < other->op_count && other->ops[first].seq > from)
            from = other->ops[first].seq;
    }
    return from;
}

static void add_comm(const struct export *export, const struct trace_member *member, int group, json_t *config,
                     json_t *status, json_t *entries)
{
    const struct blackbox_comm *comm = member->comm;
    struct numbers numbers = {0};
    char *ranks = ranks_text(export, comm);
    json_object_set_new(config, group_name(comm).text,
                        json_pack("{s:s, s:o, s:s}", "name", group_name(comm).text, "desc", text_json(comm->name),
                                  "ranks", ranks ? ranks : "[]"));
    free(ranks);
    add_status(status, comm, group);
    uint64_t from = aligned_from(export, comm);
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].collective >= WIRE_SEND || comm->ops[i].seq >= from)
            json_array_append_new(entries, entry(member, &comm->ops[i], 0, group, &numbers));
}

static json_t *dump_of(const struct export *export, int rank)
{
    json_t *config = json_object(), *status = json_object(), *entries = json_array();
    int group = -1;
    for (size_t i = 0; i < export->count; i++) {
        group += i == 0 || export->members[i].comm->id != export->members[i - 1].comm->id;
        if (owner(export, &export->members[i]) == rank)
            add_comm(export, &export->members[i], group, config, status, entries);
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "version", "2.10", "pg_config", config, "pg_status", status, "entries",
                     in_order(entries));
}

static bool write_dump(const struct export *export, int rank)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%d", export->options->recorder, rank);
    json_t *dump = dump_of(export, rank);
    FILE *file = fopen(path, "w");
    bool fine = file && dump;
    if (fine && export->options->pickle)
        fine = view_pickle(dump, file);
    else if (fine)
        fine = json_dumpf(dump, file, JSON_INDENT(1)) == 0;
    if (file)
        fine = fclose(file) == 0 && fine;
    json_decref(dump);
    if (!fine)
        fprintf(stderr, "tutti trace: writing %s: %m\n", path);
    return fine;
}

int view_recorder(const struct view_options *options, const struct view_set *set)
{
    struct export export = {.options = options};
    export.members = view_members(set, &export.count);
    find_world(&export);
    bool fine = true;
    int last = -1;
    for (size_t i = 0; i < export.count; i++) {
        if (export.members[i].comm->id != export.world || export.members[i].comm->rank == last)
            continue;
        last = export.members[i].comm->rank;
        fine = write_dump(&export, last) && fine;
    }
    if (!export.count)
        fprintf(stderr, "tutti trace: no communicator to write about\n");
    free(export.members);
    return fine ? 0 : 1;
}
