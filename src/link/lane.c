/* SPDX-License-Identifier: Apache-2.0 */
/* What any file may do with a lane: note what it says, close this end of it. */
#include "link/lane.h"

#include "base/events.h"
#include "base/param.h"
#include "link/domain.h"

void lane_event(const struct link_lane *lane, enum wire_event_kind kind, uint64_t value1, uint64_t value2)
{
    const struct wire_process *peer = &lane->link->peer;
    struct trace_about about = {.lane = lane->index,
                                .peer_pid = peer->pid,
                                .peer_rank = -1,
                                .peer_host = peer->host,
                                .value1 = value1,
                                .value2 = value2};
    trace_event(lane->link->domain->trace, kind, &about);
}

void lane_tell(const struct link_lane *lane, tutti_event_kind_t kind, const char *what, const char *why)
{
    uint32_t pid = lane->link->peer.pid;
    const char *nic = lane->view.nic ? lane->view.nic->about.name : "";
    events_tell(&(tutti_event_t){.kind = kind, .rank = -1, .lane = lane->index, .process = pid},
                "lane %d to process %u%s%s %s%s%s", lane->index, pid, *nic ? " by " : "", nic, what, *why ? ": " : "",
                why);
}

void lane_heard(struct link_lane *lane)
{
    lane->signs.heard = lane->link->signs.heard = clock_ns();
    if (lane->signs.probed &&
        since(lane->signs.probed, lane->signs.heard) > (uint64_t)param_int(PARAM_PROBE_TIMEOUT) * NS_PER_MS / 2)
        lane_event(lane, WIRE_EVENT_PROBE_ANSWER, since(lane->signs.probed, lane->signs.heard) / NS_PER_US, 0);
    lane->signs.probed = 0;
}

/* Lanes for data, else those kept for their failure, else what there is. One that has just come back may be gone again:
 * it waits while backups stand in. */
static lane_set usable_of(const struct link *link, bool suspects)
{
    lane_set up = 0, data = 0, calm = 0, backup = 0;
    for (lane_set left = link->present; left; left &= left - 1) {
        const struct link_lane *lane = &link->lane[lane_first(left)];
        bool good = lane->state == LANE_UP && lane->carrier && !lane->life.unconfirmed;
        lane_set bit = good && (suspects || !lane_is_left(lane)) ? lane_bit(lane->index) : 0;
        up |= bit;
        data |= lane->view.roles & PATH_DATA ? bit : 0;
        calm |= lane->view.roles & PATH_DATA && !lane->life.settling ? bit : 0;
        backup |= lane->view.roles & PATH_BACKUP ? bit : 0;
    }
    lane_set spare = backup ? backup : data ? data : up;
    return backup && calm ? calm : spare;
}

void lanes_choose_usable(struct link *link)
{
    lane_set trusted = usable_of(link, false);
    link->usable = trusted ? trusted : usable_of(link, true);
}

void lane_close(struct link_lane *lane)
{
    struct lane *closing = lane->carrier;
    lane->carrier = NULL;
    if (closing)
        closing->ops->lane_close(closing);
}

void lanes_close_registered(struct link *link)
{
    for (lane_set left = link->present; left; left &= left - 1) {
        struct link_lane *lane = &link->lane[lane_first(left)];
        if (lane->state == LANE_UP && (lane->ops->caps & TRANSPORT_REGISTERS) && lane->index != LINK_MESSAGE_LANE)
            lane_close(lane);
    }
    link->life.cut = true; /* with the next tick the lanes are down */
    lanes_choose_usable(link);
}
