/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a team: put in, and run in order. */

#include "engine/progress.h"

#include "base/backoff.h"
#include "base/error.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/calls.h"
#include "engine/failure.h"
#include "engine/op.h"
#include "engine/queue.h"
#include "engine/shared.h"
#include "engine/team.h"
#include "engine/watch.h"
#include "engine/windows.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITS_OFTEN 64 /* operations since the last wait of the program, which it may wait for */

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
    op->whole_seq = team_whole_seq(team);
    op->trace = trace_op_begin(team->trace, op->seq, op->wire_kind, (int)op->call.type, op->call.op, op->call.root,
                               op->call.shown ? op->call.shown_count : op->call.count, op->bytes);
    team_enqueue(team, op, stream);
    team_progress(team);
}

void team_issue(struct team *team, struct op *op, struct tutti_stream *stream)
{
    atomic_store_explicit(&team->waits_since, 0, memory_order_relaxed);
    team_begin(team, op, stream);
    if (atomic_load_explicit(&team->completed, memory_order_relaxed) != op->position + 1)
        engine_notice(team->engine);
}

static tutti_result_t start_op(struct team *team, struct op *op)
{
    op->started = true;
    if (op->kind->counted) {
        trace_op_name(op->trace, &op->route.name, 0, 0);
        calls_start(&team->calls, op->seq, op_call(op));
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

/* A program that has long waited for nothing here hears of ends in another way. */
static void note_waited(const struct team *team, const struct op *op)
{
    uint64_t told = atomic_load_explicit(&team->told, memory_order_relaxed);
    if (told && op->position < told + WAITS_OFTEN)
        trace_op_waited(op->trace, atomic_load_explicit(&team->waits_since, memory_order_relaxed));
}

/* When the user is told, nothing comes into the user's memory any more. */
static void withdraw_windows(struct team *team, const struct op *op)
{
    if (op->kind->needs_links)
        engine_windows_stop(team);
    else
        windows_stop(team);
}

static void end_op(struct team *team, struct op *op, tutti_result_t result)
{
    if (result != TUTTI_SUCCESS)
        withdraw_windows(team, op);
    if (op->kind->end)
        op->kind->end(team, op);
    if (op->owned)
        free(op->owned);
    op->owned = NULL;
    note_end(team, op, result);
    note_waited(team, op);
    trace_op_end(op->team->trace, op->trace, result);
    if (op->stream)
        stream_leave(op->stream, op, result);
    atomic_store_explicit(&team->completed, op->position + 1, memory_order_release); /* only the lock's holder writes */
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

/* A thread that copies piece by piece would soon have the lock again: others try just now. */
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
    int news = linked && began ? engine_poll(engine) : 0;
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
    bool yields = linked && team_yields_first(team), goes_on = began != op->started && !yields;
    if (worked || result != TUTTI_IN_PROGRESS || goes_on)
        return TEAM_MOVED;
    return news && !yields ? TEAM_HEARD : TEAM_STILL;
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

/* A part's operation waits in a call of the whole, for a rank of the whole. */
static void note_wait(const struct team *team, const struct op *op)
{
    const struct team *whole = team->whole;
    struct trace_op *record = whole ? atomic_load_explicit(&whole->carried, memory_order_acquire) : op->trace;
    int peer = whole && op->waiting >= 0 ? team->in_whole[op->waiting] : op->waiting;
    trace_op_wait(record, op->waiting_round, op->waiting_slice, peer);
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
        note_wait(team, op);
    }
    if (op && op->waiting >= 0)
        team_watch(team, op, now);
    lock_release(&team->lock);
}
