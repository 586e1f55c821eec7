/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths that this host probes: what is sent next within the budget, and what the answers say of each path. No
 * socket is touched here, and no clock is read. All times are nanoseconds of one clock.
 *
 * A path's probes are answered by turns over all ways back. Answers count what has arrived. So what lies between two
 * answers is known, whatever way back is broken; and a path whose last TRY_SILENT probes have no answer is broken.
 */
#ifndef TUTTI_PATHAGENT_TRIES_H
#define TUTTI_PATHAGENT_TRIES_H

#include "pathagent/packet.h"

#define TRIES_PATHS 4096
#define TRIES_TTLS  4   /* 1 to this: leaf, spine, the far leaf or the core, what is behind */
#define TRY_TRAIN   128 /* packets of a train */
#define TRY_SETTLE  500 /* ms after which an answer no longer comes */
#define TRY_LATE    250 /* ms that a host is late: what it loses then says nothing of the network */

struct try_task {
    uint64_t ticket; /* the master's name of the path */
    uint8_t from[PROBE_END], to[PROBE_END];
    uint16_t port, back; /* source port; how many ways back there are, by shares of source ports */
    uint8_t side;        /* of a bond: 0 is left, 1 right */
    bool trains;
};

/* A router at one distance. */
struct try_hop {
    uint8_t router[PROBE_END]; /* that answered last; zeros: none */
    uint32_t asked, heard;
    uint64_t asked_at, heard_at;
    uint16_t ident, check; /* of the probe that waits; 0: none does */
};

struct try_path {
    struct try_task task;
    uint64_t session; /* random, but for its lowest bits: the path's place */
    uint32_t sent, settled, mark;
    uint64_t marked;
    uint32_t answered, arrived, dropped; /* by the latest answer: probes before its own, with it */
    uint64_t judged, lost;               /* since the task was given: probes whose fate is known */
    uint64_t answers, delay_sum;
    uint64_t delay_least; /* there and back; 0: unknown */
    uint64_t rate;        /* of the latest train, bytes per second */
    uint32_t trains;      /* that were answered */
    uint64_t train;       /* the stamp of the latest one */
    uint64_t half, whole; /* when the second half of that one began to be sent, and when all was */
    uint32_t again;       /* trains that were sent at once, as the one before was slow */
    bool doubt;           /* the latest train was slow */
    struct try_hop hop[TRIES_TTLS];
};

struct tries {
    struct try_path path[TRIES_PATHS], old[TRIES_PATHS]; /* old: before the present tasks */
    uint64_t rates[TRIES_PATHS];                         /* for a moment */
    int count;
    uint64_t given; /* when the tasks were */
    uint32_t rate;  /* packets per second */
    double tokens;
    uint64_t filled, hop_next, train_next;
    int cursor, train_cursor;
    uint64_t torn;   /* trains that this host sent too slowly to tell a rate */
    uint64_t forged; /* answers and quotes that fit nothing that was sent, nor what may have been sent before */
};

/* New tasks, of which those with a ticket that is known go on. `random`: a number for each. */
void tries_set(struct tries *tries, const struct try_task *task, const uint64_t *random, int count, uint64_t now);

/* What is to be sent at `now`; its packets are taken off the budget. False: nothing is. */
struct try_send {
    enum probe_kind kind;
    int path, ttl; /* ttl: of a HOP */
};
bool tries_next(struct tries *tries, uint64_t now, struct try_send *out);
/* When to ask again, at the latest. */
uint64_t tries_due(const struct tries *tries, uint64_t now);

/* The probe to send for it; `seq`: of a train. `ident`: any number but 0. */
void tries_fill(struct tries *tries, const struct try_send *send, uint32_t seq, uint64_t now, uint16_t ident,
                struct probe_ends *ends, struct probe *probe);
/* The probe is written, with the checksum in *ends, and sent. */
void tries_sent(struct tries *tries, const struct try_send *send, uint32_t seq, const struct probe_ends *ends,
                uint64_t now);

/* What came back. What fits nothing is counted, and changes nothing. */
void tries_answer(struct tries *tries, const struct probe_ends *ends, const struct probe *answer, uint64_t now);
void tries_quote(struct tries *tries, const struct probe_quote *quote, uint64_t now);

/* Probes without an answer since the latest one that has one. */
uint32_t tries_silent(const struct try_path *path);

#endif
