/* SPDX-License-Identifier: Apache-2.0 */
/* The black box as a file: a private name, room that is really there, a lock that dies with the process. */
#ifndef TUTTI_TRACE_FILE_H
#define TUTTI_TRACE_FILE_H

#include "wire/blackbox.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct trace_file {
    char *base; /* mapping of the whole file */
    size_t bytes;
    int fd;
    bool marked; /* boxfile_mark() worked */
    bool full;   /* has been said */
    char path[PATH_MAX];
};

/* Makes the file in `dir` and maps it; the first `room` bytes are allocated. False, with one line of warning, when it
 * cannot. */
bool trace_file_make(struct trace_file *file, const char *dir, size_t bytes, size_t room);

/* Allocates a part, so that storing there cannot raise SIGBUS. False, with one line of warning for each file, when
 * full. */
bool trace_file_room(struct trace_file *file, size_t offset, size_t bytes);

void trace_file_close(struct trace_file *file, bool remove);

/* Fills what says whose box this is. */
void trace_file_identify(struct wire_box_header *header);

/* Removes this user's boxes of processes that died more than a day ago. Of the other dead, only the newest keep their
 * boxes: at most 256, and at most a quarter of the folder's file system. */
void trace_file_sweep(const char *dir);

#endif
