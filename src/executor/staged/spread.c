/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rank sends straight to each other one. No rank sends or receives more than by a ring, but a broadcast's root. So
 * from three ranks on the root gives each rank a part of the vector, and in a second step each rank sends its part to
 * all.
 */
#include "executor/staged/spread.h"

#include "device/type.h"

/* Elements of a vector that are a rank's part: the last rank has the rest, too. */
struct spread_part {
    size_t from, count;
};

static struct spread_part part_at(int nranks, const struct call *call, int rank)
{
    size_t each = call->count / (size_t)nranks, from = (size_t)rank * each;
    return (struct spread_part){from, rank == nranks - 1 ? call->count - from : each};
}

static int broadcast_steps(const struct staged *staged, int nranks, const struct call *call)
{
    size_t part = call->count / (size_t)nranks * call->size;
    if (nranks == 2)
        return call->bytes >= staged->direct_from;
    return part && part >= staged->direct_from ? 2 : 0;
}

int spread_steps(const struct staged *staged, int nranks, const struct call *call)
{
    if (!call->count || nranks < 2)
        return 0;
    if (call->coll == COLL_ALLTOALLV) /* which is nothing else */
        return 1;
    if (staged->direct_from == SIZE_MAX)
        return 0;
    switch (call->coll) {
    case COLL_BROADCAST:
        return broadcast_steps(staged, nranks, call);
    case COLL_ALLTOALL:
        return call->in != call->out && call->bytes >= staged->direct_from;
    case COLL_ALLGATHER:
    case COLL_GATHER:
    case COLL_SCATTER:
        return call->bytes >= staged->direct_from;
    default:
        return 0;
    }
}

/* ---- What goes to a peer, or comes from it ---- */

static struct call_part spread_block(const struct call *call, const void *base, int rank)
{
    return (struct call_part){(char *)(uintptr_t)base + (size_t)rank * call->bytes, call->count};
}

static struct call_part whole_vector(const struct call *call, bool sends)
{
    return (struct call_part){sends ? (char *)(uintptr_t)call->in : call->out, call->count};
}

static struct call_part no_part(void)
{
    return (struct call_part){NULL, 0};
}

/* In the first of two steps, or the only one, the root sends; in the second one everybody sends its part. */
static struct call_part of_broadcast(const struct team *team, const struct call *call, int step, int peer, bool sends)
{
    int from = sends ? team->rank : peer, to = sends ? peer : team->rank;
    if (to == call->root || (step == 0 && from != call->root))
        return no_part();
    if (team->nranks == 2)
        return whole_vector(call, sends);
    struct spread_part part = part_at(team->nranks, call, step == 0 ? to : from);
    const char *base = sends && from == call->root ? call->in : call->out;
    return (struct call_part){(char *)(uintptr_t)base + part.from * call->size, part.count};
}

/* With a peer that is another rank; or with this one, where nothing is sent but copied. */
static struct call_part of_step(const struct team *team, const struct call *call, int step, int peer, bool sends)
{
    const void *base = sends ? call->in : call->out;
    int from = sends ? team->rank : peer, to = sends ? peer : team->rank;
    switch (call->coll) {
    case COLL_ALLTOALLV:
        return call_part(call, peer, sends);
    case COLL_ALLTOALL:
        return spread_block(call, base, peer);
    case COLL_ALLGATHER:
        return sends ? whole_vector(call, true) : spread_block(call, base, peer);
    case COLL_GATHER:
        return to != call->root ? no_part() : sends ? whole_vector(call, true) : spread_block(call, base, peer);
    case COLL_SCATTER:
        return from != call->root ? no_part() : sends ? spread_block(call, base, peer) : whole_vector(call, false);
    default:
        return of_broadcast(team, call, step, peer, sends);
    }
}

int spread_items(const struct team *team, const struct call *call, int step, struct p2p_item *items)
{
    int count = 0, n = team->nranks;
    for (int i = 0; i < 2 * n; i++) {
        bool sends = i < n;
        int peer = i % n;
        struct call_part part = peer == team->rank ? no_part() : of_step(team, call, step, peer, sends);
        if (part.count)
            items[count++] = (struct p2p_item){
                .sends = sends, .peer = peer, .data = part.at, .count = part.count, .type = call->type};
    }
    return count;
}

size_t spread_longest(int nranks, const struct call *call)
{
    if (call->coll == COLL_BROADCAST && nranks > 2)
        return part_at(nranks, call, nranks - 1).count * call->size;
    return call->bytes;
}

bool spread_copy(const struct team *team, const struct call *call, struct call_part *from, struct call_part *to)
{
    int rank = team->rank;
    bool root = rank == call->root;
    if (call->coll == COLL_BROADCAST) {
        *from = whole_vector(call, true);
        *to = whole_vector(call, false);
        return root && from->at != to->at;
    }
    *from = of_step(team, call, 0, rank, true);
    *to = of_step(team, call, 0, rank, false);
    return from->count && from->at != to->at;
}
