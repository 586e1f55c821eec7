/* SPDX-License-Identifier: Apache-2.0 */
/* The black boxes that a command looks at, and those that it leaves out. Times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef TUTTI_CLI_TRACE_SET_H
#define TUTTI_CLI_TRACE_SET_H

#include "wire/boxread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Boxes of dead processes that cannot be read, or that no living process has to do with: they stay so. */
struct view_past {
    struct view_gone *gone;
    size_t count, sorted;
};

struct view_options {
    const char *command; /* "trace" or "diagnose", for sentences */
    const char *dir;
    char **files; /* instead of the folder */
    int file_count;
    int named;        /* the first named file; the others lie in named folders, where there may be anything */
    int64_t pid;      /* 0: all */
    int64_t window;   /* segments; 0: WINDOW_SEGMENTS */
    const char *comm; /* name or hexadecimal id, NULL: all */
    uint64_t stuck;   /* an operation that is unfinished for this time hangs */
    bool quiet;       /* boxes that cannot be read are only counted */
    bool dead;        /* dead processes, too, that no living one has to do with */
    bool all_ops, json, follow, counters, clean, pickle, summary, lanes, profile;
    const char *perfetto, *recorder, *plot;
    struct view_past *past; /* of a program that looks again and again; NULL: nothing is known */
};

struct view_set {
    struct blackbox **boxes; /* the living first */
    size_t count;
    size_t hidden;     /* dead, and not asked for */
    size_t missing;    /* files named that are not there */
    size_t broken;     /* files named that cannot be read */
    size_t read;       /* boxes read at this look: without those that are known to be past */
    size_t unreadable; /* of all boxes */
    size_t strange;    /* in folders that were named: neither a black box nor a dump */
    size_t deserted;   /* of the unreadable ones, in the folder, of dead processes: often of another version, and only
                          counted */
};

enum view_status { VIEW_SHOWN, VIEW_FAILED, VIEW_WRONG, VIEW_MISSING, VIEW_NOTHING, VIEW_HANGS, VIEW_SLOW };

/* One rank of one communicator. */
struct trace_member {
    const struct blackbox *box;
    const struct blackbox_comm *comm;
};

/* Reads the boxes that the options name; stderr names those that cannot be read. False: none could be looked for. */
bool view_load(const struct view_options *options, struct view_set *set);
void view_unload(struct view_set *set);
/* Paths of the boxes that the options name; the caller frees them by view_free_paths. False, after a sentence on
 * stderr: none could be looked for. */
bool view_paths(const struct view_options *options, char ***paths, size_t *count);
void view_free_paths(const struct view_options *options, char **paths, size_t count);
/* Drops the communicators that were not asked for. False: the box itself was not. */
bool view_filter(struct blackbox *box, const struct view_options *options);
/* ---- trace_files.c ---- */

/* The words, and the files in folders among them, at any depth: black boxes and dumps may lie there by host. False
 * after a sentence on stderr. Freed by view_free_files. */
bool view_name_files(struct view_options *options, char **words, int count);
void view_free_files(struct view_options *options);
bool view_is_folder(const char *path);
/* "4 dumps of the Flight Recorder, 2 black boxes": the content of the named folders. */
void view_say_files(FILE *out, const struct view_set *set);
/* ---- trace_past.c; `past` may be NULL but where it is freed ---- */

/* The box need not be read again; *unreadable: it could not be. */
bool view_is_past(struct view_past *past, const char *path, bool *unreadable);
/* Skips the box from the next look on, if its process is gone. */
void view_put_past(struct view_past *past, const char *path, bool unreadable);
void view_end_look(struct view_past *past);
void view_free_past(struct view_past *past);

/* ---- trace_set.c, of sets ---- */

/* Says on stderr why the process or communicator that the options ask for is not there. (trace_absent.c) */
void view_say_absent(const struct view_options *options);
/* All members, ordered by communicator id, then rank. The caller frees them; NULL when there is none or no memory
 * (*count 0). */
struct trace_member *view_members(const struct view_set *set, size_t *count);
/* The number of members of one communicator, from `at` on, in that order. */
size_t view_group(const struct trace_member *members, size_t count, size_t at);

#endif
