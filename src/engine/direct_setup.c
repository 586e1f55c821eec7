/* SPDX-License-Identifier: Apache-2.0 */
/* Around the direct executor: opening it, setting out on an operation, sleeping, failing. */
#include "engine/direct_internal.h"

#include "base/error.h"
#include "base/param.h"
#include "transport/shm/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Setting out --------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Elements of a block of a slice, so that what the busiest rank stages fits its slot; and how many slices that makes. */
static void cut_slices(struct direct_context *c)
{
    struct direct_run *run = &c->op->direct;
    const struct direct_plan *plan = c->plan;
    size_t payload = c->direct->arena.slot_size - sizeof(struct slot), count = c->op->call.count;
    size_t parts = c->cut && plan->blocks > 0 ? (size_t)plan->blocks : 1, line = CACHE_LINE / c->size;
    size_t most = plan->staged_most ? payload / (size_t)plan->staged_most / c->size / line * line : count;
    size_t whole = (count + parts - 1) / parts;
    if (whole * c->size >= 4096)
        whole = round_up(whole, line);
    run->stride = whole < most ? whole : most;
    if (run->stride == 0)
        run->stride = 1;
    run->slices = (count + run->stride * parts - 1) / (run->stride * parts);
    if (run->slices == 0 && c->op->call.coll == COLL_BARRIER)
        run->slices = 1;
}

static bool told(struct direct_context *c, int peer)
{
    return atomic_load_explicit(&c->direct->arena.ranks[peer].reads, memory_order_acquire) != 0;
}

/* Can all ranks read each other's memory? Every rank has tried when it joined. */
static tutti_result_t learn_reads(struct direct_context *c)
{
    struct direct *d = c->direct;
    if (d->reads_known)
        return TUTTI_SUCCESS;
    d->reads = true;
    for (int peer = 0; peer < d->arena.nranks; peer++) {
        if (!told(c, peer)) {
            tutti_result_t result = direct_blocked(c, peer, told);
            if (result != TUTTI_SUCCESS)
                return result;
        }
        d->reads &= atomic_load_explicit(&d->arena.ranks[peer].reads, memory_order_relaxed) == 1;
    }
    d->reads_known = true;
    return TUTTI_SUCCESS;
}

/* May peers read this buffer where it lies? Cheaply if it is in a shared region or they are in this process; by cross-memory
 * attach only if the user asks for that: staging was faster wherever it was measured. */
static bool worth_showing(const struct direct_context *c, const void *buffer)
{
    uint64_t offset;
    uint32_t region;
    int fd;
    int64_t bytes = (int64_t)team_vector_bytes(c->team, &c->op->call);
    if (!buffer || bytes < param_int(PARAM_DIRECT_SHOW))
        return false;
    return c->team->one_process || bytes >= param_int(PARAM_DIRECT_ATTACH) || region_locate(buffer, &region, &offset, &fd);
}

/* Not by the one-shot algorithm: in place, its ranks write what others still read. */
static bool may_show(const struct direct_context *c)
{
    const struct call *call = &c->op->call;
    return call->coll != COLL_BARRIER && !(call->coll == COLL_ALLREDUCE && c->plan->blocks == 1);
}

static tutti_result_t reserve_bounce(struct direct_context *c)
{
    struct direct *d = c->direct;
    size_t blocks = (size_t)(c->plan->scratch > 0 ? c->plan->scratch : 1), want = blocks * c->op->direct.stride * c->size;
    bool used = schedule_reduces(c->op->call.coll) && (int64_t)team_vector_bytes(c->team, &c->op->call) >= param_int(PARAM_DIRECT_ATTACH);
    if (!used || d->bounce_size >= want)
        return TUTTI_SUCCESS;
    unsigned char *bigger = aligned_alloc(CACHE_LINE, (want + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!bigger)
        return team_fail(c->team, TUTTI_SYSTEM_ERROR, c->team->rank, "no memory for reading peers' buffers");
    free(d->bounce);
    d->bounce = bigger;
    d->bounce_size = want;
    return TUTTI_SUCCESS;
}

/* How large slices are, and whether our buffers are read where they lie. Waits for peers that have not said what they can. */
tutti_result_t direct_settle(struct direct_context *c)
{
    struct direct_run *run = &c->op->direct;
    cut_slices(c);
    bool in = may_show(c) && worth_showing(c, c->op->call.in), out = may_show(c) && worth_showing(c, c->op->call.out);
    tutti_result_t result = in || out ? learn_reads(c) : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS)
        result = reserve_bounce(c);
    if (result != TUTTI_SUCCESS)
        return result;
    run->in_shown = in && c->direct->reads;
    run->out_shown = out && c->direct->reads;
    run->settled = true;
    return TUTTI_SUCCESS;
}

static tutti_result_t reserve_pointers(struct direct *d, int scratch, int nranks)
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

