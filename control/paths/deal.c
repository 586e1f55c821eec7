/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of source ports for uplinks, and the lanes that take them. */
#include "paths/paths.h"

#include "base/error.h"
#include "path/dnlb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rates are compared in Mbit/s. */
static double megabits(double rate)
{
    return round(rate * 8e-6);
}

static double in_common(double a, double b)
{
    while (b > 0) {
        double rest = fmod(a, b);
        a = b;
        b = rest;
    }
    return a;
}

static tutti_result_t too_many(const struct paths *paths, int32_t leaf, double shares)
{
    const struct fabric *f = paths->fabric;
    return error_note(TUTTI_INVALID_ARGUMENT,
                      "%s:%d: leaf %s: its uplinks that are up need %.0f shares of the source ports, at most %d: their "
                      "rates have too little in common, or there are too many of them",
                      paths->label, f->leaf[leaf].own.line, f->leaf[leaf].name, shares, PATHS_SHARES);
}

static tutti_result_t deal_shares(struct paths *paths, int32_t leaf)
{
    const struct fabric *f = paths->fabric;
    const struct fabric_uplink *uplink = &f->uplink[f->leaf[leaf].first];
    struct paths_way *way = &paths->way[f->leaf[leaf].first];
    double unit = 0, all = 0;
    bool limited = true; /* an uplink without a limit is as good as any other */
    for (int32_t u = 0; u < f->leaf[leaf].count; u++)
        limited = limited && isfinite(uplink[u].rate) && megabits(uplink[u].rate) >= 1;
    for (int32_t u = 0; u < f->leaf[leaf].count; u++)
        if (!uplink[u].down)
            unit = limited ? in_common(megabits(uplink[u].rate), unit) : 1;
    for (int32_t u = 0; u < f->leaf[leaf].count; u++)
        all += uplink[u].down ? 0 : limited ? megabits(uplink[u].rate) / unit : 1;
    if (all > PATHS_SHARES)
        return too_many(paths, leaf, all);
    for (int32_t u = 0; u < f->leaf[leaf].count; u++) {
        way[u].first = paths->shares[leaf];
        way[u].shares = uplink[u].down ? 0 : limited ? (unsigned)(megabits(uplink[u].rate) / unit) : 1;
        paths->shares[leaf] += way[u].shares;
    }
    return TUTTI_SUCCESS;
}

void paths_range(const struct paths *paths, int32_t uplink, uint16_t *first, uint16_t *last)
{
    const struct paths_way *way = &paths->way[uplink];
    unsigned shares = paths->shares[paths->fabric->uplink[uplink].leaf];
    uint16_t between;
    dnlb_share(way->first, shares, first, &between);
    dnlb_share(way->first + way->shares - 1, shares, &between, last);
}

int32_t paths_uplink(const struct paths *paths, int32_t leaf, uint16_t port)
{
    const struct fabric_leaf *at = &paths->fabric->leaf[leaf];
    for (int32_t u = at->first; u < at->first + at->count; u++) {
        uint16_t first, last;
        if (!paths->way[u].shares)
            continue;
        paths_range(paths, u, &first, &last);
        if (port >= first && port <= last)
            return u;
    }
    return -1;
}

void paths_uplink_name(const struct fabric *fabric, int32_t uplink, char out[PATHS_NAME])
{
    const struct fabric_leaf *leaf = &fabric->leaf[fabric->uplink[uplink].leaf];
    snprintf(out, PATHS_NAME, "%s.u%d", leaf->name, uplink - leaf->first);
}

static void deal_lanes(struct paths *paths, const struct fabric_nic *nic)
{
    unsigned shares = paths->shares[nic->port[0].leaf];
    for (unsigned lane = 0; shares && lane < paths->lanes; lane++) {
        uint16_t port = dnlb_port((unsigned)nic->port[0].number, paths->lanes, lane, shares);
        for (int32_t p = 0; p < nic->ports; p++) {
            int32_t uplink = paths_uplink(paths, nic->port[p].leaf, port);
            if (uplink >= 0)
                paths->way[uplink].lanes += 1.0 / nic->ports;
        }
    }
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Leaves and spines are asked for by name, and have files of that name. */
static tutti_result_t check_names(const struct paths *paths)
{
    const struct fabric *f = paths->fabric;
    int32_t count = 0;
    const char **name = malloc(((size_t)f->leaves + (size_t)f->spines + 1) * sizeof *name);
    if (!name)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for %d names", paths->label, f->leaves + f->spines);
    for (int32_t l = 0; l < f->leaves; l++)
        name[count++] = f->leaf[l].name;
    for (int32_t s = 0; s < f->spines; s++)
        name[count++] = f->spine[s].name;
    qsort(name, (size_t)count, sizeof *name, by_name);
    tutti_result_t result = TUTTI_SUCCESS;
    for (int32_t i = 1; !result && i < count; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            result = error_note(TUTTI_INVALID_ARGUMENT, "%s: a leaf and a spine have the name %s; rename one",
                                paths->label, name[i]);
    free(name);
    return result;
}

tutti_result_t paths_open(struct paths *paths)
{
    const struct fabric *f = paths->fabric;
    paths->way = calloc((size_t)f->uplinks + 1, sizeof *paths->way);
    paths->shares = calloc((size_t)f->leaves + 1, sizeof *paths->shares);
    if (!paths->way || !paths->shares)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for the plan of %d uplinks", paths->label, f->uplinks);
    tutti_result_t result = check_names(paths);
    for (int32_t l = 0; !result && l < f->leaves; l++)
        result = deal_shares(paths, l);
    for (int32_t n = 0; !result && n < f->nics; n++)
        deal_lanes(paths, &f->nic[n]);
    return result;
}

void paths_close(struct paths *paths)
{
    free(paths->way);
    free(paths->shares);
    paths->way = NULL;
    paths->shares = NULL;
}
