/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/paths.h"

#include "path/dnlb.h"

#define LINK_LANES 8 /* lanes of RDMA that tutti has between two processes, over all NICs together */

struct paths_load paths_load(const struct paths_request *request, int leaf)
{
    const struct lab_spec *spec = &request->topology->spec;
    unsigned uplinks = (unsigned)topology_uplinks(spec);
    struct paths_load load = {0};
    for (int host = 0; host < spec->hosts; host++)
        for (int nic = 0; nic < spec->nics; nic++) {
            if (topology_leaf_of(spec, host, nic) != leaf)
                continue;
            for (unsigned lane = 0; lane < request->lanes; lane++)
                load.lane[dnlb_uplink(load.nics, request->lanes, lane, uplinks)]++;
            load.nics++;
        }
    load.least = load.most = load.lane[0];
    for (unsigned u = 1; u < uplinks; u++) {
        load.least = load.lane[u] < load.least ? load.lane[u] : load.least;
        load.most = load.lane[u] > load.most ? load.lane[u] : load.most;
    }
    return load;
}

/* Counts the NICs of a leaf in the order of hosts: their indices are consecutive, whatever other leaves have. */
static void list_lanes(const struct paths_request *request, int leaf, struct text *out)
{
    const struct lab_spec *spec = &request->topology->spec;
    unsigned uplinks = (unsigned)topology_uplinks(spec), index = 0;
    for (int host = 0; host < spec->hosts; host++)
        for (int nic = 0; nic < spec->nics; nic++) {
            if (topology_leaf_of(spec, host, nic) != leaf)
                continue;
            const struct lab_link *link = &request->topology->links[topology_host_link(request->topology, host, nic)];
            for (unsigned lane = 0; lane < request->lanes; lane++)
                text_add(out, "%-8s %-15s l%-4d %4u %5u  0x%04X %6u  l%d.u%u\n", link->name, link->lower.ip4, leaf,
                         index, lane, dnlb_port(index, request->lanes, lane, uplinks),
                         dnlb_port(index, request->lanes, lane, uplinks), leaf,
                         dnlb_uplink(index, request->lanes, lane, uplinks));
            index++;
        }
}

/* The number of a NIC among those of its leaf. */
static unsigned number_of(const struct lab_spec *spec, int host, int nic)
{
    unsigned number = 0;
    int leaf = topology_leaf_of(spec, host, nic);
    for (int i = 0; i < host * spec->nics + nic; i++)
        number += topology_leaf_of(spec, i / spec->nics, i % spec->nics) == leaf;
    return number;
}

/* The settings of the processes, with all NICs of their host, in order. */
static void list_settings(const struct paths_request *request, struct text *out)
{
    const struct lab_spec *spec = &request->topology->spec;
    text_add(out, "\n%-8s SETTINGS\n", "HOST");
    for (int host = 0; host < spec->hosts; host++) {
        text_add(out, "h%-7d TUTTI_IB_LANES=%u TUTTI_PATHS=%d:", host, request->lanes, topology_uplinks(spec));
        for (int nic = 0; nic < spec->nics; nic++)
            text_add(out, "%s%u", nic ? "," : "", number_of(spec, host, nic));
        text_add(out, "\n");
    }
}

bool paths_plan(const struct paths_request *request, struct text *out)
{
    const struct lab_spec *spec = &request->topology->spec;
    unsigned uplinks = (unsigned)topology_uplinks(spec);
    bool covered = true;
    text_add(out, "%-8s %-15s %-5s %4s %5s  %-13s  %s\n", "NIC", "ADDRESS", "LEAF", "NIC#", "LANE", "SOURCE PORT",
             "UPLINK");
    for (int leaf = 0; leaf < spec->leaves; leaf++)
        list_lanes(request, leaf, out);
    list_settings(request, out);
    text_add(out, "\n%-8s %-13s %5s %15s\n", "UPLINK", "SOURCE PORTS", "LANES", "SHARE OF LEAF");
    for (int leaf = 0; leaf < spec->leaves; leaf++) {
        struct paths_load load = paths_load(request, leaf);
        unsigned all = load.nics * request->lanes;
        for (unsigned u = 0; u < uplinks; u++) {
            uint16_t first, last;
            dnlb_share(u, uplinks, &first, &last);
            text_add(out, "l%d.u%-5u 0x%04X-0x%04X %5u %14.2f%%\n", leaf, u, first, last, load.lane[u],
                     all ? 100.0 * load.lane[u] / all : 0.0);
        }
    }
    text_add(out, "\n");
    for (int leaf = 0; leaf < spec->leaves; leaf++) {
        struct paths_load load = paths_load(request, leaf);
        bool covers = dnlb_covers(load.nics, request->lanes, uplinks);
        if (!load.nics) {
            text_add(out, "l%d: no NICs\n", leaf);
            continue;
        }
        covered = covered && covers;
        text_add(out, "l%d: %u NICs x %u lanes %s %u uplinks", leaf, load.nics, request->lanes,
                 covers ? "cover" : "do not cover", uplinks);
        if (load.least == load.most)
            text_add(out, ", all alike\n");
        else
            text_add(out, ", unevenly: %u to %u lanes; with %u lanes a NIC they would be alike\n", load.least,
                     load.most, uplinks);
    }
    if ((unsigned)spec->nics * request->lanes > LINK_LANES)
        text_add(out,
                 "%d NICs x %u lanes of a host are more than the %d lanes that two processes have: some of these "
                 "ports are not used\n",
                 spec->nics, request->lanes, LINK_LANES);
    return covered;
}
