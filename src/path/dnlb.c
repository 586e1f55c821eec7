/* SPDX-License-Identifier: Apache-2.0 */
#include "path/dnlb.h"

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
