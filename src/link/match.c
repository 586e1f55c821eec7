/* SPDX-License-Identifier: Apache-2.0 */
/* Sends meet receives: by tag, whichever side comes first; and calls that do not fit each other are found here. */
#include "link/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRAYS_EVERY (100 * NS_PER_MS)

bool tag_equal(const struct wire_tag *a, const struct wire_tag *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static struct link_recv *find_posted(struct link *link, const struct wire_tag *tag)
{
    list_each(node, tags_list(&link->posted, tag))
    {
        struct link_recv *recv = list_entry(node, struct link_recv, node);
        if (tag_equal(&recv->tag, tag))
            return recv;
    }
    return NULL;
}

static struct link_send *find_waiting(struct link *link, const struct wire_tag *tag)
{
    list_each(node, tags_list(&link->waiting, tag))
    {
        struct link_send *send = list_entry(node, struct link_send, node);
        if (tag_equal(&send->tag, tag))
            return send;
    }
    return NULL;
}

/* Of one collective operation, whose number says nothing about messages that ranks send one another. */
static bool same_operation(const struct wire_tag *a, const struct wire_tag *b)
{
    return a->comm == b->comm && a->seq == b->seq && a->slice != WIRE_TAG_P2P && b->slice != WIRE_TAG_P2P;
}

/* A large payload is held back for want of a credit, and nothing of that tag is expected: perhaps another call is. */
static struct link_recv *find_posted_of_another_call(struct link *link, const struct wire_message *head)
{
    if (head->tag.slice == WIRE_TAG_P2P)
        return NULL;
    tags_each(node, &link->posted)
    {
        struct link_recv *recv = list_entry(node, struct link_recv, node);
        if (same_operation(&recv->tag, &head->tag) && recv->call.signature != head->call.signature)
            return recv;
    }
    return NULL;
}

tutti_result_t match_refuse(const struct wire_tag *tag, const struct wire_call *mine, size_t my_length,
                            const struct wire_call *theirs, size_t their_length, uint32_t their_rank)
{
    char here[WIRE_CALL_TEXT], there[WIRE_CALL_TEXT], lengths[80] = "";
    if (mine->signature == theirs->signature)
        snprintf(lengths, sizeof lengths, " (a block of %zu bytes here, of %zu there)", my_length, their_length);
    return error_note(TUTTI_INVALID_USAGE,
                      "rank %u called %s, rank %u called %s%s: %s %u differs; all ranks must make the same calls",
                      tag->from == their_rank ? tag->to : tag->from, wire_call_text(*mine, here, sizeof here),
                      their_rank, wire_call_text(*theirs, there, sizeof there), lengths,
                      tag->slice == WIRE_TAG_P2P ? "message" : "operation", tag->seq);
}

void match_finish_recv(struct link *link, struct link_recv *recv, tutti_result_t result)
{
    list_remove(&recv->node);
    if (result == TUTTI_SUCCESS)
        bulk_release_recv(link, recv);
    else
        bulk_burn_recv(link, recv);
    recv->done(recv, result);
}

static void match_deliver(struct link *link, struct link_recv *recv, const struct wire_call *call, const void *body,
                          size_t length)
{
    if (call->signature != recv->call.signature || length != recv->length) {
        match_finish_recv(link, recv,
                          match_refuse(&recv->tag, &recv->call, recv->length, call, length, recv->tag.from));
        return;
    }
    if (length)
        memcpy(recv->data, body, length);
    match_finish_recv(link, recv, TUTTI_SUCCESS);
}

/* The peer holds a payload and got no credit from us: either we are late, or we wait for something else. For one that
 * would ride in a message, but is held back (early.c), no credit was ever given. */
static void meet_announced(struct link *link, struct link_recv *recv, const struct wire_call *call, uint64_t bytes)
{
    if (bytes != recv->length || call->signature != recv->call.signature)
        match_finish_recv(link, recv, match_refuse(&recv->tag, &recv->call, recv->length, call, bytes, recv->tag.from));
    else if (!recv->credited && bytes)
        bulk_credit(link, recv);
}

static void announced(struct link *link, const struct wire_message *head, const void *body, size_t length)
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
    else if (bytes && bytes <= link->eager)
        early_keep(link, head, body, length);
}

void match_announce(struct link *link, struct link_send *send)
{
    uint64_t length = send->length;
    struct wire_message head = {.tag = send->tag, .kind = WIRE_ANNOUNCE, .call = send->call};
    message_send(link, &head, &length, sizeof length);
}

static void credited(struct link *link, const struct wire_message *head, const void *body, size_t length)
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
    bulk_start(link, send, head, &early);
}

static void eager(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct link_recv *recv = link->expected;
    if (recv && tag_equal(&recv->tag, &head->tag))
        link->expected = NULL;
    else
        recv = find_posted(link, &head->tag);
    if (recv)
        match_deliver(link, recv, &head->call, body, length);
    else
        early_keep(link, head, body, length);
}

