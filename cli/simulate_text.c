/* SPDX-License-Identifier: Apache-2.0 */
/* The results of tutti simulate, as tables and as JSON. */
#include "cli/simulate.h"
#include "cli/cli.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const distance_names[FABRIC_DISTANCES] = {"host", "rack", "zone", "building", "campus"};

enum route_way simulate_way(const struct simulate_report *report)
{
    enum route_way way = ROUTE_ECMP;
    for (enum route_way w = 0; w < ROUTE_WAYS; w++)
        if (report->request.ways >> w & 1)
            way = w;
    return way;
}

static void time_text(double seconds, char *out, size_t size)
{
    double us = seconds * 1e6;
    if (us < 1e4)
        snprintf(out, size, "%.4g us", us);
    else if (us < 1e7)
        snprintf(out, size, "%.4g ms", us / 1e3);
    else
        snprintf(out, size, "%.4g s", us / 1e6);
}

/* The ratio of what hosts can send to what leads upwards: 2 is an oversubscription of 2 to 1. */
static double oversubscription(double below, double above)
{
    return above > 0 ? below / above : 0;
}

void simulate_fabric_text(FILE *out, const struct fabric *f)
{
    double nics = 0, uplinks = 0, cores = 0;
    int32_t ports = 0, down = 0;
    for (int32_t n = 0; n < f->nics; n++)
        for (int32_t p = 0; p < f->nic[n].ports; p++, ports++)
            nics += f->nic[n].port[p].rate;
    for (int32_t u = 0; u < f->uplinks; u++) {
        down += f->uplink[u].down;
        uplinks += f->uplink[u].down ? 0 : f->uplink[u].rate;
    }
    for (int32_t c = 0; c < f->cores; c++)
        cores += f->core[c].rate;
    fprintf(out, "fabric %s: %d GPUs on %d hosts, %d NICs with %d ports, %d leaves, %d spines", f->name, f->gpus,
            f->hosts, f->nics, ports, f->leaves, f->spines);
    fprintf(out, ", %d zone%s, %d building%s\n", f->zones, f->zones == 1 ? "" : "s", f->buildings,
            f->buildings == 1 ? "" : "s");
    if (uplinks > 0)
        fprintf(out, "leaves %.3g:1", oversubscription(nics, uplinks));
    if (cores > 0)
        fprintf(out, ", zones %.3g:1", oversubscription(nics, cores));
    if (down)
        fprintf(out, ", %d uplinks down", down);
    fprintf(out, "%slatency", uplinks > 0 ? "; " : "");
    for (int d = 0; d < FABRIC_DISTANCES; d++) {
        char text[32];
        time_text(f->latency[d], text, sizeof text);
        fprintf(out, "%s %s %s", d ? "," : "", distance_names[d], text);
    }
    fputc('\n', out);
}

static const char *order_text(const struct study_row *row)
{
    return row->order < STUDY_ORDERS ? study_orders[row->order] : "-";
}

static void head(FILE *out, const struct simulate_report *report, const struct simulate_scale *scale)
{
    bool named = false;
    fprintf(out, "\n%s, %d GPUs on %d hosts, %d lanes; neighbours:", schedule_coll_name(report->request.coll),
            scale->gpus, scale->hosts, report->request.model.lanes);
    for (int d = 0; d < FABRIC_DISTANCES; d++)
        if (scale->pairs[d]) {
            fprintf(out, "%s %d of one %s", named ? "," : "", scale->pairs[d], distance_names[d]);
            named = true;
        }
    fputc('\n', out);
}

static void row_text(FILE *out, const struct simulate_report *report, const struct study *study, int index, int size)
{
    const struct study_row *row = &study->row[index];
    fprintf(out, "  %-18s %-9s", row->algorithm->name, order_text(row));
    if (row->why[0]) {
        fprintf(out, " %s\n", row->why);
        return;
    }
    for (enum route_way way = 0; way < ROUTE_WAYS; way++)
        if (report->request.ways >> way & 1) {
            char text[32];
            time_text(row->time[way][size].mean, text, sizeof text);
            fprintf(out, " %11s%c", text, study_best(study, way, size) == index ? '*' : ' ');
        }
    fprintf(out, " %6.0f %4.0f%%  %s\n", row->rounds, row->far * 100, row->busiest[simulate_way(report)]);
}

static void scale_text(FILE *out, const struct simulate_report *report, const struct simulate_scale *scale)
{
    const struct study *study = &scale->study;
    head(out, report, scale);
    for (int k = 0; k < report->request.sizes; k++) {
        char size[32];
        text_size((int64_t)report->request.bytes[k], size, sizeof size);
        fprintf(out, "%6s %-13s %-9s", size, "algorithm", "order");
        for (enum route_way way = 0; way < ROUTE_WAYS; way++)
            if (report->request.ways >> way & 1)
                fprintf(out, " %11s ", route_names[way]);
        fprintf(out, " rounds  far  busiest link\n");
        for (int i = 0; i < study->count; i++)
            row_text(out, report, study, i, k);
    }
}

