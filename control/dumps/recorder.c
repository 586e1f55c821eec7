/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's Flight Recorder, versions 2.x: the calls that one rank has enqueued, a file for each rank, whose number
 * ends the file's name. GPUs carry out what it records: nobody says for whom a rank waits, the others' dumps tell.
 */
#include "dumps/readers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MOST    (1 << 20)
#define PATIENCE_MOST (7 * 24 * 3600 * 1000ull) /* milliseconds that a call may wait for its peers */
#define LATE_NS       (120 * NS_PER_S)          /* a process ends after its dump, when a call's patience is over */

struct recorder_kind {
    const char *name; /* behind "nccl:", "gloo:" */
    int collective;
};

static const struct recorder_kind kinds[] = {
    {"all_reduce", WIRE_ALLREDUCE},
    {"allreduce", WIRE_ALLREDUCE},
    {"reduce_scatter", WIRE_REDUCE_SCATTER},
    {"_reduce_scatter_base", WIRE_REDUCE_SCATTER},
    {"reduce", WIRE_REDUCE},
    {"broadcast", WIRE_BROADCAST},
    {"all_gather", WIRE_ALLGATHER},
    {"_all_gather_base", WIRE_ALLGATHER},
    {"all_to_all", WIRE_ALLTOALLV},
    {"all_to_allv", WIRE_ALLTOALLV},
    {"gather", WIRE_GATHER},
    {"scatter", WIRE_SCATTER},
    {"barrier", WIRE_BARRIER},
    {"scan", WIRE_SCAN},
    {"send", WIRE_SEND},
    {"recv", WIRE_RECV},
};

static const struct recorder_kind types[] = {
    {"Char", TUTTI_INT8},
    {"Byte", TUTTI_UINT8},
    {"Int", TUTTI_INT32},
    {"UInt32", TUTTI_UINT32},
    {"Long", TUTTI_INT64},
    {"UInt64", TUTTI_UINT64},
    {"Half", TUTTI_FLOAT16},
    {"Float", TUTTI_FLOAT32},
    {"Double", TUTTI_FLOAT64},
    {"BFloat16", TUTTI_BFLOAT16},
    {"Float8_e4m3fn", TUTTI_FLOAT8_E4M3},
    {"Float8_e5m2", TUTTI_FLOAT8_E5M2},
};

/* An unknown group is a plain group: it is compared with nothing. */
static int find(const struct recorder_kind *table, size_t count, const char *name, size_t length, int otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return table[i].collective;
    return otherwise;
}

#define FIND(table, name, length, otherwise) find(table, sizeof table / sizeof *table, name, length, otherwise)

bool recorder_knows(const json_t *root)
{
    return json_is_array(json_object_get(root, "entries")) && json_is_string(json_object_get(root, "version"));
}

/* ---- The rank ---- */

/* The last number in the name, before an ending; -1: none. */
static int rank_of(const char *path)
{
    const char *base = strrchr(path, '/'), *dot;
    base = base ? base + 1 : path;
    dot = strrchr(base, '.');
    size_t end = dot && dot > base && !isdigit((unsigned char)dot[1]) ? (size_t)(dot - base) : strlen(base),
           start = end;
    while (start > 0 && isdigit((unsigned char)base[start - 1]))
        start--;
    return start < end && end - start < 8 ? atoi(base + start) : -1;
}

/* The place of this rank in "[0, 1, 5]", and the length of the list; -1: the rank is not in it. */
static int place_in(const char *ranks, int rank, int *count)
{
    int place = -1;
    *count = 0;
    for (const char *at = ranks; *at && *count < RANKS_MOST;) {
        if (!isdigit((unsigned char)*at)) {
            at++;
            continue;
        }
        char *end;
        long value = strtol(at, &end, 10);
        place = value == rank ? *count : place;
        ++*count;
        at = end;
    }
    return place;
}

/* pg_config, which is a text or a list. The caller frees it. */
static char *ranks_text(const json_t *group)
{
    const json_t *ranks = json_object_get(group, "ranks");
    return json_is_string(ranks) ? strdup(json_string_value(ranks)) : json_dumps(ranks, JSON_ENCODE_ANY | JSON_COMPACT);
}

