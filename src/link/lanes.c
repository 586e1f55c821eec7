/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life and death of lanes (ICCL section 3.3: detect, move, come back; here for any transport, data exactly once). Down:
 * the lane is closed here, and DOWN tells the peer. The peer closes its end, says what it HAS and answers DOWN_OK. Only
 * then are segments put again, so that nothing late can land. Rebirth: the side with the smaller uuid connects again
 * with a higher epoch, after a pause that doubles.
 */
#include "link/lanes.h"

#include "base/param.h"
#include "link/control.h"
#include "link/flight.h"
#include "link/incoming.h"
#include "link/links.h"
#include "link/match.h"
#include "link/message.h"
#include "link/move.h"
#include "link/nics.h"
#include "link/outgoing.h"
#include "link/outpaced.h"
#include "link/silence.h"
#include "link/spare.h"
#include "link/strays.h"
#include "link/trial.h"

#include <stdio.h>
#include <string.h>

#define MAX_BACKOFF             NS_PER_S
#define ASK_AGAIN               (20 * NS_PER_MS) /* for what a policy does not know yet */
#define FEW_LANES               16               /* of a link: they are looked at each time */
#define LOOK_AGAIN              (5 * NS_PER_MS)
#define REFUSALS_OF_A_DEAD_PEER 3
#define SOON                    8 /* times a lane's calm */
#define MAX_CALM                (16 * NS_PER_S)

bool lanes_begin_here(const struct link *link)
{
    return memcmp(link->domain->self.uuid, link->peer.uuid, WIRE_UUID_BYTES) < 0;
}

static void lane_schedule_retry(struct link_lane *lane)
{
    uint64_t first = (uint64_t)param_int(PARAM_RECONNECT) * NS_PER_MS, rest = trial_rest(lane);
    if (rest) {
        lane->life.retry_at = clock_ns() + rest;
        return;
    }
    lane->life.retry_at = clock_ns() + (lane->life.backoff_ns ? lane->life.backoff_ns : first);
    lane->life.backoff_ns = lane->life.backoff_ns ? lane->life.backoff_ns * 2 : first * 2;
    if (lane->life.backoff_ns > MAX_BACKOFF)
        lane->life.backoff_ns = MAX_BACKOFF;
}

static void lanes_note_obstacle(struct link *link)
{
    snprintf(link->life.obstacle, sizeof link->life.obstacle, "; at last: %s", error_last());
}

static void lane_connect(struct link_lane *lane)
{
    struct link *link = lane->link;
    lane->epoch = wire_epoch(++lane->life.attempts, !lanes_begin_here(link));
    link->life.look_at = 0;
    tutti_result_t result = lane->ops->lane_open(lane->transport, &link->peer, lane->index, lane->epoch,
                                                 lane->life.known, link->session, lane, &lane->carrier);
    lane->state = result == TUTTI_SUCCESS ? LANE_CONNECTING : LANE_DOWN;
    if (lane->state == LANE_DOWN)
        lane->carrier = NULL;
    if (result == TUTTI_IN_PROGRESS) { /* its source port is not known yet */
        lane->life.retry_at = clock_ns() + ASK_AGAIN;
    } else if (lane->state == LANE_DOWN) {
        lanes_note_obstacle(link);
        trial_failed(lane);
        lane_schedule_retry(lane);
    }
}

static void lanes_open(struct link *link)
{
    if (link->life.unplanned)
        links_plan(link);
    for (lane_set left = link->life.unplanned ? 0 : link->present; left; left &= left - 1)
        if (link->lane[lane_first(left)].state == LANE_NONE)
            lane_connect(&link->lane[lane_first(left)]);
}

static void lanes_start(struct link *link)
{
    if (link->started)
        return;
    link->started = true;
    link->life.down_since = clock_ns();
    trial_begin(link);
    lanes_open(link);
}

static void lane_record_use(struct link_lane *lane)
{
    lane->source = lane->carrier->source;
    const struct path_lane *view = &lane->view;
    uint64_t most = (uint64_t)param_int(PARAM_SEGMENT);
    const struct path_payload longest = {.left = most};
    const struct path_policy *policy = &lane->link->domain->policy;
    struct path_window window = policy->window(lane->link->policy_state, view, NULL, clock_ns());
    uint64_t segment = policy->segment(lane->link->policy_state, &view, 1, &longest, most);
    const struct trace_interface by = {.name = view->nic->about.name,
                                       .device = lane->carrier->device,
                                       .port = view->nic->about.port,
                                       .rate = view->nic->about.rate,
                                       .roles = view->roles,
                                       .source = lane->source,
                                       .distance = (uint16_t)view->distance,
                                       .trip = view->trip,
                                       .segment = (uint32_t)segment,
                                       .window = window.segments,
                                       .window_bytes = window.bytes,
                                       .queue = lane->carrier->ends.queue,
                                       .peer_queue = lane->carrier->ends.peer_queue,
                                       .address = lane->carrier->ends.address,
                                       .peer_address = lane->carrier->ends.peer_address};
    trace_lane_up(lane->trace, &by);
}

