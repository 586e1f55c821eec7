/* SPDX-License-Identifier: Apache-2.0 */
/* Sends meet receives: by tag, whichever side comes first; and calls that do not fit each other are found here. */
#include "link/match.h"

#include "base/error.h"
#include "base/reach.h"
#include "link/early.h"
#include "link/incoming.h"
#include "link/lend.h"
#include "link/memory.h"
#include "link/message.h"
#include "link/outgoing.h"
#include "link/refuse.h"
#include "link/self.h"
#include "link/spare.h"

#include <stdlib.h>
#include <string.h>

static struct link_recv *find_posted(struct link *link, const struct wire_tag *tag)
{
    list_each(node, tags_list(&link->match.posted, tag))
    {
        struct link_recv *recv = list_entry(node, struct link_recv, node);
        if (tags_equal(&recv->tag, tag))
            return recv;
    }
    return NULL;
}

static struct link_send *find_waiting(struct link *link, const struct wire_tag *tag)
{
    list_each(node, tags_list(&link->match.waiting, tag))
    {
        struct link_send *send = list_entry(node, struct link_send, node);
        if (tags_equal(&send->tag, tag))
            return send;
    }
    return NULL;
}

/* A large payload is held back for want of a credit, and nothing of that tag is expected: perhaps another call is. */
static struct link_recv *find_posted_of_another_call(struct link *link, const struct wire_message *head)
{
    if (head->tag.slice == WIRE_TAG_P2P)
        return NULL;
    tags_each(node, &link->match.posted)
    {
        struct link_recv *recv = list_entry(node, struct link_recv, node);
        if (tags_same_operation(&recv->tag, &head->tag) && recv->call.signature != head->call.signature)
            return recv;
    }
    return NULL;
}

static void match_deliver(struct link *link, struct link_recv *recv, const struct wire_call *call, const void *body,
                          size_t length)
{
    if (call->signature != recv->call.signature || length != recv->length) {
        incoming_finish(link, recv, refuse_call(&recv->tag, &recv->call, recv->length, call, length, recv->tag.from));
        return;
    }
    void *to = spare_whole(recv);
    if (length && !to) {
        incoming_finish(link, recv, refuse_target(recv));
        return;
    }
    if (body && length) /* without one it did not fit, and was refused */
        memcpy(to, body, length);
    incoming_finish(link, recv, TUTTI_SUCCESS);
}

/* The peer holds a payload and got no credit from us: either we are late, or we wait for something else. For one that
 * would ride in a message, but is held back (early.c), no credit was ever given. */
static void meet_announced(struct link *link, struct link_recv *recv, const struct wire_call *call, uint64_t bytes)
{
    if (bytes != recv->length || call->signature != recv->call.signature)
        incoming_finish(link, recv, refuse_call(&recv->tag, &recv->call, recv->length, call, bytes, recv->tag.from));
    else if (!recv->credited && bytes)
        incoming_credit(link, recv);
}

void match_announced(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    uint64_t bytes;
    struct link_recv *recv = find_posted(link, &head->tag);
    if (!recv)
        recv = find_posted_of_another_call(link, head);
    if (length != sizeof bytes)
        return;
    memcpy(&bytes, body, sizeof bytes);
    if (recv)
        meet_announced(link, recv, &head->call, bytes);
    else if (bytes && bytes <= link->unasked)
        early_keep(link, head, body, length);
}

void match_credited(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct early_credit early = {.since = clock_ns()};
    if (length != sizeof early.credit && length != sizeof early.credit + sizeof early.memory)
        return;
    memcpy(&early, body, length);
    struct link_send *send = find_waiting(link, &head->tag);
    if (!send) {
        early_keep(link, head, &early, sizeof early);
        return;
    }
    list_remove(&send->node);
    outgoing_start(link, send, head, &early);
}

static void unexpect(struct link *link, const struct link_recv *recv)
{
    if (link->match.expected == recv)
        link->match.expected = NULL;
}

bool match_is_expected(struct link *link, const struct wire_message *head)
{
    const struct link_recv *expected = link->match.expected;
    return (expected && tags_equal(&expected->tag, &head->tag)) || find_posted(link, &head->tag);
}

struct link_recv *match_find(struct link *link, const struct wire_message *head, size_t length, bool *refused)
{
    struct link_recv *expected = link->match.expected;
    struct link_recv *recv =
        expected && tags_equal(&expected->tag, &head->tag) ? expected : find_posted(link, &head->tag);
    *refused = recv && (head->call.signature != recv->call.signature || length != recv->length);
    if (!*refused)
        return recv;
    unexpect(link, recv);
    match_deliver(link, recv, &head->call, NULL, length);
    return NULL;
}

void match_take(struct link *link, struct link_recv *recv, tutti_result_t result)
{
    unexpect(link, recv);
    incoming_finish(link, recv, result);
}

