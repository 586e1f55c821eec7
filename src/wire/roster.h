/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a job have said of themselves, in little room: a communicator of a hundred thousand keeps this of
 * each. What is looked at often is a row of a table. The rest is packed, in blocks of ranks, each as what differs from
 * the rank before: ranks of one host say nearly the same. Nothing of a roster changes; equal ones are one.
 */
#ifndef TUTTI_WIRE_ROSTER_H
#define TUTTI_WIRE_ROSTER_H

#include "wire/process.h"

#include <stddef.h>

/* As in struct wire_process. */
struct roster_row {
    uint8_t uuid[WIRE_UUID_BYTES];
    uint64_t host;
    uint32_t pid;
    uint32_t losses;
};

/* Of the facts of a rank others need its island alone. */
struct roster_entry {
    struct wire_process process;
    uint64_t island;
};

struct roster {
    uint32_t count, packed; /* rows; bytes behind the blocks */
    struct roster_row row[];
};

typedef void roster_source(const void *context, int index, struct roster_entry *out);

/* What `source` says of 0 .. count - 1. Any thread. NULL: no memory. */
const struct roster *roster_make(int count, roster_source *source, const void *context);
/* Once more what is held already. */
const struct roster *roster_again(const struct roster *roster);
/* NULL: nothing happens. */
void roster_release(const struct roster *roster);
/* Bytes of memory that one holder answers for. */
size_t roster_share(const struct roster *roster);

/* Reads entries: what comes behind the last one read costs least. Begins with all zeros but the roster. */
struct roster_cursor {
    const struct roster *roster;
    int next;
    const uint8_t *at; /* of that */
    struct roster_entry entry;
};
/* Valid until the next call. */
const struct roster_entry *roster_read(struct roster_cursor *cursor, const struct roster_row *row);

/* The row of one of some ranks. numbers: by rank, of rows; NULL: ranks are rows. */
static inline const struct roster_row *roster_row(const struct roster *roster, const int32_t *numbers, int rank)
{
    return &roster->row[numbers ? numbers[rank] : rank];
}

static inline uint64_t roster_session(const struct roster_row *a, const struct roster_row *b)
{
    struct wire_process left = {.losses = a->losses}, right = {.losses = b->losses};
    memcpy(left.uuid, a->uuid, sizeof left.uuid);
    memcpy(right.uuid, b->uuid, sizeof right.uuid);
    return wire_session(&left, &right);
}

#endif
