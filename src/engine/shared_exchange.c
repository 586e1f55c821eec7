/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small calls of a single exchange among few ranks, which cost more by being interpreted than by what they do. When a
 * call was made twice, what its plan does is kept as bytes to be copied. Later calls do this at once: publish, look at
 * the peers' slots, read. Peers see no difference. A rank that finds a peer missing puts the operation into the queue,
 * as it stands. Whatever else is unusual, from failures to peers in other calls, is found out there.
 */
#include "engine/shared_internal.h"

#include "engine/calls.h"
#include "engine/op.h"
#include "engine/progress.h"
#include "engine/queue.h"

#include <stdlib.h>
#include <string.h>

#define RANKS 8
#define BYTES 8192 /* of the vector */
#define LOOKS 16   /* at peers that have a processor each, before the operation is queued */

/* Where bytes are read: in a buffer of the user, or in the slot of the peer awaited as number base - SLOTS. */
enum { IN, OUT, SLOTS };
struct source {
    uint32_t base, offset;
};
/* Where these lie now. */
struct bases {
    const char *at[SLOTS + RANKS];
};

struct copy {
    struct source from;
    uint32_t to, bytes;
};

enum use { SEEN, FITS, UNFIT };

struct shared_exchange {
    uint64_t key[2]; /* of the calls that it is for */
    enum use use;
    int looks;
    int own_copies, puts, peers, gets, sources;
    struct copy own[RANKS], put[RANKS], get[RANKS]; /* within the user's buffers, then to my slot, from peers' slots */
    int peer[RANKS];
    struct source source[RANKS]; /* of the reduction, if there is one */
    uint32_t reduced_to;
    size_t reduced; /* elements */
    bool final;
    size_t bytes;  /* of the vector */
    uint64_t what; /* as the black box has it */
    struct wire_call name;
    struct route route;
};

static void shared_exchange_key_of(const struct call *call, uint64_t key[2])
{
    key[0] = call->count;
    key[1] = (uint64_t)call->type << 40 | (uint64_t)(uint8_t)call->op << 32 | (uint32_t)call->root;
}

static bool is_for(const struct shared_exchange *e, const struct call *call)
{
    uint64_t key[2];
    shared_exchange_key_of(call, key);
    return e->key[0] == key[0] && e->key[1] == key[1] && !call->premul;
}

/* ---- Learning it ---- */

struct learner {
    const struct shared_context *c;
    struct shared_exchange *e;
    struct source scratch[RANKS]; /* what each block points at */
};

static int awaited(struct shared_exchange *e, int peer)
{
    for (int i = 0; i < e->peers; i++)
        if (e->peer[i] == peer)
            return i;
    e->peer[e->peers] = peer;
    return e->peers++;
}

static struct source source_of(const struct learner *l, uint8_t buffer, int32_t block)
{
    return buffer == BUFFER_SCRATCH
               ? l->scratch[block]
               : (struct source){buffer == BUFFER_IN ? IN : OUT, (uint32_t)shared_offset(l->c, block)};
}

static uint32_t place_in_slot(const struct learner *l, int position, int blocks)
{
    struct slot *slot = arena_slot(&l->c->shared->arena, l->c->team->rank, 0);
    return (uint32_t)(shared_slot_place(l->c, slot, position, blocks) - (unsigned char *)slot);
}

static uint32_t bytes_of(const struct learner *l, int32_t block, int32_t nblocks)
{
    return (uint32_t)(shared_span(l->c, block, nblocks) * l->c->size);
}

static bool learn_copy(struct learner *l, const struct action *action, struct copy *copies, int *count)
{
    struct source from = source_of(l, action->src_buffer, action->src_block);
    if (action->dst_buffer == BUFFER_SCRATCH)
        l->scratch[action->dst_block] = from;
    else if (*count < RANKS)
        copies[(*count)++] = (struct copy){from, (uint32_t)shared_offset(l->c, action->dst_block),
                                           bytes_of(l, action->block, action->nblocks)};
    else
        return false;
    return true;
}

static bool learn_reduction(struct learner *l, const struct action *action)
{
    struct shared_exchange *e = l->e;
    if (e->sources || action->nsrc > RANKS)
        return false;
    for (; e->sources < action->nsrc; e->sources++)
        e->source[e->sources] = source_of(l, action->src_buffer, action->src_block + e->sources * action->nblocks);
    e->reduced_to = (uint32_t)shared_offset(l->c, action->dst_block);
    e->reduced = shared_span(l->c, action->block, action->nblocks);
    e->final = action->final;
    return true;
}

static bool learn_sends(struct learner *l, const struct shared_round *round)
{
    for (int i = 0; i < round->sends; i++) {
        const struct shared_send *send = &round->send[i];
        uint32_t bytes = bytes_of(l, send->block, send->nblocks);
        if (send->buffer == BUFFER_SCRATCH || send->reduced || (bytes && l->e->puts == RANKS))
            return false;
        if (bytes)
            l->e->put[l->e->puts++] = (struct copy){source_of(l, send->buffer, send->src_block),
                                                    place_in_slot(l, send->slot_block, round->staged), bytes};
    }
    return true;
}

