/* SPDX-License-Identifier: Apache-2.0 */
/* From a way of GPUs to its schedule. */
#include "plan/ways.h"

#include "algorithm/algorithm.h"

#include <string.h>

const struct wire_name *way_name(enum way way)
{
    static const struct wire_name names[WAY_COUNT] = {
        [WAY_EXCHANGE] = {"exchange"},
        [WAY_COPY] = {"copy"},
        [WAY_ONE_SHOT] = {"one-shot"},
        [WAY_TWO_SHOT] = {"two-shot"},
        [WAY_BULK] = {"bulk"},
        [WAY_BULK_COPY] = {"bulk-copy"},
        [WAY_PEER_LOAD] = {"peer-load"},
        [WAY_RING] = {"ring"},
        [WAY_RING_LINES] = {"ring-lines"},
        [WAY_RING_COPY] = {"ring-copy"},
        [WAY_CHAIN] = {"chain"},
        [WAY_COPY_CHAIN] = {"copy-chain"},
        [WAY_FAN] = {"fan"},
        [WAY_LINES] = {"lines"},
        [WAY_ONE_SHOT_LINES] = {"one-shot-lines"},
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
