/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads that the receiver copies from where they lie (lend.c): where to, and what becomes of them. */
#include "link/borrow.h"

#include "base/clock.h"
#include "base/reach.h"
#include "link/early.h"
#include "link/lend.h"
#include "link/match.h"
#include "link/outgoing.h"
#include "link/refuse.h"
#include "link/spare.h"

#include <stdlib.h>
#include <string.h>

/* Of the receive at hand, which is over if it is in a device's memory: nothing is copied there. */
static void *borrow_place(struct link *link)
{
    struct link_recv *recv = link->loans.recv;
    void *to = spare_whole(recv);
    if (!to) {
        link->loans.recv = NULL;
        match_take(link, recv, refuse_target(recv));
    }
    return to;
}

#define COPIED_IN_1_NS 8 /* bytes */

/* A payload that nobody has asked for would be copied twice: it stays where it is for the time that the first copy
 * takes. Ranks that share processors have better to do than to wait. */
bool borrow_waits(struct lane *carrier, const void *bytes, size_t size, size_t length)
{
    struct link_lane *lane = carrier->user;
    struct link *link = lane->link;
    struct wire_message head;
    if (link->domain->crowded || size != sizeof head || length > link->unasked)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (head.kind != WIRE_EAGER || match_is_expected(link, &head))
        return false;
    uint64_t now = clock_ns();
    if (!link->loans.since)
        link->loans.since = now;
    return now - link->loans.since < length / COPIED_IN_1_NS;
}

void *borrow_target(struct lane *carrier, const void *bytes, size_t size, size_t length)
{
    struct link_lane *lane = carrier->user;
    struct link *link = lane->link;
    struct wire_message head;
    bool refused;
    link->loans.since = 0;
    lane_heard(lane);
    trace_count(link->domain->trace, WIRE_COUNTER_MESSAGES_RECEIVED, 1);
    link_count_received(lane, size + length);
    if (size != sizeof head || length > link->unasked)
        return NULL;
    memcpy(&head, bytes, sizeof head);
    if (head.kind != WIRE_EAGER)
        return NULL;
    link->loans.recv = match_find(link, &head, length, &refused);
    if (link->loans.recv)
        return borrow_place(link);
    link->loans.item = refused ? NULL : early_make(link, &head, length);
    return link->loans.item ? link->loans.item->body : NULL;
}

void borrow_copied(struct lane *carrier, bool whole)
{
    struct link_lane *lane = carrier->user;
    struct link *link = lane->link;
    struct link_recv *recv = link->loans.recv;
    struct unexpected *item = link->loans.item;
    link->loans.recv = NULL;
    link->loans.item = NULL;
    if (item && whole)
        early_add(link, item);
    else if (item)
        free(item);
    if (recv && (whole || reach_unwritable(spare_whole(recv), recv->length)))
        match_take(link, recv, whole ? TUTTI_SUCCESS : refuse_target(recv));
}

void borrow_sent(struct lane *carrier, uint64_t token)
{
    struct link_lane *lane = carrier->user;
    struct link_send *send = lend_find(lane->link, token);
    if (!send) {
        outgoing_sent(carrier, token);
        return;
    }
    lend_release(lane->link, send);
    send->done(send, TUTTI_SUCCESS);
}

/* The peer cannot copy from there: this process can, or the memory is none. */
void borrow_unreadable(struct lane *carrier, uint64_t token)
{
    struct link_lane *lane = carrier->user;
    struct link_send *send = lend_find(lane->link, token);
    if (!send) {
        outgoing_unreadable(carrier, token);
        return;
    }
    lend_release(lane->link, send);
    if (reach_unreadable(place_reach(send->place), send->length)) {
        send->done(send, refuse_source(send));
        return;
    }
    lane->link->loans.never = true;
    link_send(lane->link, send);
}
