/* SPDX-License-Identifier: Apache-2.0 */
/* Links of a running lab: cut, mended, throttled. */
#include "base/error.h"
#include "lab/fabric_apply.h"
#include "lab/state.h"

#include <stdio.h>
#include <stdlib.h>

/* What is done to each link that matches; `links` is the state before. */
typedef tutti_result_t (*change_fn)(struct lab_fabric *fabric, int link, const struct fabric_link *links,
                                    const void *context);

static tutti_result_t no_such_link(const struct lab_topology *topology, const char *pattern)
{
    const struct lab_spec *spec = &topology->spec;
    return error_note(TUTTI_INVALID_ARGUMENT,
                      "lab %s has no link \"%s\"; links are h0.n0 to h%d.n%d and l0.u0 to l%d.u%d", spec->name, pattern,
                      spec->hosts - 1, spec->nics - 1, spec->leaves - 1, topology_uplinks(spec) - 1);
}

static tutti_result_t each_link(struct lab_fabric *fabric, const char *pattern, struct fabric_link *links,
                                change_fn change, const void *context)
{
    int found = 0;
    tutti_result_t result = fabric_read(fabric, links);
    for (int i = 0; i < fabric->topology.link_count && result == TUTTI_SUCCESS; i++)
        if (topology_link_matches(&fabric->topology, i, pattern)) {
            found++;
            result = change(fabric, i, links, context);
        }
    return result == TUTTI_SUCCESS && !found ? no_such_link(&fabric->topology, pattern) : result;
}

/* Changes, then routes by what is on now if `reroute`. Other commands wait meanwhile. */
static tutti_result_t change_links(struct lab_fabric *fabric, const char *pattern, change_fn change,
                                   const void *context, bool reroute)
{
    int lock;
    tutti_result_t result = state_lock(&lock);
    if (result != TUTTI_SUCCESS)
        return result;
    struct fabric_link *links = calloc((size_t)fabric->topology.link_count + 1, sizeof *links);
    result = links ? each_link(fabric, pattern, links, change, context)
                   : error_note(TUTTI_SYSTEM_ERROR, "out of memory for links");
    if (result == TUTTI_SUCCESS && reroute && (result = fabric_settle(fabric, links)) == TUTTI_SUCCESS)
        result = fabric_apply_routes(fabric, links);
    free(links);
    state_unlock(lock);
    return result;
}

static tutti_result_t set_port(struct lab_fabric *fabric, int link, bool lower, bool deaf)
{
    const struct lab_link *found = &fabric->topology.links[link];
    struct text batch = {0};
    plan_port(&fabric->topology, found, lower, deaf, &batch);
    tutti_result_t result = fabric_apply_batch(fabric, lower ? found->lower.node : found->upper.node, "ip", &batch);
    text_free(&batch);
    return result;
}

static tutti_result_t cut_silently(struct lab_fabric *fabric, int link, const struct fabric_link *links)
{
    const struct lab_link *found = &fabric->topology.links[link];
    if (!links[link].lower.up || !links[link].upper.up)
        return error_note(TUTTI_INVALID_USAGE, "%s is down; only a link that is up can fail silently", found->name);
    tutti_result_t result = set_port(fabric, link, true, true);
    return result == TUTTI_SUCCESS ? set_port(fabric, link, false, true) : result;
}

static tutti_result_t cut(struct lab_fabric *fabric, int link, const struct fabric_link *links, const void *context)
{
    enum fabric_cut where = *(const enum fabric_cut *)context;
    const struct lab_link *found = &fabric->topology.links[link];
    if (where == FABRIC_SILENT)
        return cut_silently(fabric, link, links);
    if (where == (found->uplink ? FABRIC_AT_HOST : FABRIC_AT_SPINE))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s has no end at a %s; its ends are %s", found->name,
                          found->uplink ? "host" : "spine", found->uplink ? "leaf and spine" : "host and leaf");
    const struct lab_end *end = found->uplink == (where == FABRIC_AT_LEAF) ? &found->lower : &found->upper;
    struct text batch = {0};
    text_add(&batch, "link set dev %s down\n", end->port);
    tutti_result_t result = fabric_apply_batch(fabric, end->node, "ip", &batch);
    text_free(&batch);
    return result;
}

tutti_result_t fabric_link_down(struct lab_fabric *fabric, const char *pattern, enum fabric_cut where)
{
    return change_links(fabric, pattern, cut, &where, where == FABRIC_AT_LEAF);
}

static tutti_result_t mend(struct lab_fabric *fabric, int link, const struct fabric_link *links, const void *context)
{
    tutti_result_t result = set_port(fabric, link, true, false);
    return result == TUTTI_SUCCESS ? set_port(fabric, link, false, false) : result;
}

tutti_result_t fabric_link_up(struct lab_fabric *fabric, const char *pattern)
{
    return change_links(fabric, pattern, mend, NULL, true);
}

static tutti_result_t throttle_end(struct lab_fabric *fabric, const struct lab_end *end, uint64_t rate, bool shaped)
{
    struct text batch = {0};
    plan_rate(&fabric->topology, end->port, rate, shaped, &batch);
    tutti_result_t result = fabric_apply_batch(fabric, end->node, "tc", &batch);
    text_free(&batch);
    return result;
}

static tutti_result_t throttle(struct lab_fabric *fabric, int link, const struct fabric_link *links,
                               const void *context)
{
    const struct lab_link *found = &fabric->topology.links[link];
    uint64_t rate = *(const uint64_t *)context;
    tutti_result_t result = throttle_end(fabric, &found->lower, rate, links[link].lower.rate > 0);
    return result == TUTTI_SUCCESS ? throttle_end(fabric, &found->upper, rate, links[link].upper.rate > 0) : result;
}

tutti_result_t fabric_rate(struct lab_fabric *fabric, const char *pattern, uint64_t rate)
{
    return change_links(fabric, pattern, throttle, &rate, false);
}
