/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large payloads at the receiver's end: it hands out a slot and says where its buffer is (a credit), counts segments in
 * a bitmap and says DONE. When a lane goes down it says which segments it HAS, after its end is closed.
 */
#include "link/incoming.h"

#include "base/param.h"
#include "base/reach.h"
#include "link/flight.h"
#include "link/memory.h"
#include "link/message.h"
#include "link/nics.h"
#include "link/refuse.h"
#include "link/segments.h"
#include "link/slots.h"
#include "link/spare.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the payload's segments, by the policy. */
static uint64_t incoming_segment(struct link *link, const struct path_payload *payload, lane_set wanted,
                                 uint32_t most_segments)
{
    const struct path_lane *lanes[LINK_MAX_LANES];
    uint64_t most = (uint64_t)param_int(PARAM_SEGMENT);
    int count = 0;
    while (segment_count(payload->left, most) > most_segments)
        most *= 2;
    lane_set set = link->usable & wanted ? link->usable & wanted : link->usable;
    for (; set; set &= set - 1)
        lanes[count++] = &link->lane[lane_first(set)].view;
    uint64_t segment = link->domain->policy.segment(link->policy_state, lanes, count, payload, most);
    return segment && segment < most && segment_count(payload->left, segment) <= most_segments ? segment : most;
}

void incoming_credit(struct link *link, struct link_recv *recv)
{
    if (place_is_host(recv->place) && !reach_ends_writable(place_reach(recv->place), recv->length)) {
        incoming_finish(link, recv, refuse_target(recv));
        return;
    }
    struct path_payload payload = nics_payload(link, recv->place, recv->class, recv->length);
    lane_set lanes = link->domain->policy.credit(link->policy_state, &payload, clock_ns());
    uint64_t segment = incoming_segment(link, &payload, lanes, recv->spare ? LINK_SPARE_SEGMENTS : MAX_SEGMENTS);
    recv->segment = segment;
    recv->segments = segment_count(recv->length, segment);
    recv->arrived = 0;
    recv->bitmap_few = 0;
    recv->bitmap = recv->segments <= 64 ? &recv->bitmap_few : calloc((recv->segments + 63) / 64, sizeof *recv->bitmap);
    uint32_t slot =
        recv->bitmap ? slots_free((void ***)&link->takes.receiving, &link->takes.size, MAX_SLOTS) : MAX_SLOTS;
    if (slot == MAX_SLOTS) {
        link_lose(link, "no memory for a large receive");
        return;
    }
    recv->slot = (uint16_t)slot;
    recv->credited = true;
    link->takes.receiving[slot] = recv;
    link->takes.count++;
    struct {
        struct wire_credit credit;
        struct wire_remote memory;
    } body = {
        .credit = {.length = recv->length, .segment = segment, .lanes = {(uint64_t)lanes, (uint64_t)(lanes >> 64)}}};
    bool unsure;
    /* What is not registered the lanes copy. */
    recv->memory = memory_offer(link, recv->place, recv->length, &body.memory, &unsure);
    if (place_is_host(recv->place) ? unsure && reach_unwritable(place_reach(recv->place), recv->length)
                                   : !recv->memory && !recv->spare) {
        incoming_finish(link, recv, refuse_target(recv));
        return;
    }
    spare_begin(recv);
    struct wire_message head = {.tag = recv->tag,
                                .kind = WIRE_CREDIT,
                                .flags = recv->stands ? WIRE_STANDS : 0,
                                .slot = recv->slot,
                                .call = recv->call};
    message_send(link, &head, &body, recv->memory ? sizeof body : sizeof body.credit);
}

void incoming_release(struct link *link, struct link_recv *recv)
{
    if (recv->credited && link->takes.receiving[recv->slot] == recv) {
        link->takes.receiving[recv->slot] = NULL;
        link->takes.count -= !recv->parked;
    }
    spare_end(recv);
    recv->credited = recv->parked = false;
    registration_drop(link->domain, recv->memory);
    recv->memory = NULL;
    if (recv->bitmap != &recv->bitmap_few)
        free(recv->bitmap);
    recv->bitmap = NULL;
}

/* The receives of a link that share the registration: their peer has its key. */
static void incoming_tell_sharers(struct link *link, struct link_registration *registration)
{
    for (uint32_t slot = 0; slot < link->takes.size; slot++) {
        struct link_recv *recv = link->takes.receiving[slot];
        if (!recv || recv->memory != registration)
            continue;
        struct wire_message head = {.kind = WIRE_REVOKED, .slot = (uint16_t)slot};
        recv->memory = NULL;
        registration->users--;
        message_send(link, &head, NULL, 0);
    }
}

/* From here on no peer writes there: all receives that share it have lost it, and their peers are told. */
static void incoming_revoke(struct link_domain *domain, struct link_registration *registration)
{
    registration->users++;
    list_each(node, &domain->links) incoming_tell_sharers(list_entry(node, struct link, node), registration);
    registration->users--;
    registration_retire(domain, registration);
}

