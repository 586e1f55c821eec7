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

struct trace_options {
    const char *dir;
    char **files; /* instead of the folder */
    int file_count;
    int64_t pid;      /* 0: all */
    const char *comm; /* name or hexadecimal id, NULL: all */
    uint64_t stuck;   /* unfinished for so long: a hang */
    bool all_ops, json, follow, counters, prometheus, clean, pickle;
    const char *perfetto, *recorder;
};

struct trace_set {
    struct blackbox **boxes;
    size_t count;
};

/* One rank of one communicator. */
struct trace_member {
    const struct blackbox *box;
    const struct blackbox_comm *comm;
};

/* What is wrong, in a sentence. */
struct trace_finding {
    uint64_t comm;
    int rank; /* at fault, -1 if no single one */
    const char *kind;
    char text[900];
};

/* ---- trace_set.c ---- */

/* Reads the boxes that the options name; those that cannot be read are said on stderr. False: none could be looked for. */
bool trace_load(const struct trace_options *options, struct trace_set *set);
void trace_unload(struct trace_set *set);
/* Paths of the boxes that the options name, freed by trace_free_paths. False, after a sentence on stderr: none looked for. */
bool trace_paths(const struct trace_options *options, char ***paths, size_t *count);
void trace_free_paths(const struct trace_options *options, char **paths, size_t count);
/* Drops the communicators that were not asked for. False: the box itself was not. */
bool trace_filter(struct blackbox *box, const struct trace_options *options);
/* Ordered by communicator id, then rank. Freed by the caller; NULL when there is none or no memory (*count 0). */
struct trace_member *trace_members(const struct trace_set *set, size_t *count);
/* Of the members ordered so, those of one communicator from `at` on. */
size_t trace_group(const struct trace_member *members, size_t count, size_t at);
/* The oldest operation that is not done, a running one before a waiting one; NULL if none. */
const struct blackbox_op *trace_current(const struct blackbox_comm *comm);

/* ---- trace_text.c: into `out`, which is returned ---- */

struct trace_word {
    char text[48];
};
struct trace_word trace_time(uint64_t ns);
struct trace_word trace_size(uint64_t bytes);
struct trace_word trace_number(uint64_t number);
/* "allreduce #17" */
struct trace_word trace_call(const struct blackbox_op *op);
/* "12:03:04.123456", local time of day */
struct trace_word trace_day(const struct blackbox *box, uint64_t time);
/* Bus bandwidth in GB/s as the nccl-tests define it; 0 if it cannot be told. */
double trace_busbw(const struct blackbox_op *op, int nranks);
uint64_t trace_since(const struct blackbox_op *op); /* it stands still since */
uint64_t trace_duration(const struct blackbox_op *op, uint64_t now); /* 0: over at once */
const char *trace_comm_state(const struct blackbox *box, const struct blackbox_comm *comm);
const char *trace_op_state(const struct blackbox_op *op);
const char *trace_box_state(const struct blackbox *box);

/* ---- the outputs: exit status ---- */

void trace_table(FILE *out, const struct trace_options *options, const struct trace_set *set);
void trace_op_line(FILE *out, const struct blackbox *box, const struct blackbox_comm *comm, const struct blackbox_op *op);
void trace_event_line(FILE *out, const struct blackbox *box, const struct blackbox_event *event);
/* Freed by the caller; NULL when nothing is wrong. */
struct trace_finding *trace_verdict(const struct trace_options *options, const struct trace_set *set, size_t *count);
int trace_json(const struct trace_options *options, const struct trace_set *set);
int trace_follow(const struct trace_options *options);
int trace_perfetto(const struct trace_options *options, const struct trace_set *set);
int trace_recorder(const struct trace_options *options, const struct trace_set *set);
int trace_show_counters(const struct trace_options *options, const struct trace_set *set);
/* A JSON value as a Python pickle, protocol 2. False when it could not be written. */
bool trace_pickle(const json_t *value, FILE *file);

#endif
