/* SPDX-License-Identifier: Apache-2.0 */
/* A regular Clos, from numbers. */
#include "model/fabric.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

/* Counts of the whole campus. */
struct totals {
    int64_t zones, racks, hosts, spines, leaves, uplinks, cores, nics, gpus;
};

static int leaves_of_rack(const struct fabric_clos *clos)
{
    return (clos->rail ? clos->nics : 1) * clos->ports;
}

static struct totals count_all(const struct fabric_clos *clos)
{
    struct totals all = {.zones = (int64_t)clos->buildings * clos->zones};
    all.racks = all.zones * clos->racks;
    all.hosts = all.racks * clos->hosts;
    all.spines = all.zones * clos->spines;
    all.leaves = all.racks * leaves_of_rack(clos);
    all.uplinks = all.leaves * clos->spines * clos->uplinks;
    all.cores = all.spines * clos->cores;
    all.nics = all.hosts * clos->nics;
    all.gpus = all.hosts * clos->gpus;
    return all;
}

static tutti_result_t check_totals(const struct totals *all)
{
    const struct {
        const char *what;
        int64_t count, most;
    } bounds[] = {{"GPUs", all->gpus, FABRIC_GPUS},
                  {"NICs", all->nics, FABRIC_GPUS},
                  {"hosts", all->hosts, FABRIC_GPUS},
                  {"leaves", all->leaves, FABRIC_LEAVES},
                  {"spines", all->spines, FABRIC_SPINES},
                  {"uplinks of leaves", all->uplinks, FABRIC_UPLINKS},
                  {"links to the core", all->cores, FABRIC_UPLINKS}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].count > bounds[i].most)
            return error_note(TUTTI_INVALID_ARGUMENT, "that makes %lld %s; at most %lld", (long long)bounds[i].count,
                              bounds[i].what, (long long)bounds[i].most);
    return TUTTI_SUCCESS;
}

static bool make_room(const struct fabric_clos *clos, const struct totals *all, struct fabric *out)
{
    out->buildings = clos->buildings;
    out->zones = (int32_t)all->zones;
    out->spines = (int32_t)all->spines;
    out->cores = (int32_t)all->cores;
    out->leaves = (int32_t)all->leaves;
    out->uplinks = (int32_t)all->uplinks;
    out->hosts = (int32_t)all->hosts;
    out->nics = (int32_t)all->nics;
    out->building = calloc((size_t)out->buildings + 1, sizeof *out->building);
    out->zone = calloc((size_t)out->zones + 1, sizeof *out->zone);
    out->spine = calloc((size_t)out->spines + 1, sizeof *out->spine);
    out->core = calloc((size_t)out->cores + 1, sizeof *out->core);
    out->leaf = calloc((size_t)out->leaves + 1, sizeof *out->leaf);
    out->uplink = calloc((size_t)out->uplinks + 1, sizeof *out->uplink);
    out->host = calloc((size_t)out->hosts + 1, sizeof *out->host);
    out->nic = calloc((size_t)out->nics + 1, sizeof *out->nic);
    return out->building && out->zone && out->spine && out->core && out->leaf && out->uplink && out->host && out->nic;
}

static void make_switches(const struct fabric_clos *clos, struct fabric *out)
{
    int32_t core = 0, uplink = 0;
    for (int32_t b = 0; b < out->buildings; b++) {
        snprintf(out->building[b].name, FABRIC_NAME, "b%d", b);
        out->building[b].trunk = clos->trunk;
    }
    for (int32_t z = 0; z < out->zones; z++) {
        snprintf(out->zone[z].name, FABRIC_NAME, "z%d", z);
        out->zone[z].building = z / clos->zones;
    }
    for (int32_t s = 0; s < out->spines; s++) {
        snprintf(out->spine[s].name, FABRIC_NAME, "s%d", s);
        out->spine[s].zone = s / clos->spines;
        for (int c = 0; c < clos->cores; c++)
            out->core[core++] = (struct fabric_core){.spine = s, .rate = clos->core};
    }
    for (int32_t l = 0; l < out->leaves; l++) {
        struct fabric_leaf *leaf = &out->leaf[l];
        snprintf(leaf->name, FABRIC_NAME, "l%d", l);
        leaf->zone = l / (leaves_of_rack(clos) * clos->racks);
        for (int32_t u = 0; u < clos->spines * clos->uplinks; u++)
            out->uplink[uplink++] = (struct fabric_uplink){
                .leaf = l, .spine = leaf->zone * clos->spines + u / clos->uplinks, .rate = clos->uplink};
    }
}

static void make_host(const struct fabric_clos *clos, struct fabric *out, int32_t h)
{
    struct fabric_host *host = &out->host[h];
    int32_t rack = h / clos->hosts, leaves = leaves_of_rack(clos);
    snprintf(host->name, FABRIC_NAME, "h%d", h);
    host->gpus = clos->gpus;
    host->nic = h * clos->nics;
    host->nics = clos->nics;
    for (int n = 0; n < clos->nics; n++) {
        struct fabric_nic *nic = &out->nic[host->nic + n];
        *nic = (struct fabric_nic){.host = h, .rail = n, .ports = clos->ports};
        snprintf(nic->name, FABRIC_NAME, "n%d", n);
        snprintf(nic->address, FABRIC_ADDRESS, "fd10::%x:%x:%x", (unsigned)h >> 16, (unsigned)h & 0xffff, (unsigned)n);
        for (int p = 0; p < clos->ports; p++)
            nic->port[p] = (struct fabric_port){.leaf = rack * leaves + (clos->rail ? n * clos->ports : 0) + p,
                                                .rate = clos->rate};
    }
}

tutti_result_t fabric_from_clos(const struct fabric_clos *clos, struct fabric *out)
{
    struct totals all = count_all(clos);
    tutti_result_t result = check_totals(&all);
    if (result)
        return result;
    if (!make_room(clos, &all, out))
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for a fabric of %lld GPUs", (long long)all.gpus);
    make_switches(clos, out);
    for (int32_t h = 0; h < out->hosts; h++)
        make_host(clos, out, h);
    return fabric_finish(out);
}
