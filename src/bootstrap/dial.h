/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One outgoing connection: connects, answers the challenge, hands over the reply. Tries again with growing pauses until
 * its owner stops it. Needs a poller that is waited on, and dial_tick when its time has come.
 */
#ifndef TUTTI_BOOTSTRAP_DIAL_H
#define TUTTI_BOOTSTRAP_DIAL_H

#include "bootstrap/stream.h"

struct dial;

enum dial_state {
    DIAL_IDLE,       /* the next attempt is at `next` */
    DIAL_CONNECTING, /* until `next` at most; so is the following one */
    DIAL_CHALLENGED,
    DIAL_ASKED, /* the hello is sent */
    DIAL_OVER   /* stopped */
};

struct dial_calls {
    /* Just before the hello: may fill it in. Not SUCCESS: stop, dial->result. */
    tutti_result_t (*hello)(struct dial *dial, struct boot_hello *hello);
    /* A frame came after the hello. `proven`: its tag shows that the speaker knows the nonce. May stop or redial the
     * dial. */
    void (*reply)(struct dial *dial, enum boot_type type, const void *body, bool proven);
    /* The connection broke after a reply. */
    void (*lost)(struct dial *dial);
};

struct dial {
    struct poll_source source;
    struct boot_stream stream;
    struct poller *poller;
    const struct dial_calls *calls;
    void *owner;
    const uint8_t *nonce;
    struct bootstrap_counters *counters;
    struct net_address to;
    struct boot_hello hello;
    uint8_t challenge[16];
    enum dial_state state;
    unsigned failures;
    unsigned silences; /* of these: the peer took the connection, and its challenge did not come in time */
    bool answered;     /* at least one proven reply on this connection */
    uint64_t next;
    uint64_t refused;      /* nobody has listened there since then; 0: somebody may */
    int error;             /* errno of the last failure; 0: the peer hung up */
    tutti_result_t result; /* not SUCCESS: cannot go on; the sentence is set */
    _Alignas(8) unsigned char in[sizeof(struct boot_header) + BOOT_BODY_MAX];
};

/* The caller has zeroed it and set poller, calls, owner, nonce, counters, to, hello. The first attempt is at the next
 * dial_tick. */
void dial_tick(struct dial *dial, uint64_t now);
/* Hangs up; tries again after `pause_ms`. */
void dial_again(struct dial *dial, unsigned pause_ms);
/* Hangs up for good. */
void dial_stop(struct dial *dial);
/* Ends the dial and gives its socket away. */
int dial_take(struct dial *dial);
/* When dial_tick must be called next; UINT64_MAX: not before something arrives. */
uint64_t dial_due(const struct dial *dial);

#endif