static bool learn_recvs(struct learner *l, const struct shared_round *round)
{
    for (int i = 0; i < round->recvs; i++) {
        const struct shared_recv *recv = &round->recv[i];
        const struct action *action = &recv->action;
        struct source from = {SLOTS + (uint32_t)awaited(l->e, action->peer),
                              place_in_slot(l, recv->slot_block, recv->peer_blocks)};
        uint32_t bytes = bytes_of(l, action->block, action->nblocks);
        if (action->kind != ACTION_RECV || (bytes && l->e->gets == RANKS))
            return false;
        if (action->dst_buffer == BUFFER_SCRATCH)
            l->scratch[action->dst_block] = from;
        else if (bytes)
            l->e->get[l->e->gets++] = (struct copy){from, (uint32_t)shared_offset(l->c, action->dst_block), bytes};
    }
    return true;
}

/* The exchange: copies within the user's buffers, then messages. */
static bool learn_first(struct learner *l, const struct shared_round *round)
{
    bool fits = round->step;
    for (int i = 0; i < round->locals && fits; i++)
        fits = round->local[i].kind == ACTION_COPY && learn_copy(l, &round->local[i], l->e->own, &l->e->own_copies);
    return fits && learn_sends(l, round) && learn_recvs(l, round);
}

/* What follows it: copies, then at most one reduction. */
static bool learn_next(struct learner *l, const struct shared_round *round)
{
    bool fits = !round->step;
    for (int i = 0; i < round->locals && fits; i++)
        fits = round->local[i].kind == ACTION_REDUCE
                   ? learn_reduction(l, &round->local[i])
                   : !l->e->sources && learn_copy(l, &round->local[i], l->e->get, &l->e->gets);
    return fits;
}

static bool learn_plan(struct learner *l)
{
    const struct shared_plan *plan = l->c->plan;
    bool fits = plan->rounds > 0 && plan->scratch <= RANKS && learn_first(l, &plan->round[0]);
    for (int round = 1; round < plan->rounds && fits; round++)
        fits = learn_next(l, &plan->round[round]);
    return fits;
}

static bool any_is_here(const struct team *team, const struct shared_exchange *e)
{
    bool here = false;
    for (int i = 0; i < e->peers; i++)
        here |= team_is_here(team, e->peer[i]);
    return here;
}

static void learn(const struct shared_context *c, struct shared_exchange *e)
{
    struct learner l = {.c = c, .e = e};
    e->bytes = team_vector_bytes(c->team, &c->op->call);
    bool small = c->team->nranks <= RANKS && e->bytes <= BYTES && c->op->shared.slices == 1;
    e->use = small && learn_plan(&l) ? FITS : UNFIT;
    e->route = c->op->route;
    e->route.plan = NULL;
    e->name = op_call(c->op);
    e->what =
        trace_what((enum wire_collective)c->op->call.coll, (int)c->op->call.type, c->op->call.op, c->op->call.root);
    e->looks = c->team->crowded || any_is_here(c->team, e)
                   ? 1
                   : LOOKS; /* else looking would keep those from running who are looked at */
}

void shared_exchange_learn(const struct shared_context *c)
{
    const struct call *call = &c->op->call;
    struct shared_exchange **kept = &c->shared->exchange[call->coll], *e = *kept;
    if (e && is_for(e, call)) {
        if (e->use == SEEN)
            learn(c, e);
        return;
    }
    if (!e)
        e = *kept = malloc(sizeof *e);
    if (!e)
        return;
    *e = (struct shared_exchange){.use = SEEN};
    shared_exchange_key_of(call, e->key);
}

/* ---- Going by it ---- */

static inline const char *shared_exchange_place_of(struct source source, const struct bases *bases)
{
    return bases->at[source.base] + source.offset;
}

/* Most are of one word. */
static inline void copy_few(char *to, const char *from, uint32_t bytes)
{
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else if (to != from)
        memcpy(to, from, bytes);
}

static inline void shared_exchange_copy_all(const struct copy *copies, int count, char *to, const struct bases *bases)
{
    for (const struct copy *copy = copies; copy != copies + count; copy++)
        copy_few(to + copy->to, shared_exchange_place_of(copy->from, bases), copy->bytes);
}

/* Publishes, and finds where the peers will. */
static inline void give(struct shared *d, int me, const struct shared_exchange *e, const struct call *call,
                        struct bases *bases)
{
    struct slot *slot = arena_slot(&d->arena, me, d->step);
    bases->at[IN] = call->in;
    bases->at[OUT] = call->out;
    shared_exchange_copy_all(e->own, e->own_copies, call->out, bases);
    shared_exchange_copy_all(e->put, e->puts, (char *)slot, bases);
    slot_name(slot, e->name);
    slot->kind = SLOT_STAGED;
    shared_publish(d, me, slot);
    for (int i = 0; i < e->peers; i++)
        bases->at[SLOTS + i] = (const char *)arena_slot(&d->arena, e->peer[i], d->step);
}

