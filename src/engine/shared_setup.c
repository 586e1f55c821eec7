/* SPDX-License-Identifier: Apache-2.0 */
/* Around operations through shared memory: opening it, setting out on an operation, sleeping, failing. */
#include "engine/shared_internal.h"

#include "base/error.h"
#include "base/param.h"
#include "engine/failure.h"
#include "engine/head.h"
#include "engine/links.h"
#include "engine/progress.h"
#include "transport/shm/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTACH_ALONE   (64 << 10) /* bytes of a vector: measured, docs/notebook/host.md */
#define ATTACH_CROWDED (128 << 10)

/* ---- Setting out ---- */

/* Elements of a block of a slice, so that what the busiest rank stages fits its slot; and how many slices that makes.
 * Kept for equal calls. */
static void cut_slices(const struct shared_context *c, struct shared_plan *plan)
{
    size_t payload = c->shared->arena.slot_size - sizeof(struct slot),
           parts = c->cut && plan->blocks > 0 ? (size_t)plan->blocks : 1;
    struct slicing slicing = {&c->op->call, 0, plan->blocks, c->cut};
    plan->slices = slices_cut(&slicing, c->size,
                              plan->staged_most ? payload / (size_t)plan->staged_most : TEAM_TURN / parts, true);
    plan->stride = slicing.stride;
    plan->cut_count = c->op->call.count;
    plan->cut_size = c->size;
}

static void set_slices(struct shared_context *c)
{
    struct shared_run *run = &c->op->shared;
    struct shared_plan *plan = c->op->route.plan;
    if (plan->cut_count != c->op->call.count || plan->cut_size != c->size)
        cut_slices(c, plan);
    run->stride = plan->stride;
    run->slices = plan->slices;
}

static bool introduced(struct shared_context *c, int peer)
{
    return atomic_load_explicit(&c->shared->arena.ranks[peer].introduced, memory_order_acquire);
}

static bool told(struct shared_context *c, int peer)
{
    return atomic_load_explicit(&c->shared->arena.ranks[peer].reads, memory_order_acquire) != 0;
}

static bool all_are(struct shared_context *c, shared_ready_fn *ready)
{
    bool all = true;
    for (int peer = 0; peer < c->shared->arena.nranks && all; peer++)
        all = ready(c, peer);
    return all;
}

/* Tries to attach to every other rank, and says whether that works. */
static void try_attach(struct shared_context *c)
{
    struct shared *d = c->shared;
    bool works = true;
    for (int peer = 0; peer < d->arena.nranks; peer++)
        if (!team_is_here(c->team, peer))
            works &= peer_try_attach(&d->peers, peer, &d->arena.ranks[peer]);
    atomic_store_explicit(&d->arena.ranks[c->team->rank].reads, works ? 1 : 2, memory_order_release);
    d->attach_tried = true;
}

/* Can all ranks attach to each other? Nobody waits for who has not said: until all have, blocks are staged. */
static bool all_attach(struct shared_context *c)
{
    struct shared *d = c->shared;
    if (d->reads_known)
        return d->reads;
    if (!d->attach_tried && all_are(c, introduced))
        try_attach(c);
    if (!d->attach_tried || !all_are(c, told))
        return false;
    d->reads = true;
    for (int peer = 0; peer < d->arena.nranks; peer++)
        d->reads &= atomic_load_explicit(&d->arena.ranks[peer].reads, memory_order_relaxed) == 1;
    d->reads_known = true;
    return d->reads;
}

/* The smallest vector that is read by attach. A staged block is copied once more than it has readers: twice for one
 * reader. By attach, one reader copies it once. Where ranks share processors the switches cost more than copies of
 * short vectors. */
static int64_t attach_from(const struct shared_context *c)
{
    int64_t asked = param_int(PARAM_SHARED_ATTACH);
    enum coll coll = c->op->call.coll;
    bool one_reader = coll == COLL_ALLTOALL || (coll == COLL_ALLGATHER && c->team->nranks == 2);
    if (asked)
        return asked;
    return !one_reader ? INT64_MAX : c->team->crowded ? ATTACH_CROWDED : ATTACH_ALONE;
}

/* May peers read this memory by attach? What devices have mapped the system copies, but reads for nobody else. Asked
 * once for each of the latest buffers. */
static bool attachable(struct shared *d, const void *buffer, size_t bytes)
{
    for (int i = 0; i < SHARED_SOUND; i++)
        if (d->sound[i].buffer == buffer && d->sound[i].bytes == bytes)
            return true;
    if (!attach_shows(buffer, bytes))
        return false;
    d->sound[d->sound_next++ % SHARED_SOUND] = (struct shared_sound){buffer, bytes};
    return true;
}