/* The policy and the NIC learn that the lane works. */
static void lane_begin_use(struct link_lane *lane)
{
    struct link *link = lane->link;
    lane->confirms = lane->carrier->ops->caps & TRANSPORT_CONFIRMS;
    lane->view.nic = nics_find(link->domain, lane->carrier);
    lane->borrowed = (struct lane_borrowed){0};
    lane->view.nic->lanes++;
    lane->view.trip = lane->carrier->trip;
    if (!lane->trace) {
        const struct trace_about about = {
            .lane = lane->index, .peer_pid = link->peer.pid, .peer_host = link->peer.host};
        lane->trace = trace_lane_open(link->domain->trace, &about, lane->ops->name);
    }
    lanes_choose_usable(link);
    link->domain->policy.up(link->policy_state, &lane->view);
    lane_record_use(lane);
    trace_lane_own(lane->trace, nics_is_chosen(lane->link->domain, lane->view.nic));
}

/* The peer is nearer than it had seemed when the lane came up, or packets have another source port. */
static void lane_look_anew(struct link_lane *lane)
{
    if (lane->view.trip == lane->carrier->trip && lane->source == lane->carrier->source)
        return;
    lane->view.trip = lane->carrier->trip;
    lane_record_use(lane);
}

/* The lane works no more, and holds nothing. In the black box one that moves stays up. */
static void lane_end_use(struct link_lane *lane)
{
    struct link *link = lane->link;
    outgoing_lane_gone(link, lane->index);
    spare_lane_gone(link, lane->index);
    if (!lane->move.closed)
        trace_lane_down(lane->trace);
    lane->view.nic->lanes--;
    lanes_choose_usable(link);
    flight_tell_again(link);
    link->domain->policy.down(link->policy_state, &lane->view);
}

/* A lane that fails again soon is left alone for longer. */
static void lane_grow_calm(struct link_lane *lane)
{
    uint64_t first = (uint64_t)param_int(PARAM_FAILBACK) * NS_PER_MS, longer = 2 * lane->life.calm_ns;
    bool soon = since(lane->life.up_since, clock_ns()) < SOON * lane->life.calm_ns;
    lane->life.calm_ns = !soon ? first : longer < MAX_CALM ? longer : MAX_CALM;
}

/* The lane has been up for long enough to take over from backups. */
static void lane_settle(struct link_lane *lane, uint64_t now)
{
    if (!lane->life.settling || since(lane->life.up_since, now) < lane->life.calm_ns)
        return;
    lane->life.settling = false;
    lanes_choose_usable(lane->link);
    if (control_carries(lane))
        control_choose(lane->link);
    outgoing_pump(lane->link);
}

/* The world learns of it. */
static void lane_tell_up(struct link_lane *lane)
{
    struct trace *trace = lane->link->domain->trace;
    lane_event(lane, lane->life.was_up ? WIRE_EVENT_LANE_BACK : WIRE_EVENT_LANE_UP, lane->epoch, 0);
    if (lane->life.was_up)
        lane_tell(lane, TUTTI_EVENT_LANE_BACK, "works again", "");
    trace_count(trace, lane->life.was_up ? WIRE_COUNTER_LANES_RECONNECTED : WIRE_COUNTER_LANES_UP, 1);
}

static void lane_tell_down(struct link_lane *lane, tutti_result_t why)
{
    lane_event(lane, WIRE_EVENT_LANE_DOWN, why, lane->puts);
    if (!lane->link->life.bye)
        lane_tell(lane, TUTTI_EVENT_LANE_DOWN, "is down", error_last());
    trace_count(lane->link->domain->trace, WIRE_COUNTER_LANES_DOWN, 1);
}

