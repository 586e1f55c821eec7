/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life and death of lanes (ICCL section 3.3: detect, move, come back; here for any transport, data exactly once).
 * Death: the lane is closed here, LANE_DEAD tells the peer, who closes its end, says what it HAS and answers
 * LANE_DEAD_OK; only then are segments put again, so that nothing late can land. Rebirth: the side with the smaller
 * uuid connects again with a higher epoch, after a pause that doubles.
 */
#include "link/internal.h"

#include "base/param.h"
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

#define MAX_BACKOFF             NS_PER_S
#define REFUSALS_OF_A_DEAD_PEER 3
#define SOON                    8 /* times a lane's calm */
#define MAX_CALM                (16 * NS_PER_S)

static bool initiator(const struct link *link)
{
    return memcmp(link->domain->self.uuid, link->peer.uuid, WIRE_UUID_BYTES) < 0;
}

void lanes_event(const struct link_lane *lane, enum wire_event_kind kind, uint64_t value1, uint64_t value2)
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

static void schedule_retry(struct link_lane *lane)
{
    uint64_t first = (uint64_t)param_int(PARAM_RECONNECT) * NS_PER_MS;
    lane->retry_at = clock_ns() + (lane->backoff_ns ? lane->backoff_ns : first);
    lane->backoff_ns = lane->backoff_ns ? lane->backoff_ns * 2 : first * 2;
    if (lane->backoff_ns > MAX_BACKOFF)
        lane->backoff_ns = MAX_BACKOFF;
}

static void note_obstacle(struct link *link)
{
    snprintf(link->obstacle, sizeof link->obstacle, "; at last: %s", error_last());
}

static void connect_lane(struct link_lane *lane)
{
    struct link *link = lane->link;
    lane->epoch = wire_epoch(++lane->attempts, !initiator(link));
    tutti_result_t result = lane->ops->lane_open(lane->transport, &link->peer, lane->index, lane->epoch, lane->known,
                                                 link->session, lane, &lane->lane);
    lane->state = result == TUTTI_SUCCESS ? LANE_CONNECTING : LANE_DEAD;
    if (lane->state == LANE_DEAD) {
        lane->lane = NULL;
        note_obstacle(link);
        schedule_retry(lane);
    }
}

/* Lanes for data, else those kept for their failure, else what there is. One that has just come back may be gone again:
 * it waits while backups stand in. */
static void choose_usable(struct link *link)
{
    uint32_t up = 0, data = 0, calm = 0, backup = 0;
    for (int i = 0; i < link->lanes; i++) {
        const struct link_lane *lane = &link->lane[i];
        uint32_t bit = lane->state == LANE_UP && lane->lane && !lane->unconfirmed ? 1u << i : 0;
        up |= bit;
        data |= lane->view.roles & PATH_DATA ? bit : 0;
        calm |= lane->view.roles & PATH_DATA && !lane->settling ? bit : 0;
        backup |= lane->view.roles & PATH_BACKUP ? bit : 0;
    }
    uint32_t spare = backup ? backup : data ? data : up;
    link->usable = backup && calm ? calm : spare;
}

static int list_nics(struct transport *transport, const struct transport_ops *ops, struct transport_nic out[LINK_NICS])
{
    int count = 0;
    while (count < LINK_NICS && ops->nic(transport, (unsigned)count, &out[count]))
        count++;
    return count;
}

uint16_t lanes_source(void *context, const struct transport_ops *ops, unsigned device, uint16_t index)
{
    struct link_domain *domain = context;
    unsigned first = ops->caps & TRANSPORT_DATA && index >= LINK_DATA_LANE ? LINK_DATA_LANE : 0;
    for (int i = 0; i < domain->transports; i++) {
        if (domain->ops[i] != ops)
            continue;
        struct transport_nic nic[LINK_NICS];
        const struct path_source lane = {.device = device,
                                         .nics = (unsigned)list_nics(domain->transport[i], ops, nic),
                                         .place = index - first,
                                         .words = index == LINK_WORDS_LANE};
        return domain->policy.source(&lane);
    }
    return 0;
}

