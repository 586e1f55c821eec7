/* SPDX-License-Identifier: Apache-2.0 */
/* Groups ranks by host. */
#include "schedule/levels.h"
#include "base/error.h"

#include <stdlib.h>

/* A rank, and then a host: by its name, by its first rank. */
struct entry {
    uint64_t key;
    int32_t rank;
};

static int levels_by_key(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : a->rank - b->rank;
}

/* Gives every rank the first rank of its host for a key, so that sorting puts hosts in order of these. */
static void key_by_first(struct entry *entries, int n)
{
    uint64_t name = 0;
    int32_t first = 0;
    qsort(entries, (size_t)n, sizeof *entries, levels_by_key);
    for (int i = 0; i < n; i++) {
        if (i == 0 || entries[i].key != name)
            first = entries[i].rank;
        name = entries[i].key;
        entries[i].key = (uint64_t)first;
    }
    qsort(entries, (size_t)n, sizeof *entries, levels_by_key);
}

static void count_host(struct levels *levels, int ranks)
{
    levels->least = levels->hosts == 0 || ranks < levels->least ? ranks : levels->least;
    levels->most = ranks > levels->most ? ranks : levels->most;
    levels->hosts++;
}

static void levels_fill(struct levels *levels, const struct entry *entries, int32_t *order, int32_t *position,
                        int32_t *host, int32_t *first)
{
    int n = levels->nranks, begin = 0;
    levels->in_order = true;
    for (int i = 0; i < n; i++) {
        if (i && entries[i].key != entries[i - 1].key) {
            count_host(levels, i - begin);
            begin = i;
        }
        first[levels->hosts] = begin;
        order[i] = entries[i].rank;
        position[entries[i].rank] = i;
        host[entries[i].rank] = levels->hosts;
        levels->in_order &= entries[i].rank == i;
    }
    count_host(levels, n - begin);
    first[levels->hosts] = n;
    levels->order = order;
    levels->position = position;
    levels->host = host;
    levels->first = first;
}

tutti_result_t levels_make(const uint64_t *host, int nranks, struct levels **out)
{
    size_t n = (size_t)nranks;
    struct entry *entries = malloc(n * sizeof *entries);
    struct levels *levels = calloc(1, sizeof *levels + (4 * n + 1) * sizeof(int32_t));
    if (!entries || !levels) {
        free(entries);
        free(levels);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for the hosts of %d ranks", nranks);
    }
    for (int rank = 0; rank < nranks; rank++)
        entries[rank] = (struct entry){host[rank], rank};
    key_by_first(entries, nranks);
    int32_t *numbers = (int32_t *)(levels + 1);
    levels->nranks = nranks;
    levels_fill(levels, entries, numbers, numbers + n, numbers + 2 * n, numbers + 3 * n);
    free(entries);
    *out = levels;
    return TUTTI_SUCCESS;
}
