/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rounds of one rank into sets of peers and blocks. */
#include "schedule/flow.h"

#include <string.h>

#define FLOW_ACTIONS (2 * FLOW_RANKS + 1) /* of a round: one to and one from each rank, and one of its own */

static void flow_take_place(struct flow_place *place, const struct action *a, bool source)
{
    if (place->used)
        return;
    *place = (struct flow_place){.used = true,
                                 .buffer = source ? a->src_buffer : a->dst_buffer,
                                 .block = source ? a->src_block : a->dst_block,
                                 .nblocks = a->nblocks,
                                 .about = a->block};
}

static void flow_take_send(struct flow *flow, const struct action *a, int round)
{
    *(round ? &flow->gives : &flow->to) |= 1u << a->peer;
    if (round == 0)
        flow_take_place(&flow->peer[a->peer].send, a, true);
    for (int b = a->block; b < a->block + a->nblocks; b++)
        flow->next[b] |= 1u << a->peer;
}

static void flow_take_receive(struct flow *flow, const struct action *a, int round)
{
    *(round ? &flow->takes : &flow->from) |= 1u << a->peer;
    if (round == 0)
        flow_take_place(&flow->peer[a->peer].recv, a, false);
    for (int b = a->block; b < a->block + a->nblocks; b++)
        if (flow->source[b] < 0)
            flow->source[b] = (int8_t)a->peer;
}

static void take_action(struct flow *flow, const struct action *a, int rank, int round)
{
    if (a->kind != ACTION_SEND && a->dst_buffer == BUFFER_OUT)
        flow->result = true;
    if (a->kind == ACTION_SEND) {
        flow_take_send(flow, a, round);
    } else if (a->kind == ACTION_RECV || a->kind == ACTION_RECV_REDUCE) {
        flow_take_receive(flow, a, round);
    } else if (a->kind == ACTION_COPY && round == 0) {
        flow_take_place(&flow->peer[rank].send, a, true);
        flow_take_place(&flow->peer[rank].recv, a, false);
    }
}

bool flow_read(const struct algorithm *algorithm, const struct shape *shape, int rank, struct flow *out)
{
    struct action actions[FLOW_ACTIONS];
    if (!schedule_fits(algorithm, shape) || rank < 0 || rank >= shape->nranks || shape->nranks > FLOW_RANKS ||
        algorithm->blocks(shape) > FLOW_RANKS || algorithm->actions(shape) > FLOW_ACTIONS)
        return false;
    memset(out, 0, sizeof *out);
    memset(out->source, -1, sizeof out->source);
    out->rounds = algorithm->rounds(shape);
    out->blocks = algorithm->blocks(shape);
    for (int round = 0; round < out->rounds; round++) {
        int count = schedule_round(algorithm, shape, rank, round, actions);
        for (int i = 0; i < count; i++)
            take_action(out, &actions[i], rank, round);
    }
    return true;
}

void flow_reach(const struct algorithm *algorithm, const struct shape *shape, uint32_t reach[FLOW_RANKS])
{
    struct action actions[FLOW_ACTIONS];
    uint32_t before[FLOW_RANKS];
    const int rounds = algorithm->rounds(shape);
    memset(reach, 0, FLOW_RANKS * sizeof *reach);
    for (int round = 0; round < rounds; round++) {
        memcpy(before, reach, sizeof before);
        for (int rank = 0; rank < shape->nranks; rank++) {
            int count = schedule_round(algorithm, shape, rank, round, actions);
            for (int i = 0; i < count; i++)
                if (actions[i].kind == ACTION_RECV || actions[i].kind == ACTION_RECV_REDUCE)
                    reach[rank] |= 1u << actions[i].peer | before[actions[i].peer];
        }
    }
}
