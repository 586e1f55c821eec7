/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a team: enqueue, run in order, wait. */
#include "engine/team.h"

#include "base/backoff.h"
#include "base/error.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/shared.h"
#include "engine/queue.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAP_US      50000
#define PATIENCE_MS 10 /* with a full queue of which nothing ends */
#define LONG_PATIENCE_MS                                                                                               \
    1000 /* with one of this many operations: a peer is stopped rather than called later by the same thread */
#define LONG_QUEUE              (1u << 16)
#define LOOK_EVERY              256 /* spins between two looks at the clock */
#define LOOKS_BEFORE_YIELD      8
#define LOOKS_ALONE             300 /* when every rank can have a processor */
#define LOOKS_AT_A_RUNNING_PEER 200 /* when not every rank can */

/* ---- Links ---- */

tutti_result_t team_link(struct team *team, int rank, struct link **out)
{
    if (team->link[rank]) {
        *out = team->link[rank];
        return TUTTI_SUCCESS;
    }
    tutti_result_t result = link_get(team->engine->links, &team->process[rank],
                                     wire_session(&team->process[team->rank], &team->process[rank]), &team->link[rank]);
    if (result == TUTTI_SUCCESS)
        link_be_patient(team->link[rank], team->timeout_ms);
    *out = team->link[rank];
    return result;
}

/* ---- Queue ---- */

void team_enqueue(struct team *team, struct op *op, struct tutti_stream *stream)
{
    uint64_t position = atomic_load_explicit(&team->issued, memory_order_relaxed);
    op->team = team;
    op->position = position;
    op->stream = stream;
    if (stream)
        stream_enter(stream, op);
    atomic_store_explicit(&team->issued, position + 1, memory_order_release);
}

void team_begin(struct team *team, struct op *op, struct tutti_stream *stream)
{
    op->seq = op->kind->counted ? team_next_seq(team) : ++team->p2p_seq;
    op->trace = trace_op_begin(team->trace, op->seq, op->wire_kind, (int)op->call.type, op->call.op, op->call.root,
                               op->call.count, op->bytes);
    team_enqueue(team, op, stream);
    team_progress(team);
}

void team_issue(struct team *team, struct op *op, struct tutti_stream *stream)
{
    team_begin(team, op, stream);
    if (atomic_load_explicit(&team->completed, memory_order_relaxed) != op->position + 1)
        engine_notice(team->engine);
}

static tutti_result_t start_op(struct team *team, struct op *op)
{
    op->started = true;
    if (op->kind->counted) {
        trace_op_name(op->trace, &op->route.name, 0, 0);
        calls_start(team, op->seq, op_call(op));
    }
    return op->kind->start ? op->kind->start(team, op) : TUTTI_SUCCESS;
}

static void note_end(struct team *team, const struct op *op, tutti_result_t result)
{
    if (result != TUTTI_SUCCESS) {
        if (op->position < atomic_load(&team->failed_from))
            atomic_store(&team->failed_from, op->position);
        trace_count(team->engine->trace, WIRE_COUNTER_OPERATIONS_FAILED, 1);
    } else if (op->kind->counted) {
        atomic_store_explicit(&team->finished, op->seq, memory_order_relaxed);
    }
}

static void end_op(struct team *team, struct op *op, tutti_result_t result)
{
    if (op->kind->end)
        op->kind->end(team, op);
    if (op->owned)
        free(op->owned);
    op->owned = NULL;
    note_end(team, op, result);
    trace_op_end(op->team->trace, op->trace, result);
    if (op->stream)
        stream_leave(op->stream, op, result);
    atomic_store_explicit(&team->completed, op->position + 1, memory_order_release); /* one writer: who has the lock */
}

static bool may_start(const struct op *op)
{
    return !op->stream || stream_turn(op->stream, op);
}

/* One operation as far as it goes, with the engine's lock if it needs that. */
static tutti_result_t attempt(struct team *team, struct op *op)
{
    tutti_result_t result = TUTTI_SUCCESS;
    bool failed = atomic_load_explicit(&team->failed, memory_order_acquire);
    if (failed && !team_allows(team, op))
        return team_failure(team);
    if (!op->started)
        result = may_start(op) ? start_op(team, op) : TUTTI_IN_PROGRESS;
    if (result == TUTTI_SUCCESS && op->kind->step)
        result = op->kind->step(team, op);
    bool orphaned = failed && !op->kind->counted; /* its peers may issue no more */
    return orphaned && result == TUTTI_IN_PROGRESS ? team_failure(team) : result;
}

