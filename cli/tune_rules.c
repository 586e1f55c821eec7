/* SPDX-License-Identifier: Apache-2.0 */
/* Makes rules from times: the fastest algorithm at each size, with few changes. */
#include "cli/tune.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

/* The gain over the algorithm of the next smaller size that a change needs: less is noise. */
#define WORTH_A_CHANGE 1.05

static int fastest(const struct tune_case *c, int size)
{
    int best = -1;
    for (int a = 0; a < c->count; a++)
        if (c->us[a][size] > 0 && (best < 0 || c->us[a][size] < c->us[best][size]))
            best = a;
    return best;
}

static int fastest_of_all(const struct tune_case *c, int sizes)
{
    int best = -1;
    double least = INFINITY;
    for (int a = 0; a < c->count; a++) {
        double sum = 0;
        int counted = 0;
        for (int k = 0; k < sizes; k++)
            if (c->us[a][k] > 0) {
                sum += log(c->us[a][k]);
                counted++;
            }
        if (counted && sum / counted < least) {
            least = sum / counted;
            best = a;
        }
    }
    return best;
}

static int choose(const struct tune_case *c, int size, int before)
{
    int best = fastest(c, size);
    if (best < 0)
        return before;
    bool stay = before >= 0 && c->us[before][size] > 0 && c->us[before][size] < c->us[best][size] * WORTH_A_CHANGE;
    return stay ? before : best;
}

static struct choice_rule rule(const struct tune_case *c, int algorithm, uint64_t max_bytes)
{
    const struct algorithm *row = c->algorithms[algorithm];
    return (struct choice_rule){.coll = c->coll,
                                .classes = 1u << c->transport,
                                .shared = c->transport == CHOICE_SHM && (row->flags & ALGORITHM_SHARED),
                                .min_ranks = c->min_ranks,
                                .max_ranks = c->max_ranks,
                                .max_bytes = max_bytes,
                                .algorithm = row};
}

static void size_name(uint64_t bytes, char *out, size_t room)
{
    static const char units[] = " KMGT";
    int unit = 0;
    for (; bytes >= 10240 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(out, room, "%" PRIu64 "%.*s", bytes, unit > 0, &units[unit]);
}

static void say(const struct choice_rule *rules, int count)
{
    char limit[24];
    for (int i = 0; i < count; i++) {
        size_name(rules[i].max_bytes, limit, sizeof limit);
        printf("%s%s%s%s", i ? ", " : "    -> ", rules[i].algorithm->name,
               rules[i].max_bytes == UINT64_MAX ? "" : " to ", rules[i].max_bytes == UINT64_MAX ? "" : limit);
    }
    printf(count ? "\n" : "    -> nothing measured: the built-in choice stays\n");
}

int tune_rules(const struct tune_case *c, const int64_t *sizes, int size_count, struct choice_rule *rules)
{
    int count = 0, before = -1;
    if (c->coll == COLL_ALLTOALLV) { /* its ranks do not know each other's sizes: one rule for all */
        before = fastest_of_all(c, size_count);
        size_count = 0;
    }
    for (int k = 0; k < size_count; k++) {
        int now = choose(c, k, before);
        if (now != before && before >= 0)
            rules[count++] = rule(c, before, (uint64_t)sqrt((double)sizes[k - 1] * (double)sizes[k]));
        before = now;
    }
    if (before >= 0)
        rules[count++] = rule(c, before, UINT64_MAX);
    say(rules, count);
    return count;
}