/* A segment may be on its way: the slot is never given out again, so that it lands nowhere. */
void incoming_burn(struct link *link, struct link_recv *recv)
{
    static struct link_recv burnt; /* no segments: nothing matches it */
    bool credited = recv->credited && link->takes.receiving[recv->slot] == recv;
    if (recv->memory) {
        lanes_close_registered(link); /* there nobody asks before the peer's segments land */
        incoming_revoke(link->domain, recv->memory);
    }
    incoming_release(link, recv);
    if (credited)
        link->takes.receiving[recv->slot] = &burnt;
}

void incoming_finish(struct link *link, struct link_recv *recv, tutti_result_t result)
{
    list_remove(&recv->node);
    if (result == TUTTI_SUCCESS)
        incoming_release(link, recv);
    else
        incoming_burn(link, recv);
    recv->done(recv, result);
}

static struct link_recv *incoming_of(struct link *link, uint32_t imm, uint64_t offset, size_t length)
{
    uint32_t slot = imm_slot(imm), index = imm_segment(imm);
    struct link_recv *recv = slot < link->takes.size ? link->takes.receiving[slot] : NULL;
    if (!recv || index >= recv->segments || recv->bitmap[index / 64] >> (index % 64) & 1)
        return NULL;
    uint64_t begin = recv->segment * index, size = segment_length(recv->length, recv->segment, index);
    return offset >= begin && length <= size && offset - begin <= size - length ? recv : NULL;
}

struct place incoming_target(struct lane *carrier, uint32_t imm, uint64_t offset, size_t length)
{
    struct link_lane *lane = carrier->user;
    struct link_recv *recv = incoming_of(lane->link, imm, offset, length);
    return recv ? place_behind(spare_target(recv), offset) : (struct place){0};
}

void incoming_unwritable(struct lane *carrier, uint32_t imm, uint64_t offset, size_t length)
{
    struct link_lane *lane = carrier->user;
    struct link_recv *recv = incoming_of(lane->link, imm, offset, length);
    if (recv)
        incoming_finish(lane->link, recv, refuse_target(recv));
}

/* Slot and key stay the peer's. It may use them when it hears DONE, which is said behind this. */
static void incoming_park(struct link *link, struct link_recv *recv)
{
    memset(recv->bitmap, 0, (recv->segments + 63) / 64 * sizeof *recv->bitmap);
    recv->arrived = 0;
    recv->parked = true;
    link->takes.count--;
}

/* All of it is where it belongs. */
static void incoming_complete(struct link *link, struct link_recv *recv)
{
    uint32_t slot = recv->slot;
    list_remove(&recv->node);
    if (recv->stands)
        incoming_park(link, recv);
    else
        incoming_release(link, recv);
    flight_done(link, slot);
    recv->done(recv, TUTTI_SUCCESS);
}

void incoming_again(struct link *link, struct link_recv *recv)
{
    recv->parked = false;
    link->takes.count++;
    if (recv->arrived == recv->segments)
        incoming_complete(link, recv);
}

void incoming_fail_parked(struct link *link, tutti_result_t result)
{
    for (uint32_t slot = 0; slot < link->takes.size; slot++)
        if (link->takes.receiving[slot] && link->takes.receiving[slot]->parked)
            incoming_finish(link, link->takes.receiving[slot], result);
}

static void incoming_take(struct link_lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    bool stored = offset == TRANSPORT_NO_OFFSET, seen;
    struct link *link = lane->link;
    uint32_t slot = imm_slot(imm), index = imm_segment(imm);
    struct link_recv *recv = slot < link->takes.size ? link->takes.receiving[slot] : NULL;
    if (stored && recv)
        offset = recv->segment * index;
    recv = incoming_of(link, imm, offset, length);
    if (!recv || length != segment_length(recv->length, recv->segment, index))
        return;
    recv->bitmap[index / 64] |= 1ull << (index % 64);
    link_count_received(lane, length);
    spare_came(recv, lane, index, stored);
    if (++recv->arrived < recv->segments || recv->parked) /* of a parked one nobody has said what it is */
        return;
    if (spare_flush(link, recv, &seen) != TUTTI_SUCCESS)
        incoming_finish(link, recv, refuse_target(recv));
    else if (seen)
        incoming_complete(link, recv);
}

void incoming_flushed(void *context, uint64_t token)
{
    struct link *link;
    struct link_recv *recv = spare_flushed(context, token, &link);
    if (recv)
        incoming_complete(link, recv);
}

void incoming_arrived(struct lane *carrier, uint32_t imm, uint64_t offset, size_t length)
{
    struct link_lane *lane = carrier->user;
    struct link *link = lane->link;
    lane_heard(lane);
    flight_arrived(lane, imm);
    bool news = nics_came(lane, imm_slot(imm), lane->signs.heard);
    incoming_take(lane, imm, offset, length);
    if (news && link->control >= 0) /* last: the link may be lost inside */
        message_send_on(&link->lane[link->control], WIRE_ACK);
}

void incoming_say_have(struct link *link)
{
    for (uint32_t slot = 0; slot < link->takes.size; slot++) {
        struct link_recv *recv = link->takes.receiving[slot];
        if (!recv || !recv->arrived)
            continue;
        struct wire_message head = {.kind = WIRE_HAVE, .slot = (uint16_t)slot};
        uint64_t seen = spare_have(recv, *recv->bitmap);
        message_send(link, &head, recv->flush.needed ? &seen : recv->bitmap,
                     (recv->segments + 63) / 64 * sizeof *recv->bitmap);
    }
}
