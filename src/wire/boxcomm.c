/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one communicator of a black box and its ring of operations, while its owner may be writing them. */
#include "wire/boxsource.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Three readings of the ring: the first and the last give the stamps, the middle one the fields. */
struct ring_view {
    const uint8_t *before, *fields, *after;
    uint32_t stride, count;
};

static uint64_t stamp_at(const uint8_t *ring, const struct ring_view *view, uint32_t index)
{
    uint64_t stamp;
    memcpy(&stamp, ring + (size_t)index * view->stride, sizeof stamp);
    return stamp;
}

/* Did the fields that `before` promises stay as they were? A change of the state adds fields, and one change of what is
 * waited for writes the other half of wait[]. */
static bool steady(uint64_t before, uint64_t after, uint32_t index, uint32_t count)
{
    uint64_t position = before >> WIRE_OP_POSITION;
    uint8_t updates = (uint8_t)((after >> WIRE_OP_UPDATES) - (before >> WIRE_OP_UPDATES));
    return before && position == after >> WIRE_OP_POSITION && updates <= 1 && (position & (count - 1)) == index &&
           (before & WIRE_OP_STATE);
}

static void decode_wait(struct blackbox_op *out, const struct wire_box_wait *wait, const struct box_rate *rate)
{
    out->wait_peer = (int)(wait->what & 0xffffff) - 1;
    out->wait_slice = (wait->what >> 24) & 0xffff;
    out->wait_round = (uint32_t)(wait->what >> 40);
    out->wait_since = box_rate_ns(rate, wait->since);
}

static void decode_op(struct blackbox_op *out, uint64_t stamp, const struct wire_box_op *in,
                      const struct box_rate *rate)
{
    *out = (struct blackbox_op){
        .position = stamp >> WIRE_OP_POSITION, .seq = in->seq, .count = in->count, .bytes = in->bytes};
    out->collective = in->what & 0xff;
    out->type = (in->what >> 8) & 0xff;
    out->op = (in->what >> 16) & 0xff;
    out->root = (int)((uint32_t)(in->what >> 32) - 1u);
    out->state = (enum wire_op_state)(stamp & WIRE_OP_STATE);
    out->result = (stamp >> WIRE_OP_RESULT) & 0xff;
    out->begin = box_rate_ns(rate, in->begin);
    out->wait_peer = -1;
    out->device = stamp & WIRE_OP_DEVICE;
    out->captured = stamp & WIRE_OP_CAPTURED;
    if (out->device) {
        out->sends_to = (uint32_t)in->peers;
        out->recvs_from = (uint32_t)(in->peers >> 32);
        if (out->state == WIRE_OP_DONE && in->wait[0].since && in->wait[1].since >= in->wait[0].since) {
            out->gpu_begin = in->wait[0].since;
            out->gpu_end = in->wait[1].since;
        }
    }
    if (stamp & WIRE_OP_HAS_START)
        out->start = box_rate_ns(rate, in->start);
    if (stamp & WIRE_OP_HAS_END)
        out->end = box_rate_ns(rate, in->end);
    unsigned waited = (in->what >> WIRE_OP_WAITED) & 0xff;
    if (waited && stamp & WIRE_OP_HAS_END && out->end > out->begin)
        out->waited = 1 + (out->end - out->begin) / WIRE_OP_WAITED_WHOLE * (waited - 1);
    if (stamp & WIRE_OP_HAS_END && !out->device && out->end > out->begin && in->peers <= out->end - out->begin)
        out->registering = in->peers; /* else of a writer that did not know of it */
    if (stamp & WIRE_OP_HAS_WAIT)
        decode_wait(out, &in->wait[(stamp >> WIRE_OP_UPDATES) & 1], rate);
    if (stamp & WIRE_OP_HAS_NAME) {
        out->rounds = in->rounds;
        out->step = in->slices & WIRE_OP_STEP ? in->slices : 0;
        out->slices = out->step ? 0 : in->slices;
        box_copy_text(out->algorithm, sizeof out->algorithm, in->algorithm.text, sizeof in->algorithm.text);
    }
}

static int boxcomm_by_position(const void *left, const void *right)
{
    uint64_t a = ((const struct blackbox_op *)left)->position, b = ((const struct blackbox_op *)right)->position;
    return a < b ? -1 : a > b;
}

/* Decodes what held still. Returns how many records did not. */
static size_t decode_ring(struct blackbox_comm *comm, const struct ring_view *view, const struct box_rate *rate)
{
    size_t torn = 0;
    comm->op_count = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        uint64_t before = stamp_at(view->before, view, i), after = stamp_at(view->after, view, i);
        if (!before && !after)
            continue; /* never used: a record in the making has a stamp soon after */
        struct wire_box_op op;
        memcpy(&op, view->fields + (size_t)i * view->stride, sizeof op);
        if (steady(before, after, i, view->count))
            decode_op(&comm->ops[comm->op_count++], before, &op, rate);
        else
            torn++;
    }
    qsort(comm->ops, comm->op_count, sizeof *comm->ops, boxcomm_by_position);
    return torn;
}

/* A GPU's operations run one after another: one that is not done has stood still only since the one before it was over.
 */
static void find_heads(struct blackbox_comm *comm)
{
    uint64_t since = 0;
    for (size_t i = 0; i < comm->op_count; i++) {
        struct blackbox_op *op = &comm->ops[i];
        if (op->device && op->state != WIRE_OP_DONE)
            op->head_since = op->begin > since ? op->begin : since;
        else if (op->device && op->end > since)
            since = op->end;
    }
}