/* Lanes of one transport, from index `first`: those that the policy wishes for. False: it does not know yet. */
static bool plan_lanes(struct link *link, int transport, int first, int most)
{
    struct link_domain *domain = link->domain;
    struct path_wish wishes[LINK_MAX_LANES];
    struct transport_nic listed[LINK_NICS], nic[LINK_NICS];
    struct path_question question = {
        .peer = &link->peer, .ops = domain->ops[transport], .messages = !first, .most = most};
    int likely = question.ops->lanes(domain->transport[transport], &link->peer);
    question.distance = wire_distance(&domain->self, &link->peer);
    question.likely = likely < most ? likely : most;
    question.nics = list_nics(domain->transport[transport], question.ops, listed);
    for (int i = 0; i < question.nics; i++) /* lanes go by their indexes, of which the first need not be 0 */
        nic[i] = listed[(first + i) % question.nics];
    question.nic = nic;
    question.data = !first && link->planned[1] < 0;
    int count = domain->policy.lanes(link->policy_state, &question, wishes);
    for (int i = 0; i < count && i < most; i++) {
        struct link_lane *lane = &link->lane[first + i];
        lane->ops = question.ops;
        lane->transport = domain->transport[transport];
        lane->view.roles = wishes[i].roles;
        if (link->lanes <= first + i)
            link->lanes = first + i + 1;
    }
    return count >= 0;
}

/* Beside the lanes for data: a message that is put behind segments waits for all of them. */
static void plan_words(struct link *link)
{
    struct link_domain *domain = link->domain;
    struct link_lane *lane = &link->lane[LINK_WORDS_LANE];
    if (!(domain->ops[link->planned[1]]->caps & TRANSPORT_MESSAGES) || link->lossless || lane->ops)
        return;
    lane->ops = domain->ops[link->planned[1]];
    lane->transport = domain->transport[link->planned[1]];
    lane->view.roles = PATH_CONTROL;
    link->lanes = LINK_WORDS_LANE + 1;
}

void lanes_plan(struct link *link)
{
    bool data = link->planned[1] >= 0;
    bool known = plan_lanes(link, link->planned[0], 0, data ? LINK_DATA_LANE : LINK_WORDS_LANE);
    known &= !data || plan_lanes(link, link->planned[1], LINK_DATA_LANE, LINK_WORDS_LANE - LINK_DATA_LANE);
    if (data && known)
        plan_words(link);
    link->unplanned = !known;
    choose_usable(link);
}

static void open_lanes(struct link *link)
{
    if (link->unplanned)
        lanes_plan(link);
    for (int i = 0; !link->unplanned && i < link->lanes; i++)
        if (link->lane[i].ops && link->lane[i].state == LANE_NONE)
            connect_lane(&link->lane[i]);
}

void lanes_start(struct link *link)
{
    if (link->started)
        return;
    link->started = true;
    link->down_since = clock_ns();
    open_lanes(link);
}

static struct path_nic *find_nic(struct link_domain *domain, const struct lane *lane)
{
    for (int i = 0; i < domain->nics; i++)
        if (domain->nic[i].ops == lane->ops && domain->nic[i].device == lane->device)
            return &domain->nic[i];
    if (domain->nics < LINK_NICS) {
        struct path_nic *nic = &domain->nic[domain->nics++];
        *nic = (struct path_nic){.ops = lane->ops, .device = lane->device};
        lane->ops->nic(lane->transport, lane->device, &nic->about);
    }
    return &domain->nic[domain->nics - 1];
}

static void record_use(const struct link_lane *lane)
{
    const struct path_lane *view = &lane->view;
    struct path_window window = lane->link->domain->policy.window(lane->link->policy_state, view);
    const struct trace_interface by = {.name = view->nic->about.name,
                                       .device = lane->lane->device,
                                       .port = view->nic->about.port,
                                       .rate = view->nic->about.rate,
                                       .roles = view->roles,
                                       .source = lane->lane->source,
                                       .distance = (uint16_t)view->distance,
                                       .window = window.segments,
                                       .window_bytes = window.bytes};
    trace_lane_up(lane->trace, &by);
}

/* The policy and the NIC learn that the lane works. */
static void begin_use(struct link_lane *lane)
{
    struct link *link = lane->link;
    lane->confirms = lane->lane->ops->caps & TRANSPORT_CONFIRMS;
    lane->view.nic = find_nic(link->domain, lane->lane);
    lane->view.nic->lanes++;
    if (!lane->trace) {
        const struct trace_about about = {
            .lane = lane->index, .peer_pid = link->peer.pid, .peer_host = link->peer.host};
        lane->trace = trace_lane_open(link->domain->trace, &about, lane->ops->name);
    }
    choose_usable(link);
    link->domain->policy.up(link->policy_state, &lane->view);
    record_use(lane);
}

