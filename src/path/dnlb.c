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

unsigned dnlb_uplink(unsigned index, unsigned lanes, unsigned lane, unsigned uplinks)
{
    return (unsigned)(((uint64_t)index * lanes + lane) % uplinks);
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
