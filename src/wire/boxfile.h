/* SPDX-License-Identifier: Apache-2.0 */
/* Names and owners of black boxes: tutti-<uid>-<pid>-<start time>[.n].box in one folder. */
#ifndef TUTTI_WIRE_BOXFILE_H
#define TUTTI_WIRE_BOXFILE_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct boxfile {
    uint32_t uid;
    uint32_t pid;
    uint64_t start_time;
    unsigned number; /* of several boxes of one process, from 0 */
};

/* Start of a process in clock ticks since boot (field 22 of /proc/PID/stat); 0: the process is gone. */
uint64_t boxfile_start_time(uint32_t pid);

/* By how many nanoseconds clocks of a process are ahead of this process's: time namespaces shift them. */
struct boxfile_shift {
    int64_t monotonic_ns, boottime_ns;
};
struct boxfile_shift boxfile_time_shift(uint32_t pid);

/* Reads a small file, of /proc say, as text. Its length, 0 if there is nothing. */
size_t boxfile_slurp(const char *path, char *out, size_t size);

/* This boot of this host; all zero if unknown. */
void boxfile_boot_id(uint8_t out[16]);

/* The inode of /proc/self/ns/pid, 0 if unknown. */
uint64_t boxfile_pid_namespace(void);

void boxfile_name(const struct boxfile *file, char *out, size_t size);

/* False unless `name` is exactly what boxfile_name would write. */
bool boxfile_parse(const char *name, struct boxfile *out);

/* The boxes in `dir` that this user may read, ordered by name; root's are everybody's. *out: `count` paths, each and
 * the array freed by boxfile_free. TUTTI_SYSTEM_ERROR when the folder cannot be read. */
tutti_result_t boxfile_list(const char *dir, char ***out, size_t *count);
void boxfile_free(char **paths, size_t count);

/* Marks the open file as belonging to a living process: the mark goes when the process dies or replaces its program. */
bool boxfile_mark(int fd);

/* Is the mark there? */
bool boxfile_marked(int fd);

/* The box's process is gone, as far as can be told without reading the box: it carries no mark, and no process here has
 * its number and start. */
bool boxfile_deserted(const char *path);

/* Is it this user's box that nobody can read (half made, of another version), whose process is gone? The box has no
 * mark, no process here has its number, and the box is old enough: a minute if half made, else a day. */
bool boxfile_abandoned(const char *path);

#endif
