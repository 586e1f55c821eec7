/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/paths.h"

#include "path/dnlb.h"

#include <stdio.h>
#include <string.h>

#define LINK_LANES 64 /* lanes of RDMA that tutti has between two processes, over all NICs together */

/* Columns are as wide as their longest word. */
struct widths {
    int nic, address, leaf, host, uplink;
};

static int wider(int width, size_t length)
{
    return (int)length > width ? (int)length : width;
}

static struct widths widths_of(const struct fabric *f)
{
    struct widths w = {.nic = 8, .address = 15, .leaf = 5, .host = 8, .uplink = 8};
    char name[PATHS_NAME];
    for (int32_t n = 0; n < f->nics; n++) {
        w.nic = wider(w.nic, strlen(f->host[f->nic[n].host].name) + 1 + strlen(f->nic[n].name));
        w.address = wider(w.address, strlen(f->nic[n].address));
    }
    for (int32_t h = 0; h < f->hosts; h++)
        w.host = wider(w.host, strlen(f->host[h].name));
    for (int32_t l = 0; l < f->leaves; l++) {
        w.leaf = wider(w.leaf, strlen(f->leaf[l].name));
        if (f->leaf[l].count) {
            paths_uplink_name(f, f->leaf[l].first + f->leaf[l].count - 1, name);
            w.uplink = wider(w.uplink, strlen(name));
        }
    }
    return w;
}

/* The lanes of the NIC's port at one of its leaves. */
static void list_lanes(const struct paths *paths, const struct widths *w, const struct fabric_nic *nic, int at,
                       struct text *out)
{
    const struct fabric *f = paths->fabric;
    unsigned number = (unsigned)nic->port[0].number, shares = paths->shares[nic->port[0].leaf];
    char name[2 * FABRIC_NAME + 1], to[PATHS_NAME] = "-";
    snprintf(name, sizeof name, "%s.%s", f->host[nic->host].name, nic->name);
    for (unsigned lane = 0; shares && lane < paths->lanes; lane++) {
        uint16_t port = dnlb_port(number, paths->lanes, lane, shares);
        int32_t uplink = paths_uplink(paths, nic->port[at].leaf, port);
        if (uplink >= 0)
            paths_uplink_name(f, uplink, to);
        text_add(out, "%-*s %-*s %-*s %4u %5u  0x%04X %6u  %s\n", w->nic, name, w->address,
                 nic->address[0] ? nic->address : "-", w->leaf, f->leaf[nic->port[at].leaf].name, number, lane, port,
                 port, to);
    }
}

/* NICs leaf by leaf, in the order of hosts. */
static void list_nics(const struct paths *paths, const struct widths *w, struct text *out)
{
    const struct fabric *f = paths->fabric;
    text_add(out, "%-*s %-*s %-*s %4s %5s  %-13s  %s\n", w->nic, "NIC", w->address, "ADDRESS", w->leaf, "LEAF", "NIC#",
             "LANE", "SOURCE PORT", "UPLINK");
    for (int32_t n = 0; n < f->nics; n++)
        for (int32_t p = 0; p < f->nic[n].ports; p++)
            list_lanes(paths, w, &f->nic[n], p, out);
}

/* The settings of the processes, with all NICs of their host, in order. */
static void list_settings(const struct paths *paths, const struct widths *w, struct text *out)
{
    const struct fabric *f = paths->fabric;
    text_add(out, "\n%-*s SETTINGS\n", w->host, "HOST");
    for (int32_t h = 0; h < f->hosts; h++) {
        unsigned said = 0;
        text_add(out, "%-*s TUTTI_IB_LANES=%u TUTTI_PATHS=", w->host, f->host[h].name, paths->lanes);
        for (int32_t n = 0; n < f->host[h].nics && n < DNLB_NICS; n++) {
            const struct fabric_port *port = &f->nic[f->host[h].nic + n].port[0];
            unsigned shares = paths->shares[port->leaf] ? paths->shares[port->leaf] : 1;
            text_add(out, "%s", n ? "," : "");
            if (shares != said)
                text_add(out, "%u:", said = shares);
            text_add(out, "%d", port->number);
        }
        text_add(out, "\n");
    }
}

