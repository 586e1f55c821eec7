/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `tutti export` share. */
#ifndef TUTTI_CLI_EXPORT_H
#define TUTTI_CLI_EXPORT_H

#include "trace.h"

#define EXPORT_MOST 1024 /* processes with series of their own; the others are only counted */

/*
 * The labels of one process: its program's name, its rank, and a number that tells apart those that have both alike. A
 * process keeps its number while it lives, and the next one takes the least that is free, so that jobs which follow one
 * another make no new series.
 */
struct export_process {
    char *path; /* of its box */
    char program[32];
    int rank; /* in the largest of its communicators; -1: it has had none */
    unsigned slot;
    bool seen;
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
bool export_write(struct exporter *exporter, enum export_format format, FILE *out);
void export_end(struct exporter *exporter);

/* Answers Prometheus at `address`, such as 127.0.0.1:9797, until a signal ends it. NULL in a build without
 * libmicrohttpd. Exit status. */
int export_serve(struct exporter *exporter, const char *address) __attribute__((weak));

#endif
