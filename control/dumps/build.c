/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of which the readers of dumps build boxes. */
#include "dumps/build.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define BOXES_MOST       (1u << 20)
#define WRITTEN_AFTER_NS (3600 * NS_PER_S) /* a dump whose newest call is older is a copy of its file */

void dump_text(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)from[i] < 32 || from[i] == 127 ? '?' : from[i];
    memset(to + length, 0, size - length);
}

uint64_t dump_number(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

const char *dump_string(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* Every number of elements that is a power of 2 doubles the room. */
static void *grown(void *array, size_t count, size_t each)
{
    return count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * each);
}

/* Clocks of two dumps need not compare, so each dump gets a boot of its own. */
struct blackbox *dump_box(struct dump *dump, int rank)
{
    struct blackbox **more =
        dump->count < BOXES_MOST ? grown(dump->boxes, dump->count, sizeof(struct blackbox *)) : NULL;
    struct blackbox *box = more ? calloc(1, sizeof *box) : NULL;
    if (more)
        dump->boxes = more;
    if (!box)
        return NULL;
    dump->boxes[dump->count++] = box;
    box->path = strdup(dump->path);
    box->header.state = WIRE_BOX_OPEN;
    box->dumped = true;
    box->header.start_time = (uint64_t)rank + 1;
    memcpy(box->header.boot_id, &rank, sizeof rank);
    box->header.boot_id[15] = 1;
    return box->path ? box : NULL;
}

void dump_clock(const struct dump *dump, struct blackbox *box, uint64_t newest, uint64_t limit)
{
    uint64_t last = newest + WRITTEN_AFTER_NS;
    last = limit && limit < last ? limit : last;
    box->now = newest && dump->written >= newest && dump->written <= last ? dump->written : 0;
}

struct blackbox_comm *dump_comm(struct blackbox *box, uint64_t id, const char *name, int rank, int nranks)
{
    struct blackbox_comm *more = grown(box->comms, box->comm_count, sizeof *more);
    if (!more)
        return NULL;
    box->comms = more;
    struct blackbox_comm *comm = &more[box->comm_count++];
    *comm = (struct blackbox_comm){.id = id, .rank = rank, .nranks = nranks, .state = WIRE_COMM_OPEN, .culprit = -1};
    dump_text(comm->name, sizeof comm->name, name);
    return comm;
}

struct blackbox_op *dump_op(struct blackbox_comm *comm)
{
    struct blackbox_op *more = grown(comm->ops, comm->op_count, sizeof *more);
    if (!more)
        return NULL;
    comm->ops = more;
    struct blackbox_op *op = &more[comm->op_count];
    *op = (struct blackbox_op){
        .position = comm->op_count++, .root = -1, .wait_peer = -1, .op = WIRE_OP_NONE, .type = WIRE_OP_NONE};
    return op;
}
