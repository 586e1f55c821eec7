/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules over links. A vector is cut into slices; every slice in flight is a run with its own round. A round posts
 * its receives and sends; when all are complete its reductions are applied, in the order of the schedule, and the next
 * round begins. So results do not depend on the order of arrival.
 */
#include "engine/rounds_internal.h"

#include "base/error.h"
#include "base/known.h"
#include "base/param.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIGHT (32u << 10) /* bytes that are copied and reduced under the engine's lock, to save letting it go */

/* Blocks of an action lie one behind the other when the buffer is cut as the slice is. */
static bool contiguous(const struct context *c, const struct action *action)
{
    bool whole = c->rounds->slicing.cut || c->rounds->slices == 1;
    return action->nblocks <= 1 || (whole && c->op->call.coll != COLL_ALLTOALLV);
}

static size_t run_length(const struct context *c, const struct rounds_run *run, const struct action *action)
{
    size_t count = 0;
    for (int32_t i = 0; i < action->nblocks; i++)
        count += rounds_count(c, run, action, action->block + i);
    return count * c->size;
}

/* ---- Messages ---- */

/* Tags need the position among the messages between the same two ranks in this round. */
static uint32_t ordinal(const struct rounds_run *run, int index, int peer, bool sends)
{
    uint32_t position = 0;
    for (int i = 0; i < index; i++)
        position += run->transfer[i].peer == peer && run->transfer[i].sends == sends;
    return position;
}

static void rounds_post(struct context *c, struct rounds_run *run, const struct action *action, void *data,
                        size_t length)
{
    bool sends = action->kind == ACTION_SEND;
    int index = run->transfers.count;
    struct transfer *transfer = &run->transfer[index];
    struct link *link;
    if (index == c->rounds->most || team_link(c->team, action->peer, &link) != TUTTI_SUCCESS) {
        transfers_note(&run->transfers, action->peer, TUTTI_SYSTEM_ERROR);
        return;
    }
    uint32_t me = (uint32_t)c->team->rank, peer = (uint32_t)action->peer;
    struct wire_tag tag = {.comm = c->team->id,
                           .seq = c->op->seq,
                           .slice = (uint32_t)run->slice,
                           .round = (uint32_t)run->round,
                           .message = ordinal(run, index, action->peer, sends),
                           .from = sends ? me : peer,
                           .to = sends ? peer : me};
    if (c->rounds->memory->place && data)
        data = c->rounds->memory->place(data);
    transfer_fill(transfer, &run->transfers, action->peer, sends, tag, op_call(c->op), data, length);
    if (sends)
        transfer->send.asks = c->op->route.bounded;
    run->transfers.count++;
    run->transfers.pending++;
    transfer_post(transfer, link);
}

/* One message, or one for each block where blocks lie apart at either end. `bounce`: where to receive instead of in
 * place, or NULL. */
static void post_action(struct context *c, struct rounds_run *run, const struct action *action, unsigned char *bounce)
{
    uint8_t buffer = action->kind == ACTION_SEND ? action->src_buffer : action->dst_buffer;
    int32_t block = action->kind == ACTION_SEND ? action->src_block : action->dst_block;
    if (contiguous(c, action) || (buffer == BUFFER_SCRATCH && c->op->call.coll == COLL_BARRIER)) {
        void *data = bounce ? bounce : action->nblocks ? rounds_place(c, run, buffer, block) : NULL;
        rounds_post(c, run, action, data, run_length(c, run, action));
        return;
    }
    for (int32_t i = 0; i < action->nblocks && run->transfers.result == TUTTI_SUCCESS; i++) {
        size_t length = rounds_count(c, run, action, action->block + i) * c->size;
        rounds_post(c, run, action, bounce ? bounce : rounds_place(c, run, buffer, block + i), length);
        bounce = bounce ? bounce + length : NULL;
    }
}

/* ---- A round ---- */

static void workspace_drop(const struct rounds_memory *memory, struct workspace *space)
{
    known_remove(space->known);
    if (space->bytes)
        memory->release(space->bytes, space->size);
}

