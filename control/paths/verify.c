/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/paths.h"

#include "base/error.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* Bytes that a leaf sent on an uplink; false: the counters do not tell. */
static bool bytes_of(const json_t *links, const char *name, double *out)
{
    size_t i;
    const json_t *link;
    json_array_foreach(links, i, link)
    {
        const char *said = json_string_value(json_object_get(link, "name"));
        const json_t *bytes = json_object_get(json_object_get(link, "up"), "bytes");
        if (said && strcmp(said, name) == 0 && json_is_integer(bytes) && json_integer_value(bytes) >= 0) {
            *out = (double)json_integer_value(bytes);
            return true;
        }
    }
    return false;
}

static tutti_result_t verify_leaf(const struct paths_request *request, const json_t *links, int leaf, double within,
                                  bool *agree, struct text *out)
{
    int uplinks = topology_uplinks(&request->topology->spec);
    struct paths_load load = paths_load(request, leaf);
    double bytes[LAB_MAX_UPLINKS], sum = 0;
    for (int u = 0; u < uplinks; u++) {
        const char *name = request->topology->links[topology_uplink(request->topology, leaf, u)].name;
        if (!bytes_of(links, name, &bytes[u]))
            return error_note(TUTTI_INVALID_ARGUMENT, "the counters tell no bytes that were sent up on link %s", name);
        sum += bytes[u];
    }
    if (sum <= 0 || !load.nics) {
        text_add(out, "l%d: nothing was sent up\n", leaf);
        return TUTTI_SUCCESS;
    }
    for (int u = 0; u < uplinks; u++) {
        double planned = (double)load.lane[u] / (load.nics * request->lanes), seen = bytes[u] / sum;
        bool good = planned > 0 ? fabs(seen / planned - 1) <= within : seen <= within;
        *agree = *agree && good;
        text_add(out, "l%d.u%-4d planned %6.2f%%, seen %6.2f%% %s\n", leaf, u, 100 * planned, 100 * seen,
                 good ? "" : "DIFFERS");
    }
    return TUTTI_SUCCESS;
}

tutti_result_t paths_verify(const struct paths_request *request, const char *json, double within, bool *agree,
                            struct text *out)
{
    json_error_t why;
    json_t *root = json_loads(json, 0, &why);
    if (!root)
        return error_note(TUTTI_INVALID_ARGUMENT, "the counters are no JSON: line %d: %s", why.line, why.text);
    tutti_result_t result = TUTTI_SUCCESS;
    *agree = true;
    const json_t *links = json_object_get(root, "links");
    for (int leaf = 0; leaf < request->topology->spec.leaves && result == TUTTI_SUCCESS; leaf++)
        result = verify_leaf(request, links, leaf, within, agree, out);
    json_decref(root);
    return result;
}
