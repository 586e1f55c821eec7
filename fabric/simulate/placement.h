/* SPDX-License-Identifier: Apache-2.0 */
/* The places of a job's hosts: how often neighbours in rank order are far, and the order in which that is least. */
#ifndef TUTTI_FABRIC_PLACEMENT_H
#define TUTTI_FABRIC_PLACEMENT_H

#include "model/fabric.h"

/* place[hosts' GPUs]: all GPUs of these hosts, host by host. Returns their number. */
int placement_gpus(const struct fabric *fabric, const int32_t *host, int count, int32_t *place);

/* Sorts hosts: those of one leaf together, leaves of one zone, zones of one building; otherwise as they are. */
tutti_result_t placement_sort(const struct fabric *fabric, int32_t *host, int count);

/* `size` hosts that follow one another are to be near: in a rack (at one leaf), a zone, or a building. */
struct placement_wish {
    int size;
    enum fabric_distance within;
};

/* Are all sorted hosts in groups that are near? Wishes go from small groups to large ones, each a multiple of the one
 * before. What cannot be met is refused with the place and what is left over there. */
tutti_result_t placement_check(const struct fabric *fabric, const int32_t *host, int count,
                               const struct placement_wish *wish, int wishes);

/* Counts neighbours in a ring over the hosts by their distance; pairs[FABRIC_HOST] are of the same host. */
void placement_pairs(const struct fabric *fabric, const int32_t *host, int count, int pairs[FABRIC_DISTANCES]);

/* The number of pairs with different leaves. */
int placement_crossings(const int pairs[FABRIC_DISTANCES]);

#endif
