/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a link: in order, each once, repeated when a lane goes down. */
#ifndef TUTTI_LINK_MESSAGE_H
#define TUTTI_LINK_MESSAGE_H

#include "link/domain.h"

/* A message that is queued, or kept until acknowledged. */
struct message {
    struct list node;
    uint64_t sequence;
    size_t length;
    unsigned char bytes[];
};

void message_send(struct link *link, const struct wire_message *head, const void *body, size_t length);
/* The common case, without the others: nothing queued, nothing to be kept. False: the message was not taken. */
bool message_send_now(struct link *link, const struct wire_message *head, const void *body, size_t length);
/* Tells the peer what it waits for in vain, or does not know of. */
void message_announce(struct link *link, const struct link_send *send);
void message_flush(struct link *link);
/* What has come on a lane. False: it is a repetition, or none of a message. Else what follows the head is left, and
 * message_taken() is called when the message has been looked at. */
bool message_received(struct link_lane *lane, const void **bytes, size_t *length, struct wire_message *head);
void message_taken(struct link *link);
void message_resend(struct link *link);
void message_acknowledge(struct link *link);
void message_drop_all(struct link *link);
/* Has the peer acknowledged all? */
bool message_all_heard(const struct link *link);
/* A message of the lane itself, not repeated. False: it was not taken. */
bool message_send_on(struct link_lane *lane, unsigned kind);
/* The same with a body. */
bool message_say_on(struct link_lane *lane, unsigned kind, const void *body, size_t length);

#endif
