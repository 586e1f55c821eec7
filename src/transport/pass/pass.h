/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pass-throughs: transports over a transport, for tests and experiments. Each holds what is sent on a lane in a queue,
 * in order, until its gate lets the first thing through. TUTTI_PASS lists the gates, the one nearest to the wire first:
 * "throttle=100M/25M;faults=5/1000/7".
 */
#ifndef TUTTI_TRANSPORT_PASS_H
#define TUTTI_TRANSPORT_PASS_H

#include "transport/common.h"

#define PASS_RATES 16 /* of lanes that can differ */
#define PASS_QUEUE 64 /* things that wait on one lane */

struct pass_lane;

/* What TUTTI_PASS says of one gate. */
struct pass_setting {
    int64_t rate[PASS_RATES]; /* throttle: bytes a second of lane 0, 1, ...; 0: as fast as it goes */
    int rates;
    int64_t hold; /* faults: per cent of looks at which nothing goes through */
    int64_t end;  /* about one thing in this number ends its lane; 0: none */
    uint64_t seed;
};

struct pass_gate {
    const char *name;
    bool (*parse)(const char *text, struct pass_setting *out);
    /* May `length` bytes, the first that wait, go now? They do go if so. It may fail the lane. */
    bool (*open)(struct pass_lane *lane, size_t length, uint64_t now);
};

extern const struct pass_gate pass_throttle, pass_faults;

/* The table of a pass-through is made at its first use and stays: lanes point to it. */
struct pass_table {
    struct transport_ops ops; /* first: open() is given it */
    const struct transport_ops *under;
    const struct pass_gate *gate;
    struct pass_setting setting;
};

struct pass_transport {
    struct transport base;
    const struct pass_table *table;
    struct transport *below;
    struct list busy; /* lanes on which something waits */
    uint64_t random;
};

/* A message (a copy) or a put that waits. */
struct pass_item {
    struct list node;
    bool is_put;
    struct put put;
    size_t length;
    unsigned char bytes[];
};

struct pass_lane {
    struct carrier base;
    struct lane *below; /* NULL: it is gone */
    struct list busy;
    struct list queue;
    unsigned count;
    uint16_t index;
    bool wants_room;
    bool blocked;     /* the lane below has no room */
    uint64_t free_at; /* of throttle: when all that went through has left */
};

/* `ops`, behind what TUTTI_PASS asks for; NULL: TUTTI_PASS makes no sense, and error_last() says why. */
const struct transport_ops *pass_over(const struct transport_ops *ops);

#endif
