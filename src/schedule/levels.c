/* SPDX-License-Identifier: Apache-2.0 */
/* Groups ranks by what they say of themselves, from the nearest level outwards: so no group is ever cut in two. */
#include "schedule/levels.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* While they are made. A group is known by its first rank. */
struct making_levels {
    const struct levels_of *of;
    int32_t *leader;        /* by level, by rank: the first rank of its group */
    struct levels_key *key; /* for sorting */
    int32_t *order;         /* by position: the rank; and room for as many, for sorting */
    bool in_order;          /* each rank's position is its number */
};

struct levels_key {
    uint64_t key;
    int32_t rank;
};

static int32_t *levels_leaders(const struct making_levels *making, int level)
{
    return making->leader + (size_t)level * (size_t)making->of->nranks;
}

static int levels_by_key(const void *left, const void *right)
{
    const struct levels_key *a = left, *b = right;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : a->rank - b->rank;
}

/* The groups of the level below, each by its first rank alone: those with one key are one group. */
static void levels_join(struct making_levels *making, int level)
{
    const uint64_t *told = making->of->key[level];
    const int32_t *below = level ? levels_leaders(making, level - 1) : NULL;
    int32_t *leader = levels_leaders(making, level);
    int n = making->of->nranks, count = 0;
    for (int rank = 0; rank < n; rank++) {
        leader[rank] = below ? below[rank] : rank;
        if (leader[rank] == rank && (told[rank] || level == making->of->host))
            making->key[count++] = (struct levels_key){told[rank], rank};
    }
    qsort(making->key, (size_t)count, sizeof *making->key, levels_by_key);
    for (int i = 1; i < count; i++)
        if (making->key[i].key == making->key[i - 1].key)
            leader[making->key[i].rank] = leader[making->key[i - 1].rank];
    for (int rank = 0; rank < n; rank++) /* first ranks come first: theirs is known already */
        leader[rank] = leader[leader[rank]];
}

/* By one level, where all within was sorted before. */
static void levels_sort_by(struct making_levels *making, int level)
{
    int n = making->of->nranks, *order = making->order, *sorted = order + n;
    const int32_t *leader = levels_leaders(making, level);
    for (int i = 0; i < n; i++)
        making->key[i] = (struct levels_key){(uint64_t)leader[order[i]], i};
    qsort(making->key, (size_t)n, sizeof *making->key, levels_by_key);
    for (int i = 0; i < n; i++)
        sorted[i] = order[making->key[i].rank];
    for (int i = 0; i < n; i++)
        order[i] = sorted[i];
}

/* As many passes as there are levels, each of n log n. */
static void levels_sort(struct making_levels *making)
{
    for (int rank = 0; rank < making->of->nranks; rank++)
        making->order[rank] = rank;
    for (int k = 0; k < making->of->depth; k++)
        levels_sort_by(making, k);
    making->in_order = true;
    for (int i = 0; i < making->of->nranks; i++)
        making->in_order &= making->order[i] == i;
}

static void levels_count(struct level *level, int ranks)
{
    level->least = level->groups == 0 || ranks < level->least ? ranks : level->least;
    level->most = ranks > level->most ? ranks : level->most;
    level->groups++;
}

static void levels_fill(struct level *level, int n, const int32_t *leader, const int32_t *order, int32_t *numbers)
{
    int32_t *group = numbers, *first = numbers + n;
    int begin = 0;
    for (int i = 0; i < n; i++) {
        if (i && leader[order[i]] != leader[order[i - 1]]) {
            levels_count(level, i - begin);
            begin = i;
        }
        first[level->groups] = begin;
        group[order[i]] = level->groups;
    }
    levels_count(level, n - begin);
    first[level->groups] = n;
    level->group = group;
    level->first = first;
}

/* Of a level: a number for each rank, one for each group, and one more. */
static size_t levels_room(const struct making_levels *making, int level)
{
    const int32_t *leader = levels_leaders(making, level);
    size_t room = (size_t)making->of->nranks + 1;
    for (int rank = 0; rank < making->of->nranks; rank++)
        room += leader[rank] == rank;
    return room;
}

/* Of all levels. A level that groups as the one within takes no room of its own. */
static size_t levels_numbers(const struct making_levels *making, bool *is_new)
{
    size_t room = 0;
    int n = making->of->nranks;
    for (int k = 0; k < making->of->depth; k++) {
        is_new[k] = k == 0;
        for (int rank = 0; k && rank < n && !is_new[k]; rank++)
            is_new[k] = levels_leaders(making, k)[rank] != levels_leaders(making, k - 1)[rank];
        room += is_new[k] ? levels_room(making, k) : 0;
    }
    return room;
}

static struct levels *levels_found(struct making_levels *making)
{
    bool is_new[LEVELS_MOST];
    int n = making->of->nranks;
    size_t room = (size_t)n * (making->in_order ? 1 : 2) + levels_numbers(making, is_new);
    struct levels *levels = calloc(1, sizeof *levels + room * sizeof(int32_t));
    if (!levels)
        return NULL;
    int32_t *order = (int32_t *)(levels + 1), *position = making->in_order ? order : order + n, *numbers = position + n;
    levels->bytes = sizeof *levels + room * sizeof(int32_t);
    levels->nranks = n;
    levels->depth = making->of->depth;
    levels->host = making->of->host;
    levels->in_order = making->in_order;
    memcpy(order, making->order, (size_t)n * sizeof *order);
    for (int i = 0; i < n; i++)
        position[order[i]] = i;
    for (int k = 0; k < levels->depth; k++)
        if (is_new[k]) {
            levels_fill(&levels->level[k], n, levels_leaders(making, k), order, numbers);
            numbers += n + levels->level[k].groups + 1;
        } else {
            levels->level[k] = levels->level[k - 1];
        }
    levels->order = order;
    levels->position = position;
    return levels;
}

tutti_result_t levels_make(const struct levels_of *of, struct levels **out)
{
    size_t n = (size_t)of->nranks, leaders = n * (size_t)of->depth;
    struct making_levels making = {.of = of,
                                   .leader = memory_zeros(leaders * sizeof *making.leader),
                                   .key = memory_zeros(n * sizeof *making.key),
                                   .order = memory_zeros(2 * n * sizeof *making.order)};
    *out = NULL;
    if (making.leader && making.key && making.order) {
        for (int k = 0; k < of->depth; k++)
            levels_join(&making, k);
        levels_sort(&making);
        *out = levels_found(&making);
    }
    memory_free_zeros(making.leader, leaders * sizeof *making.leader);
    memory_free_zeros(making.key, n * sizeof *making.key);
    memory_free_zeros(making.order, 2 * n * sizeof *making.order);
    return *out ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for the hosts of %d ranks", of->nranks);
}

tutti_result_t levels_of_hosts(const uint64_t *host, int nranks, struct levels **out)
{
    return levels_make(&(struct levels_of){.nranks = nranks, .depth = 1, .key = {host}}, out);
}