/* Each other rank of this process knows how far the failed team still goes, and has let go of its lock since: it reads
 * no buffers of ours of operations behind that. */
static bool siblings_quiet(struct team *team)
{
    struct engine *engine = team->engine;
    struct wire_abort news = team_news(team);
    bool quiet = true;
    if (!lock_try(&engine->lock))
        return false;
    list_each(node, &engine->teams)
    {
        struct team *sibling = list_entry(node, struct team, node);
        if (sibling == team || sibling->id != team->id || sibling->quiet <= news.finished)
            continue;
        team_hear(sibling, &news);
        if (lock_try(&sibling->lock)) {
            sibling->quiet = atomic_load(&sibling->limit);
            lock_release(&sibling->lock);
        }
        quiet &= sibling->quiet <= news.finished;
    }
    lock_release(&engine->lock);
    return quiet;
}

/* Must an operation that failed still be kept, because ranks of this process may be reading its buffers where they lie?
 */
static bool lingers(struct team *team, const struct op *op)
{
    return op->kind->is_shown && op->started && op->kind->is_shown(op) && !siblings_quiet(team);
}

/* Who copies piece by piece would soon have the lock again: others try just now. */
static void release_engine(struct engine *engine)
{
    bool copies = link_copies(engine->links);
    engine_met(engine);
    lock_release(&engine->lock);
    if (copies)
        sched_yield();
}

static enum team_moved step_head(struct team *team)
{
    struct engine *engine = team->engine;
    uint64_t position = atomic_load_explicit(&team->completed, memory_order_relaxed);
    if (position == atomic_load_explicit(&team->issued, memory_order_acquire))
        return TEAM_STILL;
    struct op *op = queue_head(&team->queue, position);
    bool linked = op->kind->needs_links; /* of an operation that has been issued: not before */
    if (linked && !lock_try(&engine->lock))
        return TEAM_STILL;
    bool began = op->started;
    if (linked && began)
        engine_poll(engine);
    tutti_result_t result = attempt(team, op);
    if (result != TUTTI_SUCCESS && result != TUTTI_IN_PROGRESS)
        team_stop(team);
    if (result != TUTTI_SUCCESS && result != TUTTI_IN_PROGRESS && lingers(team, op))
        result = TUTTI_IN_PROGRESS;
    if (result != TUTTI_IN_PROGRESS)
        end_op(team, op, result);
    if (linked)
        release_engine(engine);
    bool worked = result == TUTTI_IN_PROGRESS && op->started && op->kind->work && op->kind->work(team, op);
    if (team_should_pause(team))
        return TEAM_PAUSED;
    return worked || result != TUTTI_IN_PROGRESS || began != op->started ? TEAM_MOVED : TEAM_STILL;
}

enum team_moved team_progress(struct team *team)
{
    enum team_moved any = TEAM_STILL, moved = TEAM_MOVED;
    if (!lock_try(&team->lock))
        return TEAM_STILL;
    team->work = 0;
    while (moved == TEAM_MOVED) {
        moved = step_head(team);
        any = moved > any ? moved : any;
    }
    lock_release(&team->lock);
    return any;
}

static bool head_may_move(struct team *team)
{
    uint64_t position = atomic_load_explicit(&team->completed, memory_order_relaxed);
    if (position == atomic_load_explicit(&team->issued, memory_order_acquire))
        return false;
    const struct op *op = queue_head(&team->queue, position);
    if (atomic_load(&team->failed))
        return true;
    if (!op->started)
        return may_start(op);
    return !op->kind->may_move || op->kind->may_move(op);
}

bool team_may_move(struct team *team)
{
    if (!lock_try(&team->lock))
        return false;
    bool may = head_may_move(team);
    lock_release(&team->lock);
    return may;
}