static bool boxcomm_read_ring(const struct box_source *source, uint64_t offset, uint8_t *to, size_t bytes)
{
    for (int i = 0; i < 3; i++) {
        if (!box_source_read(source, offset, to + (size_t)i * bytes, bytes))
            return false;
        box_source_barrier();
    }
    return true;
}

static void decode_comm(struct blackbox_comm *out, const struct wire_box_comm *in, const struct box_rate *rate,
                        unsigned place)
{
    struct blackbox_op *ops = out->ops;
    *out = (struct blackbox_comm){
        .place = place, .generation = in->opened, .id = in->id, .rank = in->rank, .nranks = in->nranks, .ops = ops};
    out->local_ranks = (int)(in->local_ranks & 0x7fffffff);
    out->state = (enum wire_comm_state)in->state;
    out->result = in->result;
    out->culprit = in->culprit;
    out->opened = box_rate_ns(rate, in->opened);
    out->closed = box_rate_ns(rate, in->closed);
    out->unrecorded = in->unrecorded;
    out->newest_unrecorded = in->newest_unrecorded;
    out->captured = in->captured;
    memcpy(out->memory, in->memory, sizeof out->memory);
    box_copy_text(out->name, sizeof out->name, in->name, sizeof in->name);
    box_copy_text(out->sentence, sizeof out->sentence, in->sentence, sizeof in->sentence);
}

/* Is this a record that a writer can have written and is not writing now? */
static bool sane(const struct wire_box_comm *record)
{
    return record->stamp % 2 == 0 && record->nranks >= 1 && record->rank >= 0 && record->rank < record->nranks &&
           record->state >= WIRE_COMM_OPEN && record->state <= WIRE_COMM_ABORTED;
}

enum outcome { READ, EMPTY, AGAIN };

static enum outcome try_comm(struct blackbox *box, const struct box_source *source, const struct box_rate *rate,
                             unsigned place, struct blackbox_comm *comm, uint8_t *rings, size_t *torn)
{
    const struct wire_box_section *ops = &box->header.ops;
    uint64_t at = box->header.comms.offset + (uint64_t)place * box->header.comms.bytes;
    size_t bytes = (size_t)ops->bytes * ops->count;
    struct wire_box_comm record;
    uint64_t stamp;
    if (!box_source_read(source, at, &record, sizeof record))
        return AGAIN;
    if (record.stamp == 0)
        return EMPTY;
    box_source_barrier();
    if (!boxcomm_read_ring(source, at + ops->offset, rings, bytes) ||
        !box_source_read(source, at, &stamp, sizeof stamp))
        return AGAIN;
    if (stamp != record.stamp || !sane(&record))
        return AGAIN;
    struct ring_view view = {rings, rings + bytes, rings + 2 * bytes, ops->bytes, ops->count};
    decode_comm(comm, &record, rate, place);
    *torn = decode_ring(comm, &view, rate);
    find_heads(comm);
    return READ;
}

/* Without its operations. */
static void outline_comm(struct blackbox *box, const struct box_source *source, const struct box_rate *rate,
                         unsigned place)
{
    struct wire_box_comm record;
    uint64_t at = box->header.comms.offset + (uint64_t)place * box->header.comms.bytes;
    if (!box_source_read(source, at, &record, sizeof record) || record.stamp == 0)
        return;
    struct blackbox_comm comm = {.ops = NULL};
    decode_comm(&comm, &record, rate, place);
    if (sane(&record))
        box->comms[box->comm_count++] = comm;
    else
        box->torn++;
}

bool box_read_comm(struct blackbox *box, const struct box_source *source, const struct box_rate *rate, unsigned place)
{
    const struct wire_box_section *ops = &box->header.ops;
    uint64_t stamp = 0, at = box->header.comms.offset + (uint64_t)place * box->header.comms.bytes;
    if (!box_source_read(source, at, &stamp, sizeof stamp) || stamp == 0)
        return true;
    if (box->outline) {
        outline_comm(box, source, rate, place);
        return true;
    }
    uint8_t *rings = malloc((size_t)ops->bytes * ops->count * 3);
    struct blackbox_comm comm = {.ops = calloc(ops->count, sizeof *comm.ops)};
    bool fine = rings && comm.ops;
    enum outcome outcome = AGAIN;
    size_t torn = 1;
    for (int i = 0; fine && i < BOX_TRIES && outcome != EMPTY && torn; i++) {
        if (i)
            sched_yield();
        outcome = try_comm(box, source, rate, place, &comm, rings, &torn);
    }
    free(rings);
    if (fine && outcome == READ) {
        box->comms[box->comm_count++] = comm;
    } else {
        free(comm.ops);
    }
    if (outcome != EMPTY)
        box->torn += torn;
    return fine;
}

const struct blackbox_op *blackbox_current(const struct blackbox_comm *comm)
{
    const struct blackbox_op *waiting = NULL;
    for (size_t i = 0; i < comm->op_count; i++) {
        if (comm->ops[i].state == WIRE_OP_RUNNING)
            return &comm->ops[i];
        if (comm->ops[i].state == WIRE_OP_ENQUEUED && !waiting)
            waiting = &comm->ops[i];
    }
    return waiting;
}

uint64_t blackbox_since(const struct blackbox_op *op)
{
    if (op->wait_since)
        return op->wait_since;
    if (op->head_since)
        return op->head_since;
    return op->start ? op->start : op->begin;
}
