/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `tutti trace` share. Times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef TUTTI_CLI_TRACE_H
#define TUTTI_CLI_TRACE_H

#include "wire/boxread.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int cmd_trace(int argc, char **argv);

struct view_options {
    const char *dir;
    char **files; /* instead of the folder */
    int file_count;
    int64_t pid;      /* 0: all */
    const char *comm; /* name or hexadecimal id, NULL: all */
    uint64_t stuck;   /* unfinished for so long: a hang */
    bool dead; /* dead processes that no living one has to do with, too */
    bool all_ops, json, follow, counters, prometheus, clean, pickle;
    const char *perfetto, *recorder;
};

struct view_set {
    struct blackbox **boxes; /* the living first */
    size_t count;
    size_t hidden;  /* dead, and not asked for */
    size_t missing; /* files named that are not there */
    size_t broken;  /* files named that cannot be read */
};

enum view_status { VIEW_SHOWN, VIEW_FAILED, VIEW_WRONG, VIEW_MISSING, VIEW_NOTHING };

/* One rank of one communicator. */
struct view_member {
    const struct blackbox *box;
    const struct blackbox_comm *comm;
};

/* What is wrong, in a sentence. */
struct view_finding {
    uint64_t comm;
    int rank; /* at fault, -1 if no single one */
    const char *kind;
    char text[900];
};

/* ---- trace_set.c ---- */

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
/* Ordered by communicator id, then rank. Freed by the caller; NULL when there is none or no memory (*count 0). */
struct view_member *view_members(const struct view_set *set, size_t *count);
/* Of the members ordered so, those of one communicator from `at` on. */
size_t view_group(const struct view_member *members, size_t count, size_t at);
/* The oldest operation that is not done, a running one before a waiting one; NULL if none. */
const struct blackbox_op *view_current(const struct blackbox_comm *comm);

/* ---- trace_text.c: into `out`, which is returned ---- */

struct view_word {
    char text[48];
};
struct view_word view_time(uint64_t ns);
struct view_word view_size(uint64_t bytes);
struct view_word view_number(uint64_t number);
/* "allreduce #17" */
struct view_word view_call(const struct blackbox_op *op);
/* "12:03:04.123456", local time of day */
struct view_word view_day(const struct blackbox *box, uint64_t time);
/* Bus bandwidth in GB/s as the nccl-tests define it; 0 if it cannot be told. */
/* A GPU's operations have none: when they began and ended is not known. */
double view_busbw(const struct blackbox_op *op, int nranks);
uint64_t view_since(const struct blackbox_op *op);                  /* it stands still since */
uint64_t view_duration(const struct blackbox_op *op, uint64_t now); /* 0: over at once; of a GPU: from its call */
const char *view_comm_state(const struct blackbox *box, const struct blackbox_comm *comm);
const char *view_op_state(const struct blackbox_op *op);
const char *view_box_state(const struct blackbox *box);

/* ---- the outputs: exit status ---- */

/* The ledger of a communicator on a GPU. */
void view_memory_line(FILE *out, const struct blackbox_comm *comm);
json_t *view_memory_json(const struct blackbox_comm *comm);
void view_table(FILE *out, const struct view_options *options, const struct view_set *set);
void view_op_line(FILE *out, const struct blackbox *box, const struct blackbox_comm *comm,
                  const struct blackbox_op *op);
void view_event_line(FILE *out, const struct blackbox *box, const struct blackbox_event *event);
/* Freed by the caller; NULL when nothing is wrong. */
struct view_finding *view_verdict(const struct view_options *options, const struct view_set *set, size_t *count);
int view_json(const struct view_options *options, const struct view_set *set);
int view_follow(const struct view_options *options);
int view_perfetto(const struct view_options *options, const struct view_set *set);
int view_recorder(const struct view_options *options, const struct view_set *set);
int view_show_counters(const struct view_options *options, const struct view_set *set);
/* A JSON value as a Python pickle, protocol 2. False when it could not be written. */
bool view_pickle(const json_t *value, FILE *file);

#endif