void match_eager(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct link_recv *recv = link->match.expected;
    if (recv && tags_equal(&recv->tag, &head->tag))
        link->match.expected = NULL;
    else
        recv = find_posted(link, &head->tag);
    if (recv)
        match_deliver(link, recv, &head->call, body, length);
    else
        early_keep(link, head, body, length);
}

static tutti_result_t say_lost(const struct link *link)
{
    return error_note(TUTTI_REMOTE_ERROR, "%s", link->reason);
}

tutti_result_t link_check(const struct link *link)
{
    return link->lost ? say_lost(link) : TUTTI_SUCCESS;
}

bool link_is_held(const struct link *link)
{
    return early_is_held(link);
}

tutti_result_t link_window(struct link *link, const struct wire_tag *tag, const void *body, size_t length)
{
    const struct wire_message head = {.kind = WIRE_WINDOW, .tag = *tag};
    message_send(link, &head, body, length);
    return link_check(link);
}

/* Does a payload up to `most` go without waiting for a credit? */
static bool goes_unasked(const struct link *link, size_t length, size_t most)
{
    return length <= most && (!early_is_held(link) || !length);
}

static bool send_goes_unasked(const struct link *link, const struct link_send *send, size_t most)
{
    return goes_unasked(link, send->length, most) && !(send->asks && send->length);
}

static tutti_result_t send_eager(struct link *link, struct wire_message *head, const void *data, size_t length)
{
    head->kind = WIRE_EAGER;
    if (message_send_now(link, head, data, length))
        return TUTTI_SUCCESS;
    message_send(link, head, data, length);
    return link->lost ? say_lost(link) : TUTTI_SUCCESS;
}

bool link_send_now(struct link *link, struct wire_message *head, const void *data, size_t length,
                   tutti_result_t *result)
{
    if (!link->messages || link->lost || !goes_unasked(link, length, link->brief))
        return false;
    *result = send_eager(link, head, data, length);
    return true;
}

static bool take_early(struct link *link, struct link_recv *recv)
{
    struct unexpected *item = early_find(link, &recv->tag, WIRE_EAGER);
    if (!item)
        return false;
    early_take(link, item);
    match_deliver(link, recv, &item->head.call, item->body, item->length);
    free(item);
    return true;
}

static void match_begin_recv(struct link_recv *recv)
{
    list_init(&recv->node);
    recv->credited = recv->stands = recv->parked = false;
    recv->memory = NULL;
    recv->bitmap = NULL;
    spare_clear(recv);
}

void link_expect(struct link *link, struct link_recv *recv)
{
    match_begin_recv(recv);
    if (!link->early.bytes || !take_early(link, recv))
        link->match.expected = recv;
}

bool link_expected(struct link *link)
{
    bool came = !link->match.expected;
    link->match.expected = NULL;
    return came;
}

/* Both ends are this process: the payload is copied once both are there. */
static void match_meet(struct link *link, struct link_send *send, struct link_recv *recv)
{
    if (self_begin(link, send, recv))
        return;
    bool fits = send->length == recv->length && send->call.signature == recv->call.signature;
    void *from = place_reach(send->place), *to = spare_whole(recv);
    if (fits && send->length && !(from && to && reach_copy(to, from, send->length))) {
        self_refuse(link->domain, send, recv);
        return;
    }
    link->domain->met = true;
    match_deliver(link, recv, &send->call, NULL, send->length);
    send->done(send, TUTTI_SUCCESS);
}

static void send_to_self(struct link *link, struct link_send *send)
{
    struct link_recv *recv = find_posted(link, &send->tag);
    if (recv)
        match_meet(link, send, recv);
    else
        tags_add(&link->match.waiting, &send->tag, &send->node);
}

/* Only what waits for a credit may go from a device's memory. */
static bool may_wait_for_hardware(const struct link *link, const struct link_send *send)
{
    size_t unasked = link->eager > link->unasked ? link->eager : link->unasked;
    return link->messages && memory_transport(link) >= 0 && !send_goes_unasked(link, send, unasked);
}

void link_spilled(struct link *link, struct link_send *send)
{
    if (send->credited) {
        outgoing_spilled(link, send);
        return;
    }
    send->place = place_host(send->spare);
    link_send(link, send);
}

static void match_begin_send(struct link_send *send)
{
    list_init(&send->node);
    send->credited = send->finished = send->announced = send->lent = false;
    send->lane_of = NULL;
    send->memory = NULL;
    send->partner = NULL;
    send->in_flight = 0;
    send->spilling = false;
    send->unfit[0] = send->unfit[1] = 0;
    send->grant = NULL;
}

/* The send waits for a credit, or goes by one that stands. */
static void match_use_grant(struct link_send *send, struct link_grant *grant)
{
    send->grant = grant;
    if (grant)
        grant->send = send;
}

