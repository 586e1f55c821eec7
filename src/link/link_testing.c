/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted transport: what goes over a lane lies in a list until the script takes it out. */
#include "link/link_testing_lane.h"

#include <string.h>

static struct script *opening;
static int opening_side;

/* ---- Packets ---- */

struct packet *script_packet_new(size_t length)
{
    struct packet *packet = calloc(1, sizeof *packet + length);
    REQUIRE(packet);
    list_init(&packet->node);
    list_init(&packet->source);
    packet->length = length;
    packet->from = packet->bytes;
    return packet;
}

void script_packet_settle(struct packet *packet)
{
    if (list_empty(&packet->node) && list_empty(&packet->source))
        free(packet);
}

/* From now on it is independent of the memory that it came from. */
static void read_source(struct packet *packet)
{
    memcpy(packet->bytes, packet->from, packet->length);
    packet->from = packet->bytes;
    list_remove(&packet->source);
}

void script_drop_flight(struct script_lane *lane)
{
    struct list *node;
    while ((node = list_pop(&lane->flight)))
        script_packet_settle(list_entry(node, struct packet, node));
}

static void drop_sources(struct script_lane *lane)
{
    while (!list_empty(&lane->sources)) {
        struct packet *packet = list_entry(lane->sources.next, struct packet, source);
        read_source(packet);
        script_packet_settle(packet);
    }
}

/* ---- Lanes ---- */

static struct script_lane *of(struct lane *lane)
{
    struct script_lane *mine = (struct script_lane *)lane;
    REQUIRE(!mine->closed);
    return mine;
}

static void lane_free(struct script_lane *lane)
{
    if (lane->other)
        lane->other->other = NULL;
    script_drop_flight(lane);
    drop_sources(lane);
    list_remove(&lane->node);
    free(lane);
}

/* Nothing can come of it any more. */
static bool is_over(const struct script_lane *lane)
{
    return lane->closed && !lane->connecting && (!lane->other || lane->other->closed || lane->broken);
}

void script_reap(struct script *script)
{
    if (script->depth)
        return;
    for (int side = 0; side < 2; side++) {
        if (!script->side[side].transport)
            continue;
        list_each_safe(node, &script->side[side].transport->lanes)
        {
            struct script_lane *lane = list_entry(node, struct script_lane, node);
            if (is_over(lane))
                lane_free(lane);
        }
    }
}

static tutti_result_t on_open(const struct transport_ops *ops, const struct transport_owner *owner,
                              struct poller *poller, struct wire_process *self, struct transport **out)
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
    list_each_safe(node, &transport->lanes)
    {
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

static int script_nics(const struct script *script)
{
    return script->shape.nics ? script->shape.nics : 2;
}

static bool on_nic(struct transport *transport, unsigned device, struct transport_nic *out)
{
    *out = (struct transport_nic){.name = "script", .port = device + 1, .rate = 1000};
    return device < (unsigned)script_nics(transport->script);
}

static tutti_result_t on_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                                   uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out)
{
    if (transport->script->fail_opens) {
        transport->script->fail_opens--;
        return error_note(TUTTI_SYSTEM_ERROR, "the script opens no lane");
    }
    int source = script_source(transport, peer, index);
    if (source < 0)
        return TUTTI_IN_PROGRESS;
    struct script_lane *lane = script_lane_new(transport, index, epoch, user);
    lane->lane.source = (uint16_t)source;
    lane->known = known;
    lane->session = session;
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

bool script_lane_dead(const struct script_lane *lane)
{
    return lane->broken || lane->down || (lane->other && lane->other->closed);
}

void script_tell_down(struct script_lane *lane, tutti_result_t why)
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
            script_tell_down(lane, TUTTI_REMOTE_ERROR);
        return error_note(TUTTI_REMOTE_ERROR, "lane %u is broken", lane->index);
    }
    lane->wants_room |= lane->full;
    return lane->full ? TUTTI_IN_PROGRESS : TUTTI_SUCCESS;
}

static void tell_writable(struct script_lane *lane)
{
    struct transport *transport = lane->lane.transport;
    transport->script->depth++;
    if (transport->owner.writable)
        transport->owner.writable(&lane->lane);
    transport->script->depth--;
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
    struct packet *packet = script_packet_new(length);
    for (int i = 0; i < count; used += parts[i++].iov_len)
        if (parts[i].iov_len)
            memcpy(packet->bytes + used, parts[i].iov_base, parts[i].iov_len);
    list_push(&lane->flight, &packet->node);
    if (base->transport->script->room_inside)
        tell_writable(lane);
    return TUTTI_SUCCESS;
}

