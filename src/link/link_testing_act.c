/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to lanes of the scripted transport when the script says so. */
#include "link/link_testing_lane.h"
#include "link/flight.h"

#include <string.h>

/* ---- Actions: each returns false if it cannot happen to this lane ---- */

static struct script_lane *accept_at(struct transport *to, const struct script_lane *from)
{
    struct wire_hello hello = {.lane = from->index,
                               .epoch = from->epoch,
                               .known = from->known,
                               .session = from->session,
                               .from = to->script->side[1 - to->side].self};
    struct script_lane *fresh = script_lane_new(to, from->index, from->epoch, NULL);
    int source = script_source(to, &hello.from, from->index);
    fresh->lane.source = source < 0 ? 0 : (uint16_t)source;
    fresh->up = true;
    to->script->depth++;
    if (source < 0)
        fresh->closed = true; /* declined, for now */
    else if (to->owner.accepted && !to->owner.accepted(to->owner.context, &fresh->lane, &hello))
        fresh->closed = true;
    to->script->depth--;
    return fresh;
}

static bool act_connect(struct script_lane *lane)
{
    struct script *script = lane->lane.transport->script;
    int side = lane->lane.transport->side;
    struct transport *to = script->side[1 - side].transport;
    if (!lane->connecting || lane->broken || lane->accepted || !to)
        return false;
    lane->accepted = true;
    struct script_lane *fresh = accept_at(to, lane);
    fresh->other = lane;
    lane->other = fresh;
    if (lane->closed)
        lane->connecting = false;
    return true;
}

static bool act_refuse(struct script_lane *lane)
{
    if (!lane->connecting || lane->accepted)
        return false;
    if (lane->closed)
        lane->connecting = false;
    else
        script_tell_down(lane, lane->lane.transport->script->unreachable ? TUTTI_SYSTEM_ERROR : TUTTI_REMOTE_ERROR);
    return true;
}

static bool act_up(struct script_lane *lane)
{
    if (!lane->connecting || !lane->accepted || lane->closed || lane->broken)
        return false;
    lane->connecting = false;
    if (!lane->other || (lane->other->closed && list_empty(&lane->other->flight))) {
        script_tell_down(lane, TUTTI_SYSTEM_ERROR);
        return true;
    }
    struct transport *transport = lane->lane.transport;
    lane->up = true;
    transport->script->depth++;
    if (transport->owner.up)
        transport->owner.up(&lane->lane);
    transport->script->depth--;
    return true;
}

static void break_end(struct script_lane *lane)
{
    lane->broken = true;
    lane->lost |= !list_empty(&lane->flight);
    script_drop_flight(lane);
}

static bool act_kill(struct script_lane *lane)
{
    if (lane->broken)
        return false;
    break_end(lane);
    if (lane->closed)
        lane->connecting = false;
    if (lane->other)
        break_end(lane->other);
    return true;
}

/* A put whose key has ended: the peer's adapter refuses it, and the lane fails. */
static bool is_refused(struct script_lane *lane, const struct packet *packet, const struct script_lane *to)
{
    if (!packet->put || !packet->remote || script_registered(to->lane.transport->side, packet->key))
        return false;
    to->lane.transport->script->refused++;
    return act_kill(lane);
}

static void drop_packets(struct list *list)
{
    struct list *node;
    while ((node = list_pop(list)))
        free(list_entry(node, struct packet, node));
}

void script_drop_held(struct script *script)
{
    for (int side = 0; side < 2; side++) {
        drop_packets(&script->held[side]);
        drop_packets(&script->flushes[side]);
    }
}

bool script_flush(struct script *script, int side)
{
    struct transport *transport = script->side[side].transport;
    struct list *node = list_pop(&script->flushes[side]);
    if (!node)
        return false;
    list_each(held, &script->held[side])
    {
        const struct packet *packet = list_entry(held, struct packet, node);
        memcpy(packet->remote, packet->bytes, packet->length);
    }
    drop_packets(&script->held[side]);
    script->depth++;
    transport->owner.flushed(transport->owner.context, list_entry(node, struct packet, node)->token);
    script->depth--;
    free(list_entry(node, struct packet, node));
    return true;
}