static struct blackbox_comm *add_comm(struct blackbox *box, const char *key, const json_t *group, int rank)
{
    char *ranks = ranks_text(group);
    int nranks = 0, place = ranks ? place_in(ranks, rank, &nranks) : -1;
    struct blackbox_comm *comm = NULL;
    const char *name = *dump_string(group, "desc") && strcmp(dump_string(group, "desc"), "undefined") != 0
                           ? dump_string(group, "desc")
                           : key;
    if (place >= 0)
        comm = dump_comm(box, hash_bytes(hash_bytes(1, key, strlen(key)), ranks, strlen(ranks)), name, place, nranks);
    free(ranks);
    return comm;
}

/* ---- The call ---- */

static uint64_t product(const json_t *sizes)
{
    uint64_t all = 0;
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        uint64_t one = 1;
        for (size_t j = 0; j < json_array_size(json_array_get(sizes, i)); j++)
            one *= (uint64_t)json_integer_value(json_array_get(json_array_get(sizes, i), j));
        all += one;
    }
    return all;
}

/* The number of elements that all ranks must agree about; BLACKBOX_UNTOLD where it differs from rank to rank. */
static uint64_t count_of(const json_t *entry, int collective)
{
    bool by_output = collective == WIRE_REDUCE_SCATTER;
    bool differs = collective == WIRE_GATHER || collective == WIRE_SCATTER || collective == WIRE_ALLTOALLV ||
                   collective == WIRE_BARRIER;
    return differs ? BLACKBOX_UNTOLD : product(json_object_get(entry, by_output ? "output_sizes" : "input_sizes"));
}

static int type_of(const json_t *entry)
{
    const json_t *names = json_object_get(entry, "input_dtypes");
    const char *name = json_string_value(json_is_array(names) ? json_array_get(names, 0) : names);
    return name ? FIND(types, name, strlen(name), WIRE_OP_NONE) : WIRE_OP_NONE;
}

static int collective_of(const char *name, int *peer)
{
    const char *colon = strchr(name, ':'), *start = colon ? colon + 1 : name;
    size_t length = strcspn(start, " ");
    int from, to;
    *peer = -1;
    if (sscanf(start + length, " %d->%d", &from, &to) == 2)
        *peer = to;
    else if (sscanf(start + length, " %d<-%d", &to, &from) == 2)
        *peer = from;
    return FIND(kinds, start, length, WIRE_GROUP);
}

static bool is_of_gloo(const json_t *entry)
{
    return strncmp(dump_string(entry, "profiling_name"), "gloo:", 5) == 0;
}

/* Gloo's entries stay "scheduled", and are retired when they are over or have failed: join.c tells which. What
 * pg_status counts comes later, and counts messages, too. */