static bool mapped_by_reader(const struct team *team, int rank, uint32_t region)
{
    struct region_pair who;
    memcpy(who.owner, team_row(team, team->rank)->uuid, sizeof who.owner);
    memcpy(who.mapper, team_row(team, rank)->uuid, sizeof who.mapper);
    return team_is_here(team, rank) || region_is_mapped(region, &who);
}

static bool mapped_by_all(struct shared_context *c, uint32_t region)
{
    struct shared_plan *plan = c->op->route.plan;
    for (int i = 0; i < SHARED_REGIONS; i++)
        if (plan->mapped[i] == region)
            return true;
    for (int rank = 0; rank < c->team->nranks; rank++)
        if (plan->reader[rank] && !mapped_by_reader(c->team, rank, region))
            return false;
    plan->mapped[plan->mapped_next++ % SHARED_REGIONS] = region;
    return true;
}

/* Has the region announced to all who read here, by links that are made now. Until they have mapped the region it is
 * staged. */
static void announce(struct shared_context *c, const void *buffer)
{
    struct team *team = c->team;
    struct link *link;
    if (!lock_try(&team->engine->lock))
        return;
    for (int rank = 0; rank < team->nranks; rank++)
        if (c->op->route.plan->reader[rank] && !team_is_here(team, rank))
            team_link(team, rank, &link);
    link_announce(team->engine->links, buffer);
    lock_release(&team->engine->lock);
}

/* The region that all who read here have mapped and that holds all of the buffer; 0: there is none. */
static uint32_t shared_region(struct shared_context *c, const void *buffer, size_t bytes, uint64_t *offset)
{
    uint32_t region;
    if (c->team->one_process || !region_find(buffer, bytes, &region, offset))
        return 0;
    if (mapped_by_all(c, region))
        return region;
    announce(c, buffer);
    return 0;
}

/* Of the input or the output, by what the operation has of it. */
static size_t buffer_bytes(const struct shared_context *c, bool in)
{
    const struct call *call = &c->op->call;
    bool many = call->coll == COLL_ALLTOALL || (in ? call->coll == COLL_REDUCE_SCATTER || call->coll == COLL_SCATTER
                                                   : call->coll == COLL_ALLGATHER || call->coll == COLL_GATHER);
    return call->count * c->size * (many ? (size_t)c->team->nranks : 1);
}

/* Do peers read this buffer where it lies? Cheaply if it is in a region that they have mapped, or they are in this
 * process; else by cross-memory attach, where that pays. */
static bool shared_setup_show(struct shared_context *c, bool in, bool attach, uint32_t *region, uint64_t *offset)
{
    const void *buffer = in ? c->op->call.in : c->op->call.out;
    int64_t bytes = (int64_t)team_vector_bytes(c->team, &c->op->call);
    if (!buffer || (in && c->prepares))
        return false;
    *region = bytes < param_int(PARAM_SHARED_SHOW) ? 0 : shared_region(c, buffer, buffer_bytes(c, in), offset);
    return *region || (c->team->one_process && bytes >= param_int(PARAM_SHARED_SHOW)) ||
           (attach && attachable(c->shared, buffer, buffer_bytes(c, in)));
}

/* Not by the one-shot algorithm: in place, its ranks write what others still read. */
static bool may_show(const struct shared_context *c)
{
    const struct call *call = &c->op->call;
    return call->coll != COLL_BARRIER && !(call->coll == COLL_ALLREDUCE && c->plan->blocks == 1);
}

