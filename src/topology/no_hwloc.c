/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for hwloc.c where hwloc is not built in. */
#include "topology/topology.h"

#include "base/error.h"

tutti_result_t topology_read_hwloc(struct topology *topology, bool *this_host)
{
    *this_host = true;
    return error_note(TUTTI_INVALID_USAGE, "topology: this build has no hwloc");
}
