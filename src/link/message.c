/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a link: in order, each exactly once, whatever happens to lanes. All go over one lane, the control lane,
 * until it dies or a better one is there. On lanes that may lose bytes every message carries a sequence number and is
 * kept until the peer has acknowledged it.
 */
#include "link/message.h"

#include "link/nics.h"

#include <stdlib.h>
#include <string.h>

#define ACKNOWLEDGE_EVERY 16
#define IDLE_ROOM         1024 /* bytes of a short message, with struct message: its memory is kept for later ones, */
#define IDLE_MOST         64   /* that of 64 messages of a link at most */
#define SAMPLE_EVERY      64
#define SAMPLE_AFTER      (10 * NS_PER_MS)
#define SAMPLE_LOST       NS_PER_S /* its answer was lost with a lane */

static struct lane *message_carrier(struct link *link)
{
    return link->control < 0 ? NULL : link->lane[link->control].carrier;
}

static struct message *message_memory(struct link *link, size_t size)
{
    if (size > IDLE_ROOM)
        return malloc(size);
    if (list_empty(&link->out.idle))
        return malloc(IDLE_ROOM);
    link->out.idle_count--;
    return list_entry(list_pop(&link->out.idle), struct message, node);
}

static struct message *message_new(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    size_t prefix = link->lossless ? 0 : sizeof(struct wire_sequence);
    struct message *message = message_memory(link, sizeof *message + prefix + sizeof *head + length);
    if (!message)
        return NULL;
    message->length = prefix + sizeof *head + length;
    message->sequence = ++link->out.next_sequence;
    link->out.bytes += message->length;
    struct wire_message said = *head;
    nics_say(link, &said);
    nics_said(link, &said);
    memcpy(message->bytes + prefix, &said, sizeof said);
    if (length)
        memcpy(message->bytes + prefix + sizeof *head, body, length);
    return message;
}

static void message_free(struct link *link, struct message *message)
{
    link->out.bytes -= message->length;
    list_remove(&message->node);
    if (sizeof *message + message->length > IDLE_ROOM || link->out.idle_count == IDLE_MOST) {
        free(message);
        return;
    }
    list_push(&link->out.idle, &message->node);
    link->out.idle_count++;
}

/* Is the time of this message to be taken? One at a time: of one in SAMPLE_EVERY, and of more where few are said. */
static bool message_wants_time(const struct link *link, uint64_t sequence)
{
    const struct link_sample *sample = &link->out.sample;
    const struct link_lane *lane = &link->lane[link->control];
    uint64_t before = since(sample->sent, lane->signs.heard);
    if (!lane->trace || (sample->waits && before < SAMPLE_LOST))
        return false;
    return sequence >= sample->sequence + SAMPLE_EVERY || before > SAMPLE_AFTER;
}

/* Hands one queued message to the lane. False: no room. */
static bool transmit(struct link *link, struct lane *lane, struct message *message)
{
    bool timed = !link->lossless && message_wants_time(link, message->sequence);
    int index = link->control;
    uint64_t number = message->sequence; /* the message may be gone inside */
    uint64_t now = timed ? clock_ns() : 0;
    if (!link->lossless) {
        struct wire_sequence sequence = {message->sequence | (timed ? WIRE_SEQUENCE_TIMED : 0), link->out.received};
        memcpy(message->bytes, &sequence, sizeof sequence);
        link->out.acked_to_peer = link->out.received;
    }
    struct iovec part = {message->bytes, message->length};
    const struct transport_ops *ops = lane->ops; /* the link may be lost inside, and the lane closed */
    size_t length = message->length;
    bool taken = ops->msg(lane, &part, 1) == TUTTI_SUCCESS;
    if (taken)
        link_count_sent(link, ops, WIRE_COUNTER_MESSAGES_SENT, length);
    if (taken && timed)
        link->out.sample = (struct link_sample){number, now, index, true};
    return taken;
}

/* A transport may make upcalls from inside msg() that come back here, kill the lane, or lose the link: the message
 * stays the first unsent one until msg() has returned, and a new control lane begins again with the first message that
 * is kept. */
void message_flush(struct link *link)
{
    struct lane *lane;
    if (link->out.flushing)
        return;
    link->out.flushing = true;
    while (link->out.unsent != &link->out.kept && (lane = message_carrier(link))) {
        struct message *message = list_entry(link->out.unsent, struct message, node);
        uint32_t resends = link->out.resends;
        bool taken = transmit(link, lane, message);
        if (link->out.resends != resends)
            continue;
        if (!taken)
            break;
        link->out.unsent = link->out.unsent->next;
        if (link->lossless)
            message_free(link, message);
    }
    link->out.flushing = false;
}

