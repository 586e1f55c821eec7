/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted transport: what goes over a lane lies in a list until the script takes it out. */
#include "link/link_testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unlike an assertion also there in builds without them. */
#define REQUIRE(condition)                                                                                                  \
    do {                                                                                                                    \
        if (!(condition)) {                                                                                                 \
            fprintf(stderr, "%s:%d: the contract of transports is broken: %s\n", __FILE__, __LINE__, #condition);           \
            abort();                                                                                                        \
        }                                                                                                                   \
    } while (0)

struct transport {
    struct script *script;
    int side;
    struct transport_owner owner;
    struct list lanes; /* oldest first */
};

struct script_lane {
    struct lane lane;
    struct list node;
    struct script_lane *other; /* the peer's end, NULL until there is one */
    uint16_t index;
    uint32_t epoch;
    bool connecting, accepted, up, broken, down, closed, full, wants_room;
    struct list flight;  /* parcels on their way to the other end */
    struct list sources; /* puts that have not been read */
};

struct parcel {
    struct list node;   /* in flight */
    struct list source; /* in sources */
    bool put;
    const unsigned char *from;
    size_t length, landed;
    uint32_t imm;
    uint64_t offset, token;
    unsigned char bytes[];
};

static struct script *opening;
static int opening_side;

/* ---- Parcels ------------------------------------------------------------------------------------------------------- */

static struct parcel *parcel_new(size_t length)
{
    struct parcel *parcel = calloc(1, sizeof *parcel + length);
    REQUIRE(parcel);
    list_init(&parcel->node);
    list_init(&parcel->source);
    parcel->length = length;
    parcel->from = parcel->bytes;
    return parcel;
}

static void parcel_settle(struct parcel *parcel)
{
    if (list_empty(&parcel->node) && list_empty(&parcel->source))
        free(parcel);
}

/* From now on it is independent of the memory that it came from. */
static void read_source(struct parcel *parcel)
{
    memcpy(parcel->bytes, parcel->from, parcel->length);
    parcel->from = parcel->bytes;
    list_remove(&parcel->source);
}

static void drop_flight(struct script_lane *lane)
{
    struct list *node;
    while ((node = list_pop(&lane->flight)))
        parcel_settle(list_entry(node, struct parcel, node));
}

static void drop_sources(struct script_lane *lane)
{
    while (!list_empty(&lane->sources)) {
        struct parcel *parcel = list_entry(lane->sources.next, struct parcel, source);
        read_source(parcel);
        parcel_settle(parcel);
    }
}

/* ---- Lanes --------------------------------------------------------------------------------------------------------- */

static struct script_lane *of(struct lane *lane)
{
    struct script_lane *mine = (struct script_lane *)lane;
    REQUIRE(!mine->closed);
    return mine;
}

static struct script_lane *lane_new(struct transport *transport, uint16_t index, uint32_t epoch, void *user);

static void lane_free(struct script_lane *lane)
{
    if (lane->other)
        lane->other->other = NULL;
    drop_flight(lane);
    drop_sources(lane);
    list_remove(&lane->node);
    free(lane);
}

/* Nothing can come of it any more. */
static bool is_over(const struct script_lane *lane)
{
    return lane->closed && !lane->connecting && (!lane->other || lane->other->closed || lane->broken);
}

static void bury(struct script *script)
{
    if (script->depth)
        return;
    for (int side = 0; side < 2; side++) {
        if (!script->side[side].transport)
            continue;
        list_each_safe (node, &script->side[side].transport->lanes) {
            struct script_lane *lane = list_entry(node, struct script_lane, node);
            if (is_over(lane))
                lane_free(lane);
        }
    }
}

static tutti_result_t on_open(const struct transport_owner *owner, struct poller *poller, struct wire_process *self,
                              struct transport **out)
{
    struct transport *transport = calloc(1, sizeof *transport);
    REQUIRE(transport && opening);
    transport->script = opening;
    transport->side = opening_side;
    transport->owner = *owner;
    list_init(&transport->lanes);
    memset(self->uuid, opening_side + 1, sizeof self->uuid); /* side 0 connects again */
    self->pid = 1000 + (uint32_t)opening_side;
    opening->side[opening_side].transport = transport;
    *out = transport;
    return TUTTI_SUCCESS;
}

static void on_close(struct transport *transport)
{
    list_each_safe (node, &transport->lanes) {
        struct script_lane *lane = list_entry(node, struct script_lane, node);
        REQUIRE(lane->closed || transport->script->shape.alone);
        lane_free(lane);
    }
    transport->script->side[transport->side].transport = NULL;
    free(transport);
}

static int on_reach(struct transport *transport, const struct wire_process *peer)
{
    return peer->uuid[0] == 2 - transport->side ? 1 : -1;
}

static int on_lanes(struct transport *transport, const struct wire_process *peer)
{
    return transport->script->shape.lanes;
}

static tutti_result_t on_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index, uint32_t epoch,
                                   void *user, struct lane **out)
{
    if (transport->script->fail_opens) {
        transport->script->fail_opens--;
        return error_note(TUTTI_SYSTEM_ERROR, "the script opens no lane");
    }
    struct script_lane *lane = lane_new(transport, index, epoch, user);
    lane->connecting = true;
    transport->script->opened++;
    *out = &lane->lane;
    return TUTTI_SUCCESS;
}

