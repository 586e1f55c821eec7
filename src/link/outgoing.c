/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large payloads at the sender's end: with the receiver's credit the payload is cut into segments, and each is put on a
 * lane that the path policy picks. When a lane goes down, what the receiver does not have is put again on other lanes.
 */
#include "link/outgoing.h"

#include "base/param.h"
#include "base/reach.h"
#include "link/flight.h"
#include "link/lend.h"
#include "link/memory.h"
#include "link/message.h"
#include "link/nics.h"
#include "link/outpaced.h"
#include "link/refuse.h"
#include "link/segments.h"
#include "link/slots.h"
#include "link/spare.h"

#include <stdlib.h>
#include <string.h>

/* A grant that is in use ends: nobody knows what its slot has. */
static void outgoing_spoil(struct link_send *send)
{
    if (send->grant)
        link_grant_end(send->grant);
}

void outgoing_release(struct link *link, struct link_send *send)
{
    lend_release(link, send);
    outgoing_spoil(send);
    if (send->credited) {
        link->puts.reading[send->id] = NULL;
        if (link->puts.sending[send->slot] == send)
            link->puts.sending[send->slot] = NULL;
    }
    send->credited = false;
    memory_part(link, send->memory);
    send->memory = NULL;
    if (send->lane_of != send->lane_of_few)
        free(send->lane_of);
    send->lane_of = NULL;
}

static void outgoing_finish(struct link *link, struct link_send *send, tutti_result_t result)
{
    list_remove(&send->node);
    outgoing_release(link, send);
    send->done(send, result);
}

static bool outgoing_enter(struct link *link, struct link_send *send)
{
    if (!slots_grow((void ***)&link->puts.sending, &link->puts.sending_size, send->slot) ||
        link->puts.sending[send->slot])
        return false;
    uint32_t id = slots_free((void ***)&link->puts.reading, &link->puts.reading_size, MAX_IDS);
    send->lane_of = send->segments <= sizeof send->lane_of_few ? send->lane_of_few : malloc(send->segments);
    if (!send->lane_of || id == MAX_IDS)
        return false;
    memset(send->lane_of, SEGMENT_WAITS, send->segments);
    send->id = (uint16_t)id;
    link->puts.reading[id] = link->puts.sending[send->slot] = send;
    send->credited = true;
    return true;
}

/* What is not registered the processor copies, on some lanes at least: `unsure`, all of the payload is looked at. */
static bool send_may_start(const struct link_send *send, bool unsure)
{
    const void *data = place_reach(send->place);
    if (!place_is_host(send->place))
        return send->memory;
    return reach_ends_readable(data, send->length) && !(unsure && reach_unreadable(data, send->length));
}

/* The payload goes on when it lies in its spare memory. */
static void outgoing_spill(struct link_send *send)
{
    list_remove(&send->node);
    send->spilling = true;
    send->spill(send);
}

/* The credit stands from here on, if the peer says so. */
static void outgoing_grant(struct link *link, struct link_send *send, const struct wire_message *head,
                           const struct early_credit *early)
{
    struct link_grant *grant = send->grant;
    if (!grant || grant->stands)
        return;
    if (!(head->flags & WIRE_STANDS)) {
        outgoing_spoil(send);
        return;
    }
    grant->stands = true;
    grant->slot = head->slot;
    grant->credit = early->credit;
    grant->memory = early->memory;
    list_push(&link->puts.granted, &grant->node);
}

