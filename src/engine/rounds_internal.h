/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of operations over links share: slices in flight, where their blocks lie, and the work between
 * messages.
 */
#ifndef TUTTI_ENGINE_ROUNDS_INTERNAL_H
#define TUTTI_ENGINE_ROUNDS_INTERNAL_H

#include "engine/rounds.h"
#include "engine/rounds_memory.h"
#include "engine/slices.h"
#include "engine/transfers.h"

/* What comes next for a slice. Preparing, local actions and folding are work: they need no link, and not the engine's
 * lock. */
enum phase { RUN_PREPARE, RUN_LOCAL, RUN_POST, RUN_WAIT, RUN_FOLD };

/* Where that work stands: it is done in pieces. */
struct cursor {
    int action;
    int32_t block;
    size_t done;    /* elements of the block */
    size_t arrived; /* bytes of the bounce buffer that have been folded */
    int32_t folded; /* sources of a REDUCE that the piece has in it */
};

/* Memory that grows, and that adapters may keep registered. */
struct workspace {
    unsigned char *bytes;
    size_t size;
    uint64_t known;
};

/* A slice in flight. */
struct rounds_run {
    size_t slice;
    int round, actions;
    bool busy;
    enum phase phase;
    struct cursor at;
    bool started; /* the backend is at the item, */
    size_t piece; /* elements of a block that the item has */
    struct rounds_item item;
    struct action *action;
    struct transfers transfers; /* of the round */
    struct transfer *transfer;  /* one for each message: several of a multi-block action of a strided buffer */
    struct workspace bounce;    /* where reductions' inputs arrive */
    struct workspace scratch;
    struct workspace prepared; /* its multiplied input */
};

struct rounds {
    const struct rounds_memory *memory;
    int runs, most; /* capacity: runs, transfers of a round */
    struct rounds_run *run;
    size_t next, finished, slices;
    struct slicing slicing;
    int rounds;
    struct shape shape;
};

struct context {
    struct team *team;
    struct op *op;
    struct rounds *rounds;
    size_t size;
    bool prepares;
    size_t budget; /* bytes of work that may still be done before somebody else has his turn */
};

static inline struct context context_of(struct team *team, struct op *op, size_t budget)
{
    bool prepares = op->call.op >= 0 && reduction_needs_prepare(&op->route.reduction);
    return (struct context){team, op, op->rounds, op->call.size, prepares, budget};
}

/* Elements of one block of this slice; alltoallv has its own counts, by buffer. */
size_t rounds_count(const struct context *c, const struct rounds_run *run, const struct action *action, int32_t block);
unsigned char *rounds_place(const struct context *c, const struct rounds_run *run, uint8_t buffer, int32_t block);
static inline int rounds_input_blocks(const struct context *c)
{
    return slices_input_blocks(&c->rounds->slicing, c->team->nranks);
}

/* Nothing is to be done for it before the backend has done what it has started. */
static inline bool rounds_is_at_work(const struct rounds_run *run)
{
    return run->started && !atomic_load_explicit(&run->item.done, memory_order_acquire);
}

/* A slice begins. */
void rounds_enter(struct context *c, struct rounds_run *run);
/* The kind's work(). */
bool rounds_work(struct team *team, struct op *op);
/* As far as it goes without links. False: the budget is spent, or the backend is at work. */
bool rounds_work_on(struct context *c, struct rounds_run *run);

#endif
