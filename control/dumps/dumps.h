/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other libraries say of themselves, as black boxes: then all that reads boxes reads it. Nothing here opens a
 * file. Dumps may be hostile: whatever comes is a box or a sentence.
 */
#ifndef TUTTI_DUMPS_DUMPS_H
#define TUTTI_DUMPS_DUMPS_H

#include "wire/boxread.h"

#include <jansson.h>

#define DUMP_MOST (512u << 20) /* bytes */

/* What is known of a dump's file. `name` names the rank, where the dump does not, and is for sentences. `written`:
 * when, in nanoseconds since 1970; 0: not known. */
struct dump_file {
    const char *name;
    const void *bytes;
    size_t size;
    uint64_t written;
};

#define DUMP_RECORDER "Flight Recorder"
#define DUMP_NCCLX    "NCCLX"
#define DUMP_RAS      "NCCL's RAS"

/* The boxes in a dump; what it is tells its content, and each box's header.library: one of the names above.
 * TUTTI_INVALID_USAGE, after error_note: it is none, or damaged. Each box and the array are the caller's. */
tutti_result_t dump_read(const struct dump_file *file, struct blackbox ***boxes, size_t *count);

/* Of several dumps of one rank by the Flight Recorder the latest stays, the others are freed. Changes the order. */
void dump_drop_older(struct blackbox **boxes, size_t *count);

/* Once all are read: groups whose members no dump names have those that are seen in them. Others' boxes stay as they
 * are. False: no memory. */
bool dump_join(struct blackbox *const *boxes, size_t count);

/* ---- Between the parts ---- */

/* A Python pickle of plain values as JSON; what would make objects or call code is refused. NULL after error_note. */
json_t *pickle_read(const void *bytes, size_t size, const char *path);

struct dump {
    const char *path;
    uint64_t written;
    const json_t *root;
    struct blackbox **boxes;
    size_t count;
};

/* A new box of nobody in particular, the dump's. NULL: no memory. */
struct blackbox *dump_box(struct dump *dump, int rank);
struct blackbox_comm *dump_comm(struct blackbox *box, uint64_t id, const char *name, int rank, int nranks);
struct blackbox_op *dump_op(struct blackbox_comm *comm);
/* This box's dump tells times, up to `newest`. It was written when its file was, if that can be: not before `newest`,
 * and not after `limit` (0: there is none), when the program would have ended. Else the box has no time. */
void dump_clock(const struct dump *dump, struct blackbox *box, uint64_t newest, uint64_t limit);
/* Text from outside, without control characters. */
void dump_text(char *to, size_t size, const char *from);
/* Members of an object, by name: 0, "" where there is none or it is of another kind. */
uint64_t dump_number(const json_t *object, const char *name);
const char *dump_string(const json_t *object, const char *name);

bool recorder_knows(const json_t *root);
tutti_result_t recorder_read(struct dump *dump);
bool ncclx_knows(const json_t *root);
tutti_result_t ncclx_read(struct dump *dump);
bool ras_knows(const json_t *root);
tutti_result_t ras_read(struct dump *dump);

#endif