void script_tell_sent(struct script_lane *lane)
{
    struct transport *transport = lane->lane.transport;
    struct packet *packet = list_entry(lane->sources.next, struct packet, source);
    uint64_t token = packet->token;
    read_source(packet);
    script_packet_settle(packet);
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
    if (!put->remote && !place_is_host(put->source))
        return error_note(TUTTI_INVALID_ARGUMENT, "the script's lanes cannot read a device's memory");
    struct packet *packet = script_packet_new(put->length);
    packet->put = true;
    packet->from = put->source.address;
    packet->imm = put->imm;
    packet->offset = put->offset;
    packet->token = put->token;
    if (put->remote) {
        const struct transport_memory *memory = put->memory;
        REQUIRE((base->ops->caps & TRANSPORT_REGISTERS) && put->remote->key[0]);
        REQUIRE(memory && script_registered(base->transport->side, memory->key[0]));
        REQUIRE((const char *)put->source.address >= (char *)memory->address &&
                (const char *)put->source.address + put->length <= (char *)memory->address + memory->length);
        packet->remote = (unsigned char *)(uintptr_t)put->remote->address + put->offset;
        packet->key = put->remote->key[0];
    }
    list_push(&lane->flight, &packet->node);
    list_push(&lane->sources, &packet->source);
    if (base->transport->script->sent_at_once)
        script_tell_sent(lane);
    return TUTTI_SUCCESS;
}

/* What was not read yet is read now, or if none of it has landed never sent. */
static void on_give_up(struct lane *base, uint64_t token)
{
    struct script_lane *lane = of(base);
    list_each_safe(node, &lane->sources)
    {
        struct packet *packet = list_entry(node, struct packet, source);
        if (packet->token != token)
            continue;
        read_source(packet);
        if (!packet->landed)
            list_remove(&packet->node);
        script_packet_settle(packet);
    }
}

/* Keys in force, of both sides. */
static struct transport_memory *registered[2][4096];

bool script_registered(int side, uint32_t key)
{
    return key && registered[side][key % 4096] && registered[side][key % 4096]->key[0] == key;
}

static tutti_result_t on_register(struct transport *transport, struct place place, size_t length,
                                  struct transport_memory **out)
{
    static uint32_t last;
    if (!transport->script->shape.registers || transport->script->fail_registrations > 0) {
        transport->script->fail_registrations -= transport->script->fail_registrations > 0;
        return error_note(TUTTI_INVALID_USAGE, "the script registers nothing");
    }
    struct transport_memory *memory = calloc(1, sizeof *memory), **slot;
    REQUIRE(memory);
    do
        slot = &registered[transport->side][++last % 4096];
    while (*slot || !last);
    *memory = (struct transport_memory){place.address, length, 1, {last}};
    memory->unordered = transport->script->shape.posted && !place_is_host(place);
    transport->script->registrations++;
    *slot = *out = memory;
    return TUTTI_SUCCESS;
}

static void on_deregister(struct transport *transport, struct transport_memory *memory)
{
    REQUIRE(script_registered(transport->side, memory->key[0]));
    registered[transport->side][memory->key[0] % 4096] = NULL;
    transport->script->registrations--;
    free(memory);
}

static void on_flush(struct transport *transport, unsigned device, const struct transport_memory *memory,
                     struct place place, uint64_t token)
{
    struct packet *asked = script_packet_new(0);
    REQUIRE(memory->unordered && script_registered(transport->side, memory->key[0]));
    asked->token = token;
    list_push(&transport->script->flushes[transport->side], &asked->node);
}

static void on_announce(struct transport *transport, const void *address)
{
}

static tutti_result_t on_share(struct lane *lane, uint64_t key, int fd)
{
    return error_note(TUTTI_INVALID_USAGE, "the script shares nothing");
}

static int on_poll(struct transport *transport)
{
    struct script *script = transport->script;
    return script->automatic ? script_settle(script) : 0;
}

static bool on_arm(struct transport *transport)
{
    return true;
}

static void on_disarm(struct transport *transport)
{
}

static uint64_t on_moved(struct lane *lane)
{
    return 0;
}