void lane_up(struct link_lane *lane)
{
    struct link *link = lane->link;
    lane->state = LANE_UP;
    link->life.look_at = 0;
    lane->life.up_since = clock_ns();
    bool moved = move_arrived(lane, lane->life.up_since);
    lane->life.settling = lane->life.calm_ns && !moved;
    lane_begin_use(lane);
    lane->life.backoff_ns = lane->life.retry_at = 0;
    lane->puts = 0;
    lane->pace = (struct lane_pace){.looked = lane->life.up_since};
    *link->life.obstacle = 0;
    if (control_carries(lane))
        link->life.down_since = link->life.refusals = 0;
    link->started = true;
    lane_heard(lane);
    if (link->control < 0 && !lane->life.was_up && control_carries(lane))
        lane_event(lane, WIRE_EVENT_LINK_UP, link_lanes(link), 0);
    if (!moved)
        lane_tell_up(lane);
    lane->life.was_up = true;
    trial_passed(lane);
    if (control_carries(lane))
        control_choose(link);
    outgoing_pump(link);
}

void lanes_carrier_up(struct lane *carrier)
{
    lane_up(carrier->user);
}

/* Tells the peer that a lane is closed here. Repeated over whatever lane lives, like every message. */
static void lane_say_down(struct link_lane *lane)
{
    struct wire_message head = {.kind = WIRE_DOWN, .slot = lane->index, .tag.seq = lane->epoch};
    lane->life.unconfirmed = true;
    lane->life.down_epoch = lane->epoch;
    message_send(lane->link, &head, NULL, 0);
}

static void lanes_lose(struct link *link, const char *why)
{
    if (link->lost)
        return;
    snprintf(link->reason, sizeof link->reason, "process %u %s: %s", link->peer.pid,
             link->life.bye ? "has left" : "is gone", why);
    link->lost = true;
    link->domain->self.losses += !link->life.bye;
    link->control = -1;
    for (lane_set left = link->present; left; left &= left - 1) {
        struct link_lane *lane = &link->lane[lane_first(left)];
        bool was_up = lane->state == LANE_UP;
        lane_close(lane);
        lane->state = LANE_DOWN;
        lane->pace.suspect = false;
        if (lane->move.closed)
            trace_lane_down(lane->trace);
        move_forget(lane);
        if (was_up)
            lane_end_use(lane);
    }
    message_drop_all(link);
    lane_event(&link->lane[0], WIRE_EVENT_LINK_LOST, TUTTI_REMOTE_ERROR, 0);
    trace_count(link->domain->trace, WIRE_COUNTER_LINKS_LOST, 1);
    error_note(TUTTI_REMOTE_ERROR, "%s", link->reason);
    match_fail_all(link, TUTTI_REMOTE_ERROR);
    link->domain->owner.lost(link->domain->owner.context, link);
}

static void lanes_none_left(struct link *link)
{
    int count = 0;
    link->control = -1;
    for (lane_set left = link->present; left; left &= left - 1) {
        const struct link_lane *lane = &link->lane[lane_first(left)];
        if (!control_carries(lane))
            continue;
        if (lane->state == LANE_UP)
            return;
        count += control_tells_of_peer(lane);
    }
    if (!link->life.down_since) {
        link->life.down_since = clock_ns();
        link->life.refusals = 0;
    }
    if (link->life.bye)
        lanes_lose(link, error_last());
    else if (link->life.refusals >= REFUSALS_OF_A_DEAD_PEER * count)
        lanes_lose(link, "nobody listens at its address any more");
}

void lane_down(struct link_lane *lane, tutti_result_t why)
{
    struct link *link = lane->link;
    bool was_up = lane->state == LANE_UP, moves = was_up && move_is_agreed(lane);
    lane_close(lane);
    link->life.look_at = 0;
    if (link->lost || link->domain->closing)
        return;
    if (lane->state == LANE_CONNECTING) {
        link->life.refusals += why == TUTTI_REMOTE_ERROR && control_tells_of_peer(lane);
        lanes_note_obstacle(link);
        trial_failed(lane);
    }
    lane->state = LANE_DOWN;
    lane->signs.probed = 0;
    lane->pace.suspect = false;
    if (moves)
        move_closed(lane, clock_ns());
    else
        lane_schedule_retry(lane);
    if (was_up && !moves) {
        move_forget(lane);
        lane_grow_calm(lane);
        lane_tell_down(lane, why);
    }
    if (was_up)
        lane_end_use(lane);
    if ((lane->ops->caps & TRANSPORT_LOSSLESS) && was_up) /* what it carried was not kept */
        lanes_lose(link, error_last());
    else if (link->control == lane->index || link->control < 0)
        lanes_none_left(link);
    if (link->lost)
        return;
    if (was_up)
        lane_say_down(lane);
    if (link->control < 0)
        control_choose(link);
}

