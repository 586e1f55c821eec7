/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interface for any payload, and never at its owner's cost (FuseLink section 4.3). Where nothing is borrowed
 * (TUTTI_BORROW=0), host memory goes by all of them, and a GPU's by the nearest ones. Else a payload goes by its own
 * interface. While that is full it goes by another one that is idle at both ends, with little that waits there: what is
 * on its way to a far peer is in nobody's way. An interface that nobody owns needs to be idle at the other end alone.
 * Of the lanes that are left, the policy chooses as of any.
 * A relay's slot lies on the GPU next to a borrowed interface (section 4.1; executor/staged/relay.h). What is there
 * goes by that interface while it is idle, and else by the payload's own one, which reads it from afar. What is in no
 * slot leaves that interface to what is.
 */
#include "path/path.h"

#include "base/board.h"

/* Processes that begin at once have all said so on the board when theirs are full. */
static bool own_is_full(const struct path_lane *const *lanes, int count, const struct path_payload *payload)
{
    for (int i = 0; i < count; i++)
        if (lanes[i]->room && path_is_direct(lanes[i]->nic, payload))
            return false;
    return true;
}

/* Fewer than `bound` segments of borrowers would wait there before it. */
static bool is_free(const struct path_nic *nic, size_t length, uint64_t bound)
{
    uint64_t ours = nic->use ? atomic_load_explicit(&nic->use->waiting, memory_order_relaxed) : 0;
    return !nic->busy && nic->lent + ours + length <= bound * length;
}

/* bound: segments that may wait there; 0: it does not matter whose it is. full: the payload's own interface is. */
static bool may_take(const struct path_lane *lane, const struct path_payload *payload, size_t length, uint64_t bound,
                     bool full)
{
    const struct path_nic *nic = lane->nic;
    if (path_is_direct(nic, payload))
        return true;
    if (!bound || (payload->near && param_int(PARAM_BORROW) < 0))
        return !payload->near;
    if (payload->near && path_is_among(nic, payload, payload->relayed))
        return false;
    if (!lane->idle || (!payload->near && !nic->owners))
        return lane->idle;
    return full && is_free(nic, length, bound);
}

/* A process keeps to an interface that is much slower than others have? It would be the slowest of its job. */
static bool own_is_slow(const struct path_lane *const *lanes, int count, const struct path_payload *payload)
{
    bool slow = false;
    for (int i = 0; i < count && !payload->near; i++) {
        if (lanes[i]->nic->own && !lanes[i]->nic->slow)
            return false;
        slow |= lanes[i]->nic->slow;
    }
    return slow;
}

/* Lanes for what lies in a slot. 0: it waits for what this process has under way by the interface there. */
static int path_relay(const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                      size_t length, const struct path_lane **out)
{
    bool waits = false;
    int found = 0;
    for (int i = 0; i < count; i++) {
        const struct path_nic *nic = lanes[i]->nic;
        if (!path_is_among(nic, payload, payload->slot) || !lanes[i]->idle || nic->busy)
            continue;
        if (is_free(nic, length, path_bound()))
            out[found++] = lanes[i];
        waits |= lanes[i]->segments > 0;
    }
    if (found || waits)
        return found;
    for (int i = 0; i < count; i++)
        if (path_is_direct(lanes[i]->nic, payload))
            out[found++] = lanes[i];
    for (int i = 0; !found && i < count; i++) /* its own is down */
        out[i] = lanes[i];
    return found ? found : count;
}

int path_borrow(const struct path_lane *const *lanes, int count, const struct path_payload *payload, size_t length,
                const struct path_lane **out)
{
    if (payload->slot)
        return path_relay(lanes, count, payload, length, out);
    uint64_t bound = own_is_slow(lanes, count, payload) ? 0 : path_bound();
    bool full = own_is_full(lanes, count, payload);
    int found = 0;
    for (int i = 0; i < count; i++)
        if (may_take(lanes[i], payload, length, bound, full))
            out[found++] = lanes[i];
    for (int i = 0; !found && i < count; i++) /* its own is down: a payload that goes late is better than none */
        out[i] = lanes[i];
    return found ? found : count;
}
