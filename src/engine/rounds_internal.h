/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the links executor share: slices in flight, where their blocks lie, and the work between messages. */
#ifndef TUTTI_ENGINE_ROUNDS_INTERNAL_H
#define TUTTI_ENGINE_ROUNDS_INTERNAL_H

#include "engine/rounds.h"

struct run;

/* One message of a round. A multi-block action of a strided buffer makes several. */
struct transfer {
    struct run *run;
    struct link *link;
    int peer;
    bool sends, pending;
    union {
        struct link_send send;
        struct link_recv recv;
    };
};

/* What comes next for a slice. Preparing, local actions and folding are work: they need no link, and not the engine's lock. */
enum phase { RUN_PREPARE, RUN_LOCAL, RUN_POST, RUN_WAIT, RUN_FOLD };

/* Where that work stands: it is done in pieces. */
struct cursor {
    int action;
    int32_t block;
    size_t done;    /* elements of the block */
    size_t arrived; /* bytes of the bounce buffer that have been folded */
};

/* A slice in flight. */
struct run {
    size_t slice;
    int round, actions, transfers, pending;
    bool busy;
    enum phase phase;
    struct cursor at;
    tutti_result_t result;
    int culprit;
    char sentence[TEAM_SENTENCE]; /* any thread may learn of a failure, another report it */
    struct action *action;
    struct transfer *transfer;
    unsigned char *bounce; /* where reductions' inputs arrive */
    size_t bounce_size;
    unsigned char *scratch;
    size_t scratch_size;
    unsigned char *prepared; /* its multiplied input */
    size_t prepared_size;
};

struct rounds {
    int runs, most; /* capacity: runs, transfers of a round */
    struct run *run;
    size_t next, finished, slices;
    size_t stride; /* elements of a block of a slice */
    int blocks, rounds;
    struct shape shape;
};

struct context {
    struct team *team;
    struct op *op;
    struct rounds *rounds;
    size_t size;
    bool cut, prepares;
    size_t budget; /* bytes of work that may still be done before somebody else has his turn */
};

static inline struct context context_of(struct team *team, struct op *op, size_t budget)
{
    bool prepares = op->call.op >= 0 && reduction_needs_prepare(&op->route.reduction);
    return (struct context){team, op, op->rounds, type_size(op->call.type), schedule_cuts_vector(op->call.coll), prepares, budget};
}

/* Elements of one block of this slice; alltoallv has its own counts, by buffer. */
size_t rounds_count(const struct context *c, const struct run *run, const struct action *action, int32_t block);
unsigned char *rounds_place(const struct context *c, const struct run *run, uint8_t buffer, int32_t block);
/* Blocks of the input. */
int rounds_input_blocks(const struct context *c);

/* A slice begins. */
void rounds_enter(struct context *c, struct run *run);
/* As far as it goes without links. False: the budget is spent. */
bool rounds_work_on(struct context *c, struct run *run);

#endif
