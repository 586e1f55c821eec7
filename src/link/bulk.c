/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large payloads. The receiver hands out a slot and says where its buffer is (a credit); the sender cuts the payload
 * into segments and puts each on a lane that the path policy picks. The receiver counts segments in a bitmap and says
 * DONE. When a lane dies, the receiver says which segments it HAS, after its end is closed; the others are put again on
 * other lanes.
 */
#include "link/internal.h"

#include "base/param.h"
#include "base/reach.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SLOTS          16384u
#define MAX_IDS            65536u
#define MAX_SEGMENTS       32768u /* a bitmap of them is a message that every transport takes */
#define IMM(slot, segment) ((uint32_t)(slot) << 16 | (segment))
#define TOKEN(id, segment) ((uint64_t)(id) << 16 | (segment))

static uint64_t segment_length(uint64_t length, uint64_t segment, uint32_t index)
{
    uint64_t offset = segment * index;
    return length - offset < segment ? length - offset : segment;
}

static uint32_t segment_count(uint64_t length, uint64_t segment)
{
    return (uint32_t)((length + segment - 1) / segment);
}

/* Makes `table` longer than `index`. */
static bool link_bulk_grow(void ***table, uint32_t *size, uint32_t index)
{
    uint32_t bigger = *size ? *size : 16;
    while (bigger <= index)
        bigger *= 2;
    if (bigger == *size)
        return true;
    void **grown = realloc(*table, bigger * sizeof *grown);
    if (!grown)
        return false;
    memset(grown + *size, 0, (bigger - *size) * sizeof *grown);
    *table = grown;
    *size = bigger;
    return true;
}

/* An index that is free in `table`, growing it if need be. `most`: none. */
static uint32_t free_slot(void ***table, uint32_t *size, uint32_t most)
{
    uint32_t slot = 0;
    while (slot < *size && (*table)[slot])
        slot++;
    return slot < most && link_bulk_grow(table, size, slot) ? slot : most;
}

/* The caller's memory is not what the call says: neither the peer's fault nor the lane's. */
static tutti_result_t refuse_memory(const struct wire_tag *tag, const struct wire_call *call, bool sends,
                                    const void *data, size_t length)
{
    char text[WIRE_CALL_TEXT];
    const void *at = sends ? reach_unreadable(data, length) : reach_unwritable(data, length);
    return error_note(TUTTI_INVALID_ARGUMENT,
                      "rank %u gave memory that cannot be %s for %s: address %p, in %zu bytes from %p %s rank %u; the "
                      "page is protected or not mapped, or its file is too short",
                      sends ? tag->from : tag->to, sends ? "read" : "written", wire_call_text(*call, text, sizeof text),
                      at ? at : data, length, data, sends ? "to" : "for what comes from", sends ? tag->to : tag->from);
}

static tutti_result_t link_bulk_refuse_source(const struct link_send *send)
{
    return refuse_memory(&send->tag, &send->call, true, send->data, send->length);
}

static tutti_result_t link_bulk_refuse_target(const struct link_recv *recv)
{
    return refuse_memory(&recv->tag, &recv->call, false, recv->data, recv->length);
}

void bulk_credit(struct link *link, struct link_recv *recv)
{
    if (!reach_ends_writable(recv->data, recv->length)) {
        match_finish_recv(link, recv, link_bulk_refuse_target(recv));
        return;
    }
    uint64_t segment = (uint64_t)param_int(PARAM_SEGMENT);
    while (segment_count(recv->length, segment) > MAX_SEGMENTS)
        segment *= 2;
    recv->segment = segment;
    recv->segments = segment_count(recv->length, segment);
    recv->arrived = 0;
    recv->bitmap_few = 0;
    recv->bitmap = recv->segments <= 64 ? &recv->bitmap_few : calloc((recv->segments + 63) / 64, sizeof *recv->bitmap);
    uint32_t slot = recv->bitmap ? free_slot((void ***)&link->receiving, &link->receiving_size, MAX_SLOTS) : MAX_SLOTS;
    if (slot == MAX_SLOTS) {
        lanes_lose(link, "no memory for a large receive");
        return;
    }
    recv->slot = (uint16_t)slot;
    recv->credited = true;
    link->receiving[slot] = recv;
    link->receiving_count++;
    uint64_t lanes = link->domain->policy.credit(link->policy_state, recv->length);
    struct {
        struct wire_credit credit;
        struct wire_remote memory;
    } body = {.credit = {.length = recv->length, .segment = segment, .lanes = lanes}};
    recv->memory = memory_offer(link, recv->data, recv->length, &body.memory);
    struct wire_message head = {.tag = recv->tag, .kind = WIRE_CREDIT, .slot = recv->slot, .call = recv->call};
    message_send(link, &head, &body, recv->memory ? sizeof body : sizeof body.credit);
}

