/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a schedule with the place of every message in the sender's slot worked out, once for many operations. */
#include "engine/direct.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static bool communicates(const struct action *action)
{
    return action->kind == ACTION_SEND || action->kind == ACTION_RECV || action->kind == ACTION_RECV_REDUCE;
}

static bool same_source(const struct direct_send *send, const struct action *action)
{
    return send->buffer == action->src_buffer && send->src_block == action->src_block && send->nblocks == action->nblocks;
}

/* Adds the source of a SEND unless it is there; returns its position in the slot, in blocks. */
static int stage(struct direct_send *sends, int *count, int *blocks, const struct action *action)
{
    for (int i = 0; i < *count; i++)
        if (same_source(&sends[i], action))
            return sends[i].slot_block;
    sends[(*count)++] = (struct direct_send){action->src_buffer, action->src_block, action->block, action->nblocks, *blocks, false};
    *blocks += action->nblocks;
    return *blocks - action->nblocks;
}

/* What `rank` stages in a round. Returns blocks. */
static int staging(const struct action *actions, int n, struct direct_send *sends, int *count)
{
    int blocks = 0;
    *count = 0;
    for (int i = 0; i < n; i++)
        if (actions[i].kind == ACTION_SEND)
            stage(sends, count, &blocks, &actions[i]);
    return blocks;
}

/* The `nth` SEND to `me` among a peer's actions, completed into `recv`. */
static void locate(struct direct_recv *recv, const struct action *actions, int n, struct direct_send *sends, int me, int nth)
{
    int count = 0, blocks = 0;
    for (int i = 0; i < n; i++) {
        if (actions[i].kind != ACTION_SEND)
            continue;
        int place = stage(sends, &count, &blocks, &actions[i]);
        if (actions[i].peer != me || nth-- != 0)
            continue;
        recv->slot_block = place;
        recv->peer_buffer = actions[i].src_buffer;
        recv->peer_block = actions[i].src_block;
    }
    recv->peer_blocks = blocks;
}

struct builder {
    struct direct_plan *plan;
    int me, most;
    struct action *actions;      /* of me */
    struct action *peer_actions; /* of the peer looked at */
    struct direct_send *sends;   /* scratch */
    unsigned char *next;         /* free memory of the plan */
};

static void *carve(struct builder *builder, size_t size)
{
    void *place = builder->next;
    builder->next += (size + 15) / 16 * 16;
    return place;
}

static void build_locals(struct builder *b, struct direct_round *round, int n)
{
    round->local = carve(b, (size_t)n * sizeof *round->local);
    for (int i = 0; i < n; i++)
        if (!communicates(&b->actions[i]))
            round->local[round->locals++] = b->actions[i];
}

static void build_sends(struct builder *b, struct direct_round *round, int n)
{
    round->staged = staging(b->actions, n, b->sends, &round->sends);
    round->send = carve(b, (size_t)round->sends * sizeof *round->send);
    memcpy(round->send, b->sends, (size_t)round->sends * sizeof *round->send);
    for (int s = 0; s < round->sends; s++)
        for (int l = 0; l < round->locals; l++)
            round->send[s].reduced |= round->local[l].kind == ACTION_REDUCE && round->local[l].dst_buffer == round->send[s].buffer &&
                                      round->local[l].dst_block == round->send[s].src_block &&
                                      round->local[l].nblocks == round->send[s].nblocks;
}

static void build_recvs(struct builder *b, struct direct_round *round, int index, int n)
{
    const struct direct_plan *plan = b->plan;
    round->recv = carve(b, (size_t)n * sizeof *round->recv);
    for (int i = 0; i < n; i++) {
        const struct action *action = &b->actions[i];
        if (action->kind != ACTION_RECV && action->kind != ACTION_RECV_REDUCE)
            continue;
        int nth = 0;
        for (int j = 0; j < i; j++)
            nth += b->actions[j].peer == action->peer && (b->actions[j].kind == ACTION_RECV || b->actions[j].kind == ACTION_RECV_REDUCE);
        struct direct_recv *recv = &round->recv[round->recvs++];
        recv->action = *action;
        int theirs = plan->algorithm->round(&plan->shape, action->peer, index, b->peer_actions);
        locate(recv, b->peer_actions, theirs, b->sends, b->me, nth);
        round->holds |= action->dst_buffer == BUFFER_SCRATCH;
    }
}