void team_note_wait(struct team *team, uint64_t now)
{
    if (!lock_try(&team->lock))
        return;
    uint64_t position = atomic_load_explicit(&team->completed, memory_order_relaxed);
    struct op *op = position == atomic_load_explicit(&team->issued, memory_order_acquire)
                        ? NULL
                        : queue_head(&team->queue, position);
    if (op && op->waiting != op->noted) {
        op->noted = op->waiting;
        trace_op_wait(op->trace, op->waiting_round, op->waiting_slice, op->waiting);
    }
    if (op && op->waiting >= 0)
        team_watch(team, op, now);
    lock_release(&team->lock);
}

/* ---- Waiting ---- */

bool team_head(struct team *team, struct team_head *head)
{
    if (!lock_try(&team->lock))
        return false;
    uint64_t position = atomic_load_explicit(&team->completed, memory_order_relaxed);
    bool queued = position != atomic_load_explicit(&team->issued, memory_order_acquire);
    if (queued) {
        const struct op *op = queue_head(&team->queue, position);
        *head = (struct team_head){op->kind, op->started, op->waiting};
    }
    lock_release(&team->lock);
    return queued;
}

/* Waits for the operation at the head without a processor. */
static void sleep_for_news(struct team *team, uint64_t deadline)
{
    uint64_t left = deadline == UINT64_MAX ? NAP_US : (uint64_t)clock_left_ms(deadline) * 1000,
             nap = left < NAP_US ? left : NAP_US;
    struct team_head head;
    if (!team_head(team, &head)) {
        usleep(BACKOFF_US); /* another thread runs it, or has ended it */
        return;
    }
    trace_count(team->engine->trace, WIRE_COUNTER_SLEEPS, 1);
    if (head.kind->sleep && head.started)
        head.kind->sleep(team, head.waiting, nap);
    else if (head.kind->needs_links)
        engine_sleep(team->engine, team, (int)(nap / 1000));
    else
        usleep(200); /* behind a stream: another team is being waited for */
}

/* Is the rank that is waited for running just now? Then its news come sooner than another switch to it. */
static bool awaited_runs(const struct team *team)
{
    int peer = atomic_load_explicit(&team->awaited, memory_order_relaxed);
    return team->shared && peer >= 0 && peer < team->nranks && arena_is_running(&team->shared->arena, peer);
}

/*
 * Where every rank can have a processor, many looks are cheaper than a system call. Elsewhere the peer may need this
 * very one: one look, then the others' turn, unless the peer was seen running on another one; but it may have been
 * switched from since, so not for ever.
 */
static void spin(const struct team *team, unsigned spins)
{
    if (team->crowded && team->shared)
        arena_say_running(&team->shared->arena, team->rank);
    bool look_on = team->crowded ? spins < (awaited_runs(team) ? LOOKS_AT_A_RUNNING_PEER : 1)
                                 : spins <= LOOKS_ALONE || spins % LOOKS_BEFORE_YIELD != LOOKS_BEFORE_YIELD - 1;
    if (look_on)
        cpu_relax();
    else
        sched_yield();
}

/* What else there may be to do, as a failure or the engine's part, is found by every sixteenth look. A word and a value
 * of two waits, if it should come to that, are as harmless. */
static bool worth_a_look(const struct team *team, unsigned spins)
{
    const _Atomic uint64_t *word = atomic_load_explicit(&team->awaited_word, memory_order_relaxed);
    return !word || spins % 16 == 15 ||
           atomic_load_explicit(word, memory_order_relaxed) >=
               atomic_load_explicit(&team->awaited_value, memory_order_relaxed);
}

static bool goes_on(const struct team *team, uint64_t position, const _Atomic bool *enough)
{
    return atomic_load_explicit(&team->completed, memory_order_acquire) < position &&
           !(enough && atomic_load_explicit(enough, memory_order_acquire));
}