void bulk_release_recv(struct link *link, struct link_recv *recv)
{
    if (recv->credited && link->receiving[recv->slot] == recv) {
        link->receiving[recv->slot] = NULL;
        link->receiving_count--;
    }
    recv->credited = false;
    registration_drop(link->domain, recv->memory);
    recv->memory = NULL;
    if (recv->bitmap != &recv->bitmap_few)
        free(recv->bitmap);
    recv->bitmap = NULL;
}

/* A segment may be on its way: the slot is never given out again, so that it lands nowhere. */
void bulk_burn_recv(struct link *link, struct link_recv *recv)
{
    static struct link_recv burnt; /* no segments: nothing matches it */
    bool credited = recv->credited && link->receiving[recv->slot] == recv;
    if (recv->memory) {
        lanes_cut_direct(link); /* there nobody asks before the peer's segments land */
        registration_revoke(link->domain, recv->memory);
    }
    bulk_release_recv(link, recv);
    if (credited)
        link->receiving[recv->slot] = &burnt;
}

void bulk_release_send(struct link *link, struct link_send *send)
{
    if (send->credited) {
        link->reading[send->id] = NULL;
        if (link->sending[send->slot] == send)
            link->sending[send->slot] = NULL;
    }
    send->credited = false;
    memory_part(link, send->memory);
    send->memory = NULL;
    if (send->lane_of != send->lane_of_few)
        free(send->lane_of);
    send->lane_of = NULL;
}

static void finish_send(struct link *link, struct link_send *send, tutti_result_t result)
{
    list_remove(&send->node);
    bulk_release_send(link, send);
    send->done(send, result);
}

static bool register_send(struct link *link, struct link_send *send)
{
    if (!link_bulk_grow((void ***)&link->sending, &link->sending_size, send->slot) || link->sending[send->slot])
        return false;
    uint32_t id = free_slot((void ***)&link->reading, &link->reading_size, MAX_IDS);
    send->lane_of = send->segments <= sizeof send->lane_of_few ? send->lane_of_few : malloc(send->segments);
    if (!send->lane_of || id == MAX_IDS)
        return false;
    memset(send->lane_of, 0, send->segments);
    send->id = (uint16_t)id;
    link->reading[id] = link->sending[send->slot] = send;
    send->credited = true;
    return true;
}

void bulk_start(struct link *link, struct link_send *send, const struct wire_message *head,
                const struct early_credit *early)
{
    const struct wire_credit *credit = &early->credit;
    list_init(&send->node);
    if (credit->length != send->length || head->call.signature != send->call.signature) {
        match_announce(link, send); /* the receiver waits for it, and must find out too */
        tutti_result_t result =
            match_refuse(&send->tag, &send->call, send->length, &head->call, credit->length, send->tag.to);
        send->done(send, result);
        return;
    }
    send->segment = credit->segment;
    send->wanted = (uint32_t)credit->lanes;
    send->credit_since = early->since;
    send->slot = head->slot;
    send->segments = credit->segment ? segment_count(send->length, credit->segment) : 0;
    send->next = 0;
    if (send->slot >= MAX_SLOTS || send->segments == 0 || send->segments > MAX_SEGMENTS || !register_send(link, send)) {
        bulk_release_send(link, send);
        send->done(send,
                   error_note(TUTTI_SYSTEM_ERROR, "no memory for, or a bad credit of, a send of %zu bytes to rank %u",
                              send->length, send->tag.to));
        return;
    }
    if (!reach_ends_readable(send->data, send->length)) {
        finish_send(link, send, link_bulk_refuse_source(send));
        return;
    }
    send->memory = memory_meet(link, send, &early->memory);
    list_push(&link->bulk, &send->node);
    bulk_pump(link);
}

