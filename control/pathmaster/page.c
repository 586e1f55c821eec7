/* SPDX-License-Identifier: Apache-2.0 */
/* What readers see: loads of uplinks, and sums. No tenant sees another's lanes. */
#include "pathmaster/state.h"

#include <stdlib.h>
#include <string.h>

static double part_of(const struct allot *allot, int32_t link)
{
    return allot->full[link] > 0 ? 100 * (double)allot->load[link] / allot->full[link] : 0;
}

/* "up 75%, down 50%" of what a link without fault carries. */
static void add_uplinks(const struct pathmaster *master, struct text *out)
{
    const struct allot *allot = &master->allot;
    for (int32_t u = 0; u < master->fabric.uplinks; u++) {
        char name[PATHS_NAME];
        int32_t down = master->fabric.uplinks + u;
        paths_uplink_name(&master->fabric, u, name);
        text_add(out, "%-24s up %6.1f%%  down %6.1f%%", name, part_of(allot, u), part_of(allot, down));
        if (allot->capacity[u] < allot->full[u])
            text_add(out, "  has %.0f%% of its rate", 100 * allot->capacity[u] / allot->full[u]);
        text_add(out, "\n");
    }
}

static void add_sums(const struct pathmaster *master, struct text *out)
{
    if (!master->leads)
        text_add(out, "This master does not lead: the others know more.\n");
    text_add(out, "%d lanes of %d owners on %d uplinks of %s; wave %llu of %llu is told\n", master->allot.lanes,
             master->allot.owners, master->fabric.uplinks, master->fabric.name, (unsigned long long)master->told,
             (unsigned long long)master->allot.wave);
    text_add(out, "%llu questions, %llu refused; %llu paths given, %llu lanes moved by plans\n",
             (unsigned long long)master->asked, (unsigned long long)master->refused, (unsigned long long)master->given,
             (unsigned long long)master->moved);
}

static void add_metric(struct text *out, const char *name, const char *type, const char *help, double value)
{
    text_add(out, "# HELP tutti_paths_%s %s\n# TYPE tutti_paths_%s %s\ntutti_paths_%s %.17g\n", name, help, name, type,
             name, value);
}

static void add_metrics(const struct pathmaster *master, struct text *out)
{
    add_metric(out, "lanes", "gauge", "Lanes that have a path.", master->allot.lanes);
    add_metric(out, "leads", "gauge", "1: this master leads.", master->leads);
    add_metric(out, "owners", "gauge", "Agents that have lanes.", master->allot.owners);
    add_metric(out, "questions_total", "counter", "Questions of agents.", (double)master->asked);
    add_metric(out, "refused_total", "counter", "Questions that were refused.", (double)master->refused);
    add_metric(out, "given_total", "counter", "Paths given to lanes that asked.", (double)master->given);
    add_metric(out, "moved_total", "counter", "Lanes moved by plans.", (double)master->moved);
    text_add(out, "# HELP tutti_paths_load Part of an uplink's rate that lanes may send.\n"
                  "# TYPE tutti_paths_load gauge\n");
    for (int32_t u = 0; u < master->fabric.uplinks; u++)
        for (int way = 0; way < 2; way++) {
            char name[PATHS_NAME];
            paths_uplink_name(&master->fabric, u, name);
            text_add(out, "tutti_paths_load{uplink=\"%s\",way=\"%s\"} %.6g\n", name, way ? "down" : "up",
                     part_of(&master->allot, way * master->fabric.uplinks + u) / 100);
        }
}

char *pathmaster_page(void *context, const char *url, const char **type)
{
    struct pathmaster *master = context;
    struct text out = {0};
    bool metrics = strcmp(url, "/metrics") == 0, json = strcmp(url, "/probes.json") == 0,
         probes = json || strcmp(url, "/probes") == 0;
    if (!metrics && !probes && strcmp(url, "/") != 0)
        return NULL;
    *type = metrics ? "text/plain; version=0.0.4" : json ? "application/json" : "text/plain; charset=utf-8";
    pthread_mutex_lock(&master->lock);
    if (metrics) {
        add_metrics(master, &out);
    } else if (probes) {
        pathmaster_show(master, json, &out);
    } else {
        add_sums(master, &out);
        add_uplinks(master, &out);
    }
    pthread_mutex_unlock(&master->lock);
    if (text_ok(&out) == TUTTI_SUCCESS)
        return out.data;
    text_free(&out);
    return NULL;
}