static void on_lane_close(struct lane *base)
{
    struct script_lane *lane = of(base);
    lane->closed = true;
    drop_sources(lane);
}

static bool dead(const struct script_lane *lane)
{
    return lane->broken || lane->down || (lane->other && lane->other->closed);
}

static void tell_down(struct script_lane *lane, tutti_result_t why)
{
    struct transport *transport = lane->lane.transport;
    lane->down = true;
    lane->connecting = false;
    error_note(why, "the script broke lane %u", lane->index);
    transport->script->depth++;
    if (transport->owner.down)
        transport->owner.down(&lane->lane, why);
    transport->script->depth--;
}

static tutti_result_t refused(struct script_lane *lane)
{
    REQUIRE(lane->up);
    if (lane->broken || lane->down) {
        if (lane->lane.transport->script->down_inside && !lane->down)
            tell_down(lane, TUTTI_REMOTE_ERROR);
        return error_note(TUTTI_REMOTE_ERROR, "lane %u is broken", lane->index);
    }
    lane->wants_room |= lane->full;
    return lane->full ? TUTTI_IN_PROGRESS : TUTTI_SUCCESS;
}

static tutti_result_t on_msg(struct lane *base, const struct iovec *parts, int count)
{
    struct script_lane *lane = of(base);
    size_t length = 0, used = 0;
    tutti_result_t result = refused(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    REQUIRE(length && length <= base->ops->max_msg);
    struct parcel *parcel = parcel_new(length);
    for (int i = 0; i < count; used += parts[i++].iov_len)
        if (parts[i].iov_len)
            memcpy(parcel->bytes + used, parts[i].iov_base, parts[i].iov_len);
    list_push(&lane->flight, &parcel->node);
    return TUTTI_SUCCESS;
}

static void tell_sent(struct script_lane *lane)
{
    struct transport *transport = lane->lane.transport;
    struct parcel *parcel = list_entry(lane->sources.next, struct parcel, source);
    uint64_t token = parcel->token;
    read_source(parcel);
    parcel_settle(parcel);
    transport->script->depth++;
    transport->owner.sent(&lane->lane, token);
    transport->script->depth--;
}

static tutti_result_t on_put(struct lane *base, const struct put *put)
{
    struct script_lane *lane = of(base);
    tutti_result_t result = refused(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    REQUIRE(put->length);
    struct parcel *parcel = parcel_new(put->length);
    parcel->put = true;
    parcel->from = put->source;
    parcel->imm = put->imm;
    parcel->offset = put->offset;
    parcel->token = put->token;
    list_push(&lane->flight, &parcel->node);
    list_push(&lane->sources, &parcel->source);
    if (base->transport->script->sent_at_once)
        tell_sent(lane);
    return TUTTI_SUCCESS;
}

static void on_describe(struct transport *transport, void *address, size_t length, struct wire_key *out)
{
    memset(out, 0, sizeof *out);
}

static tutti_result_t on_share(struct lane *lane, uint64_t key, int fd)
{
    return error_note(TUTTI_INVALID_USAGE, "the script shares nothing");
}

static int on_poll(struct transport *transport)
{
    return transport->script->automatic ? script_settle(transport->script) : 0;
}

static bool on_arm(struct transport *transport)
{
    return true;
}

static void on_disarm(struct transport *transport)
{
}

static struct transport_ops script_ops = {
    .name = "script",
    .open = on_open,
    .close = on_close,
    .reach = on_reach,
    .lanes = on_lanes,
    .lane_open = on_lane_open,
    .lane_close = on_lane_close,
    .msg = on_msg,
    .put = on_put,
    .describe = on_describe,
    .share = on_share,
    .poll = on_poll,
    .arm = on_arm,
    .disarm = on_disarm,
};

void script_opening(struct script *script, int side)
{
    opening = script;
    opening_side = side;
    script_ops.caps = script->shape.caps;
    script_ops.max_msg = script->shape.max_msg ? script->shape.max_msg : 16384;
}

struct transport *script_mute_transport(struct wire_process *self)
{
    static const struct transport_owner nobody;
    struct transport *transport = NULL;
    on_open(&nobody, NULL, self, &transport);
    return transport;
}

void script_close_mute(struct transport *transport)
{
    on_close(transport);
}

/* In place of the library's own. */
const struct transport_ops *const transport_registry[] = {&script_ops, NULL};

static struct script_lane *lane_new(struct transport *transport, uint16_t index, uint32_t epoch, void *user)
{
    struct script_lane *lane = calloc(1, sizeof *lane);
    REQUIRE(lane);
    lane->lane = (struct lane){.ops = &script_ops, .transport = transport, .user = user};
    lane->index = index;
    lane->epoch = epoch;
    list_init(&lane->flight);
    list_init(&lane->sources);
    list_push(&transport->lanes, &lane->node);
    return lane;
}

/* ---- Actions: each returns false if it cannot happen to this lane ---------------------------------------------------- */

static struct script_lane *accept_at(struct transport *to, uint16_t index, uint32_t epoch, const struct wire_process *from)
{
    struct wire_hello hello = {.lane = index, .epoch = epoch, .from = *from};
    struct script_lane *fresh = lane_new(to, index, epoch, NULL);
    fresh->up = true;
    to->script->depth++;
    if (to->owner.accepted)
        to->owner.accepted(to->owner.context, &fresh->lane, &hello);
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
    struct script_lane *fresh = accept_at(to, lane->index, lane->epoch, &script->side[side].self);
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
        tell_down(lane, TUTTI_REMOTE_ERROR);
    return true;
}

static bool act_up(struct script_lane *lane)
{
    if (!lane->connecting || !lane->accepted || lane->closed || lane->broken)
        return false;
    lane->connecting = false;
    if (!lane->other || (lane->other->closed && list_empty(&lane->other->flight))) {
        tell_down(lane, TUTTI_SYSTEM_ERROR);
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

/* Bytes [begin, end) of a put land where the owner says. */
static void land(struct script_lane *to, struct parcel *parcel, size_t end)
{
    struct transport_owner *owner = &to->lane.transport->owner;
    size_t length = end - parcel->landed;
    void *target = length ? owner->target(&to->lane, parcel->imm, parcel->offset + parcel->landed, length) : NULL;
    if (target)
        memcpy(target, parcel->from + parcel->landed, length);
    parcel->landed = end;
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
    struct parcel *parcel = list_entry(lane->flight.next, struct parcel, node);
    struct transport_owner *owner = &to->lane.transport->owner;
    unsigned *depth = &to->lane.transport->script->depth;
    list_remove(&parcel->node);
    ++*depth;
    if (owner->message && !parcel->put) {
        to->lane.transport->script->current = parcel->bytes;
        to->lane.transport->script->current_length = parcel->length;
        owner->message(&to->lane, parcel->from, parcel->length);
    } else if (owner->arrived && parcel->put) {
        land(to, parcel, parcel->length);
        owner->arrived(&to->lane, parcel->imm, parcel->offset, parcel->length);
    }
    --*depth;
    parcel_settle(parcel);
    return true;
}

static bool act_part(struct script_lane *lane)
{
    struct script_lane *to = receiver(lane);
    struct parcel *parcel = to ? list_entry(lane->flight.next, struct parcel, node) : NULL;
    if (!parcel || !parcel->put || parcel->landed || !to->lane.transport->owner.target)
        return false;
    land(to, parcel, parcel->length / 2);
    return true;
}

static bool act_sent(struct script_lane *lane)
{
    if (list_empty(&lane->sources) || lane->closed || lane->down)
        return false;
    tell_sent(lane);
    return true;
}

static bool act_kill(struct script_lane *lane)
{
    if (lane->broken)
        return false;
    lane->broken = true;
    drop_flight(lane);
    if (lane->closed)
        lane->connecting = false;
    if (lane->other) {
        lane->other->broken = true;
        drop_flight(lane->other);
    }
    return true;
}

static bool act_down(struct script_lane *lane)
{
    bool refused_there = lane->connecting && lane->accepted && (!lane->other || lane->other->closed);
    if (lane->closed || lane->down || (!refused_there && !dead(lane) && (!lane->up || lane->other)))
        return false;
    tell_down(lane, TUTTI_SYSTEM_ERROR);
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
    if (!lane->wants_room || dead(lane))
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
    static bool (*const acts[SCRIPT_ACTIONS])(struct script_lane *) = {act_connect, act_refuse, act_up,   act_deliver, act_part,
                                                                       act_sent,    act_kill,   act_down, act_full,    act_room};
    return lane->index == index && acts[action](lane);
}

bool script_act(struct script *script, int side, int index, enum script_action action)
{
    struct transport *transport = script->side[side].transport;
    bury(script);
    if (!transport)
        return false;
    struct list *head = &transport->lanes;
    for (struct list *node = script->newest ? head->prev : head->next; node != head; node = script->newest ? node->prev : node->next)
        if (act_on(list_entry(node, struct script_lane, node), index, action))
            return true;
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
    static const enum script_action good[] = {SCRIPT_CONNECT, SCRIPT_UP, SCRIPT_ROOM, SCRIPT_DELIVER, SCRIPT_SENT, SCRIPT_DOWN};
    int total = 0, done = 1;
    while (done) {
        done = 0;
        for (int side = 0; side < 2; side++)
            for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                done += script_act_all(script, side, good[i]);
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

/* ---- A side without a domain ----------------------------------------------------------------------------------------- */

bool script_dial(struct script *script, int index, uint32_t epoch)
{
    struct script_lane *lane = lane_new(script->side[1].transport, (uint16_t)index, epoch, NULL);
    lane->connecting = true;
    return act_connect(lane) && act_up(lane);
}

static struct script_lane *speaker(struct script *script, int index)
{
    bury(script);
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
    struct parcel *parcel = parcel_new(length);
    memcpy(parcel->bytes, bytes, length);
    list_push(&lane->flight, &parcel->node);
    return act_deliver(lane);
}

bool script_throw(struct script *script, int index, uint32_t imm, uint64_t offset, size_t length, size_t told)
{
    struct script_lane *lane = speaker(script, index);
    if (!lane || !length || offset > UINT64_MAX - length)
        return false;
    struct parcel *parcel = parcel_new(length);
    parcel->put = true;
    parcel->imm = imm;
    parcel->offset = offset;
    list_push(&lane->flight, &parcel->node);
    if (told)
        return act_deliver(lane);
    act_part(lane);
    drop_flight(lane);
    return true;
}
