/* SPDX-License-Identifier: Apache-2.0 */
/* The request to `tutti perf`. */
#ifndef TUTTI_CLI_PERF_OPTIONS_H
#define TUTTI_CLI_PERF_OPTIONS_H

#include "cli/perf_collectives.h"

#include <stdint.h>

struct perf_options {
    const struct collective *collective;
    int64_t min, max, step;
    int factor; /* 0 or 1: none */
    int cycles; /* 0: no end */
    int iterations, warmup, checks, blocking, threads, ranks, parallel_init, average, aggregate, registered, rotate;
    int op, type, root; /* -1: all */
    int processes;      /* processes to start; 0: none, be one */
    bool gpu;           /* buffers are in the memory of GPUs */
    int replays;        /* replays of the captured iterations; 0: they are not captured */
    int timeout;        /* seconds for a size; 0: none */
    int calls_only;     /* 1: time calls, not operations */
    const char *json;
};

/* Returns -1 to go on, or an exit code. */
int perf_parse(int argc, char **argv, struct perf_options *options);

#endif