/* Puts whose source may be read still. Where a lane needs it until the peer has it, as adapters do, these are what is
 * under way, which is the policy's to say. */
static uint32_t queue_of(const struct link_lane *lane, const struct path_window *window)
{
    uint32_t asked = (uint32_t)param_int(PARAM_LANE_WINDOW);
    bool needed = lane->confirms || lane->ops->caps & TRANSPORT_DIRECT;
    bool decided = needed && (window->segments || window->bytes);
    return asked ? asked : decided ? LINK_FLIGHTS : lane->ops->window;
}

/* Is there room for a segment: in the lane's queue, and in what the policy lets be under way? */
static bool link_bulk_has_room(const struct link *link, const struct link_lane *lane, size_t length)
{
    const struct path_lane *view = &lane->view;
    struct path_window window = link->domain->policy.window(link->policy_state, view);
    bool full = (window.segments && view->segments >= window.segments) ||
                (window.bytes && view->segments && view->outstanding + length > window.bytes);
    return !full && lane->puts < queue_of(lane, &window) && lane->next_flight - lane->first_flight < LINK_FLIGHTS;
}

/* The lane for the next segment, by the policy. NULL: none now; something is under way, and when it has landed is the
 * time to ask again. */
static struct link_lane *pick_lane(struct link *link, const struct link_send *send, size_t length, uint64_t now)
{
    uint64_t left = send->length - send->segment * send->next;
    const struct path_lane *lanes[LINK_MAX_LANES];
    uint32_t set = link->usable & send->wanted ? link->usable & send->wanted : link->usable;
    uint32_t under_way = 0;
    int count = 0, spare = -1;
    for (; set; set &= set - 1) {
        struct link_lane *lane = &link->lane[__builtin_ctz(set)];
        lane->view.room = link_bulk_has_room(link, lane, length);
        under_way += lane->view.segments + lane->puts;
        if (lane->view.room)
            spare = count;
        lanes[count++] = &lane->view;
    }
    if (spare < 0)
        return NULL;
    int position = link->domain->policy.pick(link->policy_state, lanes, count, length, left, now);
    if (position < 0 || !lanes[position]->room)
        position = under_way ? -1 : spare; /* nothing would end the wait */
    return position < 0 ? NULL : &link->lane[lanes[position]->index];
}

static void skip_put(struct link_send *send)
{
    while (send->next < send->segments && send->lane_of[send->next])
        send->next++;
}

/* A lane needs this segment's source no longer. */
static void source_read(struct link_send *send, uint32_t index)
{
    if (index >= send->segments || !(send->lane_of[index] & LINK_READING))
        return;
    send->lane_of[index] &= (uint8_t)~LINK_READING;
    send->in_flight--;
}

/* Lanes read its source no longer. What they had taken but not begun never reaches the peer, who learns why by other
 * ways. */
void bulk_give_up(struct link *link, struct link_send *send)
{
    for (uint32_t i = 0; send->credited && send->in_flight && i < send->segments; i++) {
        if (!(send->lane_of[i] & LINK_READING))
            continue;
        struct link_lane *lane = &link->lane[(send->lane_of[i] & ~(unsigned)LINK_READING) - 1];
        if (lane->lane) /* else it was cut */
            lane->ops->give_up(lane->lane, TOKEN(send->id, i));
        lane->puts -= lane->puts > 0;
        flight_give_up(lane, TOKEN(send->id, i));
        source_read(send, i);
    }
}

