/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the direct executor share: the operation at hand, and waiting for a peer. */
#ifndef TUTTI_ENGINE_DIRECT_INTERNAL_H
#define TUTTI_ENGINE_DIRECT_INTERNAL_H

#include "engine/direct.h"

struct direct_context {
    struct team *team;
    struct direct *direct;
    struct op *op;
    const struct direct_plan *plan;
    size_t size; /* of an element */
    bool cut;    /* the collective cuts one vector into blocks */
    bool prepares; /* inputs are multiplied first, slice by slice */
};

static inline struct direct_context direct_context_of(struct team *team, struct op *op)
{
    return (struct direct_context){.team = team,
                                   .direct = team->direct,
                                   .op = op,
                                   .plan = op->route.plan,
                                   .size = type_size(op->call.type),
                                   .cut = schedule_cuts_vector(op->call.coll),
                                   .prepares = op->call.op >= 0 && reduction_needs_prepare(&op->route.reduction)};
}

/* Blocks of the input. */
static inline int direct_input_blocks(const struct direct_context *c)
{
    return c->cut ? c->plan->blocks : c->op->call.coll == COLL_REDUCE_SCATTER ? c->team->nranks : 1;
}

/* Atomic, for direct_audit() looks at slots that their owners may be about to use again. */
static inline void slot_name(struct slot *slot, struct wire_call call)
{
    __atomic_store_n(&slot->signature, call.signature, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->root, (int16_t)call.root, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->count, call.count, __ATOMIC_RELAXED);
}

static inline struct wire_call slot_call(const struct slot *slot)
{
    return (struct wire_call){__atomic_load_n(&slot->signature, __ATOMIC_RELAXED), __atomic_load_n(&slot->root, __ATOMIC_RELAXED),
                              __atomic_load_n(&slot->count, __ATOMIC_RELAXED)};
}

typedef bool direct_ready_fn(struct direct_context *c, int peer);

/* `peer` is not ready. TUTTI_IN_PROGRESS; TUTTI_SUCCESS if it became ready on a second look; or the failure: its process is gone,
 * or another rank found the team broken. */
tutti_result_t direct_blocked(struct direct_context *c, int peer, direct_ready_fn *ready);

/* Has another rank found the team broken? Then *result is this rank's failure. After let_go() it also tells whether what was read
 * in peers' buffers may be wrong: who fails says so before its buffers are its user's again. */
bool direct_broken(struct direct_context *c, tutti_result_t *result);

/* Cuts the operation into slices, decides what peers read in place. May have to wait for peers. */
tutti_result_t direct_settle(struct direct_context *c);

#endif
