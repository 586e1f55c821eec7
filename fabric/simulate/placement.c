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

/* The rack, zone or building of a host, by its first NIC. */
static int32_t area_of(const struct fabric *fabric, int32_t host, enum fabric_distance within, const char **name)
{
    int32_t leaf = fabric->nic[fabric->host[host].nic].port[0].leaf, zone = fabric->leaf[leaf].zone,
            building = fabric->zone[zone].building;
    *name = within == FABRIC_RACK   ? fabric->leaf[leaf].name
            : within == FABRIC_ZONE ? fabric->zone[zone].name
                                    : fabric->building[building].name;
    return within == FABRIC_RACK ? leaf : within == FABRIC_ZONE ? zone : building;
}

/* Sorted hosts of one place stand together. Where each place has whole groups, groups of any size begin at its first
 * host; so larger groups in larger places are made of whole smaller ones. */
static tutti_result_t check_wish(const struct fabric *fabric, const int32_t *host, int count,
                                 const struct placement_wish *wish)
{
    static const char *const levels[] = {
        [FABRIC_RACK] = "rack", [FABRIC_ZONE] = "zone", [FABRIC_BUILDING] = "building"};
    const char *name, *other;
    for (int first = 0, end; first < count; first = end) {
        int32_t area = area_of(fabric, host[first], wish->within, &name);
        for (end = first + 1; end < count && area_of(fabric, host[end], wish->within, &other) == area;)
            end++;
        if ((end - first) % wish->size)
            return error_note(TUTTI_INVALID_ARGUMENT,
                              "groups of %d within a %s: %s has %d lines, so %d are left over: leave them out, or take "
                              "other groups",
                              wish->size, levels[wish->within], name, end - first, (end - first) % wish->size);
    }
    return TUTTI_SUCCESS;
}

tutti_result_t placement_check(const struct fabric *fabric, const int32_t *host, int count,
                               const struct placement_wish *wish, int wishes)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; !result && i < wishes; i++)
        result = check_wish(fabric, host, count, &wish[i]);
    return result;
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