void outgoing_start(struct link *link, struct link_send *send, const struct wire_message *head,
                    const struct early_credit *early)
{
    const struct wire_credit *credit = &early->credit;
    list_init(&send->node);
    if (credit->length != send->length || head->call.signature != send->call.signature) {
        outgoing_spoil(send);
        message_announce(link, send); /* the receiver waits for it, and must find out too */
        tutti_result_t result =
            refuse_call(&send->tag, &send->call, send->length, &head->call, credit->length, send->tag.to);
        send->done(send, result);
        return;
    }
    send->segment = credit->segment;
    memcpy(send->wanted, credit->lanes, sizeof send->wanted);
    send->credit_since = early->since;
    send->slot = head->slot;
    send->segments = credit->segment ? segment_count(send->length, credit->segment) : 0;
    send->next = 0;
    if (send->slot >= MAX_SLOTS || send->segments == 0 || send->segments > MAX_SEGMENTS ||
        !outgoing_enter(link, send)) {
        outgoing_release(link, send);
        send->done(
            send,
            error_note(
                TUTTI_SYSTEM_ERROR,
                "a send of %zu bytes to rank %u failed: no memory here, or the peer grants buffers that do not fit",
                send->length, send->tag.to));
        return;
    }
    bool unsure;
    outgoing_grant(link, send, head, early);
    send->memory = memory_meet(link, send, &early->memory, &unsure);
    if (!send->memory && spare_is_needed(send)) {
        outgoing_spill(send);
        return;
    }
    if (!send_may_start(send, unsure)) {
        outgoing_finish(link, send, refuse_source(send));
        return;
    }
    list_push(&link->puts.queue, &send->node);
    outgoing_pump(link);
}

/* Puts whose source may be read still. Where a lane needs it until the peer has it, as adapters do, these are what is
 * under way, which is the policy's to say. */
static uint32_t outgoing_queue(const struct link_lane *lane, const struct path_window *window)
{
    uint32_t asked = (uint32_t)param_int(PARAM_LANE_WINDOW);
    bool needed = lane->confirms || lane->ops->caps & TRANSPORT_REGISTERS;
    bool decided = needed && (window->segments || window->bytes);
    return asked ? asked : decided ? LINK_FLIGHTS : lane->ops->window;
}

/* Is there room for a segment: in the lane's queue, and in what the policy lets be under way? */
static bool outgoing_has_room(const struct link *link, const struct link_lane *lane, const struct path_payload *payload,
                              size_t length, uint64_t now)
{
    const struct path_lane *view = &lane->view;
    struct path_window window = link->domain->policy.window(link->policy_state, view, payload, now);
    bool full = (window.segments && view->segments >= window.segments) ||
                (window.bytes && view->segments && view->outstanding + length > window.bytes);
    return !full && lane->puts < outgoing_queue(lane, &window) && lane->flight.next - lane->flight.first < LINK_FLIGHTS;
}

/* Lanes that take segments of it from where it lies. */
static lane_set outgoing_fit(const struct link *link, const struct link_send *send)
{
    return place_is_host(send->place) ? link->usable : link->usable & ~lane_set_of(send->unfit);
}

/* The lane for the next segment, by the policy. NULL: none now; something is under way, and when it has landed is the
 * time to ask again. */
static struct link_lane *outgoing_pick(struct link *link, const struct link_send *send, size_t length, uint64_t now)
{
    struct path_payload payload =
        nics_payload(link, send->place, send->class, send->length - send->segment * send->next);
    payload.segment = send->segment;
    const struct path_lane *lanes[LINK_MAX_LANES];
    lane_set fit = outgoing_fit(link, send), wanted = fit & lane_set_of(send->wanted), set = wanted ? wanted : fit;
    uint32_t under_way = 0;
    int count = 0, spare = -1;
    for (; set; set &= set - 1) {
        struct link_lane *lane = &link->lane[lane_first(set)];
        lane->view.room = outgoing_has_room(link, lane, &payload, length, now);
        lane->view.idle = nics_is_idle(lane);
        under_way += lane->view.segments + lane->puts;
        if (lane->view.room)
            spare = count;
        lanes[count++] = &lane->view;
    }
    if (spare < 0)
        return NULL;
    nics_look(link->domain, now);
    int position = link->domain->policy.pick(link->policy_state, lanes, count, &payload, length, now);
    if (position < 0 || !lanes[position]->room)
        position = under_way ? -1 : spare; /* nothing would end the wait */
    return position < 0 ? NULL : &link->lane[lanes[position]->index];
}