static tutti_result_t workspace_ensure(const struct rounds_memory *memory, struct workspace *space, size_t want)
{
    if (space->size >= want)
        return TUTTI_SUCCESS;
    size_t size = (want + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    unsigned char *bigger = memory->allocate(size);
    if (!bigger)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %zu bytes of scratch", want);
    workspace_drop(memory, space);
    *space = (struct workspace){bigger, want, known_add(bigger, size)};
    return TUTTI_SUCCESS;
}

/* Receives first: then a fast peer finds them posted. */
static tutti_result_t post_round(struct context *c, struct rounds_run *run)
{
    size_t bounce = 0;
    transfers_begin(&run->transfers);
    for (int i = 0; i < run->actions; i++)
        if (run->action[i].kind == ACTION_RECV_REDUCE)
            bounce += run_length(c, run, &run->action[i]);
    tutti_result_t result = workspace_ensure(c->rounds->memory, &run->bounce, bounce);
    if (result != TUTTI_SUCCESS)
        return result;
    bounce = 0;
    for (int i = 0; i < run->actions && run->transfers.result == TUTTI_SUCCESS; i++) {
        const struct action *action = &run->action[i];
        if (action->kind == ACTION_RECV) {
            post_action(c, run, action, NULL);
        } else if (action->kind == ACTION_RECV_REDUCE) {
            post_action(c, run, action, run->bounce.bytes + bounce);
            bounce += run_length(c, run, action);
        }
    }
    for (int i = 0; i < run->actions && run->transfers.result == TUTTI_SUCCESS; i++)
        if (run->action[i].kind == ACTION_SEND)
            post_action(c, run, &run->action[i], NULL);
    return TUTTI_SUCCESS;
}

/* ---- Links ---- */

/* Moves one slice as far as it goes without much work. *moved tells whether it did. */
static tutti_result_t advance(struct context *c, struct rounds_run *run, bool *moved)
{
    while (run->busy) {
        if (!rounds_work_on(c, run) || !run->busy)
            return TUTTI_SUCCESS;
        if (run->phase == RUN_POST) {
            run->phase = RUN_WAIT;
            tutti_result_t result = post_round(c, run);
            if (result != TUTTI_SUCCESS)
                return team_fail(c->team, result, c->team->rank, error_last());
            *moved = true;
        }
        if (run->transfers.result != TUTTI_SUCCESS)
            return transfers_fail(c->team, &run->transfers);
        if (run->transfers.pending)
            return TUTTI_SUCCESS;
        run->phase = RUN_FOLD;
        run->at = (struct cursor){0};
        *moved = true;
    }
    return TUTTI_SUCCESS;
}

static int first_pending(const struct rounds_run *run)
{
    for (int i = 0; i < run->transfers.count; i++)
        if (run->transfer[i].pending)
            return run->transfer[i].peer;
    return -1;
}

static void note_waiting(struct context *c)
{
    for (int i = 0; i < c->rounds->runs; i++) {
        const struct rounds_run *run = &c->rounds->run[i];
        if (!run->busy)
            continue;
        op_waits(c->op, first_pending(run), (uint32_t)run->round, (uint32_t)run->slice);
        return;
    }
}

static bool take_slice(struct context *c, struct rounds_run *run)
{
    struct rounds *rounds = c->rounds;
    if (run->busy || rounds->next == rounds->slices)
        return false;
    run->slice = rounds->next++;
    run->busy = true;
    transfers_begin(&run->transfers);
    rounds_enter(c, run);
    return true;
}

static tutti_result_t rounds_step(struct team *team, struct op *op)
{
    struct context c = context_of(team, op, LIGHT);
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < c.rounds->runs; i++) {
            struct rounds_run *run = &c.rounds->run[i];
            moved |= take_slice(&c, run);
            tutti_result_t result = run->busy ? advance(&c, run, &moved) : TUTTI_SUCCESS;
            if (result != TUTTI_SUCCESS)
                return result;
        }
        if (c.rounds->finished == c.rounds->slices)
            return TUTTI_SUCCESS;
    }
    note_waiting(&c);
    return TUTTI_IN_PROGRESS;
}

static bool rounds_may_move(const struct op *op)
{
    for (int i = 0; i < op->rounds->runs; i++) {
        const struct rounds_run *run = &op->rounds->run[i];
        bool waits = run->phase == RUN_WAIT ? run->transfers.pending > 0 : rounds_is_at_work(run);
        if (run->busy ? run->transfers.result != TUTTI_SUCCESS || !waits : op->rounds->next < op->rounds->slices)
            return true;
    }
    return op->rounds->finished == op->rounds->slices;
}

/* ---- Setting out ---- */

void rounds_free(struct rounds *rounds)
{
    if (!rounds)
        return;
    for (int i = 0; i < rounds->runs; i++) {
        free(rounds->run[i].action);
        free(rounds->run[i].transfer);
        workspace_drop(rounds->memory, &rounds->run[i].bounce);
        workspace_drop(rounds->memory, &rounds->run[i].scratch);
        workspace_drop(rounds->memory, &rounds->run[i].prepared);
    }
    free(rounds->run);
    free(rounds);
}

