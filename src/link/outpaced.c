/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane that confirms nothing of what it was given while other lanes to the same peer are heard. The side that waits
 * for a confirmation is the one that can tell: all that is lost was given by one of the two. A peer that stands still
 * is heard on no lane, so that time does not count. Nor does time for which this process did not look.
 */
#include "link/outpaced.h"

#include "base/param.h"
#include "link/silence.h"

#define QUIET   (60 * NS_PER_MS) /* a lane that has given signs within this time is not looked at */
#define LOOK    (40 * NS_PER_MS) /* the most that one look counts for */
#define SLOWER  4                /* times the slowest segment of late: so slow a lane may become at once */
#define SUSPECT 4                /* after this part of the time that it has, nothing more is put there */

/* An adapter tells the ends of segments, and nothing of what goes on inside one. */
static bool outpaced_is_opaque(const struct link_lane *lane)
{
    return lane->puts && lane->ops->caps & TRANSPORT_REGISTERS;
}

/* To ask the transport may take a system call. So of idle lanes those alone are watched that were asked for a sign. */
static bool outpaced_is_watched(const struct link_lane *lane, uint64_t now)
{
    if (!silence_matters(lane) && !lane->signs.probed && lane->pace.asked <= lane->signs.heard)
        return false;
    uint64_t last = lane->pace.taken;
    if (!outpaced_is_opaque(lane) && lane->signs.heard > last)
        last = lane->signs.heard;
    return since(last, now) >= QUIET;
}

/* How long segments may take by the lane's interface, where its own packets may lie behind them; 0: not known.
 * UINT64_MAX: any time, for the first one on some lane is under way. */
static uint64_t outpaced_slow(const struct link_lane *lane)
{
    const struct link *link = lane->link;
    uint64_t most = 0;
    for (lane_set left = link->present; left; left &= left - 1) {
        const struct link_lane *beside = &link->lane[lane_first(left)];
        if (beside->state != LANE_UP || beside->view.nic != lane->view.nic ||
            !(beside->ops->caps & TRANSPORT_REGISTERS))
            continue;
        uint64_t here = beside->puts && !beside->pace.slowest ? UINT64_MAX : SLOWER * beside->pace.slowest;
        most = here > most ? here : most;
    }
    return most;
}

/* How long the lane may stand still. A lane that has failed often, or has slow segments, has longer. */
static uint64_t outpaced_patience(const struct link_lane *lane)
{
    uint64_t patience = (uint64_t)param_int(PARAM_LANE_SILENCE) * NS_PER_MS, slow = outpaced_slow(lane);
    patience = slow > patience ? slow : patience;
    return lane->life.calm_ns > patience ? lane->life.calm_ns : patience;
}

/* Has any other lane been heard since the last look? All are asked for a sign, but for those that owe one: what has
 * died with this lane is found out, too. */
static bool outpaced_others_go_on(struct link_lane *lane, uint64_t before, uint64_t now)
{
    struct link *link = lane->link;
    bool any = false;
    for (lane_set left = link->present; left && !link->lost; left &= left - 1) {
        struct link_lane *other = &link->lane[lane_first(left)];
        if (other == lane || other->state != LANE_UP || !other->carrier)
            continue;
        any |= other->signs.heard > before;
        if (other->pace.asked && other->signs.heard <= other->pace.asked)
            continue;
        other->pace.asked = now;
        silence_question(other);
    }
    return any && !link->lost;
}

enum outpaced outpaced_look(struct link_lane *lane, uint64_t now)
{
    struct lane_pace *pace = &lane->pace;
    uint64_t before = pace->looked, owed = outpaced_is_watched(lane, now) ? lane->ops->owes(lane->carrier) : 0;
    bool moves = !owed || owed != pace->owed;
    pace->looked = now;
    pace->owed = owed;
    if (moves) {
        pace->still = 0;
        return OUTPACED_NOT;
    }
    uint64_t looked = since(before, now), patience = outpaced_patience(lane);
    if (patience != UINT64_MAX && outpaced_others_go_on(lane, before, now))
        pace->still += looked < LOOK ? looked : LOOK;
    if (pace->still < patience || !silence_matters(lane))
        return pace->still < patience / SUSPECT ? OUTPACED_NOT : OUTPACED_SUSPECT;
    lane_event(lane, WIRE_EVENT_OUTPACED, pace->still / NS_PER_MS, lane->puts);
    error_note(TUTTI_REMOTE_ERROR, "lane %u to process %u stands still while other lanes go on", lane->index,
               lane->link->peer.pid);
    return OUTPACED_LOST;
}