static void list_loads(const struct paths *paths, const struct widths *w, struct text *out)
{
    const struct fabric *f = paths->fabric;
    text_add(out, "\n%-*s %-13s %5s %15s\n", w->uplink, "UPLINK", "SOURCE PORTS", "LANES", "SHARE OF LEAF");
    for (int32_t l = 0; l < f->leaves; l++) {
        double all = 0;
        for (int32_t u = f->leaf[l].first; u < f->leaf[l].first + f->leaf[l].count; u++)
            all += paths->way[u].lanes;
        for (int32_t u = f->leaf[l].first; u < f->leaf[l].first + f->leaf[l].count; u++) {
            const char *port = fabric_word(f, f->uplink[u].wire.port);
            uint16_t first, last;
            char name[PATHS_NAME];
            paths_uplink_name(f, u, name);
            text_add(out, "%-*s ", w->uplink, name);
            if (!paths->way[u].shares) {
                text_add(out, "is down\n");
                continue;
            }
            paths_range(paths, u, &first, &last);
            text_add(out, "0x%04X-0x%04X %5g %14.2f%%%s%s\n", first, last, paths->way[u].lanes,
                     all > 0 ? 100.0 * paths->way[u].lanes / all : 0.0, *port ? "  " : "", port);
        }
    }
}

/* Lanes for each share of the leaf's least and most loaded uplink. */
static void extremes(const struct paths *paths, const struct fabric_leaf *leaf, double *least, double *most)
{
    *least = *most = -1;
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++) {
        if (!paths->way[u].shares)
            continue;
        double load = paths->way[u].lanes / paths->way[u].shares;
        *least = *least < 0 || load < *least ? load : *least;
        *most = load > *most ? load : *most;
    }
}

static bool judge_leaf(const struct paths *paths, int32_t number, struct text *out)
{
    const struct fabric_leaf *leaf = &paths->fabric->leaf[number];
    double least, most;
    int up = 0;
    if (!leaf->ports) {
        text_add(out, "%s: no NICs\n", leaf->name);
        return true;
    }
    if (!paths->shares[number]) {
        text_add(out, "%s: no uplink is up\n", leaf->name);
        return leaf->count == 0;
    }
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++)
        up += paths->way[u].shares > 0;
    extremes(paths, leaf, &least, &most);
    text_add(out, "%s: %d NICs x %u lanes %s %d uplinks", leaf->name, leaf->ports, paths->lanes,
             least > 0 ? "cover" : "do not cover", up);
    if (least == most)
        text_add(out, ", all alike\n");
    else
        text_add(out, ", unevenly: %g to %g lanes%s; with %u lanes a NIC they would be alike\n", least, most,
                 (int)paths->shares[number] > up ? " a share" : "", paths->shares[number]);
    return least > 0;
}

bool paths_plan(const struct paths *paths, struct text *out)
{
    const struct fabric *f = paths->fabric;
    const struct widths w = widths_of(f);
    bool covered = true;
    int32_t most = 0;
    list_nics(paths, &w, out);
    list_settings(paths, &w, out);
    list_loads(paths, &w, out);
    text_add(out, "\n");
    for (int32_t l = 0; l < f->leaves; l++)
        covered = judge_leaf(paths, l, out) && covered;
    for (int32_t h = 0; h < f->hosts; h++)
        most = f->host[h].nics > most ? f->host[h].nics : most;
    if ((unsigned)most * paths->lanes > LINK_LANES)
        text_add(out,
                 "%d NICs x %u lanes of a host are more than the %d lanes that two processes have: some of these "
                 "ports are not used\n",
                 most, paths->lanes, LINK_LANES);
    if (most > DNLB_NICS)
        text_add(out, "%d NICs of a host are more than the %d that TUTTI_PATHS tells: the others stay with ECMP\n",
                 most, DNLB_NICS);
    return covered;
}
