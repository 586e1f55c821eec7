/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source ports that load the uplinks of a fabric alike: the plan, the switches' configuration, and whether counters
 * agree with both.
 *
 * The ports are divided into shares, alike for each leaf with the same uplinks. The greatest
 * common divisor of the uplinks' rates is one share of a leaf. An uplink that is down has none.
 */
#ifndef PATHS_H
#define PATHS_H

#include "model/fabric.h"
#include "wiring/text.h"
#include "wiring/topology.h"

#define PATHS_ROCE_PORT 4791 /* UDP destination port of RoCEv2 */
#define PATHS_SHARES    1024 /* of a leaf, at most */

/* What the plan has for an uplink: shares [first, first + shares) of its leaf, and the lanes that take it. A lane of a
 * bonded NIC is half at each of its two leaves. */
struct paths_way {
    unsigned first, shares;
    double lanes;
};

struct paths {
    const char *label; /* of the file, in sentences */
    const struct fabric *fabric;
    unsigned lanes;        /* of each NIC to each peer, 1 or more */
    int dscp;              /* DSCP of the lanes' packets; -1: any */
    struct paths_way *way; /* of each uplink */
    unsigned *shares;      /* of each leaf; 0: none of its uplinks is up */
};

/* The fabric of a lab: h0, l0, s0, with the lab's ports and addresses. Rates are left out: a lab slows links to see
 * what happens. fabric_free() also after a failure. */
tutti_result_t paths_from_lab(const struct lab_topology *topology, struct fabric *out);

/* Reads a file of either kind. fabric_free() after success. */
tutti_result_t paths_load(const char *path, struct fabric *out);

/* Deals shares and lanes; the other fields are set. paths_close() also after a failure. */
tutti_result_t paths_open(struct paths *paths);
void paths_close(struct paths *paths);

/* The uplink of a leaf that a source port leads to; -1: none is up. */
int32_t paths_uplink(const struct paths *paths, int32_t leaf, uint16_t port);
void paths_range(const struct paths *paths, int32_t uplink, uint16_t *first, uint16_t *last);

/* "rack1.u3" */
#define PATHS_NAME (FABRIC_NAME + 16)
void paths_uplink_name(const struct fabric *fabric, int32_t uplink, char out[PATHS_NAME]);

/* ---- what is impossible ---- */

/* Prints a line for each thing that cannot be, with its line in the file, and notes. Returns how many cannot. -1: no
 * memory. */
int paths_check(const struct paths *paths, struct text *out);

/* ---- the plan ---- */

/* Prints lanes with their ports and uplinks, loads, and whether there are lanes for all uplinks. False: some uplink has
 * none. */
bool paths_plan(const struct paths *paths, struct text *out);

/* ---- switches ---- */

struct paths_wants {
    const char *vendor; /* of switches for which the file tells none; NULL: none */
    bool remove;        /* prints what takes the rules away */
};

/* Leaves, and behind them spines. -1: there is no switch of that name. */
int32_t paths_find_switch(const struct paths *paths, const char *name);
const char *paths_switch_name(const struct paths *paths, int32_t number);

/* Adds the configuration of a switch; nothing if it needs none. `suffix`: of a file for it. */
tutti_result_t paths_acl(const struct paths *paths, const struct paths_wants *wants, int32_t number, struct text *out,
                         const char **suffix);

/* ---- counters ---- */

/* Compares the plan with the bytes that leaves sent on their uplinks between two readings (`before` empty: since the
 * counters began). An uplink with planned lanes must have sent, one without must not. within >= 0: shares of a leaf's
 * bytes may differ from the planned ones by that much (0.02: 2% of the planned share). *agree: nothing differs. */
struct sent_bytes;
tutti_result_t paths_verify(const struct paths *paths, struct sent_bytes *before, struct sent_bytes *after,
                            double within, bool *agree, struct text *out);

#endif
