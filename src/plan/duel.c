/* SPDX-License-Identifier: Apache-2.0 */
/* From rows of tables/ways.tbl to duels. */
#include "plan/duel.h"

#include "plan/row.h"

#include <stdio.h>

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)

/* By these all sizes go as if a limit were above, or below them. */
static const char *const row_values[2] = {"1T", "1"};
static const uint64_t row_bytes[2] = {1024 * 1024 * M, 1};

#define APART                            PLAN_APART
#define TOGETHER                         PLAN_TOGETHER
#define PART                             PLAN_PART
#define SHORT_PART                       PLAN_SHORT_PART
#define ROWS(id_, least_, most_, never_) {.id = PARAM_##id_, .least = (least_), .most = (most_), .never = (never_)},
#define MESSAGES(id_, first_, second_, value_, other_, with_, coll_, more_, where_, unit_, least_, most_, never_)      \
    {.id = PARAM_##id_,                                                                                                \
     .ways = {first_, second_},                                                                                        \
     .values = {value_, other_},                                                                                       \
     .collectives = {coll_, more_},                                                                                    \
     .with = with_,                                                                                                    \
     .unit = (unit_),                                                                                                  \
     .where = (where_),                                                                                                \
     .least = (least_),                                                                                                \
     .most = (most_),                                                                                                  \
     .never = (never_)},
#define UNTUNED(id_, why_) {.id = PARAM_##id_, .untuned = why_},
static const struct plan_duel table[PLAN_DUELS] = {
#include "tables/duels.tbl"
};
#undef ROWS
#undef MESSAGES
#undef UNTUNED

/* The first row that names a parameter; NULL: none does. */
static const struct plan_row *row_of(enum param_id id)
{
    for (int i = 0; i < PLAN_ROWS; i++)
        if (plan_limit_names(plan_table[i].from, id) || plan_limit_names(plan_table[i].below, id))
            return &plan_table[i];
    return NULL;
}

static enum coll coll_of(const struct plan_row *row)
{
    static const enum coll of[] = {[REDUCING] = COLL_ALLREDUCE,     [WHOLE] = COLL_ALLREDUCE,
                                   [UNROOTED] = COLL_ALLREDUCE,     [ROOTED] = COLL_REDUCE,
                                   [SCATTER] = COLL_REDUCE_SCATTER, [ALLREDUCE] = COLL_ALLREDUCE,
                                   [BROADCAST] = COLL_BROADCAST,    [ANY] = COLL_ALLTOALL};
    return of[row->collectives];
}

/* A row further up that takes what this one would, up to a parameter; NULL: there is none. */
static const struct plan_row *covering(const struct plan_row *row)
{
    for (const struct plan_row *above = plan_table; above < row; above++)
        if (plan_concerns(above->collectives, coll_of(row)) && (above->where & ~row->where) == 0 &&
            above->below.kind == LIMIT_AT)
            return above;
    return NULL;
}

struct plan_duel plan_duel(int index)
{
    struct plan_duel duel = table[index];
    const struct plan_row *row = row_of(duel.id), *above = row ? covering(row) : NULL;
    if (!row)
        return duel;
    duel.values[0] = row_values[0];
    duel.values[1] = row_values[1];
    duel.collectives[0] = schedule_coll_name(coll_of(row));
    duel.largest = row->below.kind == LIMIT_PAST && row->below.value == duel.id;
    if (above)
        snprintf(duel.with, sizeof duel.with, "%s=%s", param_row((enum param_id)above->below.value)->name,
                 row_values[1]);
    return duel;
}

static void force(struct plan_rules *rules, uint64_t parameter, uint64_t value)
{
    for (int i = 0; i < PLAN_ROWS; i++) {
        const struct plan_row *row = &plan_table[i];
        if (plan_limit_names(row->from, parameter))
            rules->row[i].from = value + (row->from.kind == LIMIT_PAST);
        if (plan_limit_names(row->below, parameter))
            rules->row[i].below = value + (row->below.kind == LIMIT_PAST);
    }
}

bool plan_duel_ways(const struct plan_duel *duel, const struct plan_facts *facts, uint64_t bytes, const char *ways[2])
{
    const struct plan_row *row = row_of(duel->id), *above = row ? covering(row) : NULL;
    struct plan_rules rules;
    if (!row) {
        ways[0] = duel->ways[0];
        ways[1] = duel->ways[1];
        return duel->where & (facts->apart ? PLAN_APART : PLAN_TOGETHER);
    }
    plan_rules(facts->zero, &rules);
    if (above)
        force(&rules, above->below.value, row_bytes[1]);
    for (int i = 0; i < 2; i++) {
        force(&rules, duel->id, row_bytes[i]);
        ways[i] = way_name(plan_call(&rules, facts, coll_of(row), bytes, false).way)->text;
    }
    return ways[0] != ways[1];
}
