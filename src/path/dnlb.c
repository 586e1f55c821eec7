/* SPDX-License-Identifier: Apache-2.0 */
#include "path/dnlb.h"

#include <stdlib.h>

static uint32_t begin_of(unsigned uplink, unsigned uplinks)
{
    return DNLB_FIRST + (uint32_t)((uint64_t)uplink * DNLB_PORTS / uplinks);
}

void dnlb_share(unsigned uplink, unsigned uplinks, uint16_t *first, uint16_t *last)
{
    *first = (uint16_t)begin_of(uplink, uplinks);
    *last = (uint16_t)(begin_of(uplink + 1, uplinks) - 1);
}

static unsigned common_divisor(unsigned a, unsigned b)
{
    while (b) {
        unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* After `period` NICs their first lanes begin anew with the same uplink: from there on lanes are turned by one more. */
unsigned dnlb_uplink(unsigned index, unsigned lanes, unsigned lane, unsigned uplinks)
{
    unsigned period = uplinks / common_divisor(lanes, uplinks);
    uint64_t turned = ((uint64_t)lane + index / period) % lanes;
    return (unsigned)(((uint64_t)index * lanes + turned) % uplinks);
}

uint16_t dnlb_port(unsigned index, unsigned lanes, unsigned lane, unsigned uplinks)
{
    return (uint16_t)begin_of(dnlb_uplink(index, lanes, lane, uplinks), uplinks);
}

bool dnlb_covers(unsigned nics, unsigned lanes, unsigned uplinks)
{
    return (uint64_t)nics * lanes >= uplinks;
}

/* Reads a number up to `most`, and the mark behind it unless that is the end. -1: there is none. */
static long number(const char **text, long most, char mark)
{
    char *end;
    if (**text < '0' || **text > '9')
        return -1;
    long value = strtol(*text, &end, 10);
    if (value > most || (*end && *end != mark))
        return -1;
    *text = *end ? end + 1 : end;
    return *end && !**text ? -1 : value;
}

bool dnlb_parse(const char *text, struct dnlb_plan *out)
{
    long uplinks = number(&text, DNLB_PORTS, ':');
    *out = (struct dnlb_plan){.uplinks = uplinks > 0 ? (unsigned)uplinks : 0};
    while (out->uplinks && *text) {
        long index = out->nics < DNLB_NICS ? number(&text, 1 << 24, ',') : -1;
        if (index < 0)
            return false;
        out->index[out->nics++] = (unsigned)index;
    }
    return out->uplinks && out->nics;
}
