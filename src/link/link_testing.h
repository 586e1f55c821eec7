/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two link domains in one process, joined by a transport of memory on which nothing happens by itself: a test, or a
 * fuzzer, says what arrives, what is read, which lane dies and who learns of it, in any order that the contract of
 * transports allows. A call that the contract forbids ends the program.
 */
#ifndef TUTTI_LINK_LINK_TESTING_H
#define TUTTI_LINK_LINK_TESTING_H

#include "link/domain.h"

/* What may happen next to the lanes of one index that a side holds. The oldest lane to which it can happen is taken, or
 * the newest if script.newest is set. */
enum script_action {
    SCRIPT_CONNECT, /* the peer accepts a connection that this side began, even one that was given up since */
    SCRIPT_REFUSE,  /* a connection that this side began fails */
    SCRIPT_UP,      /* this side learns that its connection was accepted */
    SCRIPT_DELIVER, /* what this side sent first arrives, whole */
    SCRIPT_PART,    /* a half of the put that this side sent first lands at the peer, which is not told */
    SCRIPT_SENT,    /* the lane has read this side's oldest put */
    SCRIPT_KILL,    /* the lane breaks, and what is under way both ways is lost; nobody knows yet */
    SCRIPT_DOWN,    /* this side learns that its lane broke, or that the peer closed it */
    SCRIPT_FULL,    /* from now on the lane refuses messages and puts of this side */
    SCRIPT_ROOM,    /* it takes them again, and says so if it has refused any */
    SCRIPT_ACTIONS,
};

struct script_shape {
    uint32_t caps;
    int lanes;
    int data_lanes; /* further lanes, of a transport that carries data alone */
    bool registers; /* the latter store puts by keys */
    bool messages;  /* and are as good for messages */
    bool posted;    /* what they store in a device's memory is there after a flush */
    int nics;       /* 0: 2 */
    bool spread;    /* a lane goes by the interface of its index, counted round; else all by one */
    uint32_t (*near)(void *context, struct place place, const struct transport_ops *ops); /* struct link_owner's */
    size_t max_msg;                                                                       /* 0: 16384 */
    const struct path_policy *policy;                                                     /* NULL: lanes in turn */
    bool alone; /* side 1 has no domain: what it says comes from script_say() and script_throw() */
};

struct script_side {
    struct poller *poller;
    struct link_domain *domain;
    struct transport *transport;
    struct link *link; /* to the other side; set by script_join() */
    struct wire_process self;
    int lost, aborted;
    char lost_text[256];
    struct wire_abort abort;
};

struct script {
    struct script_shape shape;
    struct script_side side[2];
    bool automatic;         /* polls let everything happen */
    bool newest;            /* actions take the newest lane, not the oldest */
    bool unreachable;       /* connections fail because the network is in the way, not because nobody listens */
    bool sent_at_once;      /* put() calls sent() from inside */
    bool down_inside;       /* msg() on a broken lane calls down() from inside */
    bool room_inside;       /* msg() calls writable() from inside */
    uint64_t session;       /* of the links that script_join() makes */
    int fail_opens;         /* calls of lane_open() that fail */
    int opened;             /* lanes */
    int registrations;      /* in force */
    int fail_registrations; /* registrations that fail */
    int refused;            /* puts with keys that had ended */
    bool hold_flushes;      /* script_settle() makes none */
    struct list held[2];    /* by side: what is stored and not there yet, */
    struct list flushes[2]; /* and flushes that were asked for */
    unsigned depth;         /* upcalls under way */
    unsigned char *current; /* the message that is being delivered */
    size_t current_length;
};

/* For cmocka. Settings for small payloads: segments of 4096 bytes, 2 of them on a lane, messages up to 1024, no probes.
 */
int script_setup(void **state);
#define SCRIPT_SEGMENT 4096
#define SCRIPT_EAGER   1024

struct script *script_new(const struct script_shape *shape);
/* Lets everything happen and closes the domains. */
void script_free(struct script *script);

/* The link of each side to the other, with all lanes up. */
void script_join(struct script *script);
struct script *script_start(struct script_shape shape);
void script_get_link(struct script *script, int side);

/* False: there was nothing that this could happen to. */
bool script_act(struct script *script, int side, int index, enum script_action action);
/* The same for the lane of this epoch. */
bool script_act_at(struct script *script, int side, int index, uint32_t epoch, enum script_action action);
/* The same for all indexes. Returns how often it happened. */
int script_act_all(struct script *script, int side, enum script_action action);
/* Everything that goes well happens, until nothing is left to happen. */
int script_settle(struct script *script);
/* The oldest flush that a side asked for: what was stored there is there. False: it asked for none. */
bool script_flush(struct script *script, int side);
void script_drop_held(struct script *script);
/* Lets `ms` pass for both sides' periodic work, as far as it looks at the time that it is given. */
void script_tick(struct script *script, uint64_t ms);

/* For side 1 without a domain: a lane of this index to side 0, a message on it, and a put. */
bool script_dial(struct script *script, int index, uint32_t epoch);
bool script_say(struct script *script, int index, const void *bytes, size_t length);
bool script_throw(struct script *script, int index, uint32_t imm, uint64_t offset, size_t length, size_t told);

/* For script_new() and script_free(): the next domain that opens is this side's; a side that only speaks by the calls
 * above. */
void script_opening(struct script *script, int side);
struct transport *script_mute_transport(struct wire_process *self);
void script_close_mute(struct transport *transport);

/* The policy of scripts that name none: lanes in turn. Tests start from a copy. */
extern const struct path_policy script_policy;

/* ---- Payloads ---- */

/* A send or a receive with memory of its own, of exactly its length: what is touched too late is found by a sanitizer.
 */
struct payload {
    union {
        struct link_send send;
        struct link_recv recv;
    };
    bool sends;
    unsigned char *data;
    bool moved; /* by payload_move() */
    size_t length;
    uint32_t seed;
    int done;
    tutti_result_t result;
    char text[256];                        /* error_last() when it failed */
    void (*then)(struct payload *payload); /* from inside done() */
    void *user;
};

struct wire_tag script_tag(uint32_t seq);
struct payload *payload_new(bool sends, uint32_t seq, uint32_t signature, size_t length);
/* The payload's bytes lie here instead, in memory that the caller keeps. */
void payload_move(struct payload *payload, unsigned char *data);
void payload_start(struct payload *payload, struct link *link);
void payload_cancel(struct payload *payload, struct link *link);
/* A receive's memory holds what a send of this tag holds. */
bool payload_right(const struct payload *payload);
void payload_free(struct payload *payload);
/* A send at `side` and a receive at the other, of the same tag. */
void payload_pair(struct script *script, int side, uint32_t seq, size_t length, struct payload *out[2]);
bool payload_pair_right(struct payload *pair[2]);
void payload_pair_free(struct payload *pair[2]);

#endif
