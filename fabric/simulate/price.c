/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds become flows, flows become loads of links, and these become times. */
#include "simulate/price.h"
#include "base/error.h"
#include "model/maxmin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_FLOWS = 1 << 22, /* messages of one round: some 350 MB */
    EXACT = 20000,        /* flows of different sizes whose ends are followed one by one */
    STEPS = 64            /* steps of time for more flows than EXACT */
};

/* The flows of a round, and their numbers in the model. */
struct round_flows {
    struct router *router;
    const struct price_model *model;
    int32_t count, room;
    struct route_flow *flow;
    uint32_t *first;
    int32_t *link;
    double *bytes, *each, *total; /* each: seconds of a flow; total: bytes of a link over all rounds */
    int32_t *dense;               /* number of a link among used ones, less 1 */
};

static bool grow_to(struct round_flows *f, int32_t room)
{
    if (room <= f->room)
        return true;
    size_t n = (size_t)room + 1;
    void *flow = realloc(f->flow, n * sizeof *f->flow);
    f->flow = flow ? flow : f->flow;
    void *first = realloc(f->first, n * sizeof *f->first);
    f->first = first ? first : f->first;
    void *link = realloc(f->link, n * ROUTE_LINKS * sizeof *f->link);
    f->link = link ? link : f->link;
    void *bytes = realloc(f->bytes, n * sizeof *f->bytes);
    f->bytes = bytes ? bytes : f->bytes;
    void *each = realloc(f->each, n * sizeof *f->each);
    f->each = each ? each : f->each;
    if (!flow || !first || !link || !bytes || !each)
        return false;
    f->room = room;
    return true;
}

static void round_flows_free(struct round_flows *f)
{
    free(f->flow);
    free(f->first);
    free(f->link);
    free(f->bytes);
    free(f->each);
    free(f->total);
    free(f->dense);
}

/* Deals a message between hosts to the lanes. */
static tutti_result_t deal(struct round_flows *f, const struct pattern *pattern, const int32_t *place)
{
    const struct fabric *fabric = f->router->fabric;
    int lanes = f->model->lanes;
    if (pattern->count > MOST_FLOWS / lanes)
        return error_note(TUTTI_INVALID_ARGUMENT, "a round has %d messages over %d lanes: more than %d flows",
                          pattern->count, lanes, MOST_FLOWS);
    if (!grow_to(f, pattern->count * lanes))
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %d flows", pattern->count * lanes);
    f->count = 0;
    for (int32_t i = 0; i < pattern->count; i++) {
        const struct pattern_message *m = &pattern->message[i];
        int32_t from = place[m->from], to = place[m->to];
        int parts = fabric->gpu_host[from] == fabric->gpu_host[to] ? 1 : lanes;
        for (int lane = 0; lane < parts; lane++)
            f->flow[f->count++] = (struct route_flow){from, to, lane, parts, m->part / parts};
    }
    for (int32_t i = 0; i < f->count; i++)
        f->bytes[i] = f->flow[i].bytes;
    return TUTTI_SUCCESS;
}

static bool between_hosts(const struct fabric *fabric, const struct route_flow *flow)
{
    return fabric->gpu_host[flow->from] != fabric->gpu_host[flow->to];
}

/* Do all flows between hosts have the same bytes, and all others too? The two kinds share no links. */
static bool alike(const struct round_flows *f)
{
    double size[2] = {-1, -1};
    for (int32_t i = 0; i < f->count; i++) {
        double *mine = &size[between_hosts(f->router->fabric, &f->flow[i])];
        if (*mine >= 0 && fabs(*mine - f->bytes[i]) > 1e-6 * *mine)
            return false;
        *mine = f->bytes[i];
    }
    return true;
}

/* Follows flows of different sizes over time: with the used links alone, which may be few of a large fabric. */
static tutti_result_t follow(struct round_flows *f, double step)
{
    uint32_t entries = f->first[f->count];
    struct maxmin problem = {.flows = f->count, .first = f->first};
    int32_t *link = malloc(((size_t)entries + 1) * sizeof *link);
    double *capacity = malloc(((size_t)entries + 1) * sizeof *capacity);
    for (uint32_t i = 0; link && capacity && i < entries; i++) {
        int32_t l = f->link[i];
        if (!f->dense[l]) {
            capacity[problem.links] = f->router->capacity[l];
            f->dense[l] = ++problem.links;
        }
        link[i] = f->dense[l] - 1;
    }
    problem.capacity = capacity;
    problem.link = link;
    tutti_result_t result = link && capacity
                                ? maxmin_finish(&problem, f->bytes, NULL, step, f->each)
                                : error_note(TUTTI_SYSTEM_ERROR, "no memory for the links of %d flows", f->count);
    for (uint32_t i = 0; i < entries; i++)
        f->dense[f->link[i]] = 0;
    free(link);
    free(capacity);
    return result;
}