/* What hardware stores. */
static void store(struct script_lane *to, const struct packet *packet, size_t length)
{
    struct script *script = to->lane.transport->script;
    if (!script->shape.posted) {
        memcpy(packet->remote + packet->landed, packet->from + packet->landed, length);
        return;
    }
    struct packet *held = script_packet_new(length);
    held->remote = packet->remote + packet->landed;
    memcpy(held->bytes, packet->from + packet->landed, length);
    list_push(&script->held[to->lane.transport->side], &held->node);
}

/* Bytes [begin, end) of a put land where the owner says. */
static void land(struct script_lane *to, struct packet *packet, size_t end)
{
    struct transport_owner *owner = &to->lane.transport->owner;
    size_t length = end - packet->landed;
    if (packet->remote) {
        store(to, packet, length);
        packet->landed = end;
        return;
    }
    struct place place = {0};
    if (length)
        place = owner->target(&to->lane, packet->imm, packet->offset + packet->landed, length);
    void *target = place_reach(place);
    if (!place_is_host(place))
        owner->unwritable(&to->lane, packet->imm, packet->offset + packet->landed, length);
    if (target)
        memcpy(target, packet->from + packet->landed, length);
    packet->landed = end;
}

static struct script_lane *receiver(struct script_lane *lane)
{
    struct script_lane *to = lane->other;
    return list_empty(&lane->flight) || !to || !to->up || to->closed || to->down ? NULL : to;
}

static bool act_deliver(struct script_lane *lane)
{
    struct script_lane *to = receiver(lane);
    if (!to)
        return false;
    struct packet *packet = list_entry(lane->flight.next, struct packet, node);
    struct transport_owner *owner = &to->lane.transport->owner;
    unsigned *depth = &to->lane.transport->script->depth;
    if (is_refused(lane, packet, to))
        return true;
    list_remove(&packet->node);
    lane->confirmed++;
    ++*depth;
    if (owner->message && !packet->put) {
        to->lane.transport->script->current = packet->bytes;
        to->lane.transport->script->current_length = packet->length;
        owner->message(&to->lane, packet->from, packet->length);
    } else if (owner->arrived && packet->put) {
        land(to, packet, packet->length);
        owner->arrived(&to->lane, packet->imm, packet->remote ? TRANSPORT_NO_OFFSET : packet->offset, packet->length);
    }
    --*depth;
    script_packet_settle(packet);
    return true;
}

static bool act_part(struct script_lane *lane)
{
    struct script_lane *to = receiver(lane);
    struct packet *packet = to ? list_entry(lane->flight.next, struct packet, node) : NULL;
    if (!packet || !packet->put || packet->landed || !to->lane.transport->owner.target)
        return false;
    if (!is_refused(lane, packet, to))
        land(to, packet, packet->length / 2);
    return true;
}

static bool act_sent(struct script_lane *lane)
{
    if (list_empty(&lane->sources) || lane->closed || lane->down)
        return false;
    script_tell_sent(lane);
    return true;
}

static bool act_down(struct script_lane *lane)
{
    bool refused_there = lane->connecting && lane->accepted && (!lane->other || lane->other->closed);
    if (lane->closed || lane->down || (!refused_there && !script_lane_dead(lane) && (!lane->up || lane->other)))
        return false;
    script_tell_down(lane, TUTTI_SYSTEM_ERROR);
    return true;
}

static bool act_full(struct script_lane *lane)
{
    if (lane->full || lane->closed || !lane->up)
        return false;
    lane->full = true;
    return true;
}

static bool act_room(struct script_lane *lane)
{
    struct transport *transport = lane->lane.transport;
    if (!lane->full || lane->closed)
        return false;
    lane->full = false;
    if (!lane->wants_room || script_lane_dead(lane))
        return true;
    lane->wants_room = false;
    transport->script->depth++;
    if (transport->owner.writable)
        transport->owner.writable(&lane->lane);
    transport->script->depth--;
    return true;
}

