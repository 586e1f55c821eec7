/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads of messages that the peer copies from where they lie: one copy instead of two, and no turn of a credit. The
 * receiver copies when it sees the message, to where the payload belongs or, if nobody has asked for it, to where early
 * payloads are kept (borrow.c). The send ends when that has happened.
 */
#include "link/lend.h"

#include "link/segments.h"
#include "link/slots.h"

#define LENT_SEGMENT 0xffffu /* in a token: no segment has this number */
_Static_assert(LENT_SEGMENT >= MAX_SEGMENTS, "tokens of lent payloads are apart");

static struct link_lane *lend_lane(struct link *link)
{
    struct link_lane *lane = link->control < 0 ? NULL : &link->lane[link->control];
    return lane && lane->carrier && lane->ops->lend ? lane : NULL;
}

bool lend_begin(struct link *link, struct link_send *send)
{
    struct link_lane *lane = lend_lane(link);
    void *data = place_reach(send->place);
    if (!data || !lane || !link->lossless || link->loans.never || link->out.unsent != &link->out.kept)
        return false;
    uint32_t id = slots_free((void ***)&link->puts.reading, &link->puts.reading_size, MAX_IDS);
    if (id == MAX_IDS)
        return false;
    struct wire_message head = {.tag = send->tag, .kind = WIRE_EAGER, .call = send->call};
    struct iovec parts[2] = {{&head, sizeof head}, {data, send->length}};
    if (lane->ops->lend(lane->carrier, parts, token_of(id, LENT_SEGMENT)) != TUTTI_SUCCESS)
        return false;
    send->id = (uint16_t)id;
    send->lent = true;
    send->segments = 0;
    link->puts.reading[id] = send;
    link->out.bytes += send->length;
    link_count_sent(link, lane->ops, WIRE_COUNTER_MESSAGES_SENT, sizeof head + send->length);
    return true;
}

struct link_send *lend_find(struct link *link, uint64_t token)
{
    uint64_t id = token_id(token);
    bool lent = token_segment(token) == LENT_SEGMENT && id < link->puts.reading_size;
    return lent ? link->puts.reading[id] : NULL;
}

void lend_release(struct link *link, struct link_send *send)
{
    if (!send->lent)
        return;
    send->lent = false;
    link->puts.reading[send->id] = NULL;
    link->out.bytes -= send->length;
}

void lend_give_up(struct link *link, struct link_send *send)
{
    struct link_lane *lane = send->lent ? lend_lane(link) : NULL;
    if (lane)
        lane->ops->give_up(lane->carrier, token_of(send->id, LENT_SEGMENT));
    lend_release(link, send);
}
