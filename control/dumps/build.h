/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes in the making, for the readers of dumps. */
#ifndef TUTTI_DUMPS_BUILD_H
#define TUTTI_DUMPS_BUILD_H

#include "dumps/dumps.h"

struct dump {
    const char *path;
    uint64_t written;
    const json_t *root;
    struct blackbox **boxes;
    size_t count;
};

/* A new box of the dump's process, still without a name. NULL: no memory. */
struct blackbox *dump_box(struct dump *dump, int rank);
struct blackbox_comm *dump_comm(struct blackbox *box, uint64_t id, const char *name, int rank, int nranks);
struct blackbox_op *dump_op(struct blackbox_comm *comm);
/* This box's dump tells times, up to `newest`. It was written when its file was, if that can be: not before `newest`,
 * and not after `limit` (0: there is none), when the program would have ended. Else the box has no time. */
void dump_clock(const struct dump *dump, struct blackbox *box, uint64_t newest, uint64_t limit);
/* A text from outside, without control characters. */
void dump_text(char *to, size_t size, const char *from);
/* Members of an object, by name; 0 or "" where there is none, or one of another kind. */
uint64_t dump_number(const json_t *object, const char *name);
const char *dump_string(const json_t *object, const char *name);

#endif