/* It does not any more, and holds nothing. */
static void end_use(struct link_lane *lane)
{
    struct link *link = lane->link;
    bulk_lane_gone(link, lane->index);
    trace_lane_down(lane->trace);
    lane->view.nic->lanes--;
    choose_usable(link);
    flight_tell_again(link);
    link->domain->policy.down(link->policy_state, &lane->view);
}

/* A lane that fails again soon is left alone for longer. */
static void grow_calm(struct link_lane *lane)
{
    uint64_t first = (uint64_t)param_int(PARAM_FAILBACK) * NS_PER_MS, longer = 2 * lane->calm_ns;
    bool soon = since(lane->up_since, clock_ns()) < SOON * lane->calm_ns;
    lane->calm_ns = !soon ? first : longer < MAX_CALM ? longer : MAX_CALM;
}

/* It has been up for long enough to take over from backups. */
static void lanes_settle(struct link_lane *lane, uint64_t now)
{
    if (!lane->settling || since(lane->up_since, now) < lane->calm_ns)
        return;
    lane->settling = false;
    choose_usable(lane->link);
    if (control_carries(lane))
        control_choose(lane->link);
    bulk_pump(lane->link);
}

static void lane_is_up(struct link_lane *lane)
{
    struct link *link = lane->link;
    lane->state = LANE_UP;
    lane->up_since = clock_ns();
    lane->settling = lane->calm_ns;
    begin_use(lane);
    lane->backoff_ns = lane->retry_at = 0;
    lane->puts = 0;
    *link->obstacle = 0;
    if (control_carries(lane))
        link->down_since = link->refusals = 0;
    link->started = true;
    lanes_heard(lane);
    if (link->control < 0 && !lane->was_up && control_carries(lane))
        lanes_event(lane, WIRE_EVENT_LINK_UP, (uint64_t)link->lanes, 0);
    lanes_event(lane, lane->was_up ? WIRE_EVENT_LANE_BACK : WIRE_EVENT_LANE_UP, lane->epoch, 0);
    trace_count(link->domain->trace, lane->was_up ? WIRE_COUNTER_LANES_RECONNECTED : WIRE_COUNTER_LANES_UP, 1);
    lane->was_up = true;
    if (control_carries(lane))
        control_choose(link);
    bulk_pump(link);
}

void lanes_up(struct lane *transport_lane)
{
    lane_is_up(transport_lane->user);
}

/* Tells the peer that a lane is closed here. Repeated over whatever lane lives, like every message. */
static void say_dead(struct link_lane *lane)
{
    struct wire_message head = {.kind = WIRE_LANE_DEAD, .slot = lane->index, .tag.seq = lane->epoch};
    lane->unconfirmed = true;
    lane->dead_epoch = lane->epoch;
    message_send(lane->link, &head, NULL, 0);
}

static void close_lane(struct link_lane *lane)
{
    struct lane *closing = lane->lane;
    lane->lane = NULL;
    if (closing)
        closing->ops->lane_close(closing);
}

void lanes_cut_direct(struct link *link)
{
    for (int i = 0; i < link->lanes; i++)
        if (link->lane[i].state == LANE_UP && (link->lane[i].ops->caps & TRANSPORT_DIRECT) && i != LINK_WORDS_LANE)
            close_lane(&link->lane[i]);
    link->cut = true; /* with the next tick the lanes are dead */
    choose_usable(link);
}

static void no_lane_left(struct link *link)
{
    int count = 0;
    link->control = -1;
    for (int i = 0; i < link->lanes; i++) {
        if (!control_carries(&link->lane[i]))
            continue;
        if (link->lane[i].state == LANE_UP)
            return;
        count += control_tells_of_peer(&link->lane[i]);
    }
    if (!link->down_since) {
        link->down_since = clock_ns();
        link->refusals = 0;
    }
    if (link->bye)
        lanes_lose(link, error_last());
    else if (link->refusals >= REFUSALS_OF_A_DEAD_PEER * count)
        lanes_lose(link, "nobody listens at its address any more");
}

