/* SPDX-License-Identifier: Apache-2.0 */
/* A roster is one piece of memory: rows, where the packed bytes of each block begin, and these. */
#include "wire/roster.h"

#include "base/intern.h"
#include "base/memory.h"
#include "base/sparse.h"

#define ROSTER_BLOCK 16
#define ROSTER_PORTS (WIRE_ADDRESSES + WIRE_DEVICES)
#define ROSTER_MOST  SPARSE_MOST(sizeof(struct roster_folded))

_Static_assert(sizeof(struct roster_row) == 32, "a row has no gaps: equal rosters have equal bytes");

/* An entry as it is packed: what differs from rank to rank lies together, and what is in the row is 0. Ports of RDMA
 * devices are packed as what differs from the first one's: they are mostly the same (transport/verbs/verbs.c). */
struct roster_folded {
    uint16_t port[ROSTER_PORTS];
    struct roster_entry rest;
};

/* Bytes before the packed ones. */
static size_t roster_head(int count)
{
    size_t blocks = ((size_t)count + ROSTER_BLOCK - 1) / ROSTER_BLOCK;
    return sizeof(struct roster) + (size_t)count * sizeof(struct roster_row) + blocks * sizeof(uint32_t);
}

static uint32_t *roster_blocks(struct roster *roster)
{
    return (uint32_t *)(roster->row + roster->count);
}

static struct roster_row roster_row_of(const struct wire_process *process)
{
    struct roster_row row = {.host = process->host, .pid = process->pid, .losses = process->losses};
    memcpy(row.uuid, process->uuid, sizeof row.uuid);
    return row;
}

/* Into the entry, or out of it with a row of zeros. */
static void row_into(const struct roster_row *row, struct wire_process *process)
{
    memcpy(process->uuid, row->uuid, sizeof process->uuid);
    process->host = row->host;
    process->pid = row->pid;
    process->losses = row->losses;
}

static uint16_t *port_of(struct wire_process *process, int i)
{
    return i < WIRE_ADDRESSES ? &process->tcp[i].port : &process->verbs[i - WIRE_ADDRESSES].port;
}

/* What a port is packed as differs from it by this. */
static uint16_t port_beside(const struct wire_process *process, int i, uint16_t first)
{
    return i > WIRE_ADDRESSES && process->verbs[i - WIRE_ADDRESSES].family ? first : 0;
}

static void roster_fold(const struct roster_entry *entry, struct roster_folded *out)
{
    static const struct roster_row nothing;
    out->rest = *entry;
    row_into(&nothing, &out->rest.process);
    for (int i = 0; i < ROSTER_PORTS; i++) {
        out->port[i] = *port_of(&out->rest.process, i) ^ port_beside(&entry->process, i, entry->process.verbs[0].port);
        *port_of(&out->rest.process, i) = 0;
    }
}

static void roster_unfold(const struct roster_folded *folded, const struct roster_row *row, struct roster_entry *out)
{
    *out = folded->rest;
    row_into(row, &out->process);
    for (int i = 0; i < ROSTER_PORTS; i++)
        *port_of(&out->process, i) = folded->port[i] ^ port_beside(&out->process, i, folded->port[WIRE_ADDRESSES]);
}

static void roster_differ(struct roster_folded *folded, const struct roster_folded *before)
{
    const uint8_t *from = (const uint8_t *)before;
    uint8_t *to = (uint8_t *)folded;
    for (size_t i = 0; i < sizeof *folded; i++)
        to[i] ^= from[i];
}

static void roster_add(struct roster *roster, int index, const struct roster_entry *entry, struct roster_folded *before)
{
    uint8_t *packed = (uint8_t *)roster + roster_head((int)roster->count);
    struct roster_folded now;
    roster->row[index] = roster_row_of(&entry->process);
    roster_fold(entry, &now);
    if (index % ROSTER_BLOCK == 0) {
        memset(before, 0, sizeof *before);
        roster_blocks(roster)[index / ROSTER_BLOCK] = roster->packed;
    }
    roster_differ(before, &now);
    roster->packed += (uint32_t)sparse_pack(before, sizeof *before, packed + roster->packed);
    *before = now;
}

const struct roster *roster_make(int count, roster_source *source, const void *context)
{
    size_t head = roster_head(count), room = head + (size_t)count * ROSTER_MOST; /* of which little is written to */
    struct roster *roster = memory_zeros(room);
    struct roster_entry entry;
    struct roster_folded before;
    if (!roster)
        return NULL;
    roster->count = (uint32_t)count;
    for (int index = 0; index < count; index++) {
        source(context, index, &entry);
        roster_add(roster, index, &entry, &before);
    }
    const struct roster *made = intern(roster, head + roster->packed);
    memory_free_zeros(roster, room);
    return made;
}

const struct roster *roster_again(const struct roster *roster)
{
    return intern_again(roster);
}

void roster_release(const struct roster *roster)
{
    intern_release(roster);
}

size_t roster_share(const struct roster *roster)
{
    return intern_share(roster);
}

const struct roster_entry *roster_read(struct roster_cursor *cursor, const struct roster_row *row)
{
    const struct roster *roster = cursor->roster;
    const uint32_t *blocks = (const uint32_t *)(roster->row + roster->count);
    const uint8_t *packed = (const uint8_t *)roster + roster_head((int)roster->count), *end = packed + roster->packed;
    int index = (int)(row - roster->row), first = index / ROSTER_BLOCK * ROSTER_BLOCK;
    struct roster_folded now, more;
    if (cursor->next > first && cursor->next <= index) {
        roster_fold(&cursor->entry, &now);
    } else {
        cursor->next = first;
        cursor->at = packed + blocks[first / ROSTER_BLOCK];
        memset(&now, 0, sizeof now);
    }
    for (; cursor->next <= index; cursor->next++) {
        cursor->at += sparse_unpack(cursor->at, (size_t)(end - cursor->at), &more, sizeof more);
        roster_differ(&now, &more);
    }
    roster_unfold(&now, row, &cursor->entry);
    return &cursor->entry;
}
