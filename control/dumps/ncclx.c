/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCLX's ncclCommDumpAll(): the calls that are over, under way and still to come, of each communicator of a process,
 * by its hash. It hands out texts of JSON; a file of them may hold the texts, or what is in them. Nobody says for whom
 * a rank waits: the others' dumps tell.
 */
#include "dumps/readers.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define RANKS_MOST (1 << 20)
#define US_MOST    (INT64_MAX / 4000) /* factor that makes one of its times nanoseconds */

static const struct ncclx_kind {
    const char *name;
    int number;
} kinds[] = {{"AllReduce", WIRE_ALLREDUCE},
             {"Broadcast", WIRE_BROADCAST},
             {"Reduce", WIRE_REDUCE},
             {"AllGather", WIRE_ALLGATHER},
             {"ReduceScatter", WIRE_REDUCE_SCATTER},
             {"AllToAll", WIRE_ALLTOALL},
             {"AllToAllv", WIRE_ALLTOALLV},
             {"Gather", WIRE_GATHER},
             {"Scatter", WIRE_SCATTER},
             {"Barrier", WIRE_BARRIER}},
  types[] = {{"ncclInt8", TUTTI_INT8},
             {"ncclUint8", TUTTI_UINT8},
             {"ncclInt32", TUTTI_INT32},
             {"ncclUint32", TUTTI_UINT32},
             {"ncclInt64", TUTTI_INT64},
             {"ncclUint64", TUTTI_UINT64},
             {"ncclFloat16", TUTTI_FLOAT16},
             {"ncclFloat32", TUTTI_FLOAT32},
             {"ncclFloat64", TUTTI_FLOAT64},
             {"ncclBfloat16", TUTTI_BFLOAT16},
             {"ncclFloat8e4m3", TUTTI_FLOAT8_E4M3},
             {"ncclFloat8e5m2", TUTTI_FLOAT8_E5M2}};

#define FIND(table, name, otherwise) find(table, sizeof table / sizeof *table, name, otherwise)

static int find(const struct ncclx_kind *table, size_t count, const char *name, int otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].number;
    return otherwise;
}

/* A member that is JSON, or a text of JSON. The caller frees it; NULL: there is none, or the text is no JSON. */
static json_t *part(const json_t *comm, const char *name)
{
    json_t *value = json_object_get(comm, name);
    const char *text = json_string_value(value);
    json_t *inner = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    return text && inner ? inner : json_incref(value);
}

static uint64_t number_of(const json_t *comm, const char *name)
{
    json_t *value = part(comm, name);
    json_int_t number = json_integer_value(value);
    json_decref(value);
    return number > 0 ? (uint64_t)number : 0;
}

static bool is_comm(const json_t *value)
{
    return json_object_get(value, "commHash") && json_object_get(value, "rank") && json_object_get(value, "nRanks") &&
           json_object_get(value, "CT_pastColls");
}

bool ncclx_knows(const json_t *root)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value) if (is_comm(value)) return true;
    return false;
}

/* ---- Calls ---- */

/* These times are microseconds since 1970. */
static uint64_t time_of(const json_t *call, const char *name)
{
    uint64_t us = dump_number(call, name);
    return us < US_MOST ? us * 1000 : 0;
}

static uint64_t duration_of(const json_t *call)
{
    double ms = json_number_value(json_object_get(call, "latencyMs"));
    return ms > 0 && ms < 1e9 ? (uint64_t)(ms * 1e6) : 0;
}

/* Leaves sends and receives uncompared, because ranks make different numbers of them. */
static bool add_call(struct blackbox_comm *comm, const json_t *call, enum wire_op_state state)
{
    struct blackbox_op *op = json_is_object(call) ? dump_op(comm) : NULL;
    if (!op)
        return !json_is_object(call);
    op->collective = FIND(kinds, dump_string(call, "opName"), WIRE_GROUP);
    op->type = FIND(types, dump_string(call, "dataType"), WIRE_OP_NONE);
    op->seq = dump_number(call, "opCount");
    op->count = op->collective == WIRE_ALLTOALLV || op->collective == WIRE_BARRIER ? BLACKBOX_UNTOLD
                                                                                   : dump_number(call, "count");
    op->state = state;
    op->device = true;
    op->begin = op->head_since = time_of(call, "enqueueTs");
    op->start = time_of(call, "startTs");
    op->end = state == WIRE_OP_DONE && op->start ? op->start + duration_of(call) : 0;
    dump_text(op->algorithm, sizeof op->algorithm, "recorded");
    return true;
}

/* One call, or a list of them. */
static bool add_calls(struct blackbox_comm *comm, const json_t *from, const char *name, enum wire_op_state state)
{
    json_t *calls = part(from, name), *call;
    size_t at;
    bool fine = add_call(comm, calls, state);
    json_array_foreach(calls, at, call) fine = fine && add_call(comm, call, state);
    json_decref(calls);
    return fine;
}

/* ---- Communicators ---- */

static bool add_comm(struct blackbox *box, const json_t *from)
{
    json_t *hash = part(from, "commHash"), *name = part(from, "commDesc");
    const char *text = json_is_string(hash) ? json_string_value(hash) : "",
               *called = json_is_string(name) ? json_string_value(name) : "";
    uint64_t id = json_is_integer(hash) ? (uint64_t)json_integer_value(hash) : strtoull(text, NULL, 16);
    uint64_t rank = number_of(from, "rank"), nranks = number_of(from, "nRanks");
    bool sane = nranks >= 1 && nranks <= RANKS_MOST && rank < nranks;
    struct blackbox_comm *comm = sane ? dump_comm(box, id, *called ? called : text, (int)rank, (int)nranks) : NULL;
    bool fine = !sane || (comm && add_calls(comm, from, "CT_pastColls", WIRE_OP_DONE) &&
                          add_calls(comm, from, "CT_currentColl", WIRE_OP_RUNNING) &&
                          add_calls(comm, from, "CT_currentColls", WIRE_OP_RUNNING) &&
                          add_calls(comm, from, "CT_pendingColls", WIRE_OP_ENQUEUED));
    json_decref(hash);
    json_decref(name);
    return fine;
}

/* Names the process by its rank in the largest communicator: the file's name says nothing. */
static int world_rank(const json_t *root)
{
    const char *key;
    json_t *comm;
    uint64_t most = 0, rank = 0;
    json_object_foreach((json_t *)root, key, comm)
    {
        uint64_t nranks = is_comm(comm) ? number_of(comm, "nRanks") : 0;
        if (nranks > most) {
            most = nranks;
            rank = number_of(comm, "rank");
        }
    }
    return rank < RANKS_MOST ? (int)rank : 0;
}

static uint64_t newest(const struct blackbox *box)
{
    uint64_t latest = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++) {
            const struct blackbox_op *op = &box->comms[i].ops[j];
            uint64_t last = op->end > op->begin ? op->end : op->begin;
            latest = last > latest ? last : latest;
        }
    return latest;
}

tutti_result_t ncclx_read(struct dump *dump)
{
    const char *key;
    json_t *comm;
    struct blackbox *box = dump_box(dump, world_rank(dump->root));
    bool fine = box != NULL;
    json_object_foreach((json_t *)dump->root, key, comm) if (is_comm(comm)) fine = fine && add_comm(box, comm);
    if (fine)
        dump_clock(dump, box, newest(box), 0);
    return fine ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "reading %s: no memory", dump->path);
}
