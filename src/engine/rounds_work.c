/* SPDX-License-Identifier: Apache-2.0 */
/* Work between messages: multiply, copy, reduce, in pieces. */
#include "engine/rounds_internal.h"

#include "engine/op.h"

#define PIECE (256u << 10) /* bytes */

/* ---- Where blocks lie ---- */

size_t rounds_count(const struct context *c, const struct rounds_run *run, const struct action *action, int32_t block)
{
    const struct call *call = &c->op->call;
    if (call->coll == COLL_ALLTOALLV)
        return call_part(call, block, action->kind != ACTION_RECV).count;
    return slices_span(&c->rounds->slicing, run->slice, block, 1);
}

/* In the user's input or output. */
static unsigned char *user_place(const struct context *c, const struct rounds_run *run, uint8_t buffer, int32_t block)
{
    const struct call *call = &c->op->call;
    if (call->coll == COLL_ALLTOALLV)
        return (unsigned char *)call_part(call, block, buffer == BUFFER_IN).at;
    unsigned char *base = buffer == BUFFER_IN ? (unsigned char *)(uintptr_t)call->in : call->out;
    return base + slices_offset(&c->rounds->slicing, run->slice, block) * c->size;
}

unsigned char *rounds_place(const struct context *c, const struct rounds_run *run, uint8_t buffer, int32_t block)
{
    const struct slicing *slicing = &c->rounds->slicing;
    if (buffer == BUFFER_SCRATCH)
        return run->scratch.bytes + (size_t)block * slicing->stride * c->size;
    if (buffer == BUFFER_IN && c->prepares)
        return run->prepared.bytes +
               (size_t)block * (slicing->cut ? slicing->stride : slices_span(slicing, run->slice, 0, 1)) * c->size;
    return user_place(c, run, buffer, block);
}

/* ---- Work ---- */

/* How many of these elements may be worked on now, each read from `sources` sources; 0: others have their turn first.
 */
static size_t rounds_work_take_piece(struct context *c, size_t elements, size_t sources)
{
    size_t each = c->size * (sources ? sources : 1), most = PIECE / each + 1, n = elements < most ? elements : most;
    if (n * each > c->budget)
        return 0;
    c->budget -= n * each;
    c->team->work += n * each;
    return n;
}

static struct rounds_item *new_item(struct context *c, struct rounds_run *run, enum rounds_kind kind, void *to,
                                    size_t count)
{
    struct rounds_item *item = &run->item;
    item->kind = kind;
    item->finishes = false;
    item->sources = 0;
    item->to = to;
    item->count = count;
    item->size = c->size;
    item->reduction = &c->op->route.reduction;
    return item;
}

/* Of a REDUCE: more sources than fit are folded in turns, the result so far being the first of the next turn. */
static void reduce_sources(struct context *c, struct rounds_run *run, const struct action *action, size_t skip,
                           struct rounds_item *item)
{
    struct cursor *at = &run->at;
    if (at->folded)
        item->from[item->sources++] = item->to;
    for (; item->sources < ROUNDS_SOURCES && at->folded < action->nsrc; at->folded++)
        item->from[item->sources++] =
            rounds_place(c, run, action->src_buffer, action->src_block + at->folded * action->nblocks + at->block) +
            skip;
    item->finishes = action->final && at->folded == action->nsrc;
}

/* The next `count` elements of the block. */
static void work_piece(struct context *c, struct rounds_run *run, const struct action *action, size_t count)
{
    struct cursor *at = &run->at;
    size_t skip = at->done * c->size;
    unsigned char *to = rounds_place(c, run, action->dst_buffer, action->dst_block + at->block) + skip;
    bool copies = action->kind == ACTION_COPY;
    struct rounds_item *item = new_item(c, run, copies ? ROUNDS_COPY : ROUNDS_REDUCE, to, count);
    if (action->kind == ACTION_REDUCE) {
        reduce_sources(c, run, action, skip, item);
        return;
    }
    item->from[item->sources++] = rounds_place(c, run, action->src_buffer, action->src_block + at->block) + skip;
    if (!copies)
        item->from[item->sources++] = run->bounce.bytes + at->arrived + skip;
    item->finishes = !copies && action->final;
}

/* False: the backend has started it. */
static bool work_item(struct context *c, struct rounds_run *run)
{
    struct rounds_item *item = &run->item;
    item->team = c->team;
    atomic_store_explicit(&item->done, false, memory_order_relaxed);
    run->started = true; /* by another thread it may be over before work() returns */
    if (c->rounds->memory->work(item) == ROUNDS_STARTED)
        return false;
    run->started = false;
    return true;
}

static size_t sources_of(const struct action *action)
{
    return action->kind == ACTION_REDUCE ? (size_t)action->nsrc : action->kind == ACTION_RECV_REDUCE ? 2 : 1;
}

