/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts of a network are to blame for what probes of paths have found. Pure: no fabric, no clock.
 *
 * A path has parts: links of one direction, and the NICs at its ends. What a part loses, all paths over it lose. So the
 * part is blamed that explains most of the losses best, then the next for what is left. Nobody is blamed while another
 * part could as well have been it; but parts that are on the same paths, all of them, are blamed together.
 */
#ifndef TUTTI_PATHMASTER_SUSPECT_H
#define TUTTI_PATHMASTER_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>

#define SUSPECT_PARTS  6     /* of a path */
#define SUSPECT_TRAINS 4     /* of a path, which are looked at */
#define SUSPECT_LOSS   0.003 /* of packets: more is a fault */
#define SUSPECT_SLOW   0.75  /* of the rate that others have: less is a fault */

struct suspect_path {
    int32_t part[SUSPECT_PARTS];
    int parts;
    uint32_t alive;              /* bits of parts that let a probe through while the path let none through */
    uint64_t sent, lost;         /* probes */
    double rate[SUSPECT_TRAINS]; /* of trains, the newest first, in parts of what its links should have; 0: none */
};

struct suspect {
    int32_t part;
    bool twin;   /* it, or another of the list, which all of its paths share: nothing tells which */
    double loss; /* of packets; 0: none to speak of */
    double rate; /* of what others have; 1: it is not slow */
};

/* Returns how many there are, at most `room`; -1: no memory. `parts`: all are below that. */
int suspects_find(const struct suspect_path *path, int paths, int32_t parts, struct suspect *out, int room);

#endif
