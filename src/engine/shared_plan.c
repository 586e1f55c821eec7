/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a schedule with the place of every message in the sender's slot worked out, once for many operations. */
#include "engine/shared.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static bool communicates(const struct action *action)
{
    return action->kind == ACTION_SEND || action->kind == ACTION_RECV || action->kind == ACTION_RECV_REDUCE;
}

/* What a rank stages in a round, with an index, so that blocks sent to many peers are found at once. */
struct staging {
    struct shared_send *send;
    int count, blocks;
    int32_t *found; /* by buffer and block: position in send + 1, if `mark` is current */
    uint32_t *mark, now;
    int width; /* blocks of a buffer in the index */
};

static void staging_begin(struct staging *staging)
{
    staging->count = staging->blocks = 0;
    staging->now++;
}

static bool same_source(const struct shared_send *send, const struct action *action)
{
    return send->buffer == action->src_buffer && send->src_block == action->src_block &&
           send->nblocks == action->nblocks;
}

/* Adds the source of a SEND unless it is there; returns its position in the slot, in blocks. */
static int stage(struct staging *staging, const struct action *action)
{
    size_t key = (size_t)action->src_buffer * (size_t)staging->width + (size_t)action->src_block;
    if (staging->mark[key] == staging->now && same_source(&staging->send[staging->found[key]], action))
        return staging->send[staging->found[key]].slot_block;
    int place = staging->blocks;
    staging->send[staging->count] =
        (struct shared_send){action->src_buffer, action->src_block, action->block, action->nblocks, place, false};
    staging->mark[key] = staging->now;
    staging->found[key] = staging->count++;
    staging->blocks += action->nblocks;
    return place;
}

static void stage_actions(struct staging *staging, const struct action *actions, int n)
{
    staging_begin(staging);
    for (int i = 0; i < n; i++)
        if (actions[i].kind == ACTION_SEND)
            stage(staging, &actions[i]);
}

/* The `nth` SEND to `me` among a peer's actions, completed into `recv`. */
static void locate(struct shared_recv *recv, struct staging *staging, const struct action *actions, int n, int me,
                   int nth)
{
    staging_begin(staging);
    for (int i = 0; i < n; i++) {
        if (actions[i].kind != ACTION_SEND)
            continue;
        int place = stage(staging, &actions[i]);
        if (actions[i].peer != me || nth-- != 0)
            continue;
        recv->slot_block = place;
        recv->peer_buffer = actions[i].src_buffer;
        recv->peer_block = actions[i].src_block;
    }
    recv->peer_blocks = staging->blocks;
}

struct builder {
    struct shared_plan *plan;
    int me, most;
    struct action *actions;      /* of me */
    struct action *peer_actions; /* of the peer looked at */
    int *from;                   /* receives seen, by peer */
    struct staging staging;
    unsigned char *next; /* free memory of the plan */
};

static void *carve(struct builder *builder, size_t size)
{
    void *place = builder->next;
    builder->next += (size + 15) / 16 * 16;
    return place;
}

static void build_locals(struct builder *b, struct shared_round *round, int n)
{
    round->local = carve(b, (size_t)n * sizeof *round->local);
    for (int i = 0; i < n; i++)
        if (!communicates(&b->actions[i]))
            round->local[round->locals++] = b->actions[i];
}

static void build_sends(struct builder *b, struct shared_round *round, int n)
{
    for (int i = 0; i < n; i++)
        if (b->actions[i].kind == ACTION_SEND)
            b->plan->reader[b->actions[i].peer] = true;
    stage_actions(&b->staging, b->actions, n);
    round->staged = b->staging.blocks;
    round->sends = b->staging.count;
    round->send = carve(b, (size_t)round->sends * sizeof *round->send);
    memcpy(round->send, b->staging.send, (size_t)round->sends * sizeof *round->send);
    for (int s = 0; s < round->sends; s++)
        for (int l = 0; l < round->locals; l++)
            round->send[s].reduced |= round->local[l].kind == ACTION_REDUCE &&
                                      round->local[l].dst_buffer == round->send[s].buffer &&
                                      round->local[l].dst_block == round->send[s].src_block &&
                                      round->local[l].nblocks == round->send[s].nblocks;
}

static void build_recvs(struct builder *b, struct shared_round *round, int index, int n)
{
    const struct shared_plan *plan = b->plan;
    memset(b->from, 0, (size_t)plan->shape.nranks * sizeof *b->from);
    round->recv = carve(b, (size_t)n * sizeof *round->recv);
    for (int i = 0; i < n; i++) {
        const struct action *action = &b->actions[i];
        if (action->kind != ACTION_RECV && action->kind != ACTION_RECV_REDUCE)
            continue;
        int nth = b->from[action->peer]++;
        struct shared_recv *recv = &round->recv[round->recvs++];
        recv->action = *action;
        int theirs = plan->algorithm->round(&plan->shape, action->peer, index, b->peer_actions);
        locate(recv, &b->staging, b->peer_actions, theirs, b->me, nth);
        round->holds |= action->dst_buffer == BUFFER_SCRATCH;
    }
}

