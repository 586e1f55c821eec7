/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms and look-up by name. */
#include "algorithm/algorithm.h"
#include "algorithm/rows.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct algorithm *const rows[] = {
    &algorithm_direct_allreduce,      &algorithm_direct_reduce,
    &algorithm_direct_broadcast,      &algorithm_direct_allgather,
    &algorithm_direct_reduce_scatter, &algorithm_direct_alltoall,
    &algorithm_direct_gather,         &algorithm_direct_scatter,
    &algorithm_direct_barrier,        &algorithm_oneshot_allreduce,
    &algorithm_ring_allreduce,        &algorithm_ring_reduce,
    &algorithm_ring_broadcast,        &algorithm_ring_allgather,
    &algorithm_ring_reduce_scatter,   &algorithm_doubling_allreduce,
    &algorithm_doubling_allgather,    &algorithm_doubling_barrier,
    &algorithm_pairwise_alltoall,     &algorithm_pairwise_reduce_scatter,
    &algorithm_binomial_reduce,       &algorithm_binomial_broadcast,
    &algorithm_binomial_gather,       &algorithm_binomial_scatter,
    &algorithm_halving_allreduce,     &algorithm_halving_reduce_scatter,
    &algorithm_bruck_allgather,       &algorithm_bruck_alltoall,
    &algorithm_tree_allreduce,        &algorithm_tree_reduce,
    &algorithm_tree_broadcast,        &algorithm_scatter_allgather_broadcast,
};

int algorithm_count(void)
{
    return (int)(sizeof rows / sizeof *rows);
}

const struct algorithm *algorithm_row(int index)
{
    return index >= 0 && index < algorithm_count() ? rows[index] : NULL;
}

static bool named(const struct algorithm *row, const char *name, size_t length)
{
    return strlen(row->name) == length && strncasecmp(row->name, name, length) == 0;
}

const struct algorithm *algorithm_find(enum coll coll, const char *name, size_t length)
{
    for (int i = 0; i < algorithm_count(); i++)
        if ((rows[i]->colls >> coll & 1) && named(rows[i], name, length))
            return rows[i];
    return NULL;
}

bool algorithm_known(const char *name, size_t length)
{
    for (int i = 0; i < algorithm_count(); i++)
        if (named(rows[i], name, length))
            return true;
    return false;
}

static bool seen_before(enum coll coll, int index)
{
    for (int i = 0; i < index; i++)
        if ((coll == COLL_COUNT || (rows[i]->colls >> coll & 1)) && strcmp(rows[i]->name, rows[index]->name) == 0)
            return true;
    return false;
}

char *algorithm_names(enum coll coll, char *out, size_t size)
{
    size_t used = 0;
    if (size)
        *out = 0;
    for (int i = 0; i < algorithm_count(); i++) {
        if ((coll != COLL_COUNT && !(rows[i]->colls >> coll & 1)) || seen_before(coll, i))
            continue;
        int wrote = snprintf(out + used, size - used, "%s%s", used ? ", " : "", rows[i]->name);
        if (wrote < 0 || (size_t)wrote >= size - used)
            break;
        used += (size_t)wrote;
    }
    return out;
}
