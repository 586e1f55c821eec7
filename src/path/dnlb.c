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

/* Reads a number up to `most`, and no mark behind it. -1: there is none. */
static long number(const char **text, long most)
{
    char *end;
    if (**text < '0' || **text > '9')
        return -1;
    long value = strtol(*text, &end, 10);
    *text = end;
    return value <= most ? value : -1;
}

bool dnlb_parse(const char *text, struct dnlb_plan *out)
{
    long uplinks = 0, index;
    *out = (struct dnlb_plan){0};
    do {
        index = number(&text, 1 << 24);
        if (*text == ':') {
            uplinks = index;
            text++;
            index = number(&text, 1 << 24);
        }
        if (uplinks < 1 || uplinks > (long)DNLB_PORTS || index < 0 || out->nics == DNLB_NICS)
            return false;
        out->uplinks[out->nics] = (unsigned)uplinks;
        out->index[out->nics++] = (unsigned)index;
    } while (*text == ',' && *++text);
    return !*text && text[-1] != ',';
}