static void remarks(FILE *out, const struct simulate_report *report)
{
    bool sampled = false, spread = false;
    for (int s = 0; s < report->scales; s++)
        for (int i = 0; i < report->scale[s].study.count; i++)
            sampled |= report->scale[s].study.row[i].priced < report->scale[s].study.row[i].rounds;
    spread = report->request.draws > 1;
    fprintf(out, "\n* least of a column. far: messages that leave their leaf.%s%s\n",
            spread ? " Where chance has a part, times are means of the draws." : "",
            sampled ? " Of rounds that look alike a few were looked at." : "");
}

static void job_text(FILE *out, const struct simulate_report *report)
{
    const struct simulate_scale *now = &report->scale[0], *then = report->sorted;
    enum route_way way = simulate_way(report);
    fprintf(out, "\nthe order of the hosts: after %d of %d comes one of another leaf; sorted by the fabric after %d\n",
            now->crossings, now->hosts, then->crossings);
    for (int k = 0; k < report->request.sizes; k++) {
        int a = study_best(&now->study, way, k), b = study_best(&then->study, way, k);
        char size[32], before[32], after[32];
        if (a < 0 || b < 0)
            continue;
        double ours = now->study.row[a].time[way][k].mean, best = then->study.row[b].time[way][k].mean;
        text_size((int64_t)report->request.bytes[k], size, sizeof size);
        time_text(ours, before, sizeof before);
        time_text(best, after, sizeof after);
        fprintf(out, "%6s  %s by %s; sorted %s by %s: %.2fx\n", size, before, now->study.row[a].algorithm->name, after,
                then->study.row[b].algorithm->name, ours / best);
    }
}

void simulate_text(FILE *out, const struct simulate_report *report)
{
    simulate_fabric_text(out, report->fabric);
    for (int s = 0; s < report->scales; s++)
        scale_text(out, report, &report->scale[s]);
    remarks(out, report);
    if (report->sorted)
        job_text(out, report);
}

/* ---- JSON ---- */

static json_t *times_json(const struct simulate_report *report, const struct study_row *row, enum route_way way)
{
    json_t *list = json_array();
    for (int k = 0; k < report->request.sizes; k++)
        json_array_append_new(list, json_pack("{s:I, s:f, s:f, s:f}", "bytes", (json_int_t)report->request.bytes[k],
                                              "us", row->time[way][k].mean * 1e6, "least_us",
                                              row->time[way][k].least * 1e6, "most_us", row->time[way][k].most * 1e6));
    return json_pack("{s:s, s:o}", "busiest", row->busiest[way], "times", list);
}

static json_t *row_json(const struct simulate_report *report, const struct study_row *row)
{
    json_t *paths = json_object();
    for (enum route_way way = 0; way < ROUTE_WAYS; way++)
        if (row->done[way])
            json_object_set_new(paths, route_names[way], times_json(report, row, way));
    json_t *out = json_pack("{s:s, s:s, s:b, s:f, s:i, s:f, s:o}", "algorithm", row->algorithm->name, "order",
                            order_text(row), "own_order", row->own, "rounds", row->rounds, "rounds_priced", row->priced,
                            "far", row->far, "paths", paths);
    if (row->why[0])
        json_object_set_new(out, "why_not", json_string(row->why));
    return out;
}

static json_t *scale_json(const struct simulate_report *report, const struct simulate_scale *scale)
{
    json_t *list = json_array(), *pairs = json_object();
    for (int i = 0; i < scale->study.count; i++)
        json_array_append_new(list, row_json(report, &scale->study.row[i]));
    for (int d = 0; d < FABRIC_DISTANCES; d++)
        json_object_set_new(pairs, distance_names[d], json_integer(scale->pairs[d]));
    return json_pack("{s:i, s:i, s:o, s:o}", "gpus", scale->gpus, "hosts", scale->hosts, "neighbours", pairs, "rows",
                     list);
}

int simulate_json(const struct simulate_report *report)
{
    const struct study_request *request = &report->request;
    json_t *list = json_array();
    for (int s = 0; s < report->scales; s++)
        json_array_append_new(list, scale_json(report, &report->scale[s]));
    json_t *all = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "fabric", report->fabric->name, "collective",
                            schedule_coll_name(request->coll), "lanes", request->model.lanes, "draws", request->draws,
                            "failures", request->failures, "seed", (int)request->seed, "scales", list);
    if (all && report->sorted)
        json_object_set_new(all, "sorted", scale_json(report, report->sorted));
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) : NULL;
    json_decref(all);
    if (!text)
        return failure("simulate", "no memory for the answer");
    puts(text);
    free(text);
    return EXIT_OK;
}
