/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of an algorithm: override, tuned rules, built-in rows. */
#include "algorithm/choice.h"
#include "algorithm/algorithm.h"
#include "algorithm/choice_rules.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "base/tuned.h"

#include <limits.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_SHM = 1u << CHOICE_SHM, CLASS_TCP = 1u << CHOICE_TCP, CLASS_ANY = CLASS_SHM | CLASS_TCP };
enum { NEED_LINKS, NEED_SHARED, NEED_HOSTS, NEED_ALIKE, NEED_FAR };

static const struct builtin {
    enum coll coll;
    uint32_t classes;
    bool shared, hosts, alike, far;
    int min_ranks, max_ranks;
    uint64_t max_bytes;
    const char *algorithm;
} builtins[] = {
#define CHOICE(coll, class_, shared_, min_, max_, bytes_, name_)                                                       \
    {COLL_##coll,                                                                                                      \
     CLASS_##class_,                                                                                                   \
     NEED_##shared_ == NEED_SHARED,                                                                                    \
     NEED_##shared_ == NEED_HOSTS || NEED_##shared_ == NEED_ALIKE,                                                     \
     NEED_##shared_ == NEED_ALIKE,                                                                                     \
     NEED_##shared_ == NEED_FAR,                                                                                       \
     min_,                                                                                                             \
     max_,                                                                                                             \
     bytes_,                                                                                                           \
     name_},
#include "tables/choice.tbl"
#undef CHOICE
};
#define BUILTINS (int)(sizeof builtins / sizeof *builtins)

struct choice_table {
    _Atomic int owners;
    struct choice_override overrides[COLL_COUNT];
    struct choice_list tuned;
    struct choice_rule builtin[sizeof builtins / sizeof *builtins];
};