static void outgoing_skip(struct link_send *send)
{
    while (send->next < send->segments && send->lane_of[send->next] != SEGMENT_WAITS)
        send->next++;
}

/* A lane needs this segment's source no longer. */
static void outgoing_read(struct link_send *send, uint32_t index)
{
    if (index >= send->segments || !segment_is_read(send->lane_of[index]))
        return;
    send->lane_of[index] &= (uint8_t)~SEGMENT_READ;
    send->in_flight--;
}

void outgoing_give_up(struct link *link, struct link_send *send)
{
    lend_give_up(link, send);
    for (uint32_t i = 0; send->credited && send->in_flight && i < send->segments; i++) {
        if (!segment_is_read(send->lane_of[i]))
            continue;
        struct link_lane *lane = &link->lane[segment_lane(send->lane_of[i])];
        if (lane->carrier) /* else it was cut */
            lane->ops->give_up(lane->carrier, token_of(send->id, i));
        lane->puts -= lane->puts > 0;
        flight_give_up(lane, token_of(send->id, i));
        outgoing_read(send, i);
    }
}

enum outgoing_turn { TURN_TAKEN, TURN_WAITS, TURN_ENDS }; /* ENDS: nothing more goes now */

/* Puts the next segment of `send`. WAITS: no lane has room. */
static enum outgoing_turn outgoing_put_next(struct link *link, struct link_send *send)
{
    uint32_t index = send->next;
    uint64_t length = segment_length(send->length, send->segment, index);
    uint64_t now = clock_ns();
    if (link->usable && !outgoing_fit(link, send)) {
        outgoing_spill(send);
        return TURN_TAKEN;
    }
    struct link_lane *lane = outgoing_pick(link, send, length, now);
    if (!lane)
        return TURN_WAITS;
    struct put put = {.source = place_behind(send->place, send->segment * index),
                      .length = length,
                      .imm = imm_of(send->slot, index),
                      .offset = send->segment * index,
                      .whole = send->length,
                      .token = token_of(send->id, index)};
    bool registers = lane->ops->caps & TRANSPORT_REGISTERS && lane->index != LINK_MESSAGE_LANE;
    if (send->memory && send->memory->remote.devices && registers && send->place.address != send->spare) {
        put.remote = &send->memory->remote;
        put.memory = send->memory->source->memory;
    }
    if (!flight_begin(lane, send, &put, now)) {
        link_lose(link, "no memory for what is under way");
        return TURN_ENDS;
    }
    outpaced_put(lane, now);
    send->lane_of[index] = segment_put(lane->index, true);
    send->in_flight++;
    lane->puts++;
    const struct transport_ops *ops = lane->ops;
    tutti_result_t result = ops->put(lane->carrier, &put);
    if (result == TUTTI_SUCCESS) {
        link_count_sent(link, ops, WIRE_COUNTER_SEGMENTS_SENT, length);
        return TURN_TAKEN;
    }
    /* A lane that fails may have sent all or some of the segment. When the lane is down, the peer says what it has, of
     * this put as of the others. */
    if (result != TUTTI_REMOTE_ERROR && lane->puts) {
        lane->puts--;
        flight_give_up(lane, put.token);
        outgoing_read(send, index);
        send->lane_of[index] = SEGMENT_WAITS;
    }
    if (result != TUTTI_INVALID_ARGUMENT)
        return TURN_ENDS;
    if (spare_is_needed(send)) {
        send->unfit[lane->index / 64] |= 1ull << lane->index % 64;
        return TURN_TAKEN;
    }
    outgoing_give_up(link, send); /* a lane that cannot carry it stands in for one that could */
    outgoing_finish(link, send, refuse_source(send));
    return TURN_TAKEN;
}