/* Does any rank send in this round, and how many blocks does the busiest stage? */
static bool survey(struct builder *b, int index, int *most)
{
    const struct direct_plan *plan = b->plan;
    bool any = false;
    for (int rank = 0; rank < plan->shape.nranks; rank++) {
        int count, n = plan->algorithm->round(&plan->shape, rank, index, b->peer_actions);
        int blocks = staging(b->peer_actions, n, b->sends, &count);
        any |= count > 0;
        *most = blocks > *most ? blocks : *most;
    }
    return any;
}

static void build(struct builder *b)
{
    struct direct_plan *plan = b->plan;
    for (int index = 0; index < plan->rounds; index++) {
        struct direct_round *round = &plan->round[index];
        int n = plan->algorithm->round(&plan->shape, b->me, index, b->actions);
        build_locals(b, round, n);
        build_sends(b, round, n);
        build_recvs(b, round, index, n);
        round->step = survey(b, index, &plan->staged_most);
        plan->steps += round->step;
    }
}

static tutti_result_t make(const struct algorithm *algorithm, const struct shape *shape, int me, struct direct_plan **out)
{
    int rounds = algorithm->rounds(shape), most = algorithm->actions(shape) + 1;
    size_t per_round = ((size_t)most + 1) * (sizeof(struct action) + sizeof(struct direct_send) + sizeof(struct direct_recv)) + 64;
    size_t head = sizeof(struct direct_plan) + (size_t)rounds * sizeof(struct direct_round) + 16;
    struct direct_plan *plan = calloc(1, head + (size_t)rounds * per_round);
    struct builder b = {.plan = plan,
                        .me = me,
                        .actions = calloc((size_t)most, sizeof *b.actions),
                        .peer_actions = calloc((size_t)most, sizeof *b.peer_actions),
                        .sends = calloc((size_t)most, sizeof *b.sends)};
    tutti_result_t result = TUTTI_SUCCESS;
    if (plan && b.actions && b.peer_actions && b.sends) {
        plan->algorithm = algorithm;
        plan->shape = *shape;
        plan->rounds = rounds;
        plan->blocks = algorithm->blocks(shape);
        plan->scratch = algorithm->scratch(shape, me);
        plan->round = (struct direct_round *)(void *)(plan + 1);
        b.next = (unsigned char *)plan + (head + 15) / 16 * 16;
        build(&b);
        *out = plan;
    } else {
        free(plan);
        result = error_set(TUTTI_SYSTEM_ERROR, "no memory for the plan of %s", algorithm->name);
    }
    free(b.actions);
    free(b.peer_actions);
    free(b.sends);
    return result;
}

tutti_result_t direct_plan(struct team *team, const struct algorithm *algorithm, const struct shape *shape, struct direct_plan **out)
{
    struct direct_plan **kept = &team->direct->plan[shape->coll];
    if (*kept && (*kept)->algorithm == algorithm && (*kept)->shape.root == shape->root) {
        *out = *kept;
        return TUTTI_SUCCESS;
    }
    struct direct_plan *plan = NULL;
    tutti_result_t result = make(algorithm, shape, team->rank, &plan);
    if (result != TUTTI_SUCCESS)
        return result;
    *out = plan;
    direct_plan_free(*kept);
    *kept = plan;
    return TUTTI_SUCCESS;
}

void direct_plan_free(struct direct_plan *plan)
{
    free(plan);
}