void lanes_dead(struct link_lane *lane, tutti_result_t why)
{
    struct link *link = lane->link;
    bool was_up = lane->state == LANE_UP;
    close_lane(lane);
    if (link->lost || link->domain->closing)
        return;
    if (lane->state == LANE_CONNECTING) {
        link->refusals += why == TUTTI_REMOTE_ERROR && control_tells_of_peer(lane);
        note_obstacle(link);
    }
    lane->state = LANE_DEAD;
    lane->probed = 0;
    schedule_retry(lane);
    if (was_up) {
        grow_calm(lane);
        lanes_event(lane, WIRE_EVENT_LANE_DOWN, why, lane->puts);
        trace_count(link->domain->trace, WIRE_COUNTER_LANES_DOWN, 1);
        end_use(lane);
    }
    if ((lane->ops->caps & TRANSPORT_LOSSLESS) && was_up) /* what it carried was not kept */
        lanes_lose(link, error_last());
    else if (link->control == lane->index || link->control < 0)
        no_lane_left(link);
    if (link->lost)
        return;
    if (was_up)
        say_dead(lane);
    if (link->control < 0)
        control_choose(link);
}

void lanes_down(struct lane *transport_lane, tutti_result_t why)
{
    lanes_dead(transport_lane->user, why);
}

void lanes_peer_says_dead(struct link *link, unsigned index, uint32_t epoch)
{
    if (index >= (unsigned)link->lanes)
        return;
    struct link_lane *lane = &link->lane[index];
    /* Also one that is not up yet: what the peer put there must not land later. */
    if ((lane->state == LANE_UP || lane->state == LANE_CONNECTING) && lane->epoch == epoch)
        lanes_dead(lane, error_note(TUTTI_SYSTEM_ERROR, "the peer closed lane %u", index));
    if (link->lost)
        return;
    bulk_say_have(link);
    struct wire_message head = {.kind = WIRE_LANE_DEAD_OK, .slot = (uint16_t)index, .tag.seq = epoch};
    message_send(link, &head, NULL, 0);
}

void lanes_confirmed(struct link *link, unsigned index, uint32_t epoch)
{
    if (index >= (unsigned)link->lanes || !link->lane[index].unconfirmed || link->lane[index].dead_epoch != epoch)
        return;
    link->lane[index].unconfirmed = false;
    choose_usable(link);
    bulk_put_again(link, index);
}

/*
 * Both sides connected at once: the attempt of the smaller uuid stays. And a lane that is up here makes way for one
 * that the peer began when it had done with this one, not for one that it began before.
 */
static bool lanes_welcome(const struct link *link, const struct link_lane *lane, const struct wire_hello *hello)
{
    switch (lane->state) {
    case LANE_CONNECTING:
        return !initiator(link);
    case LANE_UP:
        return wire_epoch_later(hello->epoch, lane->epoch) || hello->known == lane->epoch;
    default:
        return true;
    }
}

/* A lane is of one transport at both ends. The peer may want more than this side does. */
static bool lanes_fits(const struct link *link, unsigned index, const struct transport_ops *ops)
{
    const struct link_lane *lane = &link->lane[index];
    return lane->ops ? lane->ops == ops
                     : link->messages == ops || ((ops->caps & TRANSPORT_DATA) && index >= LINK_DATA_LANE);
}

/* The link that a hello is for, NULL if it is for none of ours. */
static struct link *addressee(struct link_domain *domain, const struct lane *lane, const struct wire_hello *hello)
{
    struct link *link = link_find(domain, hello->from.uuid, hello->session);
    if (!link && link_make(domain, &hello->from, hello->session, &link) != TUTTI_SUCCESS)
        return NULL;
    bool right =
        !link->lost && !domain->closing && hello->lane < LINK_MAX_LANES && lanes_fits(link, hello->lane, lane->ops);
    return right ? link : NULL;
}

/* The lane is no more what it was, for the peer has connected it anew. */
static void lanes_replace(struct link_lane *lane)
{
    if (lane->state == LANE_UP) {
        error_note(TUTTI_REMOTE_ERROR, "the peer connected lane %u anew", lane->index);
        lanes_dead(lane, TUTTI_REMOTE_ERROR);
    }
    close_lane(lane);
}

bool lanes_accepted(void *context, struct lane *transport_lane, const struct wire_hello *hello)
{
    struct link *link = addressee(context, transport_lane, hello);
    struct link_lane *lane = link ? &link->lane[hello->lane] : NULL;
    if (link && !lanes_welcome(link, lane, hello))
        return false;
    if (link)
        lanes_replace(lane);
    if (!link || link->lost) {
        transport_lane->ops->lane_close(transport_lane);
        return true;
    }
    if (hello->lane >= link->lanes)
        link->lanes = hello->lane + 1;
    if (!lane->ops) /* one that we would not have opened */
        lane->view.roles = PATH_DATA;
    lane->lane = transport_lane;
    lane->ops = transport_lane->ops;
    lane->transport = transport_lane->transport;
    lane->epoch = lane->known = hello->epoch;
    transport_lane->user = lane;
    if (!link->started)
        link->down_since = clock_ns();
    lane_is_up(lane);
    return true;
}