static void outgoing_gather(struct link_domain *domain, bool gathers)
{
    for (int i = 0; i < domain->transports; i++)
        if (domain->ops[i]->gather)
            domain->ops[i]->gather(domain->transport[i], gathers);
}

void link_gather(struct link_domain *domain)
{
    if (!domain->gathering++)
        outgoing_gather(domain, true);
}

void link_ring(struct link_domain *domain)
{
    if (!--domain->gathering)
        outgoing_gather(domain, false);
}

/* What lies in one device's memory waits for the same lanes. What is behind it, and lies elsewhere, may go by others.
 * False: nothing goes. */
static bool outgoing_go_on(struct link *link)
{
    uint64_t waiting = 0; /* devices, as bits */
    list_each(node, &link->puts.queue)
    {
        struct link_send *send = list_entry(node, struct link_send, node);
        uint64_t here = 1ull << send->place.device % 64;
        if (waiting & here)
            continue;
        outgoing_skip(send);
        if (send->next == send->segments) {
            list_remove(&send->node); /* all on their way: kept in link->puts.sending until DONE */
            return true;
        }
        enum outgoing_turn turn = outgoing_put_next(link, send);
        if (turn != TURN_WAITS)
            return turn == TURN_TAKEN;
        if (place_is_host(send->place))
            return false;
        waiting |= here;
    }
    return false;
}

void outgoing_pump(struct link *link)
{
    if (link->puts.pumping) /* put() said from inside that it has read: the loop below goes on */
        return;
    if (list_empty(&link->puts.queue))
        return;
    link->puts.pumping = true;
    link_gather(link->domain);
    while (outgoing_go_on(link))
        continue;
    link->puts.pumping = false;
    link_ring(link->domain);
}

void outgoing_sent(struct lane *carrier, uint64_t token)
{
    struct link_lane *lane = carrier->user;
    struct link *link = lane->link;
    uint64_t id = token_id(token);
    struct link_send *send = id < link->puts.reading_size ? link->puts.reading[id] : NULL;
    uint64_t now = clock_ns();
    if (lane->puts)
        lane->puts--;
    outpaced_sent(lane, now);
    flight_sent(lane, token, now);
    if (send)
        outgoing_read(send, token_segment(token));
    if (send && send->finished && !send->in_flight)
        outgoing_finish(link, send, TUTTI_SUCCESS);
    outgoing_pump(link);
}

void outgoing_unreadable(struct lane *carrier, uint64_t token)
{
    struct link_lane *lane = carrier->user;
    struct link *link = lane->link;
    uint64_t id = token_id(token);
    struct link_send *send = id < link->puts.reading_size ? link->puts.reading[id] : NULL;
    lane->puts -= lane->puts > 0;
    flight_give_up(lane, token);
    if (send) {
        outgoing_read(send, token_segment(token));
        outgoing_give_up(link, send);
        outgoing_finish(link, send, send->finished ? TUTTI_SUCCESS : refuse_source(send));
    }
    outgoing_pump(link);
}

void outgoing_done(struct link *link, uint32_t slot, const void *reports, size_t length)
{
    struct link_send *send = slot < link->puts.sending_size ? link->puts.sending[slot] : NULL;
    flight_hear(link, reports, length);
    if (!send)
        return;
    flight_all_landed(link, slot);
    if (send->grant)
        send->grant->send = NULL;
    send->grant = NULL;
    link->puts.sending[slot] = NULL; /* a credit for another payload may follow while lanes still read this one */
    list_remove(&send->node);
    send->finished = true;
    if (!send->in_flight)
        outgoing_finish(link, send, TUTTI_SUCCESS);
    outgoing_pump(link);
}

/* Puts that are under way with it fail, and so do their lanes; the rest asks. */
void outgoing_revoked(struct link *link, uint32_t slot)
{
    struct link_send *send = slot < link->puts.sending_size ? link->puts.sending[slot] : NULL;
    list_each(node, &link->puts.granted)
    {
        struct link_grant *grant = list_entry(node, struct link_grant, node);
        if (grant->slot == slot)
            grant->memory.devices = 0;
    }
    if (!send)
        early_revoke(link, slot);
    else if (send->memory)
        send->memory->remote.devices = 0;
}

