/* SPDX-License-Identifier: Apache-2.0 */
/* Flows over time: from one begin or end of a flow to the next. */
#include "model/maxmin_work.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>

#define ALMOST 1e-12 /* part of a flow's bytes that rounding may leave when the flow has ended */

struct over_time {
    struct maxmin_work work;
    const double *bytes, *start;
    double now, step;
    double *left, *rate, *finish;
    bool *active;
    int32_t *order; /* flows by their begin */
    int32_t begun, living;
};

static _Thread_local const double *begins; /* for qsort() */

static int by_begin(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return begins[a] != begins[b] ? (begins[a] < begins[b] ? -1 : 1) : a - b;
}

static double start_of(const struct over_time *t, int32_t flow)
{
    return t->start ? t->start[flow] : 0;
}

static void begin_flow(struct over_time *t, int32_t flow)
{
    t->active[flow] = t->bytes[flow] > 0;
    t->living += t->active[flow];
    t->left[flow] = t->bytes[flow];
    t->finish[flow] = t->active[flow] ? INFINITY : t->now;
}

static void begin_due(struct over_time *t)
{
    int32_t flows = t->work.problem->flows;
    while (t->begun < flows && start_of(t, t->order[t->begun]) <= t->now)
        begin_flow(t, t->order[t->begun++]);
}

/* Seconds until the first flow ends, or begins. INFINITY: nothing happens any more. */
static double until_next(const struct over_time *t)
{
    int32_t flows = t->work.problem->flows;
    double least = t->begun < flows ? start_of(t, t->order[t->begun]) - t->now : INFINITY;
    double end = INFINITY;
    for (int32_t f = 0; f < flows; f++)
        if (t->active[f] && t->rate[f] > 0 && t->left[f] / t->rate[f] < end)
            end = t->left[f] / t->rate[f];
    return end + t->step < least ? end + t->step : least;
}

static void advance(struct over_time *t, double seconds)
{
    for (int32_t f = 0; f < t->work.problem->flows; f++) {
        if (!t->active[f])
            continue;
        double needs = t->left[f] / t->rate[f]; /* 0 if the rate is infinite */
        t->left[f] -= t->rate[f] * seconds;
        if (needs <= seconds || !(t->left[f] > t->bytes[f] * ALMOST)) {
            t->finish[f] = t->now + needs;
            t->active[f] = false;
            t->living--;
        }
    }
    t->now += seconds;
}

static void go_on(struct over_time *t)
{
    int32_t flows = t->work.problem->flows;
    while (t->begun < flows || t->living) {
        begin_due(t);
        maxmin_fill(&t->work, t->active, t->rate);
        double seconds = until_next(t);
        if (!isfinite(seconds))
            return; /* the flows that are left have no rate */
        advance(t, seconds);
    }
}

static void over_time_free(struct over_time *t)
{
    maxmin_close(&t->work);
    free(t->left);
    free(t->rate);
    free(t->active);
    free(t->order);
}

tutti_result_t maxmin_finish(const struct maxmin *problem, const double *bytes, const double *start, double step,
                             double *finish)
{
    size_t flows = (size_t)problem->flows + 1;
    struct over_time t = {.bytes = bytes, .start = start, .step = step, .finish = finish};
    tutti_result_t result = maxmin_open(problem, &t.work);
    t.left = calloc(flows, sizeof *t.left);
    t.rate = calloc(flows, sizeof *t.rate);
    t.active = calloc(flows, sizeof *t.active);
    t.order = malloc(flows * sizeof *t.order);
    if (!result && !(t.left && t.rate && t.active && t.order))
        result = error_note(TUTTI_SYSTEM_ERROR, "%d flows over time: out of memory", problem->flows);
    for (int32_t f = 0; !result && f < problem->flows; f++)
        t.order[f] = f;
    begins = start;
    if (!result && start)
        qsort(t.order, (size_t)problem->flows, sizeof *t.order, by_begin);
    if (!result)
        go_on(&t);
    over_time_free(&t);
    return result;
}
