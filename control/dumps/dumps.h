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

/* The boxes in a dump; what it is tells its content. `path` names the rank, where the dump does not, and is for
 * sentences. TUTTI_INVALID_USAGE, after error_note: it is none, or damaged. Each box and the array are the caller's. */
tutti_result_t dump_read(const char *path, const void *bytes, size_t size, struct blackbox ***boxes, size_t *count);

/* ---- Between the parts ---- */

/* A Python pickle of plain values as JSON; what would make objects or call code is refused. NULL after error_note. */
json_t *pickle_read(const void *bytes, size_t size, const char *path);

struct dump {
    const char *path;
    const json_t *root;
    struct blackbox **boxes;
    size_t count;
};

/* A new box of nobody in particular, the dump's. NULL: no memory. */
struct blackbox *dump_box(struct dump *dump, int rank);
struct blackbox_comm *dump_comm(struct blackbox *box, uint64_t id, const char *name, int rank, int nranks);
struct blackbox_op *dump_op(struct blackbox_comm *comm);
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
