/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link joins two processes. It owns lanes and matches sends with receives by tag. It carries small payloads in
 * messages, and large ones in segments that are put straight into the receiver's buffer. It loses nothing when a lane
 * dies. docs/link.md.
 *
 * Threads: everything here is called under the engine's lock. Callbacks come from inside link_poll, link_tick, poller
 * handlers and, where data is there already, from inside link_send and link_recv.
 */
#ifndef TUTTI_LINK_LINK_H
#define TUTTI_LINK_LINK_H

#include "base/list.h"
#include "base/place.h"
#include "link/policy.h"
#include "transport/transport.h"
#include "wire/link.h"

struct link;
struct link_domain;
struct link_send;
struct link_recv;
struct link_registration;

/* Of a send whose memory is registered at both ends. */
struct link_memory {
    struct link_registration *source;
    struct wire_remote remote; /* no devices: it was revoked */
};

/* A credit that stands, at the sender: the receiver takes the next payload of that length in the same slot. The caller
 * makes it by link_grant_begin(). */
struct link_grant {
    struct list node;       /* in link->puts.granted, while it stands */
    bool stands;            /* there is one */
    struct link_send *send; /* that asks for it, or uses it; NULL: none */
    uint16_t slot;
    struct wire_credit credit;
    struct wire_remote memory;
};

/* One payload on its way out. Embedded by the caller, who keeps it and the data until done() is called. */
struct link_send {
    struct wire_tag tag;
    struct wire_call call;
    struct place place;
    enum path_class class;
    size_t length;
    bool asks; /* it waits for the receiver's credit however short it is, unless it is empty */
    void (*done)(struct link_send *send, tutti_result_t result);
    /* Of a payload in a device's memory: `length` bytes of this host's memory to spare, and who is told, once, that the
     * payload must go from there: the caller copies all of it, and says link_spilled(). done() may come before that.
     * NULL: what no lane carries from the device is refused. */
    void *spare;
    void (*spill)(struct link_send *send);

    /* The link's own. */
    struct list node;
    uint64_t since;        /* when it was given to the link, to wait for a credit */
    uint64_t credit_since; /* when that had come */
    uint64_t segment;
    uint32_t segments, next;
    uint32_t in_flight; /* puts whose source the lanes still read */
    uint16_t slot;      /* the peer's, until it says DONE */
    uint16_t id;        /* ours, until no lane reads the source */
    uint64_t wanted[2]; /* lanes on which the peer wants it, as bits; 0: any */
    bool credited, finished, announced;
    bool lent;                  /* the peer copies it from where it lies */
    bool spilling;              /* spill() was told, and link_spilled() has not come */
    struct link_grant *grant;   /* that it asks for, or goes by; NULL: none */
    uint64_t unfit[2];          /* lanes that do not carry it from the device, as bits */
    struct link_recv *partner;  /* in this process: where it is being copied to, */
    size_t copied;              /* and how much is */
    struct link_memory *memory; /* &met; NULL: it is not registered here and there */
    struct link_memory met;
    uint8_t *lane_of; /* where each segment is: outgoing.c */
    uint8_t lane_of_few[8];
};

#define LINK_SPARE_SEGMENTS 64 /* of a receive in a device's memory with memory to spare, at most */

/* spare.c's, of these: stored by hardware, and not seen by the device yet. */
struct link_flush {
    struct list node;  /* in domain->flushing: all has come; */
    struct link *link; /* then */
    uint64_t first;    /* token, and how many follow, */
    unsigned count, left;
    bool needed;                       /* what hardware stores has to be flushed */
    uint8_t lane[LINK_SPARE_SEGMENTS]; /* by segment: the lane that has stored it, + 1; 0: none, or it is seen */
};

/* One payload expected. */
struct link_recv {
    struct wire_tag tag;
    struct wire_call call;
    struct place place;
    enum path_class class;
    size_t length;
    void (*done)(struct link_recv *recv, tutti_result_t result);
    /* Of a payload in a device's memory: `length` bytes of this host's memory to spare. When done() has come `spilled`
     * has a bit for each segment, of `segment` bytes, that lies there, at its place, and not on the device. NULL: what
     * no lane stores on the device is refused. */
    void *spare;
    uint64_t spilled;
    uint64_t segment;

    /* The link's own. */
    struct list node;
    struct link_flush flush;
    uint32_t segments, arrived;
    uint16_t slot;
    bool credited;
    bool stands, parked;              /* its credit does, if there is one; it has all, and waits for the next payload */
    struct link_registration *memory; /* that the peer was told a key of; NULL: none */
    uint64_t *bitmap;                 /* segments that have arrived */
    uint64_t bitmap_few;
};

