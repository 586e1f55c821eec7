/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that probes paths from this host, and answers the probes of others. */
#ifndef TUTTI_PATHAGENT_PROBER_H
#define TUTTI_PATHAGENT_PROBER_H

#include "pathagent/tries.h"

#define PROBER_NICS 64

struct prober_options {
    const char *space;     /* file of the network namespace that has the NICs; NULL: this one */
    uint32_t watch, sweep; /* packets a second: mostly, and while the master looks for faults */
    uint16_t port;         /* destination of probes, and of answers */
    uint32_t marks[2];     /* of packets by the left and the right port of bonds; 0: bonds are not probed */
};

struct prober;

/* Needs CAP_NET_RAW. NULL after error_note. */
struct prober *prober_open(const struct prober_options *options);
void prober_close(struct prober *prober);

/* Addresses of this host, ::ffff:0:0 before those of IPv4. Returns how many. */
int prober_nics(const struct prober *prober, uint8_t out[PROBER_NICS][16]);
void prober_set(struct prober *prober, const struct try_task *task, int count);
/* While the master looks for faults. */
void prober_sweep(struct prober *prober, bool sweep);
/* Copies the state of all paths. Returns how many. */
int prober_report(struct prober *prober, struct try_path out[TRIES_PATHS]);
/* Since the start. `forged`: what fits nothing that was sent; `mute`: answers that were over the budget; `late`: times
 * at which this host was late, or lost packets itself; `torn`: trains that this host sent too slowly. */
struct prober_counts {
    uint64_t sent, answered, forged, mute, late, torn;
};
struct prober_counts prober_counts(struct prober *prober);

#endif
