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
static uint32_t usable_of(const struct link *link, bool suspects)
{
    uint32_t up = 0, data = 0, calm = 0, backup = 0;
    for (int i = 0; i < link->lanes; i++) {
        const struct link_lane *lane = &link->lane[i];
        bool good = lane->state == LANE_UP && lane->carrier && !lane->life.unconfirmed;
        uint32_t bit = good && (suspects || !lane->pace.suspect) ? 1u << i : 0;
        up |= bit;
        data |= lane->view.roles & PATH_DATA ? bit : 0;
        calm |= lane->view.roles & PATH_DATA && !lane->life.settling ? bit : 0;
        backup |= lane->view.roles & PATH_BACKUP ? bit : 0;
    }
    uint32_t spare = backup ? backup : data ? data : up;
    return backup && calm ? calm : spare;
}

void lanes_choose_usable(struct link *link)
{
    uint32_t trusted = usable_of(link, false);
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
    for (int i = 0; i < link->lanes; i++)
        if (link->lane[i].state == LANE_UP && (link->lane[i].ops->caps & TRANSPORT_REGISTERS) && i != LINK_MESSAGE_LANE)
            lane_close(&link->lane[i]);
    link->life.cut = true; /* with the next tick the lanes are down */
    lanes_choose_usable(link);
}
