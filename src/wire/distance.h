/* SPDX-License-Identifier: Apache-2.0 */
/* How far processes are from one another. */
#ifndef TUTTI_WIRE_DISTANCE_H
#define TUTTI_WIRE_DISTANCE_H

#include <stdint.h>

enum wire_distance {
#define DISTANCE(id, ...) WIRE_DISTANCE_##id,
#include "tables/distances.tbl"
#undef DISTANCE
    WIRE_DISTANCES
};

#define WIRE_PLACES (WIRE_DISTANCES - WIRE_DISTANCE_RACK) /* levels of a place: rack, ... campus */

/* "zone"; "?" of no distance. */
const char *wire_distance_name(unsigned distance);
/* The round trip that the table assumes, in us; 0: it knows none. */
uint32_t wire_distance_us(enum wire_distance distance);
/* The distance whose round trip is nearest, by ratio, to one that was measured, from a rack on. FAR: 0 ns, or more than
 * twice that of a campus. */
enum wire_distance wire_distance_by_trip(uint64_t ns);

#endif