void lanes_carrier_down(struct lane *carrier, tutti_result_t why)
{
    lane_down(carrier->user, why);
}

void lane_down_at_peer(struct link *link, unsigned index, uint32_t epoch)
{
    struct link_lane *lane = link_lane(link, index);
    if (!lane)
        return;
    /* Also one that is not up yet: what the peer put there must not land later. */
    if ((lane->state == LANE_UP || lane->state == LANE_CONNECTING) && lane->epoch == epoch)
        lane_down(lane, error_note(TUTTI_SYSTEM_ERROR, "the peer closed lane %u", index));
    if (link->lost)
        return;
    incoming_say_have(link);
    struct wire_message head = {.kind = WIRE_DOWN_OK, .slot = (uint16_t)index, .tag.seq = epoch};
    message_send(link, &head, NULL, 0);
}

void lane_down_confirmed(struct link *link, unsigned index, uint32_t epoch)
{
    struct link_lane *lane = link_lane(link, index);
    if (!lane || !lane->life.unconfirmed || lane->life.down_epoch != epoch)
        return;
    lane->life.unconfirmed = false;
    lanes_choose_usable(link);
    outgoing_put_again(link, index);
}

void lane_suspect(struct link_lane *lane, bool suspect)
{
    struct link *link = lane->link;
    if (lane->pace.suspect == suspect)
        return;
    lane->pace.suspect = suspect;
    trace_count(link->domain->trace, WIRE_COUNTER_LANES_SUSPECTED, suspect);
    lanes_choose_usable(link);
    if (control_carries(lane))
        control_choose(link);
    outgoing_pump(link);
}

/* This end has found that it does not work, even if it is about to move. */
static void lane_fail(struct link_lane *lane)
{
    move_forget(lane);
    lane_down(lane, TUTTI_SYSTEM_ERROR);
}

/* Does it stand still while others go on? */
static void lane_compare(struct link_lane *lane, uint64_t now)
{
    enum outpaced verdict = outpaced_look(lane, now);
    if (lane->link->lost || lane->state != LANE_UP)
        return;
    if (verdict == OUTPACED_LOST)
        lane_fail(lane);
    else
        lane_suspect(lane, verdict == OUTPACED_SUSPECT);
}

/* A lane that was to move has come up nowhere. */
static void lane_judge_move(struct link_lane *lane, uint64_t now)
{
    if (!move_is_late(lane, now))
        return;
    error_note(TUTTI_SYSTEM_ERROR, "it was to get another source port, and does not come up again%s",
               lane->link->life.obstacle);
    trace_lane_down(lane->trace);
    lane_grow_calm(lane);
    lane_tell_down(lane, TUTTI_SYSTEM_ERROR);
}

/* Signs of life of a lane that is up. */
static void lane_watch(struct link_lane *lane, uint64_t now)
{
    if (lane->ops->caps & TRANSPORT_LOSSLESS)
        return;
    lane_compare(lane, now);
    if (lane->state == LANE_UP && lane->carrier && !silence_probe(lane, now))
        lane_fail(lane);
}

/* Does anything depend on the peer's answer? */
static bool lanes_expect(struct link *link)
{
    return !list_empty(&link->out.kept) || !list_empty(&link->puts.queue) || link->load.segments || link->takes.count ||
           tags_any(&link->match.waiting) || tags_any(&link->match.posted);
}

/* The other side should have connected again by now: is it still there? */
static bool lanes_overdue(const struct link *link, uint64_t now)
{
    return link->life.down_since && now - link->life.down_since > NS_PER_S;
}

/* A lane that was up is connected again by one side only, unless that is overdue; else whoever wants it tries. */
void lane_retry(struct link_lane *lane, uint64_t now)
{
    if (!lane->life.retry_at || now < lane->life.retry_at)
        return;
    lane->life.retry_at = 0;
    if (lane->life.was_up && !lanes_begin_here(lane->link) && !lanes_overdue(lane->link, now)) {
        lane->life.retry_at = now + 100 * NS_PER_MS;
        return;
    }
    lane_connect(lane);
    if (!lane->move.closed)
        lane_event(lane, WIRE_EVENT_LANE_RECONNECT, lane->epoch, lane->life.attempts);
}

static void lane_go_on_moving(struct link_lane *lane, uint64_t now)
{
    if (lane->link->lost)
        return;
    if (lane->state != LANE_UP)
        lane_judge_move(lane, now);
    else if (lane->carrier && move_look(lane, now))
        lane_down(lane, error_note(TUTTI_SYSTEM_ERROR, "lane %u is opened anew", lane->index));
}

