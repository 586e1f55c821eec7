/* SPDX-License-Identifier: Apache-2.0 */
/* A lane as a link has it: what it is for, whether it works, what is under way on it. */
#ifndef TUTTI_LINK_LANE_H
#define TUTTI_LINK_LANE_H

#include "base/clock.h"
#include "link/link.h"
#include "trace/trace.h"

#define LINK_FLIGHTS 128 /* segments under way on a lane, at most */

enum lane_state { LANE_NONE, LANE_CONNECTING, LANE_UP, LANE_DOWN };

/* A segment under way. */
struct flight {
    uint64_t posted; /* ns */
    uint64_t token, length;
    uint32_t imm;
    bool borrows; /* an interface that another process owns, or that is not the nearest to its bytes */
    bool claims;  /* it goes by its own interface, and somebody waits for it */
    bool beside;  /* its lane was idle, and others had segments meanwhile */
    bool over;    /* landed, or given up, while one before it has not */
};

/* flight.c's: what is under way on the lane, and what is said of what has landed. */
struct lane_flights {
    struct flight *at; /* LINK_FLIGHTS of them, by position; NULL: none was ever put */
    uint64_t first, next;
    uint32_t heard;  /* number of the peer's latest report about it */
    uint32_t said;   /* and of ours that went over it, */
    uint32_t latest; /* and of our latest one about it */
};

/* silence.c's. */
struct lane_signs {
    uint64_t heard;           /* last sign of life */
    uint64_t probed;          /* when a probe was sent that is not answered; 0: none */
    uint64_t moved, moved_at; /* what the transport last said that had moved, and when that was news */
};

/* outpaced.c's. */
struct lane_pace {
    uint64_t taken;   /* since when the segment at hand is served, or when the latest one was */
    uint64_t slowest; /* ns that one took, of late; 0: none has ended since the lane is up */
    uint64_t looked;  /* when it was last looked at, */
    uint64_t owed;    /* what the transport said then, */
    uint64_t still;   /* and ns for which that has not changed while other lanes were heard */
    uint64_t asked;   /* when it was asked for a sign because another stands still */
    bool suspect;     /* nothing more goes there while others can take it */
};

/* lanes.c's: how it goes down and comes up again. */
struct lane_life {
    bool unconfirmed; /* the peer has not yet said what arrived on the epoch that is down */
    bool was_up;
    uint32_t down_epoch; /* wire_epoch() */
    uint32_t attempts;   /* of ours to connect it, so far */
    uint32_t known;      /* epoch of the last one that the peer connected and we took */
    uint64_t retry_at, backoff_ns;
    uint64_t up_since, calm_ns; /* the time that it must be up again before it takes over from backups */
    bool settling;              /* it has not yet */
};

/* nics.c's: segments by it while another process owns its interface. */
struct lane_borrowed {
    uint64_t bytes;   /* under way, */
    uint64_t waiting; /* and of these what the board says to wait here */
    uint64_t least;   /* ns that one took; 0: none has landed */
    double gone;      /* part of the bytes under way that has left, as the latest ones show */
};

/* move.c's: how it is opened anew because its packets are to have another source port. */
struct lane_move {
    bool wanted;     /* the transport cannot change the port while the lane lives */
    bool leaving;    /* nothing more goes there while others can take it, */
    bool said;       /* of which the peer knows: it closes the lane; */
    bool asked;      /* and so does the peer: this end closes the lane */
    bool failed;     /* the latest time it did not come up again */
    uint64_t closed; /* when it was closed, to come up again; 0: it was not */
};

struct link_lane {
    struct link *link;
    const struct transport_ops *ops; /* of the lane's transport; NULL: the link has no lane of this index */
    struct transport *transport;
    struct lane *carrier; /* the transport's; NULL unless connecting or up */
    enum lane_state state;
    uint16_t index;
    uint32_t epoch;        /* wire_epoch() */
    uint32_t puts;         /* whose source is still read */
    uint16_t source;       /* UDP port, as the black box has it */
    bool confirms;         /* TRANSPORT_CONFIRMS */
    uint8_t bit, peer_bit; /* wire_fold() of it, of this end and of the peer's */
    struct path_lane view;
    struct trace_lane *trace; /* NULL: its segments are not recorded */
    struct lane_flights flight;
    struct lane_signs signs;
    struct lane_pace pace;
    struct lane_life life;
    struct lane_move move;
    struct lane_borrowed borrowed;
};

/* Time from `then` to `now`; 0 if `then` is later, for `now` may have been read before. */
static inline uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* Nothing more goes to the lane while others can take it. */
static inline bool lane_is_left(const struct link_lane *lane)
{
    return lane->pace.suspect || lane->move.leaving;
}

/* Into the black box. */
void lane_event(const struct link_lane *lane, enum wire_event_kind kind, uint64_t value1, uint64_t value2);
/* Tells the application: "lane 1 to process 77 by eth0 WHAT: WHY". */
void lane_tell(const struct link_lane *lane, tutti_event_kind_t kind, const char *what, const char *why);
/* A sign of life came on it. */
void lane_heard(struct link_lane *lane);
/* Closes this end of it, and nothing else: see lane_down() in lanes.h. */
void lane_close(struct link_lane *lane);
/* Lanes have come or gone: which of the link's take segments. */
void lanes_choose_usable(struct link *link);
/* Closes the lanes on which the peer may write memory without asking, at once; they are down with the next tick. */
void lanes_close_registered(struct link *link);

#endif
