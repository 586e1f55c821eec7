/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a call on GPUs that reach one another is carried out: decided once, by a pure function of the call, what is known
 * of the communicator, and the rows of tables/ways.tbl. Executor, black box, `tutti schedule --plan` and the page about
 * executors all read what this gives.
 */
#ifndef TUTTI_PLAN_PLAN_H
#define TUTTI_PLAN_PLAN_H

#include "device/cuda/launch.h"
#include "plan/ways.h"

/* What a row may ask for. */
enum plan_fact {
    PLAN_LOADS = 1,       /* all ranks are of one process, and kernels load and store one another's memory */
    PLAN_COPIES = 2,      /* copy engines carry large messages */
    PLAN_ALIKE = 4,       /* all ranks are of one process, or each has its own */
    PLAN_IN_HOST = 8,     /* windows are in host memory: GPUs do not reach each other */
    PLAN_ZERO = 16,       /* copy engines carry all that reduces nothing */
    PLAN_PAIR = 32,       /* two ranks, or one */
    PLAN_CALLED = 64,     /* it is not captured in a graph */
    PLAN_PARTS = 128,     /* copy engines carry messages of the length of each rank's part of the vector */
    PLAN_LINES = 256,     /* links carry lines of 128 bytes as a whole, and there is more than one rank */
    PLAN_SYMMETRIC = 512, /* what the call reads and writes is symmetric memory, mapped by all ranks */
    PLAN_MANY = 1024,     /* three ranks or more */
    PLAN_WIDE = 2048,     /* partial sums are no rounder than sums, as elements have 4 bytes or more; or these may be */
    PLAN_ROOMY = 4096,    /* what goes round gets the blocks that it needs, or may not be read instead */
    PLAN_WORDS = 8192,    /* a message of the vector's length may have a flag in every word; no copy engine has it */
    PLAN_GROUPED = 16384, /* it goes in one launch with others of its group, in lines */
};

/* Of a communicator, the last one of a call: the same on all ranks, so that all come to the same plan. */
struct plan_facts {
    int nranks;
    bool loads, copies, in_host;
    bool apart;              /* each rank has a process of its own */
    bool lines;              /* links carry lines of 128 bytes as a whole */
    bool zero;               /* the user wants no kernels where nothing is reduced */
    unsigned protocols;      /* of messages by kernel: bits of enum kernel_form */
    struct kernel_room room; /* that kernels have on all GPUs */
    bool symmetric;          /* what is read and written is symmetric memory */
    unsigned element;        /* its bytes; 0: nothing is reduced */
    uint32_t together;       /* collectives of the call's group; 0: there is none */
};

#define WAY(...) +1
enum {
    PLAN_ROWS = 0
#include "tables/ways.tbl"
};
#undef WAY

/* Reductions of elements of 2 bytes that may be rounded at each rank, as TUTTI_RING_HALVES has them. */
enum plan_halves { HALVES_ROOTED, HALVES_NONE, HALVES_ALL };

/* What the parameters make of the table. */
struct plan_rules {
    struct {
        uint64_t from, below;
    } row[PLAN_ROWS];
    uint64_t copy_from; /* bytes of a message; 0: none is copied */
    uint64_t plain_from, lines_from, lines_to, invite_from;
    uint64_t bulk_chunk, chain_chunk, chain_piece;
    uint64_t read_from;  /* of a rank's input; 0: none is read */
    uint64_t group_from; /* of a call, times the collectives of its group; 0: calls of groups go as others do */
    uint64_t group_to;   /* of a call: from here on launches cost little */
    unsigned ring_least; /* blocks */
    enum plan_halves ring_halves;
};

/* How messages go, by length: struct kernel_exchange has the last four. */
struct plan_forms {
    uint64_t copy_from[2]; /* by copy engine from here on; [1]: messages of a collective */
    uint64_t plain_from, lines_from, lines_to, invite_from;
};

struct plan {
    enum way way;
    uint64_t bytes, given;       /* of the call's count; what a rank gives */
    enum kernel_mode mode;       /* of a reduction */
    struct kernel_launch launch; /* kernel and grid; blocks 0: these follow from the messages, or there is no kernel */
    uint64_t chunk;              /* bytes that are passed on at a time; 0: the kernel's own number */
    bool reads;                  /* contributions are read where they lie, if all ranks reach them */
    bool needs_bulk;             /* the larger scratch of all who take part */
};

/* The parameters' values. `zero`: as in the facts. */
void plan_rules(bool zero, struct plan_rules *out);
/* The protocols of NCCL_PROTO: bits of enum kernel_form. A word that is none is warned of. */
unsigned plan_protocols(void);

/* bytes: of the call's count. */
struct plan plan_call(const struct plan_rules *rules, const struct plan_facts *facts, enum coll coll, uint64_t bytes,
                      bool capturing);
struct plan_forms plan_forms(const struct plan_rules *rules, const struct plan_facts *facts);

/* Do chunks go from rank to rank? */
bool plan_goes_round(enum way way);

/* The name of a kernel, for people. */
const char *plan_kernel_name(enum kernel_id kernel);

#endif
