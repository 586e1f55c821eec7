/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of hosts. */
#include "simulate/placement.h"
#include "base/error.h"

#include <stdlib.h>

int placement_gpus(const struct fabric *fabric, const int32_t *host, int count, int32_t *place)
{
    int gpus = 0;
    for (int h = 0; h < count; h++)
        for (int32_t g = 0; g < fabric->host[host[h]].gpus; g++)
            place[gpus++] = fabric->host[host[h]].gpu + g;
    return gpus;
}

/* The place of a host, outermost first; `turn`: its place before. */
struct placement_spot {
    int32_t level[3], turn, host;
};

static int spots_by_place(const void *left, const void *right)
{
    const struct placement_spot *a = left, *b = right;
    for (int i = 0; i < 3; i++)
        if (a->level[i] != b->level[i])
            return a->level[i] < b->level[i] ? -1 : 1;
    return a->turn - b->turn;
}

tutti_result_t placement_sort(const struct fabric *fabric, int32_t *host, int count)
{
    struct placement_spot *spot = malloc(((size_t)count + 1) * sizeof *spot);
    if (!spot)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %d hosts", count);
    for (int h = 0; h < count; h++) {
        int32_t leaf = fabric->nic[fabric->host[host[h]].nic].port[0].leaf, zone = fabric->leaf[leaf].zone;
        spot[h] = (struct placement_spot){{fabric->zone[zone].building, zone, leaf}, h, host[h]};
    }
    qsort(spot, (size_t)count, sizeof *spot, spots_by_place);
    for (int h = 0; h < count; h++)
        host[h] = spot[h].host;
    free(spot);
    return TUTTI_SUCCESS;
}

void placement_pairs(const struct fabric *fabric, const int32_t *host, int count, int pairs[FABRIC_DISTANCES])
{
    for (int d = 0; d < FABRIC_DISTANCES; d++)
        pairs[d] = 0;
    for (int h = 0; h < count && count > 1; h++) {
        int32_t from = fabric->host[host[h]].gpu, to = fabric->host[host[(h + 1) % count]].gpu;
        pairs[fabric_distance_of(fabric, from, to)]++;
    }
}

int placement_crossings(const int pairs[FABRIC_DISTANCES])
{
    return pairs[FABRIC_ZONE] + pairs[FABRIC_BUILDING] + pairs[FABRIC_CAMPUS];
}