static struct link_send *lanes_overdue_send(const struct list *list, uint64_t now)
{
    list_each(node, (struct list *)list)
    {
        struct link_send *send = list_entry(node, struct link_send, node);
        if (!send->announced && since(send->since, now) >= 100 * NS_PER_MS)
            return send;
    }
    return NULL;
}

/* Sends without a credit for long: ask the peer whether it is in another call. Others may come and go meanwhile: a list
 * is looked at anew after each, and what has moved to a list before it is found next time. */
static void lanes_announce(struct link *link, uint64_t now)
{
    struct link_send *send;
    for (uint32_t i = 0; i <= link->match.waiting.mask; i++)
        while ((send = lanes_overdue_send(&link->match.waiting.list[i], now))) {
            send->announced = true;
            message_announce(link, send);
            if (link->lost || i > link->match.waiting.mask)
                return;
        }
}

/* When the lane is to be looked at again, if that is before `due`. One that moves: at once. */
static uint64_t lane_due(const struct link_lane *lane, uint64_t now, uint64_t due)
{
    const struct lane_life *life = &lane->life;
    if (lane->move.leaving || lane->move.closed)
        return now;
    if (life->retry_at && life->retry_at < due)
        due = life->retry_at;
    if (lane->state == LANE_UP && life->settling && life->up_since + life->calm_ns < due)
        due = life->up_since + life->calm_ns;
    return due;
}

static void lane_look(struct link_lane *lane, uint64_t now, bool busy)
{
    struct link *link = lane->link;
    if (lane->state == LANE_DOWN)
        lane_retry(lane, now);
    else if (lane->state == LANE_UP && !lane->carrier)
        lane_down(lane,
                  error_note(TUTTI_SYSTEM_ERROR, "lane %u was closed because a receive was given up", lane->index));
    else if (lane->state == LANE_UP && busy)
        lane_watch(lane, now);
    if (lane->state == LANE_UP && !link->lost) {
        lane_look_anew(lane);
        lane_settle(lane, now);
    }
    lane_go_on_moving(lane, now);
}

/* A process may have thousands of lanes, and threads that wait look each millisecond: so those of a wide link are
 * looked at each few milliseconds, or when one of them has changed. */
static void lanes_look(struct link *link, uint64_t now, bool busy)
{
    struct link_life *life = &link->life;
    uint64_t due = now + (link_lanes(link) > FEW_LANES ? LOOK_AGAIN : 0);
    life->look_at = due;
    life->rests_until = UINT64_MAX;
    life->unsettled = false;
    for (lane_set left = link->present; left && !link->lost; left &= left - 1) {
        struct link_lane *lane = &link->lane[lane_first(left)];
        lane_look(lane, now, busy || life->unsettled);
        bool rests = lane->life.retry_at && trial_rest(lane);
        life->unsettled |= lane->state == LANE_CONNECTING || (lane->life.retry_at && !rests) ||
                           (lane->state == LANE_UP && lane->life.settling) || lane->move.leaving;
        if (rests && lane->life.retry_at < life->rests_until)
            life->rests_until = lane->life.retry_at;
        due = lane_due(lane, now, due);
    }
    if (life->look_at) /* else a lane has changed meanwhile */
        life->look_at = due;
}

uint64_t lanes_tick(struct link *link, uint64_t now)
{
    if (!link->messages || link->lost || !link->started)
        return UINT64_MAX;
    if (link->life.down_since && since(link->life.down_since, now) > link->life.patience) {
        char why[280];
        snprintf(why, sizeof why, "no lane came up within %g s (TUTTI_TIMEOUT)%s",
                 (double)link->life.patience / NS_PER_S, link->life.obstacle);
        lanes_lose(link, why);
        return UINT64_MAX;
    }
    if (link->life.unplanned)
        lanes_open(link);
    bool busy = link->life.down_since || link->life.cut || link->life.unplanned || lanes_expect(link);
    bool due = link->life.cut || now >= link->life.look_at || now + LOOK_AGAIN < link->life.look_at;
    if (due)
        lanes_look(link, now, busy);
    busy |= link->life.unsettled || !link->life.look_at;
    link->life.cut = false;
    if (!link->lost) {
        trial_look(link, now);
        lanes_announce(link, now);
        if (busy)
            strays_look(link, now);
    }
    message_acknowledge(link);
    return busy ? now + ASK_AGAIN : due ? link->life.rests_until : link->life.look_at;
}

const struct link_upcalls lanes_upcalls = {.start = lanes_start, .lose = lanes_lose};
