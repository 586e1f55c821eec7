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

/* Those of the island first, with the numbers that ranks have there. Returns how many they are. */
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
