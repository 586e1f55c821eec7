/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes that arrive here, and what is answered. The answer to a probe tells how many of its session have arrived: so
 * what is lost on the way back is no loss on the way here. No socket is touched here. Sessions of strangers take the
 * places of the oldest ones, and no memory.
 */
#ifndef TUTTI_PATHAGENT_ARRIVALS_H
#define TUTTI_PATHAGENT_ARRIVALS_H

#include "pathagent/packet.h"

#define ARRIVALS_SETS  2048
#define ARRIVALS_WAYS  4
#define ARRIVALS_PORTS 256
#define TRAIN_ANSWERS  3  /* the last packets of a train, which are answered */
#define TRAIN_LATE     50 /* ms */

struct probe_arrival {
    uint64_t session, used; /* used: by the clock of `now`; 0: the place is free */
    uint64_t train, begun;  /* the stamp of the present train; when its second half began */
    uint32_t arrived, since;
    uint8_t from[PROBE_END];
    bool shared; /* another train came in between */
};

struct arrivals {
    struct probe_arrival place[ARRIVALS_SETS][ARRIVALS_WAYS];
    struct {
        uint64_t session, at, other, other_at;
    } train[ARRIVALS_PORTS]; /* by source port: the sessions of the latest packets of trains */
};

/* A probe has come at `now` (nanoseconds), and is looked at `lag` later. True: *answer is to go to its sender. `size`:
 * of the packet. A host that looks late has no time for packets, and its trains tell nothing. */
bool arrivals_take(struct arrivals *arrivals, const struct probe_ends *ends, const struct probe *probe, size_t size,
                   uint64_t now, uint64_t lag, struct probe *answer);

#endif
