/* SPDX-License-Identifier: Apache-2.0 */
/* Names and owners of black boxes: tutti-<uid>-<pid>-<start time>[.n].box in one folder. */
#ifndef TUTTI_WIRE_BOXFILE_H
#define TUTTI_WIRE_BOXFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct boxfile {
    uint32_t uid;
    uint32_t pid;
    uint64_t start_time;
    unsigned number; /* of several boxes of one process, from 0 */
};

/* Start of a process in clock ticks since boot (field 22 of /proc/PID/stat); 0: there is no such process. */
uint64_t boxfile_start_time(uint32_t pid);

/* The inode of /proc/self/ns/pid, 0 if unknown. */
uint64_t boxfile_pid_namespace(void);

void boxfile_name(const struct boxfile *file, char *out, size_t size);

/* False unless `name` is exactly what boxfile_name would write. */
bool boxfile_parse(const char *name, struct boxfile *out);

/* Marks the open file as belonging to a living process: the mark goes when the process dies or replaces its program. */
bool boxfile_mark(int fd);

/* Is the mark there? */
bool boxfile_marked(int fd);

#endif
