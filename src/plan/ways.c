/* SPDX-License-Identifier: Apache-2.0 */
/* From a way of GPUs to its schedule. */
#include "plan/ways.h"

#include "algorithm/algorithm.h"

#include <string.h>

const struct wire_name *way_name(enum way way)
{
    static const struct wire_name names[WAY_COUNT] = {
#define WAY_ROW(id, name, ...) [WAY_##id] = {name},
#include "tables/way_rows.tbl"
#undef WAY_ROW
    };
    return &names[way];
}

static const struct way_needs *way_find_needs(struct way_needs *needs, const struct algorithm *algorithm,
                                              const struct shape *shape, int rank)
{
    uint32_t reach[FLOW_RANKS];
    if (needs->algorithm == algorithm)
        return needs;
    flow_reach(algorithm, shape, reach);
    *needs = (struct way_needs){.algorithm = algorithm, .from = reach[rank] & ~(1u << rank)};
    for (int other = 0; other < shape->nranks; other++)
        if (other != rank && (reach[other] >> rank & 1))
            needs->to |= 1u << other;
    return needs;
}

const struct way_flow *way_find(struct way_flows *flows, enum way way, enum coll coll, int root, int rank, int nranks)
{
    struct way_flow *last = &flows->of[coll];
    struct shape shape = {coll, nranks, schedule_has_root(coll) ? root : 0};
    if (last->algorithm && last->way == way && last->root == shape.root)
        return last;
    if (!last->algorithm || last->way != way)
        last->algorithm = algorithm_find(coll, way_name(way)->text, strlen(way_name(way)->text));
    last->way = way;
    last->root = shape.root;
    if (!last->algorithm || !flow_read(last->algorithm, &shape, rank, &last->flow))
        last->algorithm = NULL;
    if (!last->algorithm)
        return NULL;
    last->needs = way_find_needs(&flows->needs[coll][shape.root], last->algorithm, &shape, rank);
    return last;
}