/* What the link tells the layer above. */
struct link_owner {
    void *context;
    /* The peer of `link` is gone for good; error_last() says why. Its sends and receives have been failed. */
    void (*lost)(void *context, struct link *link);
    /* The peer says that a communicator has failed. */
    void (*aborted)(void *context, uint64_t comm, const struct wire_abort *abort);
    /* The peer shares memory under a key; the owner takes the descriptor. -1: this process may open no more. */
    void (*shared)(void *context, struct link *link, uint64_t key, int fd);
    /* The peer waits in a call, or says that it waits, too: WIRE_CALL, WIRE_ASK, WIRE_BLOCKED. May be NULL. */
    void (*called)(void *context, struct link *link, const struct wire_message *head, const void *body, size_t length);
    /* Which of a transport's interfaces are nearest to a device's memory, as bits by the transport's numbers; 0: all
     * are as near, or nobody knows. May be NULL. */
    uint32_t (*near)(void *context, struct place place, const struct transport_ops *ops);
    /* A rank of the peer says something: WIRE_MEMO. May be NULL. */
    void (*on_memo)(void *context, struct link *link, const struct wire_tag *tag, const struct wire_memo *memo);
    /* A rank of the peer asks something of a window: WIRE_WINDOW. Nothing of it has been checked. May be NULL. */
    void (*on_window)(void *context, struct link *link, const struct wire_tag *tag, const void *body, size_t length);
};

struct trace;

tutti_result_t link_domain_open(const struct link_owner *owner, struct poller *poller, struct trace *trace,
                                const struct path_policy *policy, struct link_domain **out);
/* Says goodbye to all peers and waits for what they have not acknowledged (bounded): for a process that ends without
 * closing. */
void link_domain_leave(struct link_domain *domain);
/* Says goodbye to all peers, waits for what they have not acknowledged (bounded), closes everything. */
void link_domain_close(struct link_domain *domain);
/* This process, as peers must know it. */
const struct wire_process *link_domain_self(const struct link_domain *domain);
/* The domain's interface `device` of a transport. False: there is none, or the transport is not in use. */
bool link_domain_nic(const struct link_domain *domain, const struct transport_ops *ops, unsigned device,
                     struct transport_nic *out);

/* Is one of the transport's interfaces, `devices` as bits, up, and does no other process of this host want it for what
 * it sends, or for what comes? */
bool link_domain_idle(struct link_domain *domain, const struct transport_ops *ops, uint32_t devices, bool comes);

/* Has it a transport whose hardware reads and writes memory by itself? */
bool link_domain_registers(const struct link_domain *domain);
/* Which transport a link to `peer` has or would have; NULL if none reaches it. */
const struct transport_ops *link_domain_reach(struct link_domain *domain, const struct wire_process *peer);

/* The link to a process in a session (wire_session()), made, and its lanes started, at first use. One that is lost
 * stays so: a later communicator of the two has another session. */
tutti_result_t link_get(struct link_domain *domain, const struct wire_process *peer, uint64_t session,
                        struct link **out);

/* The link to a process in a session, whichever side has made it; NULL: there is none. */
struct link *link_find(struct link_domain *domain, const uint8_t *uuid, uint64_t session);

/* The payload is matched with the peer's receive of the same tag. Small ones are done at once. A device's memory that
 * no lane of the link reaches by itself, and that has no other to spare, is refused: TUTTI_INVALID_ARGUMENT. */
void link_send(struct link *link, struct link_send *send);
void link_recv(struct link *link, struct link_recv *recv);
/* The same for one of many payloads, one behind another, to one place. link_recv_standing(): a credit stays good when
 * done() has come: then the receive is parked, and what comes is kept in its place. link_recv_again() expects the next
 * one, by a tag of its own. link_recv_part() ends a parked one to which nothing can be under way, link_cancel_recv()
 * any. A parked one that the link loses is done() again, with an error. link_send_granted() goes by the grant, which no
 * other send may use now, or asks for it. link_grant_end() forgets it. */
void link_recv_standing(struct link *link, struct link_recv *recv);
void link_recv_again(struct link *link, struct link_recv *recv);
void link_recv_part(struct link *link, struct link_recv *recv);
void link_send_granted(struct link *link, struct link_send *send, struct link_grant *grant);
void link_grant_begin(struct link_grant *grant);
void link_grant_end(struct link_grant *grant);
/* Does a payload of this length always wait for a credit? */
bool link_asks(const struct link *link, size_t length);
/* What is sent between the two goes together: one call of the adapter for each lane. They nest. */
void link_gather(struct link_domain *domain);
void link_ring(struct link_domain *domain);
/* The same as link_send() for a send that is over at once, with no record of it: a head with tag and call, and data in
 * this host's memory. False: nothing was done, as this one is not. */
