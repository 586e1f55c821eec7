/* SPDX-License-Identifier: Apache-2.0 */
/* What peers say: each kind of message goes to whom it is for. */
#include "link/hear.h"

#include "link/flight.h"
#include "link/incoming.h"
#include "link/lanes.h"
#include "link/match.h"
#include "link/message.h"
#include "link/move.h"
#include "link/outgoing.h"

#include <string.h>

static void hear_memo(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct link_owner *owner = &link->domain->owner;
    struct wire_memo memo;
    if (length != sizeof memo || !owner->on_memo)
        return;
    memcpy(&memo, body, sizeof memo);
    if (memo.kind == WIRE_MEMO_LEAVE)
        memo.why.text[sizeof memo.why.text - 1] = 0;
    owner->on_memo(owner->context, link, &head->tag, &memo);
}

static void hear_abort(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct link_owner *owner = &link->domain->owner;
    struct wire_abort abort;
    if (length == sizeof abort) {
        memcpy(&abort, body, sizeof abort);
        abort.text[sizeof abort.text - 1] = 0;
        owner->aborted(owner->context, head->tag.comm, &abort);
    }
    message_acknowledge(link); /* the peer may wait for it before it leaves */
}

static void hear_message(struct link *link, struct link_lane *lane, const struct wire_message *head, const void *body,
                         size_t length)
{
    struct link_owner *owner = &link->domain->owner;
    switch (head->kind) {
    case WIRE_EAGER:
        match_eager(link, head, body, length);
        break;
    case WIRE_CREDIT:
        match_credited(link, head, body, length);
        break;
    case WIRE_DONE:
        outgoing_done(link, head->slot, body, length);
        break;
    case WIRE_ANNOUNCE:
        match_announced(link, head, body, length);
        break;
    case WIRE_ABORT:
        hear_abort(link, head, body, length);
        break;
    case WIRE_DOWN:
        lane_down_at_peer(link, head->slot, head->tag.seq);
        break;
    case WIRE_ANEW:
        move_asked(link, head->slot, head->tag.seq);
        break;
    case WIRE_REVOKED:
        outgoing_revoked(link, head->slot);
        break;
    case WIRE_HAVE:
        outgoing_have(link, head->slot, body, length);
        break;
    case WIRE_DOWN_OK:
        lane_down_confirmed(link, head->slot, head->tag.seq);
        break;
    case WIRE_LANDED:
        flight_hear(link, body, length);
        outgoing_pump(link);
        break;
    case WIRE_TIMED:
        flight_timed(link, body, length);
        break;
    case WIRE_PROBE:
        message_say_on(lane, WIRE_PROBE_ANSWER, body, length < sizeof(uint64_t) ? length : sizeof(uint64_t));
        break;
    case WIRE_PROBE_ANSWER:
        flight_answered(lane, body, length);
        outgoing_pump(link);
        break;
    case WIRE_CALL:
    case WIRE_ASK:
    case WIRE_BLOCKED:
        if (owner->called)
            owner->called(owner->context, link, head, body, length);
        break;
    case WIRE_MEMO:
        hear_memo(link, head, body, length);
        break;
    case WIRE_WINDOW:
        if (owner->on_window)
            owner->on_window(owner->context, link, &head->tag, body, length);
        break;
    case WIRE_HOLD:
    case WIRE_GO_ON:
        link->early.held = head->kind == WIRE_HOLD;
        break;
    case WIRE_BYE:
        link->life.bye = true;
        message_acknowledge(link);
        break;
    default:
        break; /* acknowledgements and answers have done their work by arriving */
    }
}

void hear_carrier(struct lane *carrier, const void *bytes, size_t length)
{
    struct link_lane *lane = carrier->user;
    struct wire_message head;
    if (!message_received(lane, &bytes, &length, &head))
        return;
    hear_message(lane->link, lane, &head, bytes, length);
    message_taken(lane->link);
}