static void worded(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct link_owner *owner = &link->domain->owner;
    struct wire_word word;
    if (length != sizeof word || !owner->worded)
        return;
    memcpy(&word, body, sizeof word);
    if (word.kind == WIRE_WORD_LEAVE)
        word.why.text[sizeof word.why.text - 1] = 0;
    owner->worded(owner->context, link, &head->tag, &word);
}

void match_dispatch(struct link *link, struct link_lane *lane, const struct wire_message *head, const void *body,
                    size_t length)
{
    struct link_owner *owner = &link->domain->owner;
    switch (head->kind) {
    case WIRE_EAGER:
        eager(link, head, body, length);
        break;
    case WIRE_CREDIT:
        credited(link, head, body, length);
        break;
    case WIRE_DONE:
        bulk_done(link, head->slot, body, length);
        break;
    case WIRE_ANNOUNCE:
        announced(link, head, body, length);
        break;
    case WIRE_ABORT: {
        struct wire_abort abort;
        if (length == sizeof abort) {
            memcpy(&abort, body, sizeof abort);
            abort.text[sizeof abort.text - 1] = 0;
            owner->aborted(owner->context, head->tag.comm, &abort);
        }
        message_acknowledge(link); /* who says that may wait to leave */
        break;
    }
    case WIRE_LANE_DEAD:
        lanes_peer_says_dead(link, head->slot, head->tag.seq);
        break;
    case WIRE_REVOKED:
        bulk_revoked(link, head->slot);
        break;
    case WIRE_HAVE:
        bulk_have(link, head->slot, body, length);
        break;
    case WIRE_LANE_DEAD_OK:
        lanes_confirmed(link, head->slot, head->tag.seq);
        break;
    case WIRE_LANDED:
        flight_hear(link, body, length);
        bulk_pump(link);
        break;
    case WIRE_PROBE:
        message_say_on(lane, WIRE_PROBE_ANSWER, body, length < sizeof(uint64_t) ? length : sizeof(uint64_t));
        break;
    case WIRE_PROBE_ANSWER:
        flight_answered(lane, body, length);
        bulk_pump(link);
        break;
    case WIRE_CALL:
    case WIRE_ASK:
    case WIRE_BLOCKED:
        if (owner->called)
            owner->called(owner->context, link, head, body, length);
        break;
    case WIRE_WORD:
        worded(link, head, body, length);
        break;
    case WIRE_HOLD:
    case WIRE_GO_ON:
        link->held = head->kind == WIRE_HOLD;
        break;
    case WIRE_BYE:
        link->bye = true;
        message_acknowledge(link);
        break;
    default:
        break; /* acknowledgements and answers have done their work by arriving */
    }
}

static tutti_result_t say_lost(const struct link *link)
{
    return error_note(TUTTI_REMOTE_ERROR, "%s", link->reason);
}

/* Does a payload ride in a message, without waiting for a credit? */
static bool is_eager(const struct link *link, size_t length)
{
    return length <= link->eager && (!early_held(link) || !length);
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
    if (!link->messages || link->lost || !is_eager(link, length))
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
    recv->credited = false;
    recv->memory = NULL;
    recv->bitmap = NULL;
}

void link_expect(struct link *link, struct link_recv *recv)
{
    match_begin_recv(recv);
    if (!link->early || !take_early(link, recv))
        link->expected = recv;
}

bool link_expected(struct link *link)
{
    bool came = !link->expected;
    link->expected = NULL;
    return came;
}

/* Both ends are this process: the payload is copied once both are there. */
static void match_meet(struct link *link, struct link_send *send, struct link_recv *recv)
{
    if (self_begin(link, send, recv))
        return;
    link->domain->met = true;
    match_deliver(link, recv, &send->call, send->data, send->length);
    send->done(send, TUTTI_SUCCESS);
}

static void send_to_self(struct link *link, struct link_send *send)
{
    struct link_recv *recv = find_posted(link, &send->tag);
    if (recv)
        match_meet(link, send, recv);
    else
        tags_add(&link->waiting, &send->tag, &send->node);
}

