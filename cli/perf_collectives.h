/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that `tutti perf` measures: a row each. */
#ifndef TUTTI_CLI_PERF_COLLECTIVES_H
#define TUTTI_CLI_PERF_COLLECTIVES_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>

/* One row of measurement: the call of every rank. */
struct perf_shape {
    const struct collective *collective;
    int size, root;
    size_t count; /* elements of the whole vector, as reported */
    size_t part;  /* the count argument of the call */
    tutti_type_t type;
    tutti_op_t op;
};

/* A part of the data that a rank must have received. */
struct piece {
    size_t at, count; /* elements of the receive buffer */
    int from;         /* rank whose input it is; -1: the reduction of all; data_first(r): that of ranks 0 to r */
    size_t from_at;   /* first element in that input */
};

struct perf_call {
    const struct perf_shape *shape;
    const void *send;
    void *recv;
    int rank;
    tutti_op_t op; /* of this communicator, for which it was made */
    tutti_comm_t comm;
    tutti_stream_t stream;
    const size_t *vectors; /* of alltoallv: see collective_vectors */
};

struct collective {
    const char *name;
    bool reduces, rooted, splits; /* splits: the vector is n parts */
    bool in_place;                /* can be done in place */
    bool vectors;                 /* needs collective_vectors */
    bool no_average;              /* each rank has its own number of inputs: scan, which is not built for GPUs either */
    bool meets;                   /* carries no data: the check is that nobody leaves before all have come */
    double (*bus_factor)(int size);
    size_t (*sends)(const struct perf_shape *shape, int rank); /* elements of the rank's input */
    bool (*piece)(const struct perf_shape *shape, int rank, int index, struct piece *out); /* false: no more */
    size_t (*offset)(const struct perf_shape *shape,
                     int rank); /* in place: element where the smaller buffer is in the larger */
    bool recv_is_larger;
    tutti_result_t (*issue)(const struct perf_call *call);
};

const struct collective *collective_find(const char *name);
/* The elements of `count` that are used: the largest number that splits into equal parts. */
size_t collective_part(const struct collective *collective, size_t count, int size);
/* Send counts, send offsets, receive counts, receive offsets of an alltoallv: shape->size entries each. */
void collective_vectors(const struct perf_shape *shape, int rank, size_t *out);
extern const struct collective collectives[];
extern const int collective_count;

#endif
