/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window that follows what goes through. One that is made for the whole rate of a NIC lies in queues where the way
 * has less: so after each round the lane is given what the rate that it was seen to have fills, and a segment more.
 * That one also finds out when there is more: with no queue before it, it raises the rate of the next round.
 * docs/path.md.
 */
#include "path/share.h"

#include "base/clock.h"
#include "base/param.h"

#define ROUND 4               /* segments, at least, and a round trip */
#define FLOOR 2               /* segments */
#define EMPTY 8               /* a queue of this part of the way is none */
#define SPAN  (10 * NS_PER_S) /* after an idle time the least delay is forgotten that is older */

void path_share_begin(struct path_share *share, const struct path_lane *lane)
{
    uint64_t us = 0;
    bool derived;
    struct path_window most = path_window_of(lane, &us, &derived);
    uint64_t segment = path_segment_of(lane), bytes = most.segments * segment;
    *share = (struct path_share){.most = most, .trip = us * NS_PER_US, .segment = segment, .derived = derived};
    share->top = most.bytes && (!bytes || most.bytes < bytes) ? most.bytes : bytes;
    if (!share->top)
        share->trip = 0;
    share->limit = share->top;
}

struct path_window path_share_window(const struct path_share *share, const struct path_payload *payload)
{
    struct path_window window = share->most;
    if (share->trip && share->limit < share->top)
        window.bytes = share->limit;
    /* the receiver may have cut longer segments than this end would have */
    if (share->derived && window.bytes && payload && window.bytes < FLOOR * payload->segment)
        window.bytes = FLOOR * payload->segment;
    return window;
}

void path_share_posted(struct path_share *share, const struct path_lane *lane, uint64_t now)
{
    uint64_t few = FLOOR * share->segment;
    if (!share->begun &&
        share->trip) /* with so little that what they take is the way, and not what waits there of ours */
        share->limit = few < share->top ? few : share->top;
    share->begun = true;
    if (lane->segments == 1 && now > share->last + share->trip) { /* it was idle */
        share->counting = false;
        share->since = now > share->since + SPAN ? 0 : share->since;
    }
    share->filled |= lane->outstanding + share->segment > share->limit;
}

/*
 * The least that a segment took, without the time for its own bytes, for which there is the segment more. While the
 * lane is busy it is not forgotten: what is measured then has the queue in it that the windows of all senders make, and
 * to follow that would make it longer each time.
 */
static uint64_t least_delay(struct path_share *share, const struct path_lane *lane, uint64_t delay, uint64_t when)
{
    uint64_t rate = lane->nic->about.rate, own = rate ? share->segment * 8000 / rate : 0;
    if (!share->since || delay < share->least)
        share->least = delay;
    if (!share->since)
        share->since = when;
    return share->least > own ? share->least - own : 0;
}

/* Up at once, down by a segment each round: one slow round may have been somebody else's. And up where a segment found
 * next to no queue. */
static void adjust(struct path_share *share, uint64_t delay, uint64_t time)
{
    uint64_t trip = delay > share->trip ? delay : share->trip, segment = share->segment;
    uint64_t way = (uint64_t)((double)share->bytes * (double)trip / (double)time);
    uint64_t fits = (way + segment - 1) / segment * segment + segment, least = FLOOR * segment;
    bool quick = share->round_least - share->least <= share->trip / EMPTY;
    uint64_t lower = quick ? share->limit + segment : share->limit > segment ? share->limit - segment : segment;
    fits = fits < lower ? lower : fits;
    fits = fits < least ? least : fits;
    share->limit = fits < share->top ? fits : share->top;
}

void path_share_landed(struct path_share *share, const struct path_lane *lane, size_t length, uint64_t posted,
                       uint64_t when)
{
    if (!share->trip)
        return;
    uint64_t took = when > posted ? when - posted : 0, delay = least_delay(share, lane, took, when);
    share->round_least = took < share->round_least ? took : share->round_least;
    bool ends = share->counting && when > share->first;
    share->last = when;
    share->bytes = share->counting ? share->bytes + length : 0;
    ends &= share->bytes >= ROUND * share->segment && when - share->first >= share->trip;
    if (share->counting && !ends)
        return;
    if (ends && share->filled)
        adjust(share, delay, when - share->first);
    share->counting = true;
    share->filled = false;
    share->round_least = UINT64_MAX;
    share->bytes = 0;
    share->first = when;
}