static enum wire_op_state state_of(const json_t *entry)
{
    const char *state = dump_string(entry, "state");
    if (strcmp(state, "completed") == 0 || (is_of_gloo(entry) && json_is_true(json_object_get(entry, "retired"))))
        return WIRE_OP_DONE;
    return strcmp(state, "started") == 0 ? WIRE_OP_RUNNING : WIRE_OP_ENQUEUED;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool add_op(struct blackbox_comm *comm, const json_t *entry)
{
    struct blackbox_op *op = dump_op(comm);
    if (!op)
        return false;
    int peer;
    op->collective = collective_of(dump_string(entry, "profiling_name"), &peer);
    bool message = op->collective == WIRE_SEND || op->collective == WIRE_RECV;
    op->seq = dump_number(entry, message ? "p2p_seq_id" : "collective_seq_id");
    op->type = type_of(entry);
    op->count = count_of(entry, op->collective);
    op->state = state_of(entry);
    op->device = true;
    op->begin = op->head_since = dump_number(entry, "time_created_ns");
    op->start = dump_number(entry, "time_discovered_started_ns");
    op->end = op->state == WIRE_OP_DONE ? dump_number(entry, "time_discovered_completed_ns") : 0;
    if (message && peer >= 0 && peer < comm->nranks)
        op->root = peer;
    if (op->root >= 0 && op->root < 32)
        *(op->collective == WIRE_SEND ? &op->sends_to : &op->recvs_from) = 1u << op->root;
    dump_text(op->algorithm, sizeof op->algorithm, "recorded");
    return true;
}

/* ---- The whole dump ---- */

static bool add_ops(const json_t *root, struct blackbox_comm *comm, const char *group)
{
    size_t at;
    json_t *entry;
    json_array_foreach(json_object_get(root, "entries"), at, entry)
    {
        const char *name = json_string_value(json_array_get(json_object_get(entry, "process_group"), 0));
        if (name && strcmp(name, group) == 0 && !add_op(comm, entry))
            return false;
    }
    return true;
}

/* The keys of pg_config are what entries call "process_group". Gloo has one key, which names no group. */
static bool add_declared(struct blackbox *box, const json_t *root, int rank)
{
    const char *key;
    json_t *group;
    json_object_foreach(json_object_get(root, "pg_config"), key, group)
    {
        struct blackbox_comm *comm = *key ? add_comm(box, key, group, rank) : NULL;
        if (comm && !add_ops(root, comm, key))
            return false;
    }
    return true;
}

static bool has_comm(const struct blackbox *box, uint64_t id)
{
    for (size_t i = 0; i < box->comm_count; i++)
        if (box->comms[i].id == id)
            return true;
    return false;
}

/* Adds groups that only the entries name, by "process_group": [name, description]. The dumps of all ranks tell who is
 * in them. */
static bool add_undeclared(struct blackbox *box, const json_t *root, int rank)
{
    size_t at;
    json_t *entry;
    json_array_foreach(json_object_get(root, "entries"), at, entry)
    {
        const json_t *group = json_object_get(entry, "process_group");
        const char *key = json_string_value(json_array_get(group, 0)),
                   *desc = json_string_value(json_array_get(group, 1));
        if (!key || json_object_get(json_object_get(root, "pg_config"), key))
            continue;
        uint64_t id = hash_bytes(2, key, strlen(key));
        if (has_comm(box, id))
            continue;
        struct blackbox_comm *comm =
            dump_comm(box, id, desc && strcmp(desc, "undefined") != 0 ? desc : key, rank, rank + 1);
        if (!comm)
            return false;
        comm->undeclared = true;
        if (!add_ops(root, comm, key))
            return false;
    }
    return true;
}

static void note_times(const struct dump *dump, struct blackbox *box)
{
    uint64_t newest = 0, limit = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++) {
            const struct blackbox_op *op = &box->comms[i].ops[j];
            newest = later(newest, later(op->begin, later(op->start, op->end)));
        }
    size_t at;
    json_t *entry;
    json_array_foreach(json_object_get(dump->root, "entries"), at, entry)
    {
        uint64_t patience = dump_number(entry, "timeout_ms"), begin = dump_number(entry, "time_created_ns");
        uint64_t ends = begin + (patience < PATIENCE_MOST ? patience : PATIENCE_MOST) * NS_PER_MS + LATE_NS;
        if (patience && begin && state_of(entry) != WIRE_OP_DONE && (!limit || ends < limit))
            limit = ends;
    }
    dump_clock(dump, box, newest, limit);
}

tutti_result_t recorder_read(struct dump *dump)
{
    int rank = rank_of(dump->path);
    if (rank < 0)
        return error_note(TUTTI_INVALID_USAGE,
                          "reading the Flight Recorder's dump %s: its name must end with the rank, as in trace_rank_3",
                          dump->path);
    struct blackbox *box = dump_box(dump, rank);
    if (!box)
        return error_note(TUTTI_SYSTEM_ERROR, "reading %s: no memory", dump->path);
    dump_text(box->header.host, sizeof box->header.host, dump_string(dump->root, "host_name"));
    if (!add_declared(box, dump->root, rank) || !add_undeclared(box, dump->root, rank))
        return error_note(TUTTI_SYSTEM_ERROR, "reading %s: no memory", dump->path);
    note_times(dump, box);
    return TUTTI_SUCCESS;
}
