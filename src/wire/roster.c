/* SPDX-License-Identifier: Apache-2.0 */
/* A roster is one piece of memory: rows, where the packed bytes of each block begin, and these. */
#include "wire/roster.h"

#include "base/intern.h"
#include "base/sparse.h"

#include <stdlib.h>

#define ROSTER_BLOCK 16
#define ROSTER_MOST  SPARSE_MOST(sizeof(struct roster_entry))

_Static_assert(sizeof(struct roster_row) == 40, "a row has no gaps: equal rosters have equal bytes");

/* While it is made. */
struct roster_making {
    struct roster *roster;
    size_t head, room; /* bytes before the packed ones, and for those */
};

static size_t roster_head(int count)
{
    size_t blocks = ((size_t)count + ROSTER_BLOCK - 1) / ROSTER_BLOCK;
    return sizeof(struct roster) + (size_t)count * sizeof(struct roster_row) + blocks * sizeof(uint32_t);
}

static uint32_t *roster_blocks(struct roster *roster)
{
    return (uint32_t *)(roster->row + roster->count);
}

static bool roster_fits(struct roster_making *making)
{
    if (making->room - making->roster->packed >= ROSTER_MOST)
        return true;
    size_t room = 2 * making->room + ROSTER_MOST;
    struct roster *more = realloc(making->roster, making->head + room);
    if (!more)
        return false;
    making->roster = more;
    making->room = room;
    return true;
}

static struct roster_row roster_row_of(const struct wire_process *process)
{
    struct roster_row row = {.host = process->host,
                             .pid = process->pid,
                             .losses = process->losses,
                             .processors = process->processors,
                             .processor_set = process->processor_set,
                             .uid = process->uid};
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
    process->processors = row->processors;
    process->processor_set = row->processor_set;
    process->uid = row->uid;
}

static void roster_differ(struct roster_entry *entry, const struct roster_entry *before)
{
    const uint8_t *from = (const uint8_t *)before;
    uint8_t *to = (uint8_t *)entry;
    for (size_t i = 0; i < sizeof *entry; i++)
        to[i] ^= from[i];
}

static void roster_add(struct roster_making *making, int index, struct roster_entry *entry, struct roster_entry *before)
{
    static const struct roster_row nothing;
    struct roster *roster = making->roster;
    roster->row[index] = roster_row_of(&entry->process);
    row_into(&nothing, &entry->process);
    if (index % ROSTER_BLOCK == 0) {
        memset(before, 0, sizeof *before);
        roster_blocks(roster)[index / ROSTER_BLOCK] = roster->packed;
    }
    roster_differ(before, entry);
    roster->packed += (uint32_t)sparse_pack(before, sizeof *before, (uint8_t *)roster + making->head + roster->packed);
    *before = *entry;
}

const struct roster *roster_make(int count, roster_source *source, const void *context)
{
    struct roster_making making = {.head = roster_head(count)};
    struct roster_entry entry, before;
    const struct roster *made = NULL;
    int added = 0;
    making.roster = calloc(1, making.head);
    if (!making.roster)
        return NULL;
    making.roster->count = (uint32_t)count;
    for (; added < count && roster_fits(&making); added++) {
        source(context, added, &entry);
        roster_add(&making, added, &entry, &before);
    }
    if (added == count)
        made = intern(making.roster, making.head + making.roster->packed);
    free(making.roster);
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
    if (cursor->next <= first || cursor->next > index) {
        cursor->next = first;
        cursor->at = packed + blocks[first / ROSTER_BLOCK];
        memset(&cursor->entry, 0, sizeof cursor->entry);
    }
    for (; cursor->next <= index; cursor->next++) {
        struct roster_entry more;
        cursor->at += sparse_unpack(cursor->at, (size_t)(end - cursor->at), &more, sizeof more);
        roster_differ(&cursor->entry, &more);
    }
    row_into(row, &cursor->entry.process);
    return &cursor->entry;
}
