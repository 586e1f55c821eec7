/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane whose adapter cannot change the source port of a living queue pair is opened anew. This end puts nothing more
 * there. When all that it has put has landed, it asks the peer (WIRE_ANEW). The peer does the same with its own, and
 * closes the lane. From there on all goes as after a failure; but nothing is missing, and nobody calls it a failure.
 * One lane of a link at a time moves, and only while another one carries messages.
 */
#include "link/move.h"

#include "link/control.h"
#include "link/message.h"
#include "link/outgoing.h"

#define LATE (5 * NS_PER_S) /* after this time without the lane it has failed */

void move_wanted(struct lane *carrier)
{
    struct link_lane *lane = carrier->user;
    lane->move.wanted = true;
    lane->link->life.look_at = 0;
}

/* Messages would have no way, or those who say that the lane is closed. */
static bool move_is_needed_here(const struct link_lane *lane)
{
    const struct link *link = lane->link;
    return link->control < 0 || link->control == lane->index;
}

/* A link of which one lane did not come up again keeps the others as they are. */
static bool move_may_begin(const struct link *link)
{
    for (lane_set left = link->present; left; left &= left - 1) {
        const struct lane_move *move = &link->lane[lane_first(left)].move;
        if (move->leaving || move->closed || move->failed)
            return false;
    }
    return true;
}

static void move_leave(struct link_lane *lane)
{
    struct link *link = lane->link;
    lane->move.leaving = true;
    link->life.look_at = 0;
    lanes_choose_usable(link);
    control_choose(link);
    outgoing_pump(link);
}

void move_asked(struct link *link, unsigned index, uint32_t epoch)
{
    struct link_lane *lane = link_lane(link, index);
    if (!lane || lane->state != LANE_UP || lane->epoch != epoch || lane->ops->caps & TRANSPORT_LOSSLESS)
        return;
    lane->move.asked = true;
    move_leave(lane);
}

static void move_say(struct link_lane *lane)
{
    const struct wire_message head = {.kind = WIRE_ANEW, .slot = lane->index, .tag.seq = lane->epoch};
    lane->move.said = true;
    message_send(lane->link, &head, NULL, 0);
}

bool move_look(struct link_lane *lane, uint64_t now)
{
    struct lane_move *move = &lane->move;
    bool wanted = move->wanted;
    move->wanted = false; /* the transport says so again */
    if (wanted && !move->leaving && move_may_begin(lane->link))
        move_leave(lane);
    if (!move->leaving || lane->puts || lane->view.segments || move_is_needed_here(lane))
        return false;
    if (!move->asked && !move->said)
        move_say(lane);
    return move->asked && lane->state == LANE_UP;
}

bool move_is_agreed(const struct link_lane *lane)
{
    return lane->move.said || lane->move.asked;
}

void move_closed(struct link_lane *lane, uint64_t now)
{
    lane->move = (struct lane_move){.closed = now};
    lane->life.retry_at = now;
}

void move_forget(struct link_lane *lane)
{
    lane->move = (struct lane_move){.failed = lane->move.failed};
}

bool move_is_late(struct link_lane *lane, uint64_t now)
{
    if (!lane->move.closed || since(lane->move.closed, now) < LATE)
        return false;
    lane->move = (struct lane_move){.failed = true};
    return true;
}

bool move_arrived(struct link_lane *lane, uint64_t now)
{
    uint64_t closed = lane->move.closed;
    lane->move = (struct lane_move){0};
    if (!closed)
        return false;
    lane_event(lane, WIRE_EVENT_LANE_MOVED, lane->carrier->source, since(closed, now) / NS_PER_US);
    trace_count(lane->link->domain->trace, WIRE_COUNTER_LANES_MOVED, 1);
    return true;
}
