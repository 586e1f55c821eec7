/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule --plan with --islands: the steps of a collective over several hosts, and whether they are worth it. */
#include "cli/schedule_steps.h"

#include "algorithm/algorithm.h"
#include "algorithm/composed.h"
#include "schedule/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME  "two-level"
#define LARGE (1ll << 32)

static const struct level *islands_of(const struct shape *shape)
{
    return levels_hosts(shape->levels);
}

/* The most that one rank sends in a step, in vectors. */
static double step_sends(const struct steps_row *steps, const struct shape *shape, int index, struct action *actions)
{
    struct steps_span span = steps_when(steps, shape, index);
    int blocks = steps_blocks(steps, shape), most = 0;
    for (int rank = 0; rank < shape->nranks; rank++) {
        int sent = 0;
        for (int round = span.begin; round < span.end; round++) {
            int count = steps_round_of(steps, shape, index, rank, round, actions);
            for (int i = 0; i < count; i++)
                sent += actions[i].kind == ACTION_SEND ? actions[i].nblocks : 0;
        }
        most = sent > most ? sent : most;
    }
    return blocks ? (double)most / blocks : 0;
}

static const char *who(const struct step *step)
{
    if (step->part == STEPS_ISLAND)
        return step->how & STEPS_ROOT ? "the root's island" : "each island";
    return step->part == STEPS_RAIL ? "each rail" : "each column";
}

static void print_step(const struct steps_row *steps, const struct shape *shape, int index, int64_t bytes,
                       struct action *actions)
{
    const struct step *step = &steps->step[index];
    struct steps_span span = steps_when(steps, shape, index);
    if (span.end <= span.begin) {
        printf("  step %d: nothing, as each column has one rank\n", index + 1);
        return;
    }
    double sent = step_sends(steps, shape, index, actions) * (double)bytes;
    printf("  step %d: round %d", index + 1, span.begin);
    if (span.end > span.begin + 1)
        printf(" to %d", span.end - 1);
    printf(", %s: %s by %s; a rank sends up to %.0f bytes", who(step),
           schedule_coll_name((enum coll)__builtin_ctz(step->by->colls)), step->by->name, sent);
    if (index && span.begin < steps_when(steps, shape, index - 1).end)
        printf("; overlaps step %d", index);
    printf("\n");
}

static void print_rails(const struct shape *shape)
{
    const struct level *islands = islands_of(shape);
    for (int rail = 0; rail < islands->least; rail++) {
        printf("  rail %d: ranks", rail);
        for (int island = 0; island < islands->groups; island++) {
            int first = islands->first[island], size = islands->first[island + 1] - first;
            printf(" %d", shape->levels->order[first + (int)((int64_t)rail * size / islands->least)]);
        }
        printf("\n");
    }
}

struct priced {
    const struct algorithm *algorithm;
    struct cost_terms terms;
    struct cost_far far;
};

static bool price_of(const struct algorithm *algorithm, const struct shape *shape, struct priced *out)
{
    out->algorithm = algorithm;
    return cost_terms(algorithm, shape, &out->terms) == TUTTI_SUCCESS &&
           cost_far_walk(algorithm, shape, &out->far) == TUTTI_SUCCESS;
}

static double seconds(const struct priced *priced, const struct schedule_price *price, int64_t bytes)
{
    return cost_far_seconds(&priced->terms, &price->model, &priced->far, &price->network, (double)bytes, price->slices);
}

/* The cheapest algorithm without islands. NULL: there is none. */
static const struct priced *cheapest(const struct priced *flat, int count, const struct schedule_price *price,
                                     int64_t bytes)
{
    const struct priced *best = NULL;
    for (int i = 0; i < count; i++)
        if (!best || seconds(&flat[i], price, bytes) < seconds(best, price, bytes))
            best = &flat[i];
    return best;
}

static int find_flat(const struct shape *shape, struct priced *out)
{
    int count = 0;
    const struct algorithm *row;
    for (int i = 0; (row = algorithm_row(i)); i++)
        if (!(row->flags & (ALGORITHM_GPU | ALGORITHM_LEVELS)) && schedule_fits(row, shape))
            count += price_of(row, shape, &out[count]);
    return count;
}

/* The sizes at which steps cost no more than the cheapest flat algorithm: `from` to `to`, among powers of two. False:
 * none. */
static bool worth(const struct priced *steps, const struct priced *flat, int count, const struct schedule_price *price,
                  int64_t *from, int64_t *to)
{
    *from = *to = 0;
    for (int64_t bytes = 1; bytes <= LARGE; bytes *= 2) {
        if (seconds(steps, price, bytes) > seconds(cheapest(flat, count, price, bytes), price, bytes))
            continue;
        *from = *from ? *from : bytes;
        *to = bytes;
    }
    return *to > 0;
}

static void print_price(const struct shape *shape, const struct priced *steps, const struct priced *flat, int count,
                        const struct schedule_price *price, int64_t bytes)
{
    const struct priced *best = cheapest(flat, count, price, bytes);
    printf("  rails together: %s = %g vectors, %.0f bytes\n", steps_rail_formula(shape->coll),
           steps_rail_vectors(shape), steps_rail_vectors(shape) * (double)bytes);
    printf("  price in %d slice%s: steps %.1f us", price->slices, price->slices == 1 ? "" : "s",
           seconds(steps, price, bytes) * 1e6);
    if (!best) {
        printf("; there is no flat algorithm\n");
        return;
    }
    printf(", flat by %s %.1f us: %s", best->algorithm->name, seconds(best, price, bytes) * 1e6,
           seconds(best, price, bytes) < seconds(steps, price, bytes) ? "flat is better" : "steps are better");
    int64_t from, to;
    if (!worth(steps, flat, count, price, &from, &to))
        printf("; steps are better at no size\n");
    else if (to < LARGE)
        printf("; steps are better from %lld to %lld bytes\n", (long long)from, (long long)to);
    else
        printf("; steps are better from %lld bytes on\n", (long long)from);
}

static void print_sizes(const struct level *islands)
{
    for (int i = 0; i < islands->groups; i++)
        printf("%s%d", i ? "," : "", islands->first[i + 1] - islands->first[i]);
}

const char *schedule_steps(const struct shape *shape, int64_t bytes, const struct schedule_price *price)
{
    const struct steps_row *steps = composed_steps(shape->coll);
    struct priced own, *flat = calloc((size_t)algorithm_count(), sizeof *flat);
    struct action *actions = steps ? calloc((size_t)steps_actions(steps, shape) + 1, sizeof *actions) : NULL;
    if (actions && flat && price_of(algorithm_find(shape->coll, NAME, strlen(NAME)), shape, &own)) {
        printf("%s of %lld bytes on islands of ", schedule_coll_name(shape->coll), (long long)bytes);
        print_sizes(islands_of(shape));
        printf(": %d rounds, %d rails\n", steps_rounds(steps, shape), islands_of(shape)->least);
        for (int i = 0; i < steps->count; i++)
            print_step(steps, shape, i, bytes, actions);
        print_rails(shape);
        print_price(shape, &own, flat, find_flat(shape, flat), price, bytes);
    } else if (steps) {
        fprintf(stderr, "tutti schedule: the steps of %s could not be priced: out of memory\n",
                schedule_coll_name(shape->coll));
    }
    free(flat);
    free(actions);
    return NAME;
}