static uint64_t on_owes(struct lane *base)
{
    const struct script_lane *lane = of(base);
    return lane->lost || !list_empty(&lane->flight) ? lane->confirmed + 1 : 0;
}

static struct transport_ops script_ops = {
    .name = "script",
    .sent = WIRE_COUNTER_SENT_TCP,
    .received = WIRE_COUNTER_RECEIVED_TCP,
    .window = 4,
    .open = on_open,
    .close = on_close,
    .reach = on_reach,
    .lanes = on_lanes,
    .nic = on_nic,
    .lane_open = on_lane_open,
    .lane_close = on_lane_close,
    .msg = on_msg,
    .put = on_put,
    .give_up = on_give_up,
    .register_memory = on_register,
    .deregister_memory = on_deregister,
    .flush = on_flush,
    .announce = on_announce,
    .share = on_share,
    .moved = on_moved,
    .owes = on_owes,
    .poll = on_poll,
    .arm = on_arm,
    .disarm = on_disarm,
};

/* ---- A second transport, whose lanes carry data alone: the first one keeps them ---- */

static tutti_result_t data_open(const struct transport_ops *ops, const struct transport_owner *owner,
                                struct poller *poller, struct wire_process *self, struct transport **out)
{
    *out = opening->side[opening_side].transport;
    return opening->shape.data_lanes ? TUTTI_SUCCESS
                                     : error_note(TUTTI_INVALID_USAGE, "the script has no lanes for data alone");
}

static void data_close(struct transport *transport)
{
}

static int data_reach(struct transport *transport, const struct wire_process *peer)
{
    return on_reach(transport, peer) < 0 ? -1 : 0;
}

static int data_lanes(struct transport *transport, const struct wire_process *peer)
{
    return transport->script->shape.data_lanes;
}

static int data_poll(struct transport *transport)
{
    return 0;
}

static struct transport_ops script_data_ops;

void script_opening(struct script *script, int side)
{
    opening = script;
    opening_side = side;
    script_ops.caps = script->shape.caps;
    script_ops.max_msg = script->shape.max_msg ? script->shape.max_msg : 16384;
    script_data_ops = script_ops;
    script_data_ops.name = "script data";
    script_data_ops.caps = TRANSPORT_DATA | (script->shape.caps & TRANSPORT_CONFIRMS) |
                           (script->shape.registers ? TRANSPORT_REGISTERS : 0) |
                           (script->shape.messages ? TRANSPORT_MESSAGES : 0);
    script_data_ops.open = data_open;
    script_data_ops.close = data_close;
    script_data_ops.reach = data_reach;
    script_data_ops.lanes = data_lanes;
    script_data_ops.poll = data_poll;
}

struct transport *script_mute_transport(struct wire_process *self)
{
    static const struct transport_owner nobody;
    struct transport *transport = NULL;
    on_open(&script_ops, &nobody, NULL, self, &transport);
    return transport;
}

void script_close_mute(struct transport *transport)
{
    on_close(transport);
}

/* In place of the library's own. */
const struct transport_ops *const transport_registry[] = {&script_ops, &script_data_ops, NULL};

/* The port that lane `index` to `peer` is to have; -1: not known yet. */
int script_source(struct transport *transport, const struct wire_process *peer, uint16_t index)
{
    const struct transport_owner *owner = &transport->owner;
    bool data = index >= LINK_DATA_LANE && transport->script->shape.data_lanes;
    unsigned device = transport->script->shape.spread ? index % (unsigned)script_nics(transport->script) : 0;
    return owner->source ? owner->source(owner->context, data ? &script_data_ops : &script_ops, peer, device, index)
                         : 0;
}

struct script_lane *script_lane_new(struct transport *transport, uint16_t index, uint32_t epoch, void *user)
{
    struct script_lane *lane = calloc(1, sizeof *lane);
    REQUIRE(lane);
    bool data = index >= LINK_DATA_LANE && transport->script->shape.data_lanes;
    lane->lane = (struct lane){.ops = data ? &script_data_ops : &script_ops, .transport = transport, .user = user};
    if (transport->script->shape.spread)
        lane->lane.device = index % (unsigned)script_nics(transport->script);
    lane->index = index;
    lane->epoch = epoch;
    list_init(&lane->flight);
    list_init(&lane->sources);
    list_push(&transport->lanes, &lane->node);
    return lane;
}
