/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the shared-memory executor share: the operation at hand, and waiting for a peer. */
#ifndef TUTTI_ENGINE_SHARED_INTERNAL_H
#define TUTTI_ENGINE_SHARED_INTERNAL_H

#include "engine/shared.h"
#include "engine/slices.h"

struct shared_context {
    struct team *team;
    struct shared *shared;
    struct op *op;
    const struct shared_plan *plan;
    size_t size;   /* of an element */
    bool cut;      /* the collective cuts one vector into blocks */
    bool prepares; /* inputs are multiplied first, slice by slice */
};

static inline struct shared_context shared_context_of(struct team *team, struct op *op)
{
    return (struct shared_context){.team = team,
                                   .shared = team->shared,
                                   .op = op,
                                   .plan = op->route.plan,
                                   .size = op->call.size,
                                   .cut = schedule_cuts_vector(op->call.coll),
                                   .prepares = op->call.op >= 0 && reduction_needs_prepare(&op->route.reduction)};
}

/* ---- Where blocks lie ---- */

static inline struct slicing shared_slicing(const struct shared_context *c)
{
    return (struct slicing){&c->op->call, c->op->shared.stride, c->plan->blocks, c->cut};
}

/* Elements of blocks [block, block + n) of this slice. */
static inline size_t shared_span(const struct shared_context *c, int32_t block, int32_t nblocks)
{
    struct slicing slicing = shared_slicing(c);
    return slices_span(&slicing, c->op->shared.slice, block, nblocks);
}

/* Offset of a block of this slice in a user's buffer, in bytes. */
static inline size_t shared_offset(const struct shared_context *c, int32_t block)
{
    struct slicing slicing = shared_slicing(c);
    return slices_offset(&slicing, c->op->shared.slice, block) * c->size;
}

/* Where staged block `position` of `blocks` lies in a slot. Both sides compute it alike. */
static inline unsigned char *shared_slot_place(const struct shared_context *c, struct slot *slot, int position,
                                               int blocks)
{
    size_t stride = c->op->shared.stride * c->size;
    unsigned char *base = stride * (size_t)blocks <= SLOT_INLINE ? slot->few : (unsigned char *)(slot + 1);
    return base + stride * (size_t)position;
}

/* Blocks of the input. */
static inline int shared_input_blocks(const struct shared_context *c)
{
    struct slicing slicing = shared_slicing(c);
    return slices_input_blocks(&slicing, c->team->nranks);
}

/* Atomic, for shared_audit() looks at slots that their owners may be about to use again. */
static inline void slot_name(struct slot *slot, struct wire_call call)
{
    __atomic_store_n(&slot->signature, call.signature, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->root, (int16_t)call.root, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->count, call.count, __ATOMIC_RELAXED);
}

static inline struct wire_call slot_call(const struct slot *slot)
{
    return (struct wire_call){__atomic_load_n(&slot->signature, __ATOMIC_RELAXED),
                              __atomic_load_n(&slot->root, __ATOMIC_RELAXED),
                              __atomic_load_n(&slot->count, __ATOMIC_RELAXED)};
}

/* ---- Steps ---- */

static inline void shared_wake(struct shared *d, int me)
{
    if (atomic_load(&d->arena.head->sleepers))
        arena_wake(&d->arena, me);
}

/* The slot of this step is filled. */
static inline void shared_publish(struct shared *d, int me, struct slot *slot)
{
    atomic_exchange(&slot->ready, d->step + 1); /* a full barrier: the sleepers are looked at after it */
    shared_wake(d, me);
}

/* Has a peer filled its slot of this step? */
static inline bool shared_has_come(const struct shared *d, const struct slot *slot)
{
    return atomic_load_explicit(&slot->ready, memory_order_acquire) == d->step + 1;
}

/* Lets go of all slots read so far. */
static inline void shared_let_go(struct shared *d, int me)
{
    atomic_exchange(&d->arena.ranks[me].done, d->read);
    shared_wake(d, me);
}

/* A rank that has not read yet what my slot of this step held before; -1: all have. */
static inline int shared_unread_by(struct shared *d, int me)
{
    uint64_t least = UINT64_MAX;
    if (d->freed + d->arena.slot_count > d->step)
        return -1;
    for (int peer = 0; peer < d->arena.nranks; peer++) {
        if (peer == me)
            continue;
        uint64_t done = atomic_load_explicit(&d->arena.ranks[peer].done, memory_order_acquire);
        if (done + d->arena.slot_count <= d->step)
            return peer;
        least = done < least ? done : least;
    }
    d->freed = least;
    return -1;
}

/* ---- Waiting ---- */

typedef bool shared_ready_fn(struct shared_context *c, int peer);

/* `peer` is not ready. TUTTI_IN_PROGRESS; TUTTI_SUCCESS if it became ready on a second look; or the failure: its
 * process is gone, or another rank found the team broken. */
tutti_result_t shared_blocked(struct shared_context *c, int peer, shared_ready_fn *ready);

/* Waits for what `peer` publishes in this step; finds out that it is in another call. */
tutti_result_t shared_await(struct shared_context *c, int peer, struct slot **out);

/* Has another rank found the team broken? Then *result is this rank's failure. After let_go() it also tells whether
 * what was read in peers' buffers may be wrong: a rank that fails says so before its buffers are its user's again. */
bool shared_broken(struct shared_context *c, tutti_result_t *result);

/* shared_setup.c: the kind's functions, see op_kind.h */
tutti_result_t shared_start(struct team *team, struct op *op);
void shared_end(struct team *team, struct op *op);
void shared_sleep(struct team *team, int peer, uint64_t timeout_us);

/* shared_exchange.c */
/* An operation has settled that shows nothing: equal ones of a single exchange will need no plan. */
void shared_exchange_learn(const struct shared_context *c);
tutti_result_t shared_exchange_step(struct shared_context *c);

/* Cuts the operation into slices, decides what peers read in place. */
tutti_result_t shared_settle(struct shared_context *c);

#endif
