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
    return last->algorithm ? last : NULL;
}