tutti_result_t direct_start(struct team *team, struct op *op)
{
    struct shape shape = {op->call.coll, team->nranks, op->call.root};
    tutti_result_t result = direct_plan(team, op->route.algorithm, &shape, &op->route.plan);
    if (result == TUTTI_SUCCESS)
        result = reserve_pointers(team->direct, op->route.plan->scratch, team->nranks);
    if (result != TUTTI_SUCCESS)
        return team_fail(team, result, team->rank, error_last());
    return TUTTI_SUCCESS;
}

/* Rank 0 shows a word of its memory; every rank says whether it can read that. */
static void try_reading(struct team *team)
{
    struct direct *d = team->direct;
    struct arena_head *head = d->arena.head;
    bool reads = team->rank == 0 || peer_probe((uint32_t)head->maker_pid, head->maker_word, head->maker_value);
    if (team->rank == 0 && !param_int(PARAM_SHM_CMA))
        reads = team->nranks == 1;
    atomic_store_explicit(&d->arena.ranks[team->rank].reads, reads ? 1 : 2, memory_order_release);
}

tutti_result_t direct_open(struct team *team, int fd)
{
    struct direct *d = calloc(1, sizeof *d);
    if (!d || !peer_memory_open(&d->peers, team->nranks)) {
        free(d);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for direct collectives");
    }
    tutti_result_t result = arena_map(&d->arena, fd, team->nranks);
    if (result != TUTTI_SUCCESS) {
        peer_memory_close(&d->peers);
        free(d);
        return result;
    }
    lock_take(&team->engine->lock); /* the engine's thread looks at it when a peer is lost */
    team->direct = d;
    lock_release(&team->engine->lock);
    try_reading(team);
    return TUTTI_SUCCESS;
}

void direct_close(struct team *team)
{
    struct direct *d = team->direct;
    if (!d)
        return;
    for (int coll = 0; coll < COLL_COUNT; coll++)
        direct_plan_free(d->plan[coll]);
    arena_unmap(&d->arena);
    peer_memory_close(&d->peers);
    free(d->bounce);
    free(d->pointer);
    free(d);
    team->direct = NULL;
}

/* ---- Sleep and failure --------------------------------------------------------------------------------------------- */

bool direct_broken(struct direct_context *c, tutti_result_t *result)
{
    struct arena_head *head = c->direct->arena.head;
    int failed = atomic_load(&head->failed);
    if (!failed)
        return false;
    int culprit = failed - 2;
    int theirs = atomic_load_explicit(&head->failed_result, memory_order_relaxed);
    char sentence[160];
    snprintf(sentence, sizeof sentence, "another rank of this host found the communicator broken, because of rank %d", culprit);
    *result = team_fail(c->team, theirs > 0 && theirs < TUTTI_RESULT_COUNT ? (tutti_result_t)theirs : TUTTI_REMOTE_ERROR, culprit, sentence);
    return true;
}

/* Not ready. The second look comes after the one at `gone`: what a rank published before it left still counts. */
tutti_result_t direct_blocked(struct direct_context *c, int peer, direct_ready_fn *ready)
{
    struct arena_rank *rank = &c->direct->arena.ranks[peer];
    op_waits(c->op, peer, (uint32_t)c->op->direct.round, (uint32_t)c->op->direct.slice);
    if (atomic_load_explicit(&rank->gone, memory_order_acquire) || atomic_load_explicit(&c->team->gone[peer], memory_order_acquire)) {
        if (ready(c, peer))
            return TUTTI_SUCCESS;
        char sentence[160];
        snprintf(sentence, sizeof sentence, "rank %d (process %u) is gone; it did not reach %s, operation %u", peer,
                 c->team->process[peer].pid, schedule_coll_name(c->op->call.coll), c->op->seq);
        return team_fail(c->team, TUTTI_REMOTE_ERROR, peer, sentence);
    }
    tutti_result_t result = TUTTI_IN_PROGRESS;
    direct_broken(c, &result);
    return result;
}

struct sleeper {
    struct team *team;
    int peer; /* whose news it sleeps for */
};

static bool anything_new(void *context)
{
    struct sleeper *sleeper = context;
    struct team_head head;
    if (atomic_load(&sleeper->team->failed) || team_progress(sleeper->team, false))
        return true;
    return !team_head(sleeper->team, &head) || head.waiting != sleeper->peer;
}

void direct_sleep(struct team *team, int peer, uint64_t timeout_us)
{
    struct sleeper sleeper = {team, peer};
    arena_sleep(&team->direct->arena, team->rank, peer, anything_new, &sleeper, timeout_us);
}

void direct_tell_failure(struct team *team)
{
    struct arena_head *head = team->direct->arena.head;
    int none = 0;
    atomic_store_explicit(&head->failed_result, TUTTI_REMOTE_ERROR, memory_order_relaxed);
    if (atomic_compare_exchange_strong(&head->failed, &none, team->culprit + 2))
        arena_wake(&team->direct->arena, -1);
}

void direct_gone(struct team *team, int rank)
{
    atomic_store(&team->direct->arena.ranks[rank].gone, true);
    arena_wake(&team->direct->arena, -1);
}

size_t direct_memory(const struct team *team)
{
    return team->direct ? team->direct->arena.size : 0;
}
