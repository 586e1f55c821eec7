/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric that a file describes: its own, or a lab's. */
#include "paths/paths.h"
#include "base/error.h"
#include "file/read.h"
#include "wiring/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool keep(struct fabric *out, fabric_word_t *word, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool keep(struct fabric *out, fabric_word_t *word, const char *format, ...)
{
    char text[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fabric_keep(out, text, word);
}

static bool add_leaf(const struct lab_topology *topology, int leaf, struct fabric *out)
{
    const struct lab_spec *spec = &topology->spec;
    struct fabric_leaf *to = &out->leaf[leaf];
    int uplinks = topology_uplinks(spec);
    bool good;
    snprintf(to->name, sizeof to->name, "l%d", leaf);
    good = spec->ipv6 ? keep(out, &to->own.prefixes, "10.%d.0.0/16 fd10:%d::/32", leaf, leaf)
                      : keep(out, &to->own.prefixes, "10.%d.0.0/16", leaf);
    for (int u = 0; u < uplinks; u++) {
        const struct lab_link *link = &topology->links[topology_uplink(topology, leaf, u)];
        struct fabric_uplink *uplink = &out->uplink[leaf * uplinks + u];
        *uplink = (struct fabric_uplink){.leaf = leaf, .spine = topology_spine_of(spec, u), .rate = 1};
        good = good && keep(out, &uplink->wire.port, "%s", link->lower.port) &&
               keep(out, &uplink->wire.far_port, "%s", link->upper.port) &&
               keep(out, &uplink->wire.address[0], "%s/31", link->lower.ip4) &&
               keep(out, &uplink->wire.next[0], "%s", link->upper.ip4);
        if (spec->ipv6)
            good = good && keep(out, &uplink->wire.address[1], "%s/127", link->lower.ip6) &&
                   keep(out, &uplink->wire.next[1], "%s", link->upper.ip6);
    }
    return good;
}

static bool add_host(const struct lab_topology *topology, int host, struct fabric *out)
{
    const struct lab_spec *spec = &topology->spec;
    bool good = true;
    out->host[host] = (struct fabric_host){.gpus = 1, .nic = host * spec->nics, .nics = spec->nics};
    snprintf(out->host[host].name, FABRIC_NAME, "h%d", host);
    for (int n = 0; good && n < spec->nics; n++) {
        const struct lab_link *link = &topology->links[topology_host_link(topology, host, n)];
        struct fabric_nic *nic = &out->nic[host * spec->nics + n];
        *nic = (struct fabric_nic){.host = host, .rail = n, .ports = 1};
        nic->port[0] = (struct fabric_port){.leaf = topology_leaf_of(spec, host, n), .rate = 1};
        snprintf(nic->name, sizeof nic->name, "n%d", n);
        snprintf(nic->address, sizeof nic->address, "%s", link->lower.ip4);
        good = keep(out, &nic->port[0].name, "%s", link->upper.port);
    }
    return good;
}

tutti_result_t paths_from_lab(const struct lab_topology *topology, struct fabric *out)
{
    const struct lab_spec *spec = &topology->spec;
    *out = (struct fabric){.buildings = 1,
                           .zones = 1,
                           .hosts = spec->hosts,
                           .leaves = spec->leaves,
                           .spines = spec->spines,
                           .nics = spec->hosts * spec->nics,
                           .uplinks = spec->leaves * topology_uplinks(spec)};
    snprintf(out->name, sizeof out->name, "%.*s", FABRIC_NAME - 1, spec->name);
    out->building = calloc(1, sizeof *out->building);
    out->zone = calloc(1, sizeof *out->zone);
    out->spine = calloc((size_t)out->spines + 1, sizeof *out->spine);
    out->leaf = calloc((size_t)out->leaves + 1, sizeof *out->leaf);
    out->uplink = calloc((size_t)out->uplinks + 1, sizeof *out->uplink);
    out->host = calloc((size_t)out->hosts + 1, sizeof *out->host);
    out->nic = calloc((size_t)out->nics + 1, sizeof *out->nic);
    bool good = out->building && out->zone && out->spine && out->leaf && out->uplink && out->host && out->nic;
    for (int s = 0; good && s < spec->spines; s++)
        snprintf(out->spine[s].name, FABRIC_NAME, "s%d", s);
    for (int l = 0; good && l < spec->leaves; l++)
        good = add_leaf(topology, l, out);
    for (int h = 0; good && h < spec->hosts; h++)
        good = add_host(topology, h, out);
    return good ? fabric_finish(out) : error_note(TUTTI_SYSTEM_ERROR, "no memory for the fabric %s", spec->name);
}

static tutti_result_t load_lab(const char *path, struct fabric *out)
{
    struct lab_topology topology;
    tutti_result_t result = config_load(path, &topology);
    if (result)
        return result;
    result = paths_from_lab(&topology, out);
    topology_free(&topology);
    return result;
}

tutti_result_t paths_load(const char *path, struct fabric *out)
{
    bool is_fabric = false;
    tutti_result_t result = fabric_recognise(path, &is_fabric);
    if (result)
        return result;
    return is_fabric ? fabric_load(path, out) : load_lab(path, out);
}
