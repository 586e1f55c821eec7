/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps of other libraries as black boxes, so that all readers of boxes read them. Nothing here opens a file. Dumps may
 * be hostile: whatever comes is a box or a sentence.
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

/* The boxes in a dump, whose content tells its kind. Each box's header.library is one of the names above.
 * TUTTI_INVALID_USAGE, after error_note: it is no dump, or damaged. The caller frees each box and the array. */
tutti_result_t dump_read(const struct dump_file *file, struct blackbox ***boxes, size_t *count);

/* Keeps the latest of several dumps of one rank by the Flight Recorder, and frees the others. Changes the order. */
void dump_drop_older(struct blackbox **boxes, size_t *count);

/* Fills in, once all dumps are read, groups whose members no dump names: with the ranks that are seen in them. Other
 * boxes stay as they are. False: no memory. */
bool dump_join(struct blackbox *const *boxes, size_t count);

#endif
