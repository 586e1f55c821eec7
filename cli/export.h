/* SPDX-License-Identifier: Apache-2.0 */
/* The shared parts of `tutti export`. */
#ifndef TUTTI_CLI_EXPORT_H
#define TUTTI_CLI_EXPORT_H

#include "cli/trace_set.h"

#define EXPORT_MOST 1024 /* processes with series of their own; the others are only counted */

#define EXPORT_TIMES 11 /* bounds of the times that operations take */

/* Finished operations of one collective, and of one class of sizes. */
struct export_kind {
    int collective, size;
    uint64_t times[EXPORT_TIMES + 1]; /* counts by duration; the last: longer than all bounds */
    uint64_t bytes;
    double seconds;
};

/* The position in each communicator's ring up to which operations were counted. */
struct export_seen {
    unsigned place;
    uint64_t generation, next;
};

struct export_operations {
    struct export_kind *kinds;
    struct export_seen *seen;
    size_t kind_count, seen_count;
};

/*
 * The labels of one process: its program's name, its rank, and a number that tells apart those that have both alike. A
 * process keeps its number while it lives, and the next one takes the least free number. So jobs that follow one
 * another make no new series.
 */
struct export_process {
    char *path; /* of its box */
    char program[32];
    int rank; /* in the largest of its communicators; -1: it has had none */
    unsigned slot;
    bool seen;
    struct export_operations operations;
};

struct exporter {
    struct view_options view;
    struct view_past past; /* boxes that the next scrape need not read */
    struct export_process *processes;
    size_t count;
};

enum export_format { EXPORT_OPENMETRICS, EXPORT_TEXT };

/* Looks at all black boxes and writes their metrics. False, after a sentence on stderr: the boxes could not be looked
 * for. */
/* The same without writing. Operations between two scrapes must count, and a box remembers only the latest. */
bool export_look(struct exporter *exporter);
bool export_write(struct exporter *exporter, enum export_format format, FILE *out);
void export_end(struct exporter *exporter);

/* ---- Between the parts ---- */

struct export_writer {
    FILE *out;
    enum export_format format;
    const struct view_set *set;
    struct export_process **labels; /* one for each box; NULL: it has no series */
};

/* `name` without "tutti_" and without the suffix of its samples, which `type` brings: counter, info, gauge, histogram.
 */
void export_family(const struct export_writer *w, const char *name, const char *type, const char *text);
/* Begins a sample, with the labels of its process and one more label. */
void export_open(const struct export_writer *w, const char *name, const struct export_process *process);
void export_label(FILE *out, const char *name, const char *value);
/* Writes a sample up to its value, with the labels of its process and `more` labels, "" for none. */
void export_sample(const struct export_writer *w, const char *name, const struct export_process *process,
                   const char *more);
/* export_lanes.c: what lanes remember of their windows, by interface. */
void export_lanes(const struct export_writer *w);
/* export_operations.c: counts operations that ended since the look before, and writes the counts. */
void export_note(const struct export_writer *w);
void export_operations(const struct export_writer *w);
void export_forget(struct export_operations *operations);

/* Answers Prometheus at `address`, such as 127.0.0.1:9797, until a signal ends it. NULL in a build without
 * libmicrohttpd. Exit status. */
int export_serve(struct exporter *exporter, const char *address) __attribute__((weak));

#endif
