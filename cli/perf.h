/* SPDX-License-Identifier: Apache-2.0 */
/* tutti perf: measures and verifies collectives, with the flags, columns and conventions of nccl-tests. */
#ifndef TUTTI_CLI_PERF_H
#define TUTTI_CLI_PERF_H

#include "perf_place.h"
#include "tutti/tutti.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- collectives (perf_collectives.c) ---- */

/* One row of measurement: what every rank is to do. */
struct shape {
    const struct collective *collective;
    int size, root;
    size_t count; /* elements of the whole vector, as reported */
    size_t part;  /* the count argument of the call */
    tutti_type_t type;
    tutti_op_t op;
};

/* A part of what a rank must have received. */
struct piece {
    size_t at, count; /* elements of the receive buffer */
    int from;         /* rank whose input it is; -1: the reduction of all; data_first(r): that of ranks 0 to r */
    size_t from_at;   /* first element in that input */
};

struct call {
    const struct shape *shape;
    const void *send;
    void *recv;
    int rank;
    tutti_op_t op; /* of this communicator, where it was made for it */
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
    bool meets;                   /* carries no data: what is verified is that nobody leaves before all have come */
    double (*bus_factor)(int size);
    size_t (*sends)(const struct shape *shape, int rank);                             /* elements of the rank's input */
    bool (*piece)(const struct shape *shape, int rank, int index, struct piece *out); /* false: no more */
    size_t (*offset)(const struct shape *shape,
                     int rank); /* in place: element where the smaller buffer is in the larger */
    bool recv_is_larger;
    tutti_result_t (*issue)(const struct call *call);
};

const struct collective *collective_find(const char *name);
/* Elements of the vector that are used: of `count`, what can be split into equal parts. */
size_t collective_part(const struct collective *collective, size_t count, int size);
/* Send counts, send offsets, receive counts, receive offsets of an alltoallv: shape->size entries each. */
void collective_vectors(const struct shape *shape, int rank, size_t *out);
extern const struct collective collectives[];
extern const int collective_count;

/* ---- types, operators and data (perf_data.c) ---- */

struct type_row {
    const char *name, *aliases; /* " a b " */
    size_t size;
};
extern const struct type_row type_rows[TUTTI_TYPE_COUNT];

enum { OP_MULSUM = TUTTI_OP_COUNT, OP_ROWS }; /* MULSUM: an operator made by tutti_op_create_premul_sum */
extern const char *const op_names[OP_ROWS];

/* Data repeats with a prime period, so that blocks that go to a wrong place show. */
enum { DATA_PERIOD = 16381, DATA_REDUCED = -1 };
static inline int data_first(int rank)
{
    return DATA_REDUCED - 1 - rank;
}

/* Writes what data_fill() and data_wrong() read for these elements, out of one period of rank's input, or of the
 * reduction of all inputs (DATA_REDUCED) or of the first (data_first), such that any order of reducing gives the same
 * bits. For collectives that do not reduce, any bits. A whole period of a reduction of hundreds of ranks takes longer
 * than all else that a short measurement does. */
void data_table(void *out, const struct shape *shape, int rank, size_t start, size_t count);
/* Element i of out is that of the period at start + i. */
void data_fill(void *out, const void *table, size_t element, size_t start, size_t count);
/* How many elements differ; *first is the index of the first that does. */
size_t data_wrong(const void *data, const void *table, size_t element, size_t start, size_t count, size_t *first);
/* The scalar of MULSUM for `rank`, as one element of `type`. */
void data_scalar(void *out, tutti_type_t type, int rank);

/* ---- options (perf_options.c) ---- */

struct perf_options {
    const struct collective *collective;
    int64_t min, max, step;
    int factor; /* 0 or 1: none */
    int cycles; /* 0: without an end */
    int iterations, warmup, checks, blocking, threads, ranks, parallel_init, average, aggregate, registered, rotate;
    int op, type, root; /* -1: all */
    int processes;      /* to start; 0: none, be one */
    bool gpu;           /* buffers are in the memory of GPUs */
    int replays;        /* of the captured iterations; 0: they are not captured */
    int timeout;        /* seconds for a size; 0: none */
    int calls_only;     /* 1: time what calls take, not what operations take */
    const char *json;
};

/* Returns -1 to go on, or an exit code. */
int perf_parse(int argc, char **argv, struct perf_options *options);

/* ---- one process of a measurement (perf.c, perf_run.c) ---- */

/* Seconds that one thread took for a call; nanoseconds of the clock when it came to a call, and when it went on. */
enum { TIME_CALL, TIME_CAME, TIME_WENT, PERF_TIMES };

struct worker {
    struct perf *perf;
    int index; /* of the thread */
    pthread_t thread;
    tutti_comm_t *comms;
    tutti_op_t *ops;
    struct seat *seats;
    char **sends, **recvs; /* max bytes and CANARY_BYTES each */
    void **handles;        /* of registrations: two a rank */
    size_t *vectors;       /* 4 * size entries a rank */
    struct call *calls;    /* what each rank does in the row at hand */
    void *table;
    double times[PERF_TIMES];
    int64_t wrong;
    size_t rotation; /* bytes that the next call is moved by */
    int seed;
};

struct perf {
    struct perf_options options;
    int process, processes; /* this one, and how many */
    int local, size;        /* ranks here, ranks in all */
    int first_on_host;      /* of the ranks of its host, which one its first is */
    bool one_host;          /* all processes have one clock */
    const struct place *place;
    tutti_comm_t world; /* one rank a process; NULL if there is one process */
    bool world_is_own;  /* world is not the communicator that is measured */
    tutti_unique_id_t id;
    pthread_barrier_t barrier;
    struct worker *workers;
    struct report *report;
};

enum { CANARY_BYTES = 64, POISON = 0x5b };

/* Ends the process with a sentence when a call of the library failed. */
void perf_must(tutti_result_t result, const char *what, tutti_comm_t comm);
void perf_die(const char *what) __attribute__((noreturn));
/* All threads of all processes meet. */
void perf_barrier(struct worker *worker);
/* The body of each thread: all rows. */
void perf_work(struct worker *worker);
int perf_first_rank(const struct worker *worker);

/* ---- output (perf_report.c) ---- */

struct measure {
    bool done; /* false: not applicable */
    double us, algorithm_gbs, bus_gbs;
    int64_t wrong; /* -1: not checked */
};

struct report;
struct report *report_open(const struct perf *perf);
void report_row(struct report *report, const struct shape *shape, const struct measure results[2]);
/* Returns the exit code. */
int report_close(struct report *report);

#endif