bool link_send_now(struct link *link, struct wire_message *head, const void *data, size_t length,
                   tutti_result_t *result);
/* Before link_recv(): a payload that rides in a message, has come, or comes in the next looks, is taken at once,
 * without being looked up: then done() is called. Until link_expected(), which says whether it was. One receive of a
 * link at a time. */
void link_expect(struct link *link, struct link_recv *recv);
bool link_expected(struct link *link);
/* The payload lies in its spare memory now, if done() has not come. */
void link_spilled(struct link *link, struct link_send *send);
/* Withdraws without calling done(). After it returns the library touches the data no longer. */
void link_cancel_send(struct link *link, struct link_send *send);
void link_cancel_recv(struct link *link, struct link_recv *recv);

/* Tells the peer that a communicator has failed. Best effort. */
void link_abort(struct link *link, uint64_t comm, const struct wire_abort *abort);
void link_abort_all(struct link_domain *domain, uint64_t comm, const struct wire_abort *abort);
/* Others have seen the process die: while no lane to it is up nobody waits for it to hear anything. */
void link_mourn(struct link_domain *domain, const uint8_t *uuid);
/* Has all been heard that was said, by peers that live? Only then may sockets be closed, for closing may drop what is
 * under way. */
bool link_all_heard(const struct link_domain *domain);
/* Makes the region that holds the buffer known to the peers of links that are up, so that they can map it. */
void link_announce(struct link_domain *domain, const void *buffer);
/* Tells the peer what this process waits in: WIRE_CALL or WIRE_ASK, with struct wire_begun; WIRE_BLOCKED. */
void link_call(struct link *link, const struct wire_message *head, const void *body, size_t length);
/* What one rank says to another, who are named by the tag. */
void link_memo(struct link *link, const struct wire_tag *tag, const struct wire_memo *memo);
/* Asks something of a window of the peer. An error: the link is lost. */
tutti_result_t link_window(struct link *link, const struct wire_tag *tag, const void *body, size_t length);
/* Nothing is to be sent that the peer has not asked for, but what is needed. */
bool link_is_held(const struct link *link);
/* Hands over a descriptor (TRANSPORT_SHARES only). */
tutti_result_t link_share(struct link *link, uint64_t key, int fd);
/* Has anything come that nobody has asked for yet? At any time. */
bool link_any_left(const struct link_domain *domain);
/* Finds something that came for a rank of a communicator and that nobody asked for: of a collective up to number `seq`,
 * or a message (`messages`). */
bool link_find_left(const struct link_domain *domain, uint64_t comm, uint32_t rank, uint32_t seq, bool messages,
                    struct wire_message *out);
/* Drops arrived payloads of a communicator that nobody will ask for. */
void link_forget_comm(struct link_domain *domain, uint64_t comm);

/* Somebody waits for this peer: asks whether it lives, if nothing has come from it for a while. Nanoseconds for which
 * it has not answered; 0: it has. To be called again and again, through engine_silence(). */
uint64_t link_silence(struct link *link, uint64_t now);
/* This process has not looked at its links for `ns`: it was stopped, it starved, or its machine stood still. What did
 * not come in this time is not held against the peers, who may have stood still with it. */
void link_excuse(struct link_domain *domain, uint64_t ns, uint64_t now);
/* The link is not given up before it has been down for `ms` ms, and for TUTTI_TIMEOUT at least. */
void link_be_patient(struct link *link, uint64_t ms);

const struct wire_process *link_peer(const struct link *link);
uint64_t link_session(const struct link *link);
bool link_is_lost(const struct link *link);
/* Nanoseconds for which no lane for messages has been up; 0: one is, or none was started. */
uint64_t link_down(const struct link *link, uint64_t now);
/* TUTTI_REMOTE_ERROR, and why, of a lost link. */
tutti_result_t link_check(const struct link *link);
/* Of a lost link: its peer said goodbye, or was never met. */
bool link_has_left(const struct link *link);

/* Ranks of this process and of its peers share processors. */
void link_crowd(struct link_domain *domain);
/* Has a payload gone from one rank of this process to another since the last call? The other may be asleep. */
bool link_met(struct link_domain *domain);
/* Is a long payload being copied from one rank of this process to another, piece by piece in polls? */
bool link_copies(const struct link_domain *domain);
/* Looks for news without sleeping; returns how much was done. */
int link_poll(struct link_domain *domain);
/* Periodic work: reconnects, probes, acknowledgements. Returns when it wants to be called again, UINT64_MAX: no need.
 */
uint64_t link_tick(struct link_domain *domain, uint64_t now);
bool link_arm(struct link_domain *domain);
void link_disarm(struct link_domain *domain);

#endif
