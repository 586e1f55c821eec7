/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's RAS, as `ncclras -f json` prints it: how often every rank of each communicator has called what, and which
 * ranks do not answer. It does not say who waits. Where numbers differ, the ranks that have called most are taken to be
 * in their last call. Where ranks are missing, all ranks are.
 */
#include "dumps/readers.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ras {
    struct dump *dump;
    json_t *places; /* "host:pid" -> place among the boxes */
};

static const struct {
    const char *name;
    int collective;
} kinds[] = {{"AllReduce", WIRE_ALLREDUCE},
             {"Broadcast", WIRE_BROADCAST},
             {"Reduce", WIRE_REDUCE},
             {"AllGather", WIRE_ALLGATHER},
             {"ReduceScatter", WIRE_REDUCE_SCATTER},
             {"AlltoAll", WIRE_ALLTOALL},
             {"Gather", WIRE_GATHER},
             {"Scatter", WIRE_SCATTER}};

bool ras_knows(const json_t *root)
{
    return json_is_array(json_object_get(root, "communicators")) &&
           json_is_string(json_object_get(root, "nccl_version"));
}

static uint64_t calls_of(const json_t *rank)
{
    const char *name;
    json_t *count;
    uint64_t calls = 0;
    json_object_foreach(json_object_get(rank, "collective_counts"), name, count) calls +=
        json_integer_value(count) > 0 ? (uint64_t)json_integer_value(count) : 0;
    return calls;
}

/* The collective that this rank has called more often than that one: the call that it is in. */
static int more_of(const json_t *rank, const json_t *than)
{
    const json_t *mine = json_object_get(rank, "collective_counts"),
                 *theirs = json_object_get(than, "collective_counts");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (dump_number(mine, kinds[i].name) > dump_number(theirs, kinds[i].name))
            return kinds[i].collective;
    return WIRE_ALLREDUCE;
}

static bool same_calls(const json_t *rank, const json_t *other)
{
    return json_equal(json_object_get(rank, "collective_counts"), json_object_get(other, "collective_counts"));
}

/* Another rank with other calls, for comparison; this rank, if there is none. */
static const json_t *first_unlike(const json_t *ranks, const json_t *one)
{
    size_t at;
    json_t *rank;
    json_array_foreach(ranks, at, rank) if (!same_calls(rank, one)) return rank;
    return one;
}

static struct blackbox *box_of(struct ras *ras, const json_t *rank)
{
    char key[160];
    snprintf(key, sizeof key, "%.128s:%llu", dump_string(rank, "host"), (unsigned long long)dump_number(rank, "pid"));
    const json_t *place = json_object_get(ras->places, key);
    if (place)
        return ras->dump->boxes[json_integer_value(place)];
    struct blackbox *box = dump_box(ras->dump, (int)ras->dump->count);
    if (!box || json_object_set_new(ras->places, key, json_integer((json_int_t)ras->dump->count - 1)) != 0)
        return NULL;
    memset(box->header.boot_id, 1, sizeof box->header.boot_id); /* one look at all ranks */
    box->header.pid = (uint32_t)dump_number(rank, "pid");
    dump_text(box->header.host, sizeof box->header.host, dump_string(rank, "host"));
    box->alive = true;
    return box;
}

static bool add_rank(struct ras *ras, const json_t *comm, const json_t *rank, bool dead)
{
    uint64_t number = dump_number(rank, "rank"), size = dump_number(comm, "size");
    struct blackbox *box = box_of(ras, rank);
    if (!box || number >= size || size > INT32_MAX)
        return box != NULL;
    box->alive = box->alive && !dead;
    const char *hash = dump_string(comm, "hash");
    return dump_comm(box, strtoull(hash, NULL, 16), hash, (int)number, (int)size) != NULL;
}

/* Adds the last call of this rank: over, or not. */
static bool add_call(struct ras *ras, const json_t *rank, const json_t *least, bool waits)
{
    struct blackbox *box = box_of(ras, rank);
    uint64_t calls = calls_of(rank);
    struct blackbox_op *op = calls && box && box->comm_count ? dump_op(&box->comms[box->comm_count - 1]) : NULL;
    if (!op)
        return box && !calls;
    op->seq = calls;
    op->collective = more_of(rank, least);
    op->device = true;
    op->count = BLACKBOX_UNTOLD;
    op->state = waits ? WIRE_OP_RUNNING : WIRE_OP_DONE;
    dump_text(op->algorithm, sizeof op->algorithm, "counted");
    return true;
}

/* Finds the ranks that have called least and most. */
static void find_extremes(const json_t *ranks, const json_t **least, const json_t **most)
{
    size_t at;
    json_t *rank;
    *least = *most = NULL;
    json_array_foreach(ranks, at, rank)
    {
        *least = !*least || calls_of(rank) < calls_of(*least) ? rank : *least;
        *most = !*most || calls_of(rank) > calls_of(*most) ? rank : *most;
    }
}

static bool add_comm(struct ras *ras, const json_t *comm)
{
    const json_t *ranks = json_object_get(comm, "ranks"), *missing = json_object_get(comm, "missing_ranks"), *least,
                 *most;
    size_t at;
    json_t *rank;
    bool fine = true;
    find_extremes(ranks, &least, &most);
    bool differ = most && calls_of(most) != calls_of(least);
    const json_t *unlike = first_unlike(ranks, least);
    json_array_foreach(ranks, at, rank)
    {
        bool waits = json_array_size(missing) || (differ && calls_of(rank) == calls_of(most));
        fine = fine && add_rank(ras, comm, rank, false) &&
               add_call(ras, rank, same_calls(rank, least) ? unlike : least, waits);
    }
    json_array_foreach(missing, at,
                       rank) if (json_is_true(json_object_get(json_object_get(rank, "status"), "considered_dead")))
        fine = fine && add_rank(ras, comm, rank, true);
    return fine;
}

tutti_result_t ras_read(struct dump *dump)
{
    struct ras ras = {dump, json_object()};
    size_t at;
    json_t *comm;
    bool fine = ras.places != NULL;
    json_array_foreach(json_object_get(dump->root, "communicators"), at, comm) fine = fine && add_comm(&ras, comm);
    json_decref(ras.places);
    return fine ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "reading %s: no memory", dump->path);
}