void lanes_lose(struct link *link, const char *why)
{
    if (link->lost)
        return;
    snprintf(link->reason, sizeof link->reason, "process %u %s: %s", link->peer.pid, link->bye ? "has left" : "is gone",
             why);
    link->lost = true;
    link->domain->self.losses += !link->bye;
    link->control = -1;
    for (int i = 0; i < link->lanes; i++) {
        bool was_up = link->lane[i].state == LANE_UP;
        close_lane(&link->lane[i]);
        link->lane[i].state = LANE_DEAD;
        if (was_up)
            end_use(&link->lane[i]);
    }
    message_drop_all(link);
    lanes_event(&link->lane[0], WIRE_EVENT_LINK_LOST, TUTTI_REMOTE_ERROR, 0);
    trace_count(link->domain->trace, WIRE_COUNTER_LINKS_LOST, 1);
    error_note(TUTTI_REMOTE_ERROR, "%s", link->reason);
    match_fail_all(link, TUTTI_REMOTE_ERROR);
    link->domain->owner.lost(link->domain->owner.context, link);
}

/* Does anything depend on the peer's answer? */
static bool expects(struct link *link)
{
    return !list_empty(&link->outgoing) || !list_empty(&link->bulk) || link->receiving_count ||
           tags_any(&link->waiting) || tags_any(&link->posted);
}

/* The other side should have connected again by now: is it still there? */
static bool lanes_overdue(const struct link *link, uint64_t now)
{
    return link->down_since && now - link->down_since > NS_PER_S;
}

/* A lane that was up is connected again by one side only, unless that is overdue; else whoever wants it tries. */
static void retry(struct link_lane *lane, uint64_t now)
{
    if (!lane->retry_at || now < lane->retry_at)
        return;
    lane->retry_at = 0;
    if (lane->was_up && !initiator(lane->link) && !lanes_overdue(lane->link, now)) {
        lane->retry_at = now + 100 * NS_PER_MS;
        return;
    }
    connect_lane(lane);
    lanes_event(lane, WIRE_EVENT_LANE_RECONNECT, lane->epoch, lane->attempts);
}

static struct link_send *overdue_send(const struct list *list, uint64_t now)
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
    for (uint32_t i = 0; i <= link->waiting.mask; i++)
        while ((send = overdue_send(&link->waiting.list[i], now))) {
            send->announced = true;
            match_announce(link, send);
            if (link->lost || i > link->waiting.mask)
                return;
        }
}

uint64_t lanes_tick(struct link *link, uint64_t now)
{
    if (!link->messages || link->lost || !link->started)
        return UINT64_MAX;
    if (link->down_since && since(link->down_since, now) > link->patience) {
        char why[280];
        snprintf(why, sizeof why, "no lane came up within %g s (TUTTI_TIMEOUT)%s", (double)link->patience / NS_PER_S,
                 link->obstacle);
        lanes_lose(link, why);
        return UINT64_MAX;
    }
    if (link->unplanned)
        open_lanes(link);
    bool busy = link->down_since || link->cut || link->unplanned || expects(link);
    for (int i = 0; i < link->lanes && !link->lost; i++) {
        struct link_lane *lane = &link->lane[i];
        if (lane->state == LANE_DEAD)
            retry(lane, now);
        else if (lane->state == LANE_UP && !lane->lane)
            lanes_dead(
                lane, error_note(TUTTI_SYSTEM_ERROR, "lane %u was closed because a receive was given up", lane->index));
        else if (lane->state == LANE_UP && busy && !(lane->ops->caps & TRANSPORT_LOSSLESS))
            lanes_probe(lane, now);
        if (lane->state == LANE_UP && !link->lost)
            lanes_settle(lane, now);
        busy |= lane->state == LANE_CONNECTING || lane->retry_at || (lane->state == LANE_UP && lane->settling);
    }
    link->cut = false;
    if (!link->lost) {
        lanes_announce(link, now);
        if (busy)
            match_look_for_strays(link, now);
    }
    message_acknowledge(link);
    return busy ? now + 20 * NS_PER_MS : UINT64_MAX;
}