/* Waits, progressing, until `position` operations have completed, it is enough, or it is time. */
static void wait_until(struct team *team, uint64_t position, const _Atomic bool *enough, uint64_t deadline)
{
    struct engine *engine = team->engine;
    uint64_t patience = (uint64_t)param_int(PARAM_SPIN) * NS_PER_US, give_up = 0;
    unsigned spins = 0;
    bool watched = false;
    while (goes_on(team, position, enough)) {
        if (worth_a_look(team, spins) && team_progress(team)) {
            spins = 0;
            give_up = 0;
            continue;
        }
        spin(team, spins);
        if (spins % 32 == 31)
            engine_assist(engine);
        if (++spins % (team->crowded ? 16 * LOOKS_BEFORE_YIELD : LOOK_EVERY))
            continue;
        if (!watched) {
            atomic_fetch_add(&engine->attending, 1);
            atomic_store(&team->attended, true);
            watched = true;
        }
        uint64_t now = clock_ns();
        team_note_wait(team, now);
        if (now >= deadline)
            break;
        give_up = give_up ? give_up : now + patience;
        if (now < give_up)
            continue;
        sleep_for_news(team, deadline);
        give_up = 0;
    }
    if (watched) {
        atomic_store(&team->attended, false);
        atomic_fetch_sub(&engine->attending, 1);
        if (atomic_load(&team->completed) !=
            atomic_load(&team->issued)) /* of other streams: the thread took them for attended */
            engine_notice(engine);
    }
    uint32_t activity = atomic_load_explicit(&engine->activity,
                                             memory_order_relaxed); /* a hint: of two threads at once one may count */
    atomic_store_explicit(&engine->activity, activity + 1, memory_order_relaxed);
}

/* Who has heard of the failure calls no more, or may wait elsewhere for peers that wait here for those calls. */
static tutti_result_t refuse(struct team *team)
{
    team_end_calls(team);
    return team_report(team);
}

tutti_result_t team_wait_or(struct team *team, uint64_t position, const _Atomic bool *enough)
{
    wait_until(team, position, enough, UINT64_MAX);
    return atomic_load_explicit(&team->completed, memory_order_acquire) < position ? TUTTI_SUCCESS
                                                                                   : team_wait(team, position);
}

tutti_result_t team_wait(struct team *team, uint64_t position)
{
    if (atomic_load_explicit(&team->completed, memory_order_acquire) < position)
        wait_until(team, position, NULL, UINT64_MAX);
    bool heard = atomic_load_explicit(&team->told, memory_order_relaxed) >= position;
    if (!heard)
        atomic_store_explicit(&team->told, position, memory_order_relaxed);
    return !heard && position <= atomic_load(&team->failed_from) ? TUTTI_SUCCESS : refuse(team);
}

/* ---- A place in the queue ---- */

/* Waits for room while operations end. Where none does they may wait for calls that this very thread is to make, for
 * another rank or on another stream: the queue may grow. Where it is long already, so slowly that a peer which is
 * stopped for half an hour costs no more memory than a program can spare. */
static void wait_for_room(struct team *team, uint64_t position)
{
    uint64_t completed;
    while (position - (completed = atomic_load(&team->completed)) >= team->queue.limit) {
        bool is_long = team->queue.limit >= LONG_QUEUE;
        wait_until(team, completed + 1, NULL, clock_deadline_ms(is_long ? LONG_PATIENCE_MS : PATIENCE_MS));
        if (atomic_load(&team->completed) == completed)
            team->queue.limit += is_long ? LONG_QUEUE / 256 : team->queue.limit;
    }
}

tutti_result_t team_place(struct team *team, bool collective, struct op **out)
{
    uint64_t position = atomic_load_explicit(&team->issued, memory_order_relaxed);
    if (position - atomic_load_explicit(&team->completed, memory_order_acquire) >= team->queue.limit)
        wait_for_room(team, position);
    if (atomic_load_explicit(&team->failed, memory_order_relaxed) && !(collective && team_takes_collective(team)))
        return refuse(team);
    if (atomic_load_explicit(&team->excused, memory_order_acquire))
        return error_set(TUTTI_REMOTE_ERROR, "rank %d: %s", team->rank, team->excused_sentence);
    struct op *op = queue_tail(&team->queue, position, atomic_load_explicit(&team->completed, memory_order_acquire));
    if (!op)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a queue of more than %llu operations",
                         (unsigned long long)team->queue.limit);
    op_clear(op);
    *out = op;
    return TUTTI_SUCCESS;
}

/* ---- Routes ---- */