static tutti_result_t reserve(struct shared_context *c, unsigned char **memory, size_t *have, size_t want)
{
    if (*have >= want)
        return TUTTI_SUCCESS;
    unsigned char *bigger = aligned_alloc(CACHE_LINE, (want + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!bigger)
        return team_fail(c->team, TUTTI_SYSTEM_ERROR, c->team->rank, "no memory for slices of an operation");
    free(*memory);
    *memory = bigger;
    *have = want;
    return TUTTI_SUCCESS;
}

/* Memory for what is read from peers by attach, and for multiplied input. */
static tutti_result_t reserve_slices(struct shared_context *c)
{
    struct shared *d = c->shared;
    size_t block = c->op->shared.stride * c->size, scratch = (size_t)(c->plan->scratch > 0 ? c->plan->scratch : 1);
    bool bounces =
        schedule_reduces(c->op->call.coll) && (int64_t)team_vector_bytes(c->team, &c->op->call) >= attach_from(c);
    tutti_result_t result = reserve(c, &d->bounce, &d->bounce_size, bounces ? scratch * block : 0);
    if (result == TUTTI_SUCCESS)
        result = reserve(c, &d->prepared, &d->prepared_size, c->prepares ? (size_t)shared_input_blocks(c) * block : 0);
    return result;
}

/* How large slices are, and whether our buffers are read where they lie. */
tutti_result_t shared_settle(struct shared_context *c)
{
    struct shared_run *run = &c->op->shared;
    int64_t bytes = (int64_t)team_vector_bytes(c->team, &c->op->call);
    bool long_enough = bytes >= attach_from(c);
    set_slices(c);
    /* Nobody shows or reads anything, and nothing needs memory of its own. */
    run->settled = !c->prepares && bytes < param_int(PARAM_SHARED_SHOW) && !long_enough;
    if (run->settled) {
        shared_exchange_learn(c);
        return TUTTI_SUCCESS;
    }
    tutti_result_t result = reserve_slices(c);
    if (result != TUTTI_SUCCESS)
        return result;
    bool attach = may_show(c) && long_enough && !c->team->one_process && all_attach(c);
    run->in_shown = may_show(c) && shared_setup_show(c, true, attach, &run->in_region, &run->in_offset);
    run->out_shown = may_show(c) && shared_setup_show(c, false, attach, &run->out_region, &run->out_offset);
    run->settled = true;
    return TUTTI_SUCCESS;
}

static tutti_result_t reserve_pointers(struct shared *d, int scratch, int nranks)
{
    if (d->pointer && d->pointers >= scratch)
        return TUTTI_SUCCESS;
    const void **bigger = calloc((size_t)scratch + (size_t)nranks + 1, sizeof *bigger);
    if (!bigger)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d scratch blocks", scratch);
    free(d->pointer);
    d->pointer = bigger;
    d->pointers = scratch;
    return TUTTI_SUCCESS;
}

tutti_result_t shared_start(struct team *team, struct op *op)
{
    struct shape shape = {op->call.coll, team->nranks, op->call.root};
    tutti_result_t result = shared_plan(team, op->route.algorithm, &shape, &op->route.plan);
    if (result == TUTTI_SUCCESS)
        result = reserve_pointers(team->shared, op->route.plan->scratch, team->nranks);
    if (result != TUTTI_SUCCESS)
        return team_fail(team, result, team->rank, error_last());
    return TUTTI_SUCCESS;
}

tutti_result_t shared_open(struct team *team, int fd)
{
    struct shared *d = calloc(1, sizeof *d);
    if (!d || !peer_memory_open(&d->peers, team->nranks)) {
        free(d);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for collectives in shared memory");
    }
    tutti_result_t result = arena_map(&d->arena, fd, team->nranks);
    if (result != TUTTI_SUCCESS) {
        peer_memory_close(&d->peers);
        free(d);
        return result;
    }
    lock_take(&team->engine->lock); /* the engine's thread looks at it when a peer is lost */
    team->shared = d;
    lock_release(&team->engine->lock);
    peer_introduce(&d->arena.ranks[team->rank]);
    arena_wake(&d->arena, team->rank);
    return TUTTI_SUCCESS;
}

void shared_close(struct team *team)
{
    struct shared *d = team->shared;
    if (!d)
        return;
    for (int coll = 0; coll < COLL_COUNT; coll++) {
        shared_plan_free(d->plan[coll]);
        free(d->exchange[coll]);
    }
    arena_unmap(&d->arena);
    peer_memory_close(&d->peers);
    free(d->bounce);
    free(d->prepared);
    free(d->pointer);
    free(d);
    team->shared = NULL;
}

/* Whatever became of the operation. */
void shared_end(struct team *team, struct op *op)
{
    (void)op;
    if (team->shared->peers.views_held)
        peer_memory_let_go(&team->shared->peers);
}

/* ---- Sleep and failure ---- */

struct sleeper {
    struct team *team;
    int peer; /* whose news it sleeps for */
};

static bool anything_new(void *context)
{
    struct sleeper *sleeper = context;
    struct team_head head;
    if (team_progress(sleeper->team))
        return true;
    return !team_head(sleeper->team, &head) || head.waiting != sleeper->peer;
}

void shared_sleep(struct team *team, int peer, uint64_t timeout_us)
{
    struct sleeper sleeper = {team, peer};
    arena_sleep(&team->shared->arena, team->rank, peer, anything_new, &sleeper, timeout_us);
}

size_t shared_memory(const struct team *team)
{
    return team->shared ? team->shared->arena.size : 0;
}
