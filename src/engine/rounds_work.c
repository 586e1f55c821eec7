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

/* How many of these elements may be worked on now, each read from so many sources; 0: others have their turn first. */
static size_t rounds_work_take_piece(struct context *c, size_t elements, size_t sources)
{
    size_t each = c->size * (sources ? sources : 1), most = PIECE / each + 1, n = elements < most ? elements : most;
    if (n * each > c->budget)
        return 0;
    c->budget -= n * each;
    c->team->work += n * each;
    return n;
}

static void reduce_into(struct context *c, bool final, void *to, const void *const *sources, int n, size_t count)
{
    const struct reduction *reduction = &c->op->route.reduction;
    reduction_apply(reduction, to, sources, n, count);
    if (final && reduction_needs_finish(reduction))
        reduction_finish(reduction, to, to, count);
}

/* More sources than fit are folded in turns, the result so far being the first of the next turn. */
static void local_reduce(struct context *c, struct rounds_run *run, const struct action *action, void *to, size_t skip,
                         size_t count)
{
    const void *sources[64];
    for (int32_t done = 0; done < action->nsrc;) {
        int n = 0;
        if (done)
            sources[n++] = to;
        for (; n < 64 && done < action->nsrc; done++)
            sources[n++] =
                rounds_place(c, run, action->src_buffer, action->src_block + done * action->nblocks + run->at.block) +
                skip;
        reduce_into(c, action->final && done == action->nsrc, to, sources, n, count);
    }
}

/* The next `count` elements of the block. */
static void work_piece(struct context *c, struct rounds_run *run, const struct action *action, size_t count)
{
    const struct cursor *at = &run->at;
    size_t skip = at->done * c->size;
    unsigned char *to = rounds_place(c, run, action->dst_buffer, action->dst_block + at->block) + skip;
    if (action->kind == ACTION_REDUCE) {
        local_reduce(c, run, action, to, skip, count);
        return;
    }
    const unsigned char *from = rounds_place(c, run, action->src_buffer, action->src_block + at->block) + skip;
    const void *sources[2] = {from, run->bounce.bytes + at->arrived + skip};
    if (action->kind == ACTION_RECV_REDUCE)
        reduce_into(c, action->final, to, sources, 2, count);
    else
        memory_copy(to, from, count * c->size);
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

/* False: the budget is spent. */
static bool work_block(struct context *c, struct rounds_run *run, const struct action *action)
{
    struct cursor *at = &run->at;
    size_t count = rounds_count(c, run, action, action->block + at->block);
    while (at->done < count && !lies_there(c, run, action)) {
        size_t n = rounds_work_take_piece(c, count - at->done, sources_of(action));
        if (!n)
            return false;
        work_piece(c, run, action, n);
        at->done += n;
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
            size_t n = rounds_work_take_piece(c, count - at->done, 1), skip = at->done * c->size;
            if (!n)
                return false;
            reduction_prepare(&c->op->route.reduction, rounds_place(c, run, BUFFER_IN, at->block) + skip,
                              user_place(c, run, BUFFER_IN, at->block) + skip, n);
            at->done += n;
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

static bool has_work(const struct rounds_run *run)
{
    return run->busy && run->phase != RUN_POST && run->phase != RUN_WAIT;
}

bool rounds_work_on(struct context *c, struct rounds_run *run)
{
    while (has_work(run)) {
        if (!(run->phase == RUN_PREPARE ? rounds_work_prepare(c, run) : work_actions(c, run)))
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