/* Does any rank send in this round, and how many blocks does the busiest stage? */
static bool survey(struct builder *b, int index, int *most)
{
    const struct shared_plan *plan = b->plan;
    bool any = false;
    for (int rank = 0; rank < plan->shape.nranks; rank++) {
        int n = plan->algorithm->round(&plan->shape, rank, index, b->peer_actions);
        stage_actions(&b->staging, b->peer_actions, n);
        any |= b->staging.count > 0;
        *most = b->staging.blocks > *most ? b->staging.blocks : *most;
    }
    return any;
}

static void build(struct builder *b)
{
    struct shared_plan *plan = b->plan;
    for (int index = 0; index < plan->rounds; index++) {
        struct shared_round *round = &plan->round[index];
        int n = plan->algorithm->round(&plan->shape, b->me, index, b->actions);
        build_locals(b, round, n);
        build_sends(b, round, n);
        build_recvs(b, round, index, n);
        round->step = survey(b, index, &plan->staged_most);
        plan->steps += round->step;
        plan->reads |= round->recvs > 0;
    }
}

static bool builder_open(struct builder *b, const struct algorithm *algorithm, const struct shape *shape, int most)
{
    int width = algorithm->blocks(shape);
    for (int rank = 0; rank < shape->nranks; rank++) {
        int scratch = algorithm->scratch(shape, rank);
        width = scratch > width ? scratch : width;
    }
    width = (width > shape->nranks ? width : shape->nranks) + 1;
    b->actions = calloc((size_t)most, sizeof *b->actions);
    b->peer_actions = calloc((size_t)most, sizeof *b->peer_actions);
    b->from = calloc((size_t)shape->nranks, sizeof *b->from);
    b->staging.send = calloc((size_t)most, sizeof *b->staging.send);
    b->staging.found = calloc((size_t)width * 3, sizeof *b->staging.found);
    b->staging.mark = calloc((size_t)width * 3, sizeof *b->staging.mark);
    b->staging.width = width;
    return b->actions && b->peer_actions && b->from && b->staging.send && b->staging.found && b->staging.mark;
}

static void builder_close(struct builder *b)
{
    free(b->actions);
    free(b->peer_actions);
    free(b->from);
    free(b->staging.send);
    free(b->staging.found);
    free(b->staging.mark);
}

static tutti_result_t shared_plan_make(const struct algorithm *algorithm, const struct shape *shape, int me,
                                       struct shared_plan **out)
{
    int rounds = algorithm->rounds(shape), most = algorithm->actions(shape) + 1;
    size_t per_round =
        ((size_t)most + 1) * (sizeof(struct action) + sizeof(struct shared_send) + sizeof(struct shared_recv)) + 64;
    size_t head =
        sizeof(struct shared_plan) + (size_t)rounds * sizeof(struct shared_round) + (size_t)shape->nranks + 16;
    struct shared_plan *plan = calloc(1, head + (size_t)rounds * per_round);
    struct builder b = {.plan = plan, .me = me};
    tutti_result_t result = TUTTI_SUCCESS;
    if (builder_open(&b, algorithm, shape, most) && plan) {
        plan->algorithm = algorithm;
        plan->shape = *shape;
        plan->rounds = rounds;
        plan->blocks = algorithm->blocks(shape);
        plan->scratch = algorithm->scratch(shape, me);
        plan->round = (struct shared_round *)(void *)(plan + 1);
        plan->reader = (bool *)(plan->round + rounds);
        b.next = (unsigned char *)plan + (head + 15) / 16 * 16;
        build(&b);
        *out = plan;
    } else {
        free(plan);
        result = error_set(TUTTI_SYSTEM_ERROR, "no memory for the plan of %s", algorithm->name);
    }
    builder_close(&b);
    return result;
}

tutti_result_t shared_plan(struct team *team, const struct algorithm *algorithm, const struct shape *shape,
                           struct shared_plan **out)
{
    struct shared_plan **kept = &team->shared->plan[shape->coll];
    if (*kept && (*kept)->algorithm == algorithm && (*kept)->shape.root == shape->root) {
        *out = *kept;
        return TUTTI_SUCCESS;
    }
    struct shared_plan *plan = NULL;
    tutti_result_t result = shared_plan_make(algorithm, shape, team->rank, &plan);
    if (result != TUTTI_SUCCESS)
        return result;
    *out = plan;
    shared_plan_free(*kept);
    *kept = plan;
    return TUTTI_SUCCESS;
}

void shared_plan_free(struct shared_plan *plan)
{
    free(plan);
}
