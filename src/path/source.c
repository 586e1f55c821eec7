/* SPDX-License-Identifier: Apache-2.0 */
/* Source ports of lanes, by the plan that the process was told. */
#include "path/dnlb.h"
#include "path/path.h"

#include "base/log.h"
#include "base/param.h"

#include <stdatomic.h>

int path_planned_source(const struct path_source *lane, uint64_t now)
{
    static atomic_bool said;
    struct dnlb_plan plan;
    const char *text = param_string(PARAM_PATHS);
    if (!*text)
        return 0;
    bool known = dnlb_parse(text, &plan);
    if (known && lane->device < plan.nics && lane->messages) /* little, but of each interface on another uplink */
        return dnlb_port(plan.index[lane->device], 1, 0, plan.uplinks[lane->device]);
    if (known && lane->device < plan.nics)
        return dnlb_port(plan.index[lane->device], (unsigned)param_int(PARAM_IB_LANES), lane->place / lane->nics,
                         plan.uplinks[lane->device]);
    if (!atomic_exchange(&said, true))
        log_warn("TUTTI_PATHS=%s %s: source ports are left to the adapter", text,
                 known ? "has fewer numbers than there are RDMA ports"
                       : "is not UPLINKS:NUMBER[,[UPLINKS:]NUMBER...], one for each RDMA port");
    return 0;
}

int path_lane_source(const struct path_source *lane, uint64_t now)
{
    int port = path_leased_source(lane, now);
    return port ? port : path_planned_source(lane, now);
}