size_t team_vector_bytes(const struct team *team, const struct call *call)
{
    size_t bytes = call->count * type_size(call->type);
    return schedule_cuts_vector(call->coll) ? bytes : bytes * (size_t)team->nranks;
}

static const struct op_kind *kind_of(const struct team *team, const struct algorithm *algorithm,
                                     const struct call *call)
{
    if (team->nranks == 1 && call->coll != COLL_ALLTOALLV && call->in == call->out && call->op != TUTTI_AVG &&
        !call->premul)
        return &op_nothing;
    bool fits = team->shared && (algorithm->flags & ALGORITHM_DIRECT) && call->coll != COLL_ALLTOALLV;
    return fits ? &op_shared : &op_rounds;
}

static uint32_t signature(const struct call *call)
{
    uint64_t hash = mix64(call->count * 0x9e3779b97f4a7c15ull + (uint64_t)(call->root + 2) * 977 + call->premul);
    if (call->coll == COLL_ALLTOALLV)
        hash = 0;
    return wire_signature(call->coll, call->type, call->op < 0 ? 7u : (unsigned)call->op, (uint32_t)hash);
}

static tutti_result_t find_route(struct team *team, const struct call *call, struct route *route)
{
    uint32_t capabilities = (team->shared ? CHOICE_DIRECT : 0) | (team->levels ? CHOICE_HOSTS : 0);
    route->algorithm =
        choice_pick(team->choices, call->coll, team->nranks, team_vector_bytes(team, call), capabilities, team->class);
    route->kind = kind_of(team, route->algorithm, call);
    route->signature = signature(call);
    route->plan = NULL;
    memset(&route->name, 0, sizeof route->name);
    snprintf(route->name.text, sizeof route->name.text, "%s", route->algorithm->name);
    if (call->op < 0)
        return TUTTI_SUCCESS;
    return reduction_init(&route->reduction, call->type, (tutti_op_t)call->op, team->nranks,
                          call->premul ? &call->scalar : NULL);
}

/* By the queue. */
static __attribute__((noinline)) tutti_result_t issue_call(struct team *team, const struct call *call, void *owned,
                                                           struct tutti_stream *stream)
{
    struct op *op;
    tutti_result_t placed = team_place(team, true, &op);
    if (placed != TUTTI_SUCCESS) {
        free(owned);
        return placed;
    }
    uint64_t key[2] = {call->count ^ (uint64_t)(call->in == call->out) << 63,
                       (uint64_t)call->coll << 56 | (uint64_t)call->type << 48 | (uint64_t)(call->op + 1) << 40 |
                           1ull << 39 | (uint64_t)(uint32_t)call->root};
    if (call->premul || key[0] != team->route_key[0] || key[1] != team->route_key[1]) {
        team->route_key[1] = 0;
        tutti_result_t result = find_route(team, call, &team->route);
        if (result != TUTTI_SUCCESS) {
            free(owned);
            return result;
        }
        team->route_key[0] = key[0];
        team->route_key[1] = call->premul ? 0 : key[1];
    }
    op->call = *call;
    op->route = team->route;
    op->kind = team->route.kind;
    op->wire_kind = (enum wire_collective)call->coll;
    op->bytes = team_vector_bytes(team, call);
    op->owned = owned;
    team_issue(team, op, stream);
    return TUTTI_SUCCESS;
}

tutti_result_t team_collective(struct team *team, const struct call *call, void *owned, struct tutti_stream *stream)
{
    if (team->shared && !stream &&
        shared_exchange_now(team, call)) /* nothing of alltoallv, which alone has something owned */
        return TUTTI_SUCCESS;
    return issue_call(team, call, owned, stream);
}

tutti_result_t team_do(struct team *team, const struct call *call)
{
    tutti_result_t result = team_collective(team, call, NULL, NULL);
    return result == TUTTI_SUCCESS ? team_wait(team, atomic_load(&team->issued)) : result;
}

tutti_result_t team_tell_all(struct team *team, const void *mine, size_t size, void *all)
{
    return team_do(
        team,
        &(struct call){.coll = COLL_ALLGATHER, .type = TUTTI_UINT8, .count = size, .op = -1, .in = mine, .out = all});
}