static struct rounds *rounds_new(const struct rounds_memory *memory, int runs, int most)
{
    struct rounds *rounds = calloc(1, sizeof *rounds);
    if (!rounds)
        return NULL;
    rounds->run = calloc((size_t)runs, sizeof *rounds->run);
    rounds->runs = rounds->run ? runs : 0;
    rounds->memory = memory;
    rounds->most = most;
    bool complete = rounds->run;
    for (int i = 0; i < rounds->runs; i++) {
        rounds->run[i].action = calloc((size_t)most, sizeof(struct action));
        rounds->run[i].transfer = calloc((size_t)most, sizeof(struct transfer));
        complete &= rounds->run[i].action && rounds->run[i].transfer;
    }
    if (complete)
        return rounds;
    rounds_free(rounds);
    return NULL;
}

/* The kept state if it fits, else a new one. */
static struct rounds *obtain(struct team *team, int runs, int most)
{
    struct rounds *kept = team->rounds_idle;
    team->rounds_idle = NULL;
    if (kept && kept->memory == team->memory && kept->most >= most && kept->runs == runs)
        return kept;
    rounds_free(kept);
    return rounds_new(team->memory, runs, most);
}

/* One message an action, but where blocks of it lie apart: contiguous(). */
static int most_transfers(const struct algorithm *algorithm, const struct shape *shape, bool together)
{
    int actions = algorithm->actions(shape) + 1;
    return together ? actions : actions + algorithm->blocks(shape) * 2;
}

static tutti_result_t rounds_start(struct team *team, struct op *op)
{
    const struct algorithm *algorithm = op->route.algorithm;
    struct shape shape = {op->call.coll, team->nranks, op->call.root, levels_of_schedules(team->levels)};
    size_t slice = team->bound.bytes ? team->bound.bytes : (size_t)param_int(PARAM_SLICE);
    int slices = team->bound.bytes ? team->bound.pieces : (int)param_int(PARAM_SLICES);
    struct slicing slicing = {&op->call, 0, algorithm->blocks(&shape), schedule_cuts_vector(shape.coll)};
    /* not padded where blocks are whole: they must lie in scratch as they do in the user's buffer */
    size_t count = slices_cut(&slicing, op->call.size, slice, slicing.cut);
    bool together = slicing.cut || (count == 1 && shape.coll != COLL_ALLTOALLV);
    op->rounds = obtain(team, slices, most_transfers(algorithm, &shape, together));
    if (!op->rounds)
        return team_fail(team, TUTTI_SYSTEM_ERROR, team->rank, "no memory for an operation");
    struct rounds *rounds = op->rounds;
    rounds->shape = shape;
    rounds->rounds = algorithm->rounds(&shape);
    rounds->slicing = slicing;
    rounds->slices = count;
    struct context c = context_of(team, op, 0);
    rounds->next = rounds->finished = 0;
    size_t scratch = (size_t)schedule_scratch(algorithm, &shape, team->rank) * rounds->slicing.stride * c.size;
    size_t input = c.prepares ? (size_t)rounds_input_blocks(&c) * rounds->slicing.stride * c.size : 0;
    for (int i = 0; i < rounds->runs; i++) {
        struct rounds_run *run = &rounds->run[i];
        run->busy = false;
        transfers_begin(&run->transfers);
        if ((size_t)i < rounds->slices && (workspace_ensure(rounds->memory, &run->scratch, scratch) != TUTTI_SUCCESS ||
                                           workspace_ensure(rounds->memory, &run->prepared, input) != TUTTI_SUCCESS))
            return team_fail(team, TUTTI_SYSTEM_ERROR, team->rank, error_last());
    }
    return TUTTI_SUCCESS;
}

/* Withdraws everything posted and gives the state back. */
static void rounds_end(struct team *team, struct op *op)
{
    struct rounds *rounds = op->rounds;
    if (!rounds)
        return;
    for (int i = 0; i < rounds->runs; i++) {
        transfers_cancel(rounds->run[i].transfer, rounds->run[i].transfers.count);
        if (rounds->run[i].started)
            rounds->memory->give_up(&rounds->run[i].item);
        rounds->run[i].started = false;
    }
    rounds_free(team->rounds_idle);
    team->rounds_idle = rounds;
    op->rounds = NULL;
}

const struct op_kind op_rounds = {.needs_links = true,
                                  .counted = true,
                                  .start = rounds_start,
                                  .step = rounds_step,
                                  .work = rounds_work,
                                  .may_move = rounds_may_move,
                                  .end = rounds_end};
