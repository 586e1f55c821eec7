/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a peer's acceptor: connects, says the greeting, and waits for an answer of fixed size. What lasts too
 * long is given up well within TUTTI_TIMEOUT, for the next attempt may do better. */
#ifndef TUTTI_TRANSPORT_CONNECTOR_H
#define TUTTI_TRANSPORT_CONNECTOR_H

#include "base/net.h"
#include "transport/common.h"

#define CONNECTOR_ANSWER 64 /* longest answer, bytes */

struct connector {
    struct transport *transport;
    struct poll_source source; /* fd -1: none */
    struct transport_timer deadline;
    bool connected;
    const void *greeting;            /* kept by the owner until the answer is there */
    size_t greeting_size, size, got; /* size: of the answer; got: of it so far */
    unsigned char answer[CONNECTOR_ANSWER];
    /* The answer is whole; connector_take() hands the connection over. */
    void (*answered)(struct connector *connector);
    /* `error` is an errno, or 0. connector_close() may follow, and nothing else. */
    void (*failed)(struct connector *connector, const char *what, int error);
};

/* Begins to connect. False with errno: that cannot even begin. No upcall comes from inside. */
bool connector_start(struct connector *connector, int fd, const struct net_address *to);
/* The connection, which nobody watches any more. */
int connector_take(struct connector *connector);
/* In any state; also of one that is all zero but for fd -1. */
void connector_close(struct connector *connector);

#endif