bool message_send_now(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct lane *lane = message_carrier(link);
    if (!link->lossless || !lane || link->out.unsent != &link->out.kept)
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
    link_start(link);
    if (message_send_now(link, head, body, length))
        return;
    if (link->lost) /* by the lane that failed just now */
        return;
    struct message *message = message_new(link, head, body, length);
    if (!message) {
        link_lose(link, "no memory for a message");
        return;
    }
    list_push(&link->out.kept, &message->node);
    if (link->out.unsent == &link->out.kept)
        link->out.unsent = &message->node;
    message_flush(link);
}

bool message_say_on(struct link_lane *lane, unsigned kind, const void *body, size_t length)
{
    struct wire_sequence sequence = {0, lane->link->out.received};
    struct wire_message head = {.kind = (uint8_t)kind};
    nics_say(lane->link, &head);
    struct iovec parts[3] = {{&sequence, sizeof sequence}, {&head, sizeof head}, {(void *)body, length}};
    int first = lane->link->lossless, end = length ? 3 : 2;
    if (!lane->carrier || lane->ops->msg(lane->carrier, parts + first, end - first) != TUTTI_SUCCESS)
        return false;
    nics_said(lane->link, &head);
    return true;
}

bool message_send_on(struct link_lane *lane, unsigned kind)
{
    return message_say_on(lane, kind, NULL, 0);
}

void message_acknowledge(struct link *link)
{
    if (link->lossless || link->control < 0 || link->out.acked_to_peer == link->out.received)
        return;
    uint64_t received = link->out.received;
    if (message_send_on(&link->lane[link->control], WIRE_ACK))
        link->out.acked_to_peer = received; /* else the next tick tries again */
}

static void drop_acknowledged(struct link *link, uint64_t received)
{
    while (!list_empty(&link->out.kept) && link->out.kept.next != link->out.unsent) {
        struct message *message = list_entry(link->out.kept.next, struct message, node);
        if (message->sequence > received)
            return;
        message_free(link, message);
    }
}

/* Strips the sequence. False: the message is a repetition, or not for matching. */
static bool message_admit(struct link *link, const unsigned char **bytes, size_t *length)
{
    struct wire_sequence sequence;
    if (*length < sizeof sequence)
        return false;
    memcpy(&sequence, *bytes, sizeof sequence);
    drop_acknowledged(link, sequence.received);
    *bytes += sizeof sequence;
    *length -= sizeof sequence;
    uint64_t number = sequence.sequence & ~WIRE_SEQUENCE_TIMED;
    if (number == 0)
        return true;
    if (number != link->out.received + 1)
        return false;
    link->out.received++;
    if (number != sequence.sequence)
        link->out.timed = (struct wire_timed){number, link->signs.heard};
    return true;
}

bool message_received(struct link_lane *lane, const void **data, size_t *length, struct wire_message *head)
{
    struct link *link = lane->link;
    const unsigned char *bytes = *data;
    lane_heard(lane);
    trace_count(link->domain->trace, WIRE_COUNTER_MESSAGES_RECEIVED, 1);
    link_count_received(lane, *length);
    if ((!link->lossless && !message_admit(link, &bytes, length)) || *length < sizeof *head)
        return false;
    memcpy(head, bytes, sizeof *head);
    nics_hear(link, head);
    *data = bytes + sizeof *head;
    *length -= sizeof *head;
    return true;
}

void message_taken(struct link *link)
{
    if (link->out.timed.sequence && link->control >= 0) {
        const struct wire_timed timed = link->out.timed;
        link->out.timed.sequence = 0;
        message_say_on(&link->lane[link->control], WIRE_TIMED, &timed, sizeof timed);
    }
    if (link->out.received - link->out.acked_to_peer >= ACKNOWLEDGE_EVERY)
        message_acknowledge(link);
}

void message_announce(struct link *link, const struct link_send *send)
{
    uint64_t length = send->length;
    struct wire_message head = {.tag = send->tag, .kind = WIRE_ANNOUNCE, .call = send->call};
    message_send(link, &head, &length, sizeof length);
}

bool message_all_heard(const struct link *link)
{
    return list_empty(&link->out.kept);
}

void message_resend(struct link *link)
{
    link->out.unsent = link->out.kept.next;
    link->out.resends++;
    link->out.sample.waits = false; /* its answer may be lost */
    message_flush(link);
}

void message_drop_all(struct link *link)
{
    while (!list_empty(&link->out.kept))
        message_free(link, list_entry(link->out.kept.next, struct message, node));
    link->out.unsent = &link->out.kept;
    link->out.resends++;
    while (!list_empty(&link->out.idle))
        free(list_entry(list_pop(&link->out.idle), struct message, node));
    link->out.idle_count = 0;
}
