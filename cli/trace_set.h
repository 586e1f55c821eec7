/* SPDX-License-Identifier: Apache-2.0 */
/* The black boxes that are looked at: which they are, and those that are not. Times are nanoseconds of
 * CLOCK_MONOTONIC. */
#ifndef TUTTI_CLI_TRACE_SET_H
#define TUTTI_CLI_TRACE_SET_H

#include "wire/boxread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Boxes of dead processes that no living one has to do with, or that cannot be read: they stay so. */
struct view_past {
    struct view_gone *gone;
    size_t count, sorted;
};

struct view_options {
    const char *command; /* "trace" or "diagnose", for sentences */
    const char *dir;
    char **files; /* instead of the folder */
    int file_count;
    int named;        /* the first of them; the others lie in folders that were named, where there may be anything */
    int64_t pid;      /* 0: all */
    int64_t window;   /* segments; 0: WINDOW_SEGMENTS */
    const char *comm; /* name or hexadecimal id, NULL: all */
    uint64_t stuck;   /* unfinished for so long: a hang */
    bool quiet;       /* boxes that cannot be read are only counted */
    bool dead;        /* dead processes that no living one has to do with, too */
    bool all_ops, json, follow, counters, clean, pickle, summary, lanes, profile;
    const char *perfetto, *recorder, *plot;
    struct view_past *past; /* of who looks again and again; NULL: nothing is known */
};

struct view_set {
    struct blackbox **boxes; /* the living first */
    size_t count;
    size_t hidden;     /* dead, and not asked for */
    size_t missing;    /* files named that are not there */
    size_t broken;     /* files named that cannot be read */
    size_t read;       /* at this look: without those that are known to be past */
    size_t unreadable; /* of all */
    size_t strange;    /* in folders that were named: neither a black box nor a dump */
    size_t deserted;   /* of these, in the folder, of dead processes: many may be of another version, and nobody is told
                          of each */
};

enum view_status { VIEW_SHOWN, VIEW_FAILED, VIEW_WRONG, VIEW_MISSING, VIEW_NOTHING, VIEW_HANGS, VIEW_SLOW };

/* One rank of one communicator. */
struct trace_member {
    const struct blackbox *box;
    const struct blackbox_comm *comm;
};

/* Reads the boxes that the options name; those that cannot be read are said on stderr. False: none could be looked for.
 */
bool view_load(const struct view_options *options, struct view_set *set);
void view_unload(struct view_set *set);
/* Paths of the boxes that the options name, freed by view_free_paths. False, after a sentence on stderr: none looked
 * for. */
bool view_paths(const struct view_options *options, char ***paths, size_t *count);
void view_free_paths(const struct view_options *options, char **paths, size_t count);
/* Drops the communicators that were not asked for. False: the box itself was not. */
bool view_filter(struct blackbox *box, const struct view_options *options);
/* ---- trace_files.c ---- */

/* The words, and in place of folders the files in them, at any depth: black boxes and dumps may lie there by host.
 * False after a sentence on stderr. Freed by view_free_files. */
bool view_name_files(struct view_options *options, char **words, int count);
void view_free_files(struct view_options *options);
bool view_is_folder(const char *path);
/* "4 dumps of the Flight Recorder, 2 black boxes": what lay in the folders that were named. */
void view_say_files(FILE *out, const struct view_set *set);
/* ---- trace_past.c; `past` may be NULL but where it is freed ---- */

/* It need not be read again; *unreadable: it could not be. */
bool view_is_past(struct view_past *past, const char *path, bool *unreadable);
/* From the next look on, if its process is gone. */
void view_put_past(struct view_past *past, const char *path, bool unreadable);
void view_end_look(struct view_past *past);
void view_free_past(struct view_past *past);

/* ---- trace_set.c, of sets ---- */

/* Why the process or communicator that the options ask for is not there: on stderr. (trace_absent.c) */
void view_say_absent(const struct view_options *options);
/* Ordered by communicator id, then rank. Freed by the caller; NULL when there is none or no memory (*count 0). */
struct trace_member *view_members(const struct view_set *set, size_t *count);
/* Of the members ordered so, those of one communicator from `at` on. */
size_t view_group(const struct trace_member *members, size_t count, size_t at);

#endif
