/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The round trip of a lane is the least that a packet and its acknowledgement took. A busy host only adds to it, and
 * takes its processors away for milliseconds: so packets that follow at once are not enough, and more are sent later.
 * One of those may wait behind a segment of the same lane, which does no harm. The side that connects
 * measures, and tells the peer: both ends go by the same number.
 */
#include "transport/verbs/trip.h"

#include "base/clock.h"
#include "transport/verbs/end.h"
#include "transport/verbs/send.h"

#define PAUSE_MS 1  /* until the first packet of a usable lane; then twice as long, each time */
#define LATER    10 /* packets: they take a second */

bool verbs_trip_begin(struct verbs_lane *lane)
{
    lane->asked = clock_ns();
    lane->asked_slot = lane->posted % VERBS_SENDS;
    return verbs_say(lane, VERBS_ROOM);
}

/* A peer without the latest number has one that is too long, and nothing worse: a connection that cannot take the word
 * now is left to those who watch it. */
static void trip_tell(const struct verbs_lane *lane)
{
    const struct verbs_word word = {.word = VERBS_NEARER, .trip = (uint32_t)lane->base.lane.trip};
    socket_send_whole(lane->source.fd, &word, sizeof word);
}

bool verbs_trip_end(struct verbs_lane *lane, uint32_t slot)
{
    if (!lane->asked || slot != lane->asked_slot)
        return false;
    uint64_t trip = clock_ns() - lane->asked, least = lane->base.lane.trip;
    lane->asked = 0;
    lane->trips++;
    if (least && trip >= least)
        return true;
    lane->base.lane.trip = trip;
    if (lane->state == VERBS_OPEN && trip < UINT32_MAX)
        trip_tell(lane);
    return true;
}

static void trip_again(struct transport_timer *timer)
{
    struct verbs_lane *lane = container_of(timer, struct verbs_lane, again);
    if (!lane->asked && verbs_may_say(lane) && !verbs_trip_begin(lane))
        return;
    if (lane->later < LATER)
        transport_timer_set(lane->base.lane.transport, timer, (int64_t)PAUSE_MS << lane->later++);
}

void verbs_trip_follow(struct verbs_lane *lane)
{
    lane->again.expired = trip_again;
    lane->later = 1;
    transport_timer_set(lane->base.lane.transport, &lane->again, PAUSE_MS);
}

void verbs_trip_told(struct verbs_lane *lane, uint32_t trip)
{
    uint64_t least = lane->base.lane.trip;
    if (trip && (!least || trip < least))
        lane->base.lane.trip = trip;
}
