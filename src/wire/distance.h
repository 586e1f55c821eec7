/* SPDX-License-Identifier: Apache-2.0 */
/* How far processes are from one another. */
#ifndef TUTTI_WIRE_DISTANCE_H
#define TUTTI_WIRE_DISTANCE_H

enum wire_distance {
#define DISTANCE(id, ...) WIRE_DISTANCE_##id,
#include "tables/distances.tbl"
#undef DISTANCE
    WIRE_DISTANCES
};

#define WIRE_PLACES (WIRE_DISTANCES - WIRE_DISTANCE_RACK) /* levels of a place: rack, ... campus */

/* "zone"; "?" of no distance. */
const char *wire_distance_name(unsigned distance);

#endif
