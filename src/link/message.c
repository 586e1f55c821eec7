/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a link: in order, each exactly once, whatever happens to lanes. All go over one lane, the control lane,
 * until it dies or a better one is there. On lanes that may lose bytes every message carries a sequence number and is
 * kept until the peer has acknowledged it.
 */
#include "link/internal.h"

#include <stdlib.h>
#include <string.h>

#define ACKNOWLEDGE_EVERY 16

static struct lane *control_lane(struct link *link)
{
    return link->control < 0 ? NULL : link->lane[link->control].lane;
}

static struct message *message_new(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    size_t prefix = link->lossless ? 0 : sizeof(struct wire_sequence);
    struct message *message = malloc(sizeof *message + prefix + sizeof *head + length);
    if (!message)
        return NULL;
    message->length = prefix + sizeof *head + length;
    message->sequence = ++link->next_sequence;
    link->outgoing_bytes += message->length;
    memcpy(message->bytes + prefix, head, sizeof *head);
    if (length)
        memcpy(message->bytes + prefix + sizeof *head, body, length);
    return message;
}

static void message_free(struct link *link, struct message *message)
{
    link->outgoing_bytes -= message->length;
    list_remove(&message->node);
    free(message);
}

/* Hands one queued message to the lane. False: no room. */
static bool transmit(struct link *link, struct lane *lane, struct message *message)
{
    if (!link->lossless) {
        struct wire_sequence sequence = {message->sequence, link->received};
        memcpy(message->bytes, &sequence, sizeof sequence);
        link->acked_to_peer = link->received;
    }
    struct iovec part = {message->bytes, message->length};
    const struct transport_ops *ops = lane->ops; /* the link may be lost inside, and the lane closed */
    size_t length = message->length;
    bool taken = ops->msg(lane, &part, 1) == TUTTI_SUCCESS;
    if (taken)
        link_count_sent(link, ops, WIRE_COUNTER_MESSAGES_SENT, length);
    return taken;
}

/* A transport may make upcalls from inside msg() that come back here, kill the lane, or lose the link: the message
 * stays the first unsent one until msg() has returned, and a new control lane begins again with the first message that
 * is kept. */
void message_flush(struct link *link)
{
    struct lane *lane;
    if (link->flushing)
        return;
    link->flushing = true;
    while (link->unsent != &link->outgoing && (lane = control_lane(link))) {
        struct message *message = list_entry(link->unsent, struct message, node);
        uint32_t resends = link->resends;
        bool taken = transmit(link, lane, message);
        if (link->resends != resends)
            continue;
        if (!taken)
            break;
        link->unsent = link->unsent->next;
        if (link->lossless)
            message_free(link, message);
    }
    link->flushing = false;
}

bool message_send_now(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct lane *lane = control_lane(link);
    if (!link->lossless || !lane || link->unsent != &link->outgoing)
        return false; /* with a lane it has started */
    struct iovec parts[2] = {{(void *)head, sizeof *head}, {(void *)body, length}};
    if (lane->ops->msg(lane, parts, length ? 2 : 1) != TUTTI_SUCCESS)
        return false;
    link_count_sent(link, link->messages, WIRE_COUNTER_MESSAGES_SENT, sizeof *head + length);
    return true;
}

void message_send(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    if (link->lost)
        return;
    lanes_start(link);
    if (message_send_now(link, head, body, length))
        return;
    if (link->lost) /* by the lane that failed just now */
        return;
    struct message *message = message_new(link, head, body, length);
    if (!message) {
        lanes_lose(link, "no memory for a message");
        return;
    }
    list_push(&link->outgoing, &message->node);
    if (link->unsent == &link->outgoing)
        link->unsent = &message->node;
    message_flush(link);
}

bool message_say_on(struct link_lane *lane, unsigned kind, const void *body, size_t length)
{
    struct wire_sequence sequence = {0, lane->link->received};
    struct wire_message head = {.kind = (uint8_t)kind};
    struct iovec parts[3] = {{&sequence, sizeof sequence}, {&head, sizeof head}, {(void *)body, length}};
    int first = lane->link->lossless, end = length ? 3 : 2;
    return lane->lane && lane->ops->msg(lane->lane, parts + first, end - first) == TUTTI_SUCCESS;
}

bool message_send_on(struct link_lane *lane, unsigned kind)
{
    return message_say_on(lane, kind, NULL, 0);
}

void message_acknowledge(struct link *link)
{
    if (link->lossless || link->control < 0 || link->acked_to_peer == link->received)
        return;
    uint64_t received = link->received;
    if (message_send_on(&link->lane[link->control], WIRE_ACK))
        link->acked_to_peer = received; /* else the next tick tries again */
}

static void drop_acknowledged(struct link *link, uint64_t received)
{
    while (!list_empty(&link->outgoing) && link->outgoing.next != link->unsent) {
        struct message *message = list_entry(link->outgoing.next, struct message, node);
        if (message->sequence > received)
            return;
        message_free(link, message);
    }
}

/* Strips the sequence. False: the message is a repetition, or not for matching. */
static bool admit(struct link *link, const unsigned char **bytes, size_t *length)
{
    struct wire_sequence sequence;
    if (*length < sizeof sequence)
        return false;
    memcpy(&sequence, *bytes, sizeof sequence);
    drop_acknowledged(link, sequence.received);
    *bytes += sizeof sequence;
    *length -= sizeof sequence;
    if (sequence.sequence == 0)
        return true;
    if (sequence.sequence != link->received + 1)
        return false;
    link->received++;
    return true;
}

void message_received(struct link *link, struct link_lane *lane, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    struct wire_message head;
    lanes_heard(lane);
    trace_count(link->domain->trace, WIRE_COUNTER_MESSAGES_RECEIVED, 1);
    link_count_received(lane, length);
    if (!link->lossless && !admit(link, &bytes, &length))
        return;
    if (length < sizeof head)
        return;
    memcpy(&head, bytes, sizeof head);
    match_dispatch(link, lane, &head, bytes + sizeof head, length - sizeof head);
    if (link->received - link->acked_to_peer >= ACKNOWLEDGE_EVERY)
        message_acknowledge(link);
}

void message_resend(struct link *link)
{
    link->unsent = link->outgoing.next;
    link->resends++;
    message_flush(link);
}

void message_drop_all(struct link *link)
{
    while (!list_empty(&link->outgoing))
        message_free(link, list_entry(link->outgoing.next, struct message, node));
    link->unsent = &link->outgoing;
    link->resends++;
}