static bool act_on(struct script_lane *lane, int index, enum script_action action)
{
    static bool (*const acts[SCRIPT_ACTIONS])(struct script_lane *) = {
        act_connect, act_refuse, act_up, act_deliver, act_part, act_sent, act_kill, act_down, act_full, act_room};
    return lane->index == index && acts[action](lane);
}

bool script_act(struct script *script, int side, int index, enum script_action action)
{
    struct transport *transport = script->side[side].transport;
    script_reap(script);
    if (!transport)
        return false;
    struct list *head = &transport->lanes;
    for (struct list *node = script->newest ? head->prev : head->next; node != head;
         node = script->newest ? node->prev : node->next)
        if (act_on(list_entry(node, struct script_lane, node), index, action))
            return true;
    return false;
}

bool script_act_at(struct script *script, int side, int index, uint32_t epoch, enum script_action action)
{
    script_reap(script);
    list_each(node, &script->side[side].transport->lanes)
    {
        struct script_lane *lane = list_entry(node, struct script_lane, node);
        if (lane->epoch == epoch && act_on(lane, index, action))
            return true;
    }
    return false;
}

int script_act_all(struct script *script, int side, enum script_action action)
{
    int done = 0;
    for (int index = 0; index < LINK_MAX_LANES; index++)
        while (script_act(script, side, index, action))
            done++;
    return done;
}

int script_settle(struct script *script)
{
    static const enum script_action good[] = {SCRIPT_CONNECT, SCRIPT_UP,   SCRIPT_ROOM,
                                              SCRIPT_DELIVER, SCRIPT_SENT, SCRIPT_DOWN};
    int total = 0, done = 1;
    while (done) {
        done = 0;
        for (int side = 0; side < 2; side++)
            for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                done += script_act_all(script, side, good[i]);
        for (int side = 0; side < 2 && !script->hold_flushes; side++)
            while (script_flush(script, side))
                done++;
        for (int side = 0; !done && side < 2; side++) {
            struct link_domain *domain = script->side[side].domain;
            if (!domain || list_empty(&domain->telling))
                continue;
            flight_tell(domain, true); /* as before a sleep */
            done += list_empty(&domain->telling);
        }
        total += done;
    }
    return total;
}

void script_tick(struct script *script, uint64_t ms)
{
    for (int side = 0; side < 2; side++)
        if (script->side[side].domain)
            link_tick(script->side[side].domain, clock_deadline_ms(ms));
}

/* ---- A side without a domain ---- */

bool script_dial(struct script *script, int index, uint32_t epoch)
{
    struct script_lane *lane = script_lane_new(script->side[1].transport, (uint16_t)index, epoch, NULL);
    lane->connecting = true;
    return act_connect(lane) && act_up(lane);
}

static struct script_lane *speaker(struct script *script, int index)
{
    script_reap(script);
    struct list *head = &script->side[1].transport->lanes;
    for (struct list *node = head->prev; node != head; node = node->prev) {
        struct script_lane *lane = list_entry(node, struct script_lane, node);
        struct script_lane *to = lane->other;
        if (lane->index == index && to && to->up && !to->closed && !to->down && !to->broken)
            return lane;
    }
    return NULL;
}

bool script_say(struct script *script, int index, const void *bytes, size_t length)
{
    struct script_lane *lane = speaker(script, index);
    if (!lane || !length)
        return false;
    struct packet *packet = script_packet_new(length);
    memcpy(packet->bytes, bytes, length);
    list_push(&lane->flight, &packet->node);
    return act_deliver(lane);
}

bool script_throw(struct script *script, int index, uint32_t imm, uint64_t offset, size_t length, size_t told)
{
    struct script_lane *lane = speaker(script, index);
    if (!lane || !length || offset > UINT64_MAX - length)
        return false;
    struct packet *packet = script_packet_new(length);
    packet->put = true;
    packet->imm = imm;
    packet->offset = offset;
    list_push(&lane->flight, &packet->node);
    if (told)
        return act_deliver(lane);
    act_part(lane);
    script_drop_flight(lane);
    return true;
}