/* Puts the next segment of `send`. False: no lane has room. */
static bool put_next(struct link *link, struct link_send *send)
{
    uint32_t index = send->next;
    uint64_t length = segment_length(send->length, send->segment, index);
    uint64_t now = clock_ns();
    struct link_lane *lane = pick_lane(link, send, length, now);
    if (!lane)
        return false;
    struct put put = {.source = (const char *)send->data + send->segment * index,
                      .length = length,
                      .imm = IMM(send->slot, index),
                      .offset = send->segment * index,
                      .whole = send->length,
                      .token = TOKEN(send->id, index)};
    bool direct = lane->ops->caps & TRANSPORT_DIRECT && lane->index != LINK_WORDS_LANE;
    if (send->memory && send->memory->remote.devices && direct) {
        put.remote = &send->memory->remote;
        put.memory = send->memory->source->memory;
    }
    if (!flight_begin(lane, send, &put, now)) {
        lanes_lose(link, "no memory for what is under way");
        return false;
    }
    send->lane_of[index] = (uint8_t)((lane->index + 1) | LINK_READING);
    send->in_flight++;
    lane->puts++;
    const struct transport_ops *ops = lane->ops;
    tutti_result_t result = ops->put(lane->lane, &put);
    if (result == TUTTI_SUCCESS) {
        link_count_sent(link, ops, WIRE_COUNTER_SEGMENTS_SENT, length);
        return true;
    }
    /* A lane that fails may have sent all or some of it: that is found out when it is down, like for the rest of its
     * puts. */
    if (result != TUTTI_REMOTE_ERROR && lane->puts) {
        lane->puts--;
        flight_give_up(lane, put.token);
        source_read(send, index);
        send->lane_of[index] = 0;
    }
    return false;
}

void bulk_pump(struct link *link)
{
    if (link->pumping) /* put() said from inside that it has read: the loop below goes on */
        return;
    link->pumping = true;
    while (!list_empty(&link->bulk)) {
        struct link_send *send = list_entry(link->bulk.next, struct link_send, node);
        skip_put(send);
        if (send->next == send->segments)
            list_remove(&send->node); /* all on their way: kept in link->sending until DONE */
        else if (!put_next(link, send))
            break;
    }
    link->pumping = false;
}

void bulk_sent(struct lane *transport_lane, uint64_t token)
{
    struct link_lane *lane = transport_lane->user;
    struct link *link = lane->link;
    uint64_t id = token >> 16;
    struct link_send *send = id < link->reading_size ? link->reading[id] : NULL;
    uint64_t now = clock_ns();
    if (lane->puts)
        lane->puts--;
    flight_sent(lane, token, now);
    lane->heard = now;
    if (send)
        source_read(send, (uint32_t)token & 0xffff);
    if (send && send->finished && !send->in_flight)
        finish_send(link, send, TUTTI_SUCCESS);
    bulk_pump(link);
}

void bulk_unreadable(struct lane *transport_lane, uint64_t token)
{
    struct link_lane *lane = transport_lane->user;
    struct link *link = lane->link;
    uint64_t id = token >> 16;
    struct link_send *send = id < link->reading_size ? link->reading[id] : NULL;
    lane->puts -= lane->puts > 0;
    flight_give_up(lane, token);
    if (send) {
        source_read(send, (uint32_t)token & 0xffff);
        bulk_give_up(link, send);
        finish_send(link, send, send->finished ? TUTTI_SUCCESS : link_bulk_refuse_source(send));
    }
    bulk_pump(link);
}

void bulk_done(struct link *link, uint32_t slot, const void *words, size_t length)
{
    struct link_send *send = slot < link->sending_size ? link->sending[slot] : NULL;
    flight_hear(link, words, length);
    if (!send)
        return;
    flight_all_landed(link, slot);
    link->sending[slot] = NULL; /* a credit for another payload may follow while lanes still read this one */
    list_remove(&send->node);
    send->finished = true;
    if (!send->in_flight)
        finish_send(link, send, TUTTI_SUCCESS);
    bulk_pump(link);
}

static struct link_recv *receiving(struct link *link, uint32_t imm, uint64_t offset, size_t length)
{
    uint32_t slot = imm >> 16, index = imm & 0xffff;
    struct link_recv *recv = slot < link->receiving_size ? link->receiving[slot] : NULL;
    if (!recv || index >= recv->segments || recv->bitmap[index / 64] >> (index % 64) & 1)
        return NULL;
    uint64_t begin = recv->segment * index, size = segment_length(recv->length, recv->segment, index);
    return offset >= begin && length <= size && offset - begin <= size - length ? recv : NULL;
}

void *bulk_target(struct lane *transport_lane, uint32_t imm, uint64_t offset, size_t length)
{
    struct link_lane *lane = transport_lane->user;
    struct link_recv *recv = receiving(lane->link, imm, offset, length);
    return recv ? (char *)recv->data + offset : NULL;
}

void bulk_unwritable(struct lane *transport_lane, uint32_t imm, uint64_t offset, size_t length)
{
    struct link_lane *lane = transport_lane->user;
    struct link_recv *recv = receiving(lane->link, imm, offset, length);
    if (recv)
        match_finish_recv(lane->link, recv, link_bulk_refuse_target(recv));
}

