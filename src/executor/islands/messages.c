/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message goes by the executor of the island if both of its ends are there, whatever else is in its group: so both
 * ends agree. The messages of a group go on at the same time, so those between islands get a stream beside the user's.
 */
#include "executor/islands/messages.h"

#include "base/error.h"
#include "device/cuda/device.h"

#include <stdlib.h>

static const struct level *hosts_of(const struct islands *islands)
{
    return levels_hosts(islands->team->levels);
}

static bool is_near(const struct islands *islands, int rank)
{
    return hosts_of(islands)->group[rank] == islands->here;
}

/* Messages within the island first, with the numbers that ranks have there. Returns how many they are. */
static int sort_near(const struct islands *islands, const struct p2p_item *items, int count, struct p2p_item *out)
{
    int near = 0, far = 0, first = hosts_of(islands)->first[islands->here];
    for (int i = 0; i < count; i++)
        near += is_near(islands, items[i].peer);
    for (int i = 0, next = 0; i < count; i++) {
        bool here = is_near(islands, items[i].peer);
        struct p2p_item *item = &out[here ? next++ : near + far++];
        *item = items[i];
        if (here)
            item->peer = islands->team->levels->position[items[i].peer] - first;
    }
    return near;
}

static tutti_result_t go_behind(const struct islands *islands, CUstream stream, CUevent mark, CUstream before)
{
    tutti_result_t result = cuda_check(islands->cu->EventRecord(mark, before), "marking a stream");
    return result == TUTTI_SUCCESS ? cuda_check(islands->cu->StreamWaitEvent(stream, mark, 0), "ordering two streams")
                                   : result;
}

static tutti_result_t issue_both(struct islands *islands, const struct p2p_item *items, int near, int count,
                                 CUstream stream)
{
    struct executor *island = islands->island, *net = islands->net;
    tutti_result_t result = go_behind(islands, islands->side, islands->fork, stream);
    if (result == TUTTI_SUCCESS)
        result = net->ops.messages(net, items + near, count - near, (tutti_stream_t)islands->side);
    if (result == TUTTI_SUCCESS)
        result = island->ops.messages(island, items, near, (tutti_stream_t)stream);
    return result == TUTTI_SUCCESS ? go_behind(islands, stream, islands->join, islands->side) : result;
}

tutti_result_t islands_messages(struct islands *islands, const struct p2p_item *items, int count, CUstream stream)
{
    struct executor *island = islands->island, *net = islands->net;
    struct p2p_item *sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", count);
    int near = sort_near(islands, items, count, sorted);
    tutti_result_t result = near == count ? island->ops.messages(island, sorted, count, (tutti_stream_t)stream)
                            : near        ? issue_both(islands, sorted, near, count, stream)
                                          : net->ops.messages(net, sorted, count, (tutti_stream_t)stream);
    free(sorted);
    return result;
}

/* ---- Collectives that are messages ---- */

bool islands_is_messages(const struct call *call)
{
    switch (call->coll) {
    case COLL_ALLTOALL:
        return call->count && call->in != call->out;
    case COLL_GATHER:
    case COLL_SCATTER:
        return call->count > 0;
    default:
        return call->coll == COLL_ALLTOALLV;
    }
}

/* What this rank sends to a peer, or receives from it. False: nothing. */
static bool part_of(const struct call *call, int rank, int peer, bool sends, struct call_part *out)
{
    size_t block = (size_t)peer * call->bytes;
    char *base = sends ? (char *)(uintptr_t)call->in : call->out;
    bool rooted = call->coll == COLL_GATHER || call->coll == COLL_SCATTER;
    bool from_all = (call->coll == COLL_SCATTER) == sends; /* it is the root that has a block for each */
    if (call->coll == COLL_ALLTOALLV)
        *out = call_part(call, peer, sends);
    else if (!rooted || (from_all && rank == call->root))
        *out = (struct call_part){base + block, call->count};
    else if (!from_all && peer == call->root)
        *out = (struct call_part){base, call->count};
    else
        return false;
    return true;
}

/* To itself a rank sends nothing that lies where it belongs. */
static bool sends_itself_in_place(const struct islands *islands, const struct call *call, int peer)
{
    struct call_part from, to;
    int rank = islands->team->rank;
    return peer == rank && part_of(call, rank, peer, true, &from) && part_of(call, rank, peer, false, &to) &&
           from.at == to.at;
}

tutti_result_t islands_exchange(struct islands *islands, const struct call *call, CUstream stream)
{
    int nranks = islands->team->nranks, count = 0;
    struct p2p_item *items = malloc(2 * (size_t)nranks * sizeof *items);
    if (!items)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", 2 * nranks);
    for (int i = 0; i < 2 * nranks; i++) {
        struct call_part part;
        bool sends = i < nranks;
        if (sends_itself_in_place(islands, call, i % nranks) ||
            !part_of(call, islands->team->rank, i % nranks, sends, &part))
            continue;
        items[count++] = (struct p2p_item){
            .sends = sends, .peer = i % nranks, .data = part.at, .count = part.count, .type = call->type};
    }
    tutti_result_t result = count ? islands_messages(islands, items, count, stream) : TUTTI_SUCCESS;
    free(items);
    return result;
}
