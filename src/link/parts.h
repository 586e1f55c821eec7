/* SPDX-License-Identifier: Apache-2.0 */
/* A link. Each part of it is of the file that its comment names; others ask that file. */
#ifndef TUTTI_LINK_PARTS_H
#define TUTTI_LINK_PARTS_H

#include "link/lane.h"
#include "link/tags.h"

/* Reports about landed segments that each message about them has, at most: of a link with many lanes, of one with few.
 */
#define LINK_LANDED     96
#define LINK_LANDED_FEW 32

/* A small message whose time is taken. */
struct link_sample {
    uint64_t sequence, sent; /* of the latest one */
    int lane;
    bool waits; /* the peer has not said when it came */
};

/* message.c's. */
struct link_messages {
    uint64_t next_sequence, received, acked_to_peer;
    struct list idle; /* memory of messages, for later ones: */
    int idle_count;
    struct list kept;    /* sent but not acknowledged, then unsent ones */
    size_t bytes;        /* and of those that lend.c has lent */
    struct list *unsent; /* first unsent one in kept, or &kept */
    bool flushing;       /* message_flush() is at work */
    uint32_t resends;    /* how often `unsent` was set back */
    struct link_sample sample;
    struct wire_timed timed; /* what the peer wants to know, and is not said; sequence 0: nothing */
};

/* match.c's and strays.c's. */
struct link_match {
    struct tags posted, waiting; /* link_recv; link_send without a credit */
    struct link_recv *expected;  /* by link_expect(); not posted */
    uint64_t looked;             /* when strays were last looked for */
};

/* early.c's: what came before it was asked for. */
struct link_early {
    struct tags arrived; /* struct unexpected */
    size_t bytes, most;
    size_t of_operations; /* how many of arrived are of collectives */
    bool held, holding;   /* small payloads too wait until they are asked for: here, at the peer */
};

struct unexpected;

/* lend.c's and borrow.c's: payloads that are copied from where they lie. */
struct link_loans {
    bool never;              /* the peer could not copy from our memory */
    struct link_recv *recv;  /* where the peer's payload at hand is copied to: one of these, */
    struct unexpected *item; /* NULL: none is at hand */
    uint64_t since;          /* when the peer's payload came that nobody asks for; 0: there is none */
};

/* nics.c's: lanes as bits, folded (wire_fold()). */
struct link_nics {
    uint16_t own;  /* the peer owns the interface at its end */
    uint16_t idle; /* the peer says that nobody needs it there */
    uint16_t told; /* the same of ours, as last told, */
    unsigned came; /* and segments that came since that was looked at */
};

/* outgoing.c's. */
struct link_puts {
    struct list queue;          /* link_send with segments to put */
    struct link_send **sending; /* by the peer's slot, until DONE */
    struct link_send **reading; /* by our id, until no lane reads the source */
    struct list granted;        /* link_grant */
    uint32_t sending_size, reading_size;
    bool pumping; /* outgoing_pump() is at work */
};

/* incoming.c's. */
struct link_takes {
    struct link_recv **receiving; /* by slot */
    uint32_t size, count;
};

/* How the peer's clock differs from ours, from its reports: see flight.c. */
struct peer_clock {
    int64_t least, before; /* ns: of this span, of the one before */
    uint64_t since;        /* when this span began; 0: nothing was heard */
};

/* flight.c's: what the peer is told of what has landed. */
struct link_reports {
    struct peer_clock clock;
    struct list telling;                    /* in domain->telling, if any is unsaid */
    struct wire_landed landed[LINK_LANDED]; /* the latest, the latest about each lane among them; the next one at
                                               next % LINK_LANDED */
    uint64_t next;
    uint32_t most; /* of landed[] that are of use, and said: LINK_LANDED_FEW or LINK_LANDED */
    uint32_t unsaid;
    uint64_t said; /* when a report was said last */
};

/* silence.c's. */
struct link_signs {
    uint64_t heard;
    uint64_t asked;       /* since when link_silence() has asked in vain; 0: it has not */
    uint64_t moves_asked; /* when lanes were last asked whether anything moves */
    uint64_t asked_on;    /* the lane and epoch on which the question went; 0: none yet */
};

/* flight.c's: of all lanes. */
struct link_load {
    uint32_t segments; /* under way */
    uint64_t landed;   /* when the latest one had */
};

/* lanes.c's. */
struct link_life {
    bool bye;             /* the peer said goodbye */
    bool cut;             /* lanes were closed by lanes_close_registered() since the last tick */
    bool unplanned;       /* started, and the policy has not said yet which lanes to open */
    char obstacle[200];   /* to the lane that failed to come up last */
    uint64_t down_since;  /* since when no lane for messages is up; 0: one is */
    int refusals;         /* connections for messages refused since a lane was up */
    uint64_t patience;    /* ns without a lane for messages after which it is lost */
    uint64_t look_at;     /* when its lanes are to be looked at; 0: at the next tick. Of the latest look: */
    bool unsettled;       /* one of them is to come up, to settle or to move; */
    uint64_t rests_until; /* or rests until then */
};

/* trial.c's: lanes for data alone, which nobody has asked for. */
struct link_trial {
    uint64_t until; /* when there is a verdict; 0: none is due */
    bool failed;    /* none of them has come up yet */
    char why[200];  /* the latest that did not */
};

struct link {
    struct list node; /* in domain->links */
    struct link_domain *domain;
    struct wire_process peer;
    uint64_t session;                     /* wire_session() */
    const struct transport_ops *messages; /* of the lanes that carry messages, or stand in for those that carry data and
                                             messages (TRANSPORT_MESSAGES); NULL: the peer is this process itself */
    int planned[2];                       /* the domain's transports for messages and, or -1, for data alone */
    void *policy_state;
    lane_set present; /* indexes in use */
    lane_set usable;  /* lanes that take segments, with or without room */
    int control;      /* index of the lane that carries messages, -1: none of those that can is up */
    bool lossless, started, lost;
    bool mourned;     /* others have seen its process die */
    char reason[480]; /* why it is lost */
    size_t eager;     /* payloads up to this size ride in messages */
    size_t unasked;   /* and up to this size need no credit: they ride in messages, or are lent */
    size_t brief;     /* and up to this size are never lent */
    struct link_messages out;
    struct link_match match;
    struct link_early early;
    struct link_loans loans;
    struct link_nics nics;
    struct link_puts puts;
    struct link_takes takes;
    struct link_reports reports;
    struct link_load load;
    struct link_signs signs;
    struct link_life life;
    struct link_trial trial;
    struct link_lane lane[LINK_MAX_LANES]; /* last: of those that are never in use nothing is touched */
};

/* The lane of an index that the peer says; NULL: there is none. */
static inline struct link_lane *link_lane(struct link *link, unsigned index)
{
    return index < LINK_MAX_LANES && link->present & lane_bit(index) ? &link->lane[index] : NULL;
}

static inline unsigned link_lanes(const struct link *link)
{
    return (unsigned)(__builtin_popcountll((uint64_t)link->present) +
                      __builtin_popcountll((uint64_t)(link->present >> 64)));
}

#endif