void outgoing_have(struct link *link, uint32_t slot, const void *bitmap, size_t length)
{
    struct link_send *send = slot < link->puts.sending_size ? link->puts.sending[slot] : NULL;
    if (!send || length < (send->segments + 63) / 64 * sizeof(uint64_t))
        return;
    const unsigned char *bytes = bitmap;
    for (uint32_t index = 0; index < send->segments; index++) {
        uint64_t word;
        memcpy(&word, bytes + index / 64 * sizeof word, sizeof word);
        if (word >> (index % 64) & 1 && !segment_is_read(send->lane_of[index]))
            send->lane_of[index] = SEGMENT_ARRIVED;
    }
}

void outgoing_lane_gone(struct link *link, unsigned lane_index)
{
    link->lane[lane_index].puts = 0;
    flight_drop_all(&link->lane[lane_index]);
    for (uint32_t id = 0; id < link->puts.reading_size; id++) {
        struct link_send *send = link->puts.reading[id];
        if (!send)
            continue;
        for (uint32_t i = 0; i < send->segments; i++)
            if (send->lane_of[i] == segment_put(lane_index, true))
                outgoing_read(send, i);
        if (send->finished && !send->in_flight)
            outgoing_finish(link, send, TUTTI_SUCCESS);
    }
}

void outgoing_spilled(struct link *link, struct link_send *send)
{
    send->spilling = false;
    send->place = place_host(send->spare);
    list_push(&link->puts.queue, &send->node);
    outgoing_pump(link);
}

void outgoing_put_again(struct link *link, unsigned lane_index)
{
    uint64_t segments = 0, bytes = 0;
    for (uint32_t slot = 0; slot < link->puts.sending_size; slot++) {
        struct link_send *send = link->puts.sending[slot];
        if (!send)
            continue;
        bool any = false;
        for (uint32_t i = 0; i < send->segments; i++)
            if (send->lane_of[i] == segment_put(lane_index, false)) {
                send->lane_of[i] = SEGMENT_WAITS;
                segments++;
                bytes += segment_length(send->length, send->segment, i);
                any = true;
            }
        if (!any)
            continue;
        send->next = 0;
        if (list_empty(&send->node) && !send->spilling)
            list_push(&link->puts.queue, &send->node);
    }
    if (segments) {
        trace_count(link->domain->trace, WIRE_COUNTER_SEGMENTS_REPEATED, segments);
        lane_event(&link->lane[lane_index], WIRE_EVENT_REPEAT, segments, bytes);
    }
    outgoing_pump(link);
}

void link_grant_begin(struct link_grant *grant)
{
    list_init(&grant->node);
    grant->stands = false;
    grant->send = NULL;
}

void link_grant_end(struct link_grant *grant)
{
    if (grant->send)
        grant->send->grant = NULL;
    list_remove(&grant->node);
    link_grant_begin(grant);
}

void outgoing_again(struct link *link, struct link_send *send)
{
    const struct link_grant *grant = send->grant;
    const struct wire_message head = {.slot = grant->slot, .call = send->call};
    const struct early_credit early = {.credit = grant->credit, .memory = grant->memory, .since = clock_ns()};
    send->since = early.since;
    outgoing_start(link, send, &head, &early);
}

void outgoing_fail_all(struct link *link, tutti_result_t result)
{
    while (!list_empty(&link->puts.granted))
        link_grant_end(list_entry(link->puts.granted.next, struct link_grant, node));
    while (!list_empty(&link->puts.queue))
        outgoing_finish(link, list_entry(link->puts.queue.next, struct link_send, node), result);
    for (uint32_t id = 0; id < link->puts.reading_size; id++)
        if (link->puts.reading[id])
            outgoing_finish(link, link->puts.reading[id], result);
}
