/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP source ports of RoCE lanes that load all uplinks of a leaf alike. The leaf forwards by ranges of source ports
 * (CTCCL section 3.2, equations 1 to 4). Pure arithmetic, on which three must agree: what opens lanes, what configures
 * switches and what checks the links' counters.
 *
 * Where the paper multiplies a rounded step, shares here begin at the product, rounded: with 6 uplinks a step of 2730
 * would leave 4 ports to nobody. And lanes are counted modulo the uplinks: the paper's modulus over ports drifts off
 * the shares unless the uplinks divide their number.
 *
 * Each NIC has the uplinks of equation 3, but turned among its lanes: lane q of one NIC is not on the uplink of lane q
 * of the next, also where the lanes are a multiple of the uplinks. For NICs that do the same at the same time use the
 * same lane, and a short payload uses few. Of as many NICs as there are uplinks, lane q is on each uplink once.
 */
#ifndef TUTTI_PATH_DNLB_H
#define TUTTI_PATH_DNLB_H

#include <stdbool.h>
#include <stdint.h>

#define DNLB_FIRST 0xC000u /* of the source ports that RoCE uses */
#define DNLB_PORTS 0x4000u /* ports in all */

/* The share of `uplink` of `uplinks` (1 to DNLB_PORTS), both ends included. */
void dnlb_share(unsigned uplink, unsigned uplinks, uint16_t *first, uint16_t *last);

/* Uplink of a lane, counted over the NICs of one leaf: `index` of the NIC there (0, 1, ...), `lane` below its `lanes`.
 */
unsigned dnlb_uplink(unsigned index, unsigned lanes, unsigned lane, unsigned uplinks);

/* The lane's source port: the first of the uplink's share. */
uint16_t dnlb_port(unsigned index, unsigned lanes, unsigned lane, unsigned uplinks);

/* What a process knows of the plan: "UPLINKS:NUMBER[,[UPLINKS:]NUMBER...]", each of its interfaces with its number at
 * its leaf. The leaf has as many uplinks as that of the interface before, unless the text says how many.
 */
#define DNLB_NICS 8
struct dnlb_plan {
    unsigned nics, uplinks[DNLB_NICS], index[DNLB_NICS];
};

/* False: the text is none. */
bool dnlb_parse(const char *text, struct dnlb_plan *out);

/* Equation 4: are there lanes for all uplinks? */
bool dnlb_covers(unsigned nics, unsigned lanes, unsigned uplinks);

#endif