/* Finds when each flow ends. The router has the loads of exactly these flows. */
static tutti_result_t end_flows(struct round_flows *f)
{
    double bound = 0;
    for (int32_t i = 0; i < f->count; i++) {
        f->each[i] = 0;
        for (uint32_t l = f->first[i]; l < f->first[i + 1]; l++) {
            double seconds = f->router->load[f->link[l]] / f->router->capacity[f->link[l]];
            f->each[i] = seconds > f->each[i] ? seconds : f->each[i];
        }
        bound = f->each[i] > bound ? f->each[i] : bound;
    }
    return alike(f) ? TUTTI_SUCCESS : follow(f, f->count > EXACT ? bound / STEPS : 0);
}

static void note_round(struct round_flows *f, const struct pattern *pattern, double times, double *messages,
                       struct price *out)
{
    const struct fabric *fabric = f->router->fabric;
    struct price_round *round = &out->round[out->count++];
    *round = (struct price_round){.times = times, .messages = pattern->most, .reduced = pattern->reduced};
    for (int d = 0; d < FABRIC_DISTANCES; d++)
        round->slope[d] = -1;
    for (int32_t i = 0; i < f->count; i++) {
        enum fabric_distance d = fabric_distance_of(fabric, f->flow[i].from, f->flow[i].to);
        round->slope[d] = f->each[i] > round->slope[d] ? f->each[i] : round->slope[d];
        out->far += d > FABRIC_RACK ? times / f->flow[i].lanes : 0;
        *messages += times / f->flow[i].lanes;
        for (uint32_t l = f->first[i]; l < f->first[i + 1]; l++)
            f->total[f->link[l]] += times * f->bytes[i];
    }
    out->messages += times * pattern->most;
}

static void note_busiest(const struct round_flows *f, struct price *out)
{
    int32_t links = fabric_links(f->router->fabric);
    for (int32_t l = 0; l < links; l++) {
        double seconds = f->total[l] > 0 ? f->total[l] / f->router->capacity[l] : 0;
        if (seconds > out->busy) {
            out->busy = seconds;
            out->busiest = l;
        }
    }
}

static tutti_result_t price_round(struct round_flows *f, const struct pattern *pattern, const int32_t *place)
{
    const struct fabric *fabric = f->router->fabric;
    tutti_result_t result = deal(f, pattern, place);
    if (result)
        return result;
    int32_t lost = router_paths(f->router, f->flow, f->count, f->first, f->link);
    if (lost >= 0)
        return error_note(TUTTI_INVALID_ARGUMENT, "no way leads from host %s to host %s",
                          fabric->host[fabric->gpu_host[f->flow[lost].from]].name,
                          fabric->host[fabric->gpu_host[f->flow[lost].to]].name);
    result = end_flows(f);
    router_forget(f->router, f->count, f->first, f->link);
    return result;
}

tutti_result_t price_make(const struct algorithm *algorithm, const struct shape *shape, const int32_t *place,
                          struct router *router, const struct price_model *model, struct price *out)
{
    struct pattern_list list;
    struct pattern pattern = {0};
    struct round_flows flows = {.router = router, .model = model};
    double messages = 0;
    *out = (struct price){.busiest = -1, .blocks = 1};
    tutti_result_t result = pattern_rounds(algorithm, shape, &list);
    flows.total = calloc((size_t)fabric_links(router->fabric) + 1, sizeof *flows.total);
    flows.dense = calloc((size_t)fabric_links(router->fabric) + 1, sizeof *flows.dense);
    if (!result && !(flows.total && flows.dense))
        result = error_note(TUTTI_SYSTEM_ERROR, "no memory for %d links", fabric_links(router->fabric));
    out->rounds = list.rounds;
    if (!result && algorithm->blocks(shape) > 1)
        out->blocks = algorithm->blocks(shape);
    for (int i = 0; i < list.count && !result; i++) {
        result = pattern_round(algorithm, shape, list.round[i], &pattern);
        if (!result)
            result = price_round(&flows, &pattern, place);
        if (!result)
            note_round(&flows, &pattern, list.times[i], &messages, out);
    }
    if (!result)
        note_busiest(&flows, out);
    out->far = messages > 0 ? out->far / messages : 0;
    pattern_list_free(&list);
    pattern_free(&pattern);
    round_flows_free(&flows);
    return result;
}

/* Prices one slice alone. */
static double one_slice(const struct price *price, const struct fabric *fabric, const struct price_model *model,
                        double bytes)
{
    double sum = 0;
    for (int i = 0; i < price->count; i++) {
        const struct price_round *round = &price->round[i];
        double longest = 0;
        for (int d = 0; d < FABRIC_DISTANCES; d++) {
            double seconds = round->slope[d] < 0 ? 0 : fabric->latency[d] + round->slope[d] * bytes;
            longest = seconds > longest ? seconds : longest;
        }
        sum += round->times * (longest + round->messages * model->overhead + round->reduced * bytes * model->gamma);
    }
    return sum;
}

double price_seconds(const struct price *price, const struct fabric *fabric, const struct price_model *model,
                     double bytes)
{
    double slices = ceil(bytes / (model->slice * price->blocks));
    if (slices <= 1)
        return one_slice(price, fabric, model, bytes);
    double slice = bytes / slices, first = one_slice(price, fabric, model, slice);
    double next = price->busy * slice, software = price->messages * model->overhead, flight = first / model->slices;
    next = software > next ? software : next;
    next = flight > next ? flight : next;
    return first + (slices - 1) * next;
}
