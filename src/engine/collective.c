/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: how each is carried out, and its way into the queue. */

#include "engine/collective.h"

#include "algorithm/algorithm.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/progress.h"
#include "engine/shared.h"
#include "engine/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct op_kind nothing = {.counted = true};

static const struct op_kind *kind_of(const struct team *team, const struct algorithm *algorithm,
                                     const struct call *call)
{
    if (team->nranks == 1 && call->coll != COLL_ALLTOALLV && call->in == call->out && call->op != TUTTI_AVG &&
        !call->premul)
        return &nothing;
    bool fits = team->shared && (algorithm->flags & ALGORITHM_SHARED) && call->coll != COLL_ALLTOALLV;
    return fits ? &op_shared : &op_rounds;
}

static uint32_t signature(const struct call *call)
{
    uint64_t hash = mix64(call->count * 0x9e3779b97f4a7c15ull + (uint64_t)(call->root + 2) * 977 + call->premul);
    if (call->coll == COLL_ALLTOALLV)
        hash = 0;
    return wire_signature(call->coll, call->type, call->op < 0 ? 7u : (unsigned)call->op, (uint32_t)hash);
}

/* Short vectors need no care: no algorithm sends more than twice the vector to one rank. */
static bool is_bounded(const struct team *team, const struct call *call)
{
    const struct team_bound *bound = &team->bound;
    return bound->bytes && !team->shared && call->coll == COLL_ALLREDUCE &&
           (bound->shares || team_vector_bytes(team, call) > bound->bytes * (size_t)bound->pieces / 2);
}

const struct algorithm *team_algorithm(const struct team *team, const struct call *call)
{
    if (is_bounded(team, call)) /* a rank sends to one rank, a piece of each slice at a time */
        return algorithm_find(COLL_ALLREDUCE, "ring", 4);
    const struct levels *levels = levels_between_hosts(team->levels);
    bool alike = levels && levels_hosts(levels)->least == levels_hosts(levels)->most;
    uint32_t capabilities = (team->shared ? CHOICE_SHARED : 0) | (levels ? CHOICE_HOSTS : 0) |
                            (alike ? CHOICE_ALIKE : 0) | (levels_of_schedules(team->levels) ? CHOICE_FAR : 0);
    return choice_pick(team->choices, call->coll, team->nranks, team_vector_bytes(team, call), capabilities,
                       team->class);
}

static tutti_result_t find_route(struct team *team, const struct call *call, struct route *route)
{
    route->algorithm = team_algorithm(team, call);
    route->bounded = is_bounded(team, call);
    route->kind = kind_of(team, route->algorithm, call);
    route->signature = signature(call);
    route->plan = NULL;
    memset(&route->name, 0, sizeof route->name);
    snprintf(route->name.text, sizeof route->name.text, "%s", route->algorithm->name);
    if (call->op < 0)
        return TUTTI_SUCCESS;
    return reduction_init(&route->reduction, call->type, (tutti_op_t)call->op,
                          call->divisor ? call->divisor : team->nranks, call->premul ? &call->scalar : NULL);
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
    bool odd = call->premul || call->divisor; /* the key does not tell */
    if (odd || key[0] != team->route_key[0] || key[1] != team->route_key[1]) {
        team->route_key[1] = 0;
        tutti_result_t result = find_route(team, call, &team->route);
        if (result != TUTTI_SUCCESS) {
            free(owned);
            return result;
        }
        team->route_key[0] = key[0];
        team->route_key[1] = odd ? 0 : key[1];
    }
    op->call = *call;
    op->route = team->route;
    op->kind = team->route.kind;
    op->wire_kind = call->shown ? (enum wire_collective)(call->shown - 1) : (enum wire_collective)call->coll;
    op->bytes = call->shown ? call->shown_count * call->size : team_vector_bytes(team, call);
    op->owned = owned;
    team_issue(team, op, stream);
    return TUTTI_SUCCESS;
}

tutti_result_t team_collective(struct team *team, const struct call *call, void *owned, struct tutti_stream *stream)
{
    if (team->shared && !stream && !call->shown &&
        shared_exchange_now(team, call)) /* nothing of alltoallv, which alone has something owned */
        return TUTTI_SUCCESS;
    return issue_call(team, call, owned, stream);
}

tutti_result_t team_do(struct team *team, const struct call *what)
{
    struct call call = *what;
    call_fill(&call);
    tutti_result_t result = team_collective(team, &call, NULL, NULL);
    return result == TUTTI_SUCCESS ? team_wait(team, atomic_load(&team->issued)) : result;
}

tutti_result_t team_tell_all(struct team *team, const void *mine, size_t size, void *all)
{
    return team_do(
        team,
        &(struct call){.coll = COLL_ALLGATHER, .type = TUTTI_UINT8, .count = size, .op = -1, .in = mine, .out = all});
}
