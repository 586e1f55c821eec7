/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window that follows what goes through. One that is made for the whole rate of a NIC lies in queues where the way
 * has less: so after each round the lane is given what the rate that it was seen to have fills, and a segment more.
 * That one also finds out when there is more: with no queue before it, it raises the rate of the next round.
 * Where nobody tells a place, the round trip may have been measured behind queues, and so may the least that a segment
 * took. A lane that believes it would take from others that know better. There the window begins with what lanes
 * without a limit have, grows only while segments find no queue, and is halved where they do.
 * docs/path.md.
 */
#include "path/share.h"

#include "base/clock.h"
#include "base/param.h"

#define ROUND 4               /* segments, at least, and a round trip */
#define FLOOR 2               /* segments */
#define EMPTY 8               /* a queue of this part of the way is none, */
#define CALM  4               /* or of this part of a segment where nobody tells a place */
#define SPAN  (10 * NS_PER_S) /* after an idle time the least delay is forgotten that is older */

static uint64_t floor_of(const struct path_share *share)
{
    return share->origin == PATH_BY_TRIP ? PATH_UNTOLD : FLOOR;
}

static void reckon(struct path_share *share, const struct path_lane *lane)
{
    uint64_t us = 0;
    share->most = path_window_of(lane, &us, &share->origin);
    share->measured = lane->trip;
    share->segment = path_segment_of(lane);
    uint64_t most = share->most.bytes, bytes = share->most.segments * share->segment;
    share->top = most && (!bytes || most < bytes) ? most : bytes;
    share->trip = share->top ? us * NS_PER_US : 0;
}

void path_share_begin(struct path_share *share, const struct path_lane *lane)
{
    *share = (struct path_share){0};
    reckon(share, lane);
    share->limit = share->top;
}

/* The peer is nearer than it had seemed. */
static void share_reckon_again(struct path_share *share, const struct path_lane *lane)
{
    reckon(share, lane);
    uint64_t least = floor_of(share) * share->segment;
    share->limit = share->limit < least ? least : share->limit;
    share->limit = share->limit < share->top ? share->limit : share->top;
    share->counting = false;
}

struct path_window path_share_window(const struct path_share *share, const struct path_payload *payload)
{
    struct path_window window = share->most;
    if (share->trip && share->limit < share->top)
        window.bytes = share->limit;
    /* the receiver may have cut longer segments than this end would have */
    if (share->origin != PATH_AS_TOLD && window.bytes && payload && window.bytes < floor_of(share) * payload->segment)
        window.bytes = floor_of(share) * payload->segment;
    return window;
}

void path_share_posted(struct path_share *share, const struct path_lane *lane, uint64_t now)
{
    uint64_t few = floor_of(share) * share->segment;
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
 * The least that a segment took. While the lane is busy it is not forgotten: what is measured then has the queue in it
 * that the windows of all senders make, and to follow that would make it longer each time.
 */
static void note_delay(struct path_share *share, uint64_t delay, uint64_t when)
{
    if (!share->since || delay < share->least)
        share->least = delay;
    if (!share->since)
        share->since = when;
    share->round_least = delay < share->round_least ? delay : share->round_least;
}

/* ns for which the NIC sends them. */
static uint64_t time_for(const struct path_lane *lane, uint64_t bytes)
{
    uint64_t rate = lane->nic->about.rate;
    return rate ? bytes * 8000 / rate : 0;
}

/* By a segment each round, or to half. own: ns of a segment. */
static void creep(struct path_share *share, uint64_t own)
{
    uint64_t queue = share->round_least - share->least, segment = share->segment, least = PATH_UNTOLD * segment;
    if (queue <= own / CALM)
        share->limit += segment;
    else if (queue > own)
        share->limit = share->limit / 2 / segment * segment;
    share->limit = share->limit < least ? least : share->limit;
    share->limit = share->limit < share->top ? share->limit : share->top;
}

/* Up at once, down by a segment each round: one slow round may have been somebody else's. And up where a segment found
 * next to no queue. For its own bytes, which take `own` ns, there is the segment more. */
static void adjust(struct path_share *share, uint64_t own, uint64_t time)
{
    uint64_t delay = share->least > own ? share->least - own : 0;
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
    if (lane->trip != share->measured)
        share_reckon_again(share, lane);
    if (!share->trip)
        return;
    bool creeps = share->origin == PATH_BY_TRIP;
    uint64_t took = when > posted ? when - posted : 0, own = time_for(lane, creeps ? length : share->segment);
    note_delay(share, creeps ? took - (own < took ? own : took) : took, when);
    bool ends = share->counting && when > share->first;
    share->last = when;
    share->bytes = share->counting ? share->bytes + length : 0;
    ends &= share->bytes >= ROUND * share->segment && when - share->first >= share->trip;
    if (share->counting && !ends)
        return;
    if (ends && share->filled && creeps)
        creep(share, time_for(lane, share->segment));
    else if (ends && share->filled)
        adjust(share, own, when - share->first);
    share->counting = true;
    share->filled = false;
    share->round_least = UINT64_MAX;
    share->bytes = 0;
    share->first = when;
}