void bulk_arrived(struct lane *transport_lane, uint32_t imm, uint64_t offset, size_t length)
{
    struct link_lane *lane = transport_lane->user;
    struct link *link = lane->link;
    uint32_t slot = imm >> 16, index = imm & 0xffff;
    struct link_recv *recv = slot < link->receiving_size ? link->receiving[slot] : NULL;
    if (offset == TRANSPORT_NO_OFFSET && recv)
        offset = recv->segment * index;
    recv = receiving(link, imm, offset, length);
    lanes_heard(lane);
    flight_arrived(lane, imm);
    if (!recv || length != segment_length(recv->length, recv->segment, index))
        return;
    recv->bitmap[index / 64] |= 1ull << (index % 64);
    link_count_received(lane, length);
    if (++recv->arrived < recv->segments)
        return;
    list_remove(&recv->node);
    bulk_release_recv(link, recv);
    flight_done(link, slot);
    recv->done(recv, TUTTI_SUCCESS);
}

void bulk_say_have(struct link *link)
{
    for (uint32_t slot = 0; slot < link->receiving_size; slot++) {
        struct link_recv *recv = link->receiving[slot];
        if (!recv || !recv->arrived)
            continue;
        struct wire_message head = {.kind = WIRE_HAVE, .slot = (uint16_t)slot};
        message_send(link, &head, recv->bitmap, (recv->segments + 63) / 64 * sizeof *recv->bitmap);
    }
}

/* Puts that are under way with it fail, and so do their lanes; the rest asks. */
void bulk_revoked(struct link *link, uint32_t slot)
{
    struct link_send *send = slot < link->sending_size ? link->sending[slot] : NULL;
    if (!send)
        early_revoke(link, slot);
    else if (send->memory)
        send->memory->remote.devices = 0;
}

void bulk_have(struct link *link, uint32_t slot, const void *bitmap, size_t length)
{
    struct link_send *send = slot < link->sending_size ? link->sending[slot] : NULL;
    if (!send || length < (send->segments + 63) / 64 * sizeof(uint64_t))
        return;
    const unsigned char *bytes = bitmap;
    for (uint32_t index = 0; index < send->segments; index++) {
        uint64_t word;
        memcpy(&word, bytes + index / 64 * sizeof word, sizeof word);
        if (word >> (index % 64) & 1 && !(send->lane_of[index] & LINK_READING))
            send->lane_of[index] = LINK_ARRIVED;
    }
}

/* The lane is closed here: its puts read no source any more. */
void bulk_lane_gone(struct link *link, unsigned lane_index)
{
    link->lane[lane_index].puts = 0;
    flight_drop_all(&link->lane[lane_index]);
    for (uint32_t id = 0; id < link->reading_size; id++) {
        struct link_send *send = link->reading[id];
        if (!send)
            continue;
        for (uint32_t i = 0; i < send->segments; i++)
            if (send->lane_of[i] == ((lane_index + 1) | LINK_READING))
                source_read(send, i);
        if (send->finished && !send->in_flight)
            finish_send(link, send, TUTTI_SUCCESS);
    }
}

/* Both ends of the lane are closed and the peer has said what it has: the rest of that lane's segments go out again. */
void bulk_put_again(struct link *link, unsigned lane_index)
{
    uint64_t segments = 0, bytes = 0;
    for (uint32_t slot = 0; slot < link->sending_size; slot++) {
        struct link_send *send = link->sending[slot];
        if (!send)
            continue;
        bool any = false;
        for (uint32_t i = 0; i < send->segments; i++)
            if (send->lane_of[i] == lane_index + 1) {
                send->lane_of[i] = 0;
                segments++;
                bytes += segment_length(send->length, send->segment, i);
                any = true;
            }
        if (!any)
            continue;
        send->next = 0;
        if (list_empty(&send->node))
            list_push(&link->bulk, &send->node);
    }
    if (segments) {
        trace_count(link->domain->trace, WIRE_COUNTER_SEGMENTS_REPEATED, segments);
        lanes_event(&link->lane[lane_index], WIRE_EVENT_REPEAT, segments, bytes);
    }
    bulk_pump(link);
}