static tutti_result_t resolve_builtins(struct choice_table *table)
{
    for (int i = 0; i < BUILTINS; i++) {
        const struct builtin *row = &builtins[i];
        const struct algorithm *algorithm = algorithm_find(row->coll, row->algorithm, strlen(row->algorithm));
        if (!algorithm)
            return error_set(TUTTI_INTERNAL_ERROR, "tables/choice.tbl: %s has no algorithm %s",
                             schedule_coll_name(row->coll), row->algorithm);
        table->builtin[i] = (struct choice_rule){.coll = row->coll,
                                                 .classes = row->classes,
                                                 .shared = row->shared,
                                                 .hosts = row->hosts,
                                                 .alike = row->alike,
                                                 .far = row->far,
                                                 .min_ranks = row->min_ranks,
                                                 .max_ranks = row->max_ranks ? row->max_ranks : INT_MAX,
                                                 .max_bytes = row->max_bytes ? row->max_bytes : UINT64_MAX,
                                                 .algorithm = algorithm};
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t choice_open_named(const char *override, const char *source, const char *path,
                                        struct choice_table **out)
{
    struct choice_table *table = calloc(1, sizeof *table);
    if (!table)
        return error_set(TUTTI_SYSTEM_ERROR, "choice table: out of memory");
    atomic_init(&table->owners, 1);
    tutti_result_t result = resolve_builtins(table);
    if (!result && override && *override)
        result = choice_parse_override(override, source, table->overrides);
    if (!result && path && *path)
        result = choice_load(path, &table->tuned);
    if (result)
        choice_close(table);
    else
        *out = table;
    return result;
}

tutti_result_t choice_open_with(const char *override, const char *path, struct choice_table **out)
{
    return choice_open_named(override, "algorithm", path, out);
}

tutti_result_t choice_open(struct choice_table **out)
{
    char path[PATH_MAX];
    bool tuned = tuned_path(param_string(PARAM_TUNE_FILE), path, sizeof path);
    if (tuned)
        log_info("algorithms are chosen by %s", path);
    return choice_open_named(param_string(PARAM_ALGO), param_source(PARAM_ALGO), tuned ? path : NULL, out);
}

struct choice_table *choice_share(struct choice_table *table)
{
    atomic_fetch_add(&table->owners, 1);
    return table;
}

void choice_close(struct choice_table *table)
{
    if (!table || atomic_fetch_sub(&table->owners, 1) > 1)
        return;
    free(table->tuned.rules);
    free(table);
}

/* A question to the table. */
struct question {
    struct shape shape;
    uint64_t bytes;
    bool shared, hosts, alike, far;
    uint32_t class_bit;
    const struct choice_override *override;
};

static bool listed(const struct choice_override *override, const struct algorithm *algorithm)
{
    for (int i = 0; i < override->count; i++)
        if (override->list[i] == algorithm)
            return true;
    return false;
}

static bool allowed(const struct question *q, const struct algorithm *algorithm)
{
    return schedule_fits(algorithm, &q->shape) && !(q->override->exclude && listed(q->override, algorithm));
}

static const struct algorithm *pick_forced(const struct question *q)
{
    const struct choice_override *override = q->override;
    for (int i = 0; i < override->count && !override->exclude; i++)
        if (schedule_fits(override->list[i], &q->shape))
            return override->list[i];
    if (override->count && !override->exclude)
        log_trace("%s: %s does not take %d ranks; choosing by table", schedule_coll_name(q->shape.coll),
                  override->list[0]->name, q->shape.nranks);
    return NULL;
}

static bool applies(const struct choice_rule *rule, const struct question *q)
{
    int n = q->shape.nranks;
    return rule->coll == q->shape.coll && (rule->classes & q->class_bit) && (q->shared || !rule->shared) &&
           (q->hosts || !rule->hosts) && (q->alike || !rule->alike) && (q->far || !rule->far) && n >= rule->min_ranks &&
           n <= rule->max_ranks && q->bytes <= rule->max_bytes && allowed(q, rule->algorithm);
}

static const struct algorithm *pick_by_rules(const struct choice_rule *rules, int count, const struct question *q)
{
    for (int i = 0; i < count; i++)
        if (applies(&rules[i], q))
            return rules[i].algorithm;
    return NULL;
}

/* When all that the rules know is excluded: anything else, and at last what is excluded. */
static const struct algorithm *pick_any(const struct question *q)
{
    const struct algorithm *any = NULL, *row;
    for (int i = 0; (row = algorithm_row(i)); i++) {
        if (allowed(q, row))
            return row;
        if (!any && schedule_fits(row, &q->shape))
            any = row;
    }
    return any;
}

const struct algorithm *choice_pick(const struct choice_table *table, enum coll coll, int nranks, size_t bytes,
                                    uint32_t capabilities, enum choice_class choice_class)
{
    struct question q = {.shape = {.coll = coll, .nranks = nranks},
                         .bytes = coll == COLL_ALLTOALLV ? 0 : bytes,
                         .shared = capabilities & CHOICE_SHARED,
                         .hosts = capabilities & CHOICE_HOSTS,
                         .alike = capabilities & CHOICE_ALIKE,
                         .far = capabilities & CHOICE_FAR,
                         .class_bit = 1u << choice_class,
                         .override = &table->overrides[coll]};
    const struct algorithm *algorithm = pick_forced(&q);
    if (!algorithm)
        algorithm = pick_by_rules(table->tuned.rules, table->tuned.count, &q);
    if (!algorithm)
        algorithm = pick_by_rules(table->builtin, BUILTINS, &q);
    return algorithm ? algorithm : pick_any(&q);
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    return mix64(hash * 31 + number);
}

static uint64_t hash_name(uint64_t hash, const struct algorithm *algorithm)
{
    return hash_bytes(hash, algorithm->name, strlen(algorithm->name));
}

static uint64_t hash_rules(uint64_t hash, const struct choice_rule *rules, int count)
{
    hash = hash_number(hash, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        const struct choice_rule *rule = &rules[i];
        hash = hash_number(hash, (uint64_t)rule->coll);
        hash = hash_number(hash, (uint64_t)rule->classes << 4 | (unsigned)rule->far << 3 | (unsigned)rule->alike << 2 |
                                     (unsigned)rule->hosts << 1 | rule->shared);
        hash = hash_number(hash, (uint64_t)rule->min_ranks << 32 | (uint32_t)rule->max_ranks);
        hash = hash_name(hash_number(hash, rule->max_bytes), rule->algorithm);
    }
    return hash;
}

uint64_t choice_hash(const struct choice_table *table)
{
    uint64_t hash = 1;
    for (int coll = 0; coll < COLL_COUNT; coll++) {
        const struct choice_override *override = &table->overrides[coll];
        hash = hash_number(hash, (uint64_t) override->count << 1 | override->exclude);
        for (int i = 0; i < override->count; i++)
            hash = hash_name(hash, override->list[i]);
    }
    hash = hash_rules(hash, table->tuned.rules, table->tuned.count);
    return hash_rules(hash, table->builtin, BUILTINS);
}