static inline void shared_exchange_reduce(const struct shared_exchange *e, char *to, const struct bases *bases)
{
    const struct reduction *reduction = &e->route.reduction;
    const void *sources[RANKS];
    for (int i = 0; i < e->sources; i++)
        sources[i] = shared_exchange_place_of(e->source[i], bases);
    reduction_apply(reduction, to, sources, e->sources, e->reduced);
    if (e->final && reduction_needs_finish(reduction))
        reduction_finish(reduction, to, to, e->reduced);
}

/* All peers are there: reads what they gave, and lets go of it. */
static inline __attribute__((always_inline)) void take(struct shared *d, int me, const struct shared_exchange *e,
                                                       char *out, const struct bases *bases)
{
    shared_exchange_copy_all(e->get, e->gets, out, bases);
    if (e->sources)
        shared_exchange_reduce(e, out + e->reduced_to, bases);
    d->read = ++d->step;
    atomic_store_explicit(&d->unread, !e->peers, memory_order_relaxed);
    shared_let_go(d, me);
}

/* Are all peers there, in the same call? */
static inline bool shared_exchange_look(const struct shared *d, const struct shared_exchange *e,
                                        const struct bases *bases)
{
    int looks = e->looks;
    for (int i = 0; i < e->peers; i++) {
        const struct slot *slot = (const struct slot *)(const void *)bases->at[SLOTS + i];
        for (; !shared_has_come(d, slot); cpu_relax())
            if (--looks <= 0)
                return false;
        if (slot->signature != e->name.signature)
            return false;
    }
    return true;
}

/* The operation has published. */
static __attribute__((noinline)) void enqueue(struct team *team, struct op *op, const struct shared_exchange *e,
                                              const struct call *call, uint32_t seq)
{
    op_clear(op);
    op->kind = e->route.kind;
    op->started = true;
    op->call = *call;
    op->route = e->route;
    op->wire_kind = (enum wire_collective)call->coll;
    op->bytes = e->bytes;
    op->seq = seq;
    op->whole_seq = team_whole_seq(team);
    op->trace =
        trace_op_begin(team->trace, seq, op->wire_kind, (int)call->type, call->op, call->root, call->count, e->bytes);
    op->shared.exchange = e;
    trace_op_name(op->trace, &e->route.name, 0, 0);
    team_enqueue(team, op, NULL);
}

/* Under the lock. True: it is over; else it is in the queue, at `op`. */
static inline bool shared_exchange_run(struct team *team, struct op *op, const struct shared_exchange *e,
                                       const struct call *call)
{
    struct shared *d = team->shared;
    struct bases bases;
    uint32_t seq = team_next_seq(team);
    calls_start(&team->calls, seq, e->name);
    give(d, team->rank, e, call, &bases);
    if (!shared_exchange_look(d, e, &bases)) {
        enqueue(team, op, e, call, seq);
        return false;
    }
    take(d, team->rank, e, call->out, &bases);
    atomic_store_explicit(&team->finished, seq, memory_order_relaxed);
    team_forget_told(team);
    trace_op_passed(team->trace, seq, e->what, call->count, e->bytes, &e->route.name, TUTTI_SUCCESS);
    return true;
}

static inline bool may_run(const struct team *team, const struct shared_exchange *e, const struct call *call)
{
    return e && e->use == FITS && is_for(e, call) && shared_unread_by(team->shared, team->rank) < 0;
}

bool shared_exchange_now(struct team *team, const struct call *call)
{
    if (!team_idle(team) || !lock_try(&team->lock))
        return false;
    uint64_t position = atomic_load_explicit(&team->issued, memory_order_relaxed);
    const struct shared_exchange *e = team->shared->exchange[call->coll];
    struct op *op = may_run(team, e, call) ? queue_tail(&team->queue, position, position) : NULL;
    bool over = op && shared_exchange_run(team, op, e, call);
    lock_release(&team->lock);
    if (op && !over)
        engine_notice(team->engine);
    return op != NULL;
}

/* The operation was queued, having published. */
tutti_result_t shared_exchange_step(struct shared_context *c)
{
    const struct shared_exchange *e = c->op->shared.exchange;
    struct bases bases = {{c->op->call.in, c->op->call.out}};
    for (int i = 0; i < e->peers; i++) {
        struct slot *slot;
        tutti_result_t result = shared_await(c, e->peer[i], &slot);
        if (result != TUTTI_SUCCESS)
            return result;
        bases.at[SLOTS + i] = (const char *)slot;
    }
    take(c->shared, c->team->rank, e, c->op->call.out, &bases);
    return TUTTI_SUCCESS;
}