void link_send_granted(struct link *link, struct link_send *send, struct link_grant *grant)
{
    match_begin_send(send);
    if (link->lost) {
        send->done(send, say_lost(link));
    } else if (grant && grant->stands) {
        match_use_grant(send, grant);
        outgoing_again(link, send);
    } else if (spare_is_needed(send) && !may_wait_for_hardware(link, send)) {
        send->spilling = true;
        send->spill(send);
    } else if (!link->messages) {
        send_to_self(link, send);
    } else if (send->length >= link->domain->lend_from && send_goes_unasked(link, send, link->unasked) &&
               lend_begin(link, send)) {
        return;
    } else if (send_goes_unasked(link, send, link->eager)) {
        struct wire_message head = {.tag = send->tag, .call = send->call};
        const void *data = place_reach(send->place);
        bool refused = !data && send->length;
        send->done(send, refused ? refuse_source(send) : send_eager(link, &head, data, send->length));
    } else {
        struct unexpected *item = early_find(link, &send->tag, WIRE_CREDIT);
        match_use_grant(send, grant);
        send->since = clock_ns();
        if (!item) {
            tags_add(&link->match.waiting, &send->tag, &send->node);
            trace_count(link->domain->trace, WIRE_COUNTER_CREDITS_WAITED, 1);
            send->announced = send->length <= link->unasked;
            if (send->announced)
                message_announce(link, send);
            return;
        }
        struct early_credit early;
        struct wire_message head = item->head;
        memcpy(&early, item->body, sizeof early);
        early_take(link, item);
        free(item);
        outgoing_start(link, send, &head, &early);
    }
}

bool link_asks(const struct link *link, size_t length)
{
    return link->messages && length > link->unasked;
}

void link_send(struct link *link, struct link_send *send)
{
    link_send_granted(link, send, NULL);
}

/* The payload may have been announced, if the peer holds it back. */
static void meet_kept(struct link *link, struct link_recv *recv)
{
    uint64_t bytes;
    struct unexpected *item = early_find(link, &recv->tag, WIRE_ANNOUNCE);
    if (!item)
        return;
    struct wire_call call = item->head.call;
    memcpy(&bytes, item->body, sizeof bytes);
    early_take(link, item);
    free(item);
    if (!link->lost)
        meet_announced(link, recv, &call, bytes);
}

static void match_recv(struct link *link, struct link_recv *recv)
{
    if (take_early(link, recv))
        return;
    if (link->lost) { /* looked at second: what the peer sent before it left still counts */
        recv->done(recv, say_lost(link));
        return;
    }
    struct link_send *send = link->messages ? NULL : find_waiting(link, &recv->tag);
    if (send) {
        list_remove(&send->node);
        match_meet(link, send, recv);
        return;
    }
    tags_add(&link->match.posted, &recv->tag, &recv->node);
    if (link->messages && recv->length > link->unasked)
        incoming_credit(link, recv);
    else
        meet_kept(link, recv);
}

void link_recv(struct link *link, struct link_recv *recv)
{
    match_begin_recv(recv);
    match_recv(link, recv);
}

void link_recv_standing(struct link *link, struct link_recv *recv)
{
    match_begin_recv(recv);
    recv->stands = true;
    match_recv(link, recv);
}

void link_recv_again(struct link *link, struct link_recv *recv)
{
    tags_add(&link->match.posted, &recv->tag, &recv->node);
    incoming_again(link, recv);
}

void link_recv_part(struct link *link, struct link_recv *recv)
{
    incoming_release(link, recv);
}

void link_cancel_send(struct link *link, struct link_send *send)
{
    outgoing_give_up(link, send);
    self_part_send(link, send);
    list_remove(&send->node);
    outgoing_release(link, send);
    outgoing_pump(link);
}

void link_cancel_recv(struct link *link, struct link_recv *recv)
{
    if (!link->messages)
        self_part_recv(link, recv);
    list_remove(&recv->node);
    incoming_burn(link, recv);
}

static void match_fail_send(struct link *link, struct list *node, tutti_result_t result)
{
    struct link_send *send = list_entry(node, struct link_send, node);
    list_remove(node);
    outgoing_release(link, send);
    self_part_send(link, send);
    send->done(send, result);
}

void match_fail_all(struct link *link, tutti_result_t result)
{
    struct list *node;
    while ((node = tags_any(&link->match.waiting)))
        match_fail_send(link, node, result);
    while (!link->messages && !list_empty(&link->domain->copies))
        match_fail_send(link, link->domain->copies.next, result);
    outgoing_fail_all(link, result);
    while ((node = tags_any(&link->match.posted)))
        incoming_finish(link, list_entry(node, struct link_recv, node), result);
    incoming_fail_parked(link, result);
}