void link_send(struct link *link, struct link_send *send)
{
    list_init(&send->node);
    send->credited = send->finished = send->announced = false;
    send->lane_of = NULL;
    send->memory = NULL;
    send->partner = NULL;
    send->in_flight = 0;
    if (link->lost) {
        send->done(send, say_lost(link));
    } else if (!link->messages) {
        send_to_self(link, send);
    } else if (is_eager(link, send->length)) {
        struct wire_message head = {.tag = send->tag, .call = send->call};
        send->done(send, send_eager(link, &head, send->data, send->length));
    } else {
        struct unexpected *item = early_find(link, &send->tag, WIRE_CREDIT);
        send->since = clock_ns();
        if (!item) {
            tags_add(&link->waiting, &send->tag, &send->node);
            trace_count(link->domain->trace, WIRE_COUNTER_CREDITS_WAITED, 1);
            send->announced = send->length <= link->eager;
            if (send->announced)
                match_announce(link, send);
            return;
        }
        struct early_credit early;
        struct wire_message head = item->head;
        memcpy(&early, item->body, sizeof early);
        early_take(link, item);
        free(item);
        bulk_start(link, send, &head, &early);
    }
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

void link_recv(struct link *link, struct link_recv *recv)
{
    match_begin_recv(recv);
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
    tags_add(&link->posted, &recv->tag, &recv->node);
    if (link->messages && recv->length > link->eager)
        bulk_credit(link, recv);
    else
        meet_kept(link, recv);
}

void link_cancel_send(struct link *link, struct link_send *send)
{
    bulk_give_up(link, send);
    self_part_send(link, send);
    list_remove(&send->node);
    bulk_release_send(link, send);
    bulk_pump(link);
}

void link_cancel_recv(struct link *link, struct link_recv *recv)
{
    if (!link->messages)
        self_part_recv(link, recv);
    list_remove(&recv->node);
    bulk_burn_recv(link, recv);
}

static void fail_send(struct link *link, struct list *node, tutti_result_t result)
{
    struct link_send *send = list_entry(node, struct link_send, node);
    list_remove(node);
    bulk_release_send(link, send);
    self_part_send(link, send);
    send->done(send, result);
}

static void fail_sends(struct link *link, struct list *head, tutti_result_t result)
{
    while (!list_empty(head))
        fail_send(link, head->next, result);
}

void match_fail_all(struct link *link, tutti_result_t result)
{
    struct list *node;
    while ((node = tags_any(&link->waiting)))
        fail_send(link, node, result);
    fail_sends(link, &link->bulk, result);
    if (!link->messages)
        fail_sends(link, &link->domain->copies, result);
    for (uint32_t id = 0; id < link->reading_size; id++)
        if (link->reading[id]) {
            struct link_send *send = link->reading[id];
            list_remove(&send->node);
            bulk_release_send(link, send);
            send->done(send, result);
        }
    while ((node = tags_any(&link->posted)))
        match_finish_recv(link, list_entry(node, struct link_recv, node), result);
}

/* Something of another call has come for the operation that `tag` belongs to. */
static const struct unexpected *find_stray_on(const struct link *link, const struct wire_tag *tag, uint32_t signature)
{
    if (!link->early_of_operations)
        return NULL;
    tags_each(node, &link->arrived)
    {
        const struct unexpected *item = list_entry(node, struct unexpected, node);
        if (same_operation(&item->head.tag, tag) && item->head.call.signature != signature)
            return item;
    }
    return NULL;
}

/* From any peer: a rank in another call may send to others than its peers there. */
static const struct unexpected *find_stray(const struct link *link, const struct wire_tag *tag, uint32_t signature)
{
    const struct unexpected *item = NULL;
    if (tag->slice == WIRE_TAG_P2P)
        return NULL;
    for (struct list *node = link->domain->links.next; node != &link->domain->links && !item; node = node->next)
        item = find_stray_on(list_entry(node, struct link, node), tag, signature);
    return item;
}

/* Of the payload that an early message is, announces or asks for. */
static size_t payload_length(const struct unexpected *item)
{
    struct wire_credit credit = {.length = item->length};
    if (item->head.kind == WIRE_CREDIT)
        memcpy(&credit, item->body, sizeof credit);
    else if (item->head.kind == WIRE_ANNOUNCE)
        memcpy(&credit.length, item->body, sizeof credit.length);
    return credit.length;
}

static tutti_result_t stray(const struct wire_call *mine, size_t length, const struct unexpected *item)
{
    const struct wire_tag *tag = &item->head.tag;
    return match_refuse(tag, mine, length, &item->head.call, payload_length(item),
                        item->head.kind == WIRE_CREDIT ? tag->to : tag->from);
}

static bool fail_a_strayed_recv(struct link *link)
{
    tags_each(node, &link->posted)
    {
        struct link_recv *recv = list_entry(node, struct link_recv, node);
        const struct unexpected *item = find_stray(link, &recv->tag, recv->call.signature);
        if (!item)
            continue;
        match_finish_recv(link, recv, stray(&recv->call, recv->length, item));
        return true;
    }
    return false;
}

static bool fail_a_strayed_send(struct link *link)
{
    tags_each(node, &link->waiting)
    {
        struct link_send *send = list_entry(node, struct link_send, node);
        const struct unexpected *item = find_stray(link, &send->tag, send->call.signature);
        if (!item)
            continue;
        tutti_result_t result = stray(&send->call, send->length, item);
        list_remove(&send->node);
        bulk_release_send(link, send);
        send->done(send, result);
        return true;
    }
    return false;
}

/*
 * Two ranks in different calls may wait for messages that the other never sends. So a transfer that has waited long
 * asks whether what came instead, for the same operation, is of another call.
 */
void match_look_for_strays(struct link *link, uint64_t now)
{
    if (now - link->looked < STRAYS_EVERY)
        return;
    link->looked = now;
    while (fail_a_strayed_recv(link) || fail_a_strayed_send(link))
        ; /* done() may change the lists: the search begins anew */
}
