/* SPDX-License-Identifier: Apache-2.0 */
/* Rates: the link with the least share for a flow is filled first. A heap has the links by their shares. */
#include "model/maxmin_work.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double weight_of(const struct maxmin *p, int32_t flow)
{
    return p->weight ? p->weight[flow] : 1;
}

static void count_links(struct maxmin_work *w)
{
    const struct maxmin *p = w->problem;
    uint32_t entries = p->first[p->flows];
    for (uint32_t i = 0; i < entries; i++)
        w->users_of[p->link[i] + 1]++;
    for (int32_t l = 0; l < p->links; l++)
        w->users_of[l + 1] += w->users_of[l];
}

/* Sorts the flows of each link, by counting. */
static tutti_result_t turn_round(struct maxmin_work *w)
{
    const struct maxmin *p = w->problem;
    uint32_t *next = malloc(((size_t)p->links + 1) * sizeof *next);
    if (!next)
        return error_note(TUTTI_SYSTEM_ERROR, "rates of %d flows: out of memory", p->flows);
    count_links(w);
    memcpy(next, w->users_of, ((size_t)p->links + 1) * sizeof *next);
    for (int32_t f = 0; f < p->flows; f++)
        for (uint32_t i = p->first[f]; i < p->first[f + 1]; i++)
            w->user[next[p->link[i]]++] = f;
    free(next);
    return TUTTI_SUCCESS;
}

tutti_result_t maxmin_open(const struct maxmin *problem, struct maxmin_work *w)
{
    size_t links = (size_t)problem->links, flows = (size_t)problem->flows, entries = problem->first[problem->flows];
    *w = (struct maxmin_work){.problem = problem};
    if (entries > MAXMIN_MOST)
        return error_note(TUTTI_INVALID_ARGUMENT, "rates of %d flows over %zu links in all: at most %u", problem->flows,
                          entries, MAXMIN_MOST);
    w->users_of = calloc(links + 1, sizeof *w->users_of);
    w->user = malloc((entries + 1) * sizeof *w->user);
    w->left = malloc((links + 1) * sizeof *w->left);
    w->weight = malloc((links + 1) * sizeof *w->weight);
    w->share = malloc((links + 1) * sizeof *w->share);
    w->heap = malloc((links + 1) * sizeof *w->heap);
    w->fixed = malloc(flows + 1);
    if (w->users_of && w->user && w->left && w->weight && w->share && w->heap && w->fixed)
        return turn_round(w);
    return error_note(TUTTI_SYSTEM_ERROR, "rates of %d flows: out of memory", problem->flows);
}

void maxmin_close(struct maxmin_work *w)
{
    free(w->users_of);
    free(w->user);
    free(w->left);
    free(w->weight);
    free(w->share);
    free(w->heap);
    free(w->fixed);
}

static void sink(struct maxmin_work *w, int32_t at)
{
    int32_t link = w->heap[at];
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= w->heaped)
            break;
        if (child + 1 < w->heaped && w->share[w->heap[child + 1]] < w->share[w->heap[child]])
            child++;
        if (w->share[w->heap[child]] >= w->share[link])
            break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = link;
}

static void drop_least(struct maxmin_work *w)
{
    w->heap[0] = w->heap[--w->heaped];
    if (w->heaped)
        sink(w, 0);
}

static double share_of(const struct maxmin_work *w, int32_t link)
{
    double left = w->left[link] > 0 ? w->left[link] : 0;
    return left / w->weight[link];
}

/* The capacity that each link has left, and the flows that share it. */
static void begin(struct maxmin_work *w, const bool *active)
{
    const struct maxmin *p = w->problem;
    for (int32_t l = 0; l < p->links; l++) {
        w->left[l] = p->capacity[l];
        w->weight[l] = 0;
    }
    for (int32_t f = 0; f < p->flows; f++) {
        w->fixed[f] = active && !active[f];
        for (uint32_t i = p->first[f]; !w->fixed[f] && i < p->first[f + 1]; i++)
            w->weight[p->link[i]] += weight_of(p, f);
    }
    w->heaped = 0;
    for (int32_t l = 0; l < p->links; l++)
        if (w->weight[l] > 0 && isfinite(p->capacity[l])) {
            w->share[l] = share_of(w, l);
            w->heap[w->heaped++] = l;
        }
    for (int32_t at = w->heaped / 2 - 1; at >= 0; at--)
        sink(w, at);
}

static void fix(struct maxmin_work *w, int32_t flow, double rate, double *out)
{
    const struct maxmin *p = w->problem;
    double weight = weight_of(p, flow);
    w->fixed[flow] = true;
    out[flow] = rate;
    for (uint32_t i = p->first[flow]; i < p->first[flow + 1]; i++) {
        w->left[p->link[i]] -= rate * weight;
        w->weight[p->link[i]] -= weight;
    }
}

/* Fills the least link. Shares only grow while others' flows are fixed, so an old value in the heap is too small, and
 * its link sinks. */
void maxmin_fill(struct maxmin_work *w, const bool *active, double *rate)
{
    const struct maxmin *p = w->problem;
    begin(w, active);
    for (int32_t f = 0; f < p->flows; f++)
        rate[f] = w->fixed[f] ? 0 : INFINITY;
    while (w->heaped) {
        int32_t link = w->heap[0];
        if (w->weight[link] < 1e-9) { /* all flows of the link have their rates */
            drop_least(w);
            continue;
        }
        double share = share_of(w, link);
        if (share > w->share[link] * (1 + 1e-12)) {
            w->share[link] = share;
            sink(w, 0);
            continue;
        }
        for (uint32_t i = w->users_of[link]; i < w->users_of[link + 1]; i++)
            if (!w->fixed[w->user[i]])
                fix(w, w->user[i], share, rate);
        drop_least(w);
    }
}

tutti_result_t maxmin_rates(const struct maxmin *problem, double *rate)
{
    struct maxmin_work work;
    tutti_result_t result = maxmin_open(problem, &work);
    if (!result)
        maxmin_fill(&work, NULL, rate);
    maxmin_close(&work);
    return result;
}

void maxmin_bound(const struct maxmin *problem, const double *bytes, double *load, double *each)
{
    memset(load, 0, (size_t)problem->links * sizeof *load);
    for (int32_t f = 0; f < problem->flows; f++)
        for (uint32_t i = problem->first[f]; i < problem->first[f + 1]; i++)
            load[problem->link[i]] += bytes[f] * weight_of(problem, f);
    for (int32_t f = 0; f < problem->flows; f++) {
        each[f] = 0;
        for (uint32_t i = problem->first[f]; i < problem->first[f + 1]; i++) {
            double seconds = load[problem->link[i]] / problem->capacity[problem->link[i]];
            each[f] = seconds > each[f] ? seconds : each[f];
        }
    }
}
