/* SPDX-License-Identifier: Apache-2.0 */
/* Distances by name, and by the time that a word and its acknowledgement take. */
#include "wire/distance.h"

#define NS_PER_US 1000ull
#define BEYOND    2 /* times the longest round trip of the table: farther than all, or a host is too busy to tell */

static const struct {
    const char *name;
    uint32_t us; /* there and back; 0: not known */
} distances[WIRE_DISTANCES] = {
#define DISTANCE(id, name, us, ...) [WIRE_DISTANCE_##id] = {name, us},
#include "tables/distances.tbl"
#undef DISTANCE
};

const char *wire_distance_name(unsigned distance)
{
    return distance < WIRE_DISTANCES ? distances[distance].name : "?";
}

uint32_t wire_distance_us(enum wire_distance distance)
{
    return distances[distance].us;
}

enum wire_distance wire_distance_by_trip(uint64_t ns)
{
    uint64_t us = ns / NS_PER_US;
    unsigned at = WIRE_DISTANCE_RACK;
    if (!ns || us > BEYOND * distances[WIRE_DISTANCES - 1].us)
        return WIRE_DISTANCE_FAR;
    while (at + 1 < WIRE_DISTANCES && us * us > (uint64_t)distances[at].us * distances[at + 1].us)
        at++;
    return (enum wire_distance)at;
}
