/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic of each link and direction, since `up`, since the last zero, or between two readings. */
#ifndef LAB_COUNTERS_H
#define LAB_COUNTERS_H

#include "lab/balance.h"
#include "lab/fabric.h"

/* What one end sent. */
struct counters_side {
    uint64_t bytes, packets, drops;
};

enum counters_state { COUNTERS_UP, COUNTERS_LOWER_DOWN, COUNTERS_UPPER_DOWN, COUNTERS_SILENT };

/* Up is from the hosts towards the spines. */
struct counters_link {
    struct counters_side up, down;
    enum counters_state state;
    uint64_t rate; /* in force now, bits per second; 0: not shaped */
};

struct counters {
    const struct lab_topology *topology; /* borrowed */
    struct counters_link *links;
    double seconds; /* between two readings; 0: since `up` or the last zero */
};

/* Reads the kernel's counters, less the zero. */
tutti_result_t counters_read(struct lab_fabric *fabric, struct counters *out);
void counters_free(struct counters *counters);

/* Reads twice, `seconds` apart. */
tutti_result_t counters_measure(struct lab_fabric *fabric, double seconds, struct counters *out);
/* now - before, where `now` was read `seconds` later. The states are those of now. */
void counters_subtract(struct counters *now, const struct counters *before, double seconds);

/* Counters count from here. */
tutti_result_t counters_zero(struct lab_fabric *fabric);

/* The load of a leaf's uplinks; leaf -1: of all uplinks of the fabric. `up`: what the leaf sends. */
struct balance counters_balance(const struct counters *counters, int leaf, bool up);

const char *counters_state_name(const struct counters *counters, int link);

#endif