static bool lies_there(const struct context *c, const struct rounds_run *run, const struct action *action)
{
    int32_t block = run->at.block;
    return action->kind == ACTION_COPY && rounds_place(c, run, action->dst_buffer, action->dst_block + block) ==
                                              rounds_place(c, run, action->src_buffer, action->src_block + block);
}

/* The whole piece has been worked on; of a REDUCE all its sources. */
static void piece_ends(struct rounds_run *run, const struct action *action)
{
    if (action->kind == ACTION_REDUCE && run->at.folded < action->nsrc)
        return;
    run->at.done += run->piece;
    run->at.folded = 0;
    run->piece = 0;
}

/* False: the budget is spent, or the backend is at work. */
static bool work_block(struct context *c, struct rounds_run *run, const struct action *action)
{
    struct cursor *at = &run->at;
    size_t count = rounds_count(c, run, action, action->block + at->block);
    while (at->done < count && !lies_there(c, run, action)) {
        if (run->started) {
            run->started = false;
            piece_ends(run, action);
            continue;
        }
        if (!run->piece)
            run->piece = rounds_work_take_piece(c, count - at->done, sources_of(action));
        if (!run->piece)
            return false;
        work_piece(c, run, action, run->piece);
        if (!work_item(c, run))
            return false;
        piece_ends(run, action);
    }
    at->arrived += count * c->size;
    at->done = 0;
    return true;
}

static bool is_work(const struct rounds_run *run, const struct action *action)
{
    return run->phase == RUN_FOLD ? action->kind == ACTION_RECV_REDUCE
                                  : action->kind == ACTION_COPY || action->kind == ACTION_REDUCE;
}

static bool work_actions(struct context *c, struct rounds_run *run)
{
    struct cursor *at = &run->at;
    for (; at->action < run->actions; at->action++, at->block = 0) {
        const struct action *action = &run->action[at->action];
        for (; is_work(run, action) && at->block < action->nblocks; at->block++)
            if (!work_block(c, run, action))
                return false;
    }
    return true;
}

/* Inputs of a pre-multiplied sum are multiplied when their slice is. */
static bool rounds_work_prepare(struct context *c, struct rounds_run *run)
{
    static const struct action any = {.kind = ACTION_SEND};
    struct cursor *at = &run->at;
    for (; at->block < rounds_input_blocks(c); at->block++, at->done = 0) {
        size_t count = rounds_count(c, run, &any, at->block);
        while (at->done < count) {
            size_t skip = at->done * c->size;
            if (!run->started && !(run->piece = rounds_work_take_piece(c, count - at->done, 1)))
                return false;
            struct rounds_item *item = &run->item;
            if (!run->started) {
                item = new_item(c, run, ROUNDS_PREPARE, rounds_place(c, run, BUFFER_IN, at->block) + skip, run->piece);
                item->from[item->sources++] = user_place(c, run, BUFFER_IN, at->block) + skip;
                if (!work_item(c, run))
                    return false;
            }
            run->started = false;
            at->done += run->piece;
            run->piece = 0;
        }
    }
    return true;
}

static void enter_round(struct context *c, struct rounds_run *run)
{
    if (run->round == c->rounds->rounds) {
        run->busy = false;
        c->rounds->finished++;
        return;
    }
    run->actions = schedule_round(c->op->route.algorithm, &c->rounds->shape, c->team->rank, run->round, run->action);
    run->at = (struct cursor){0};
    run->phase = RUN_LOCAL;
}

static bool at_links(const struct rounds_run *run)
{
    return run->phase == RUN_POST || run->phase == RUN_WAIT;
}

static bool has_work(const struct rounds_run *run)
{
    return run->busy && !at_links(run) && !rounds_is_at_work(run);
}

/* The backend is looked at once a turn: between two looks it may have ended, and a round would be left out. */
bool rounds_work_on(struct context *c, struct rounds_run *run)
{
    while (run->busy && !at_links(run)) {
        if (rounds_is_at_work(run) || !(run->phase == RUN_PREPARE ? rounds_work_prepare(c, run) : work_actions(c, run)))
            return false;
        if (run->phase == RUN_LOCAL) {
            run->phase = RUN_POST;
            continue;
        }
        run->round += run->phase == RUN_FOLD;
        enter_round(c, run);
    }
    return true;
}

void rounds_enter(struct context *c, struct rounds_run *run)
{
    run->round = 0;
    run->at = (struct cursor){0};
    run->piece = 0;
    run->started = false;
    run->phase = RUN_PREPARE;
    if (!c->prepares)
        enter_round(c, run);
}

bool rounds_work(struct team *team, struct op *op)
{
    struct context c = context_of(team, op, TEAM_TURN);
    bool any = false;
    for (int i = 0; i < c.rounds->runs; i++) {
        any |= has_work(&c.rounds->run[i]);
        rounds_work_on(&c, &c.rounds->run[i]);
    }
    return any;
}
