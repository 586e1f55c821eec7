/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the comparison programs that is the same for all libraries: buffers, sizes, warm-up, iterations, clock
 * and output. A library's program fills a table of calls, each done when it returns, and hands it to bench_main().
 */
#ifndef TUTTI_BENCHMARKS_BENCH_H
#define TUTTI_BENCHMARKS_BENCH_H

#include <stddef.h>

/* Counts are in floats. `part` is what one rank gives to, or gets from, each other rank. */
struct bench_library {
    const char *name;
    int rank, size;
    void (*barrier)(void);
    double (*maximum)(double value); /* over all ranks */
    void (*allreduce)(const float *send, float *recv, size_t count);
    void (*allgather)(const float *send, float *recv, size_t part);
    void (*reduce_scatter)(const float *send, float *recv, size_t part);
    void (*alltoall)(const float *send, float *recv, size_t part);
    /* One send and one receive with the rank that differs in the lowest bit: the even one sends first. */
    void (*pingpong)(const float *send, float *recv, size_t count, int peer);
    /* To the right neighbour and from the left one at the same time. */
    void (*exchange)(const float *send, float *recv, size_t count, int right, int left);
};

/* --collectives a,b,...  --sizes 8,64,...  --budget SECONDS (of one point). Rank 0 prints one JSON object a line.
 * Returns the exit code. */
int bench_main(int argc, char **argv, const struct bench_library *library);

#endif
