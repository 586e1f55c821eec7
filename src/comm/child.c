/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators made of communicators. Members know each other's processes from the parent, so no meeting point is needed; the
 * id follows from the parent's, the number of children before, and the color.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct choice_by {
    int32_t color, key, rank;
};

static int by_key(const void *a, const void *b)
{
    const struct choice_by *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

static tutti_result_t open_team(struct tutti_comm *child, const struct tutti_comm *parent, const int *members, int count)
{
    struct wire_process *processes = malloc((size_t)count * sizeof *processes);
    if (!processes)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", count);
    int rank = -1;
    for (int i = 0; i < count; i++) {
        processes[i] = parent->team->process[members[i]];
        rank = members[i] == parent->team->rank ? i : rank;
    }
    child->order.rank = rank;
    child->order.nranks = count;
    tutti_result_t result = choice_open(&child->choices);
    if (result == TUTTI_SUCCESS)
        result = team_open(child->engine, child->id, child->order.name, rank, count, processes, child->choices,
                           &child->team);
    free(processes);
    if (result != TUTTI_SUCCESS)
        return result;
    child->team->timeout_ms = child->order.timeout_ms;
    return share_all(child);
}

/* A child of the listed ranks of the parent, in that order. */
static tutti_result_t make(struct tutti_comm *parent, const int *members, int count, uint64_t salt, const tutti_config_t *config,
                           struct tutti_comm **out)
{
    struct comm_order order = {.fabric = parent->order.fabric};
    struct tutti_comm *child;
    tutti_result_t result = comm_order(&order, config);
    order.fabric.device = parent->order.fabric.device; /* a rank stays where it is */
    if (result == TUTTI_SUCCESS)
        result = comm_new(&order, &child);
    if (result != TUTTI_SUCCESS)
        return result;
    child->id = mix64(mix64(parent->id + parent->children) ^ salt);
    if (!child->order.name[0])
        snprintf(child->order.name, sizeof child->order.name, "%.32s/%u", parent->order.name, parent->children);
    result = open_team(child, parent, members, count);
    if (result != TUTTI_SUCCESS) {
        if (child->team)
            team_fail(child->team, result, -1, error_last());
        comm_free(child);
        return result;
    }
    atomic_store(&child->state, COMM_READY);
    *out = child;
    return TUTTI_SUCCESS;
}

static int members_of(struct choice_by *all, int nranks, int color, int *members)
{
    int count = 0, listed = 0;
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].color == color)
            all[count++] = all[rank];
    qsort(all, (size_t)count, sizeof *all, by_key);
    for (; listed < count; listed++)
        members[listed] = all[listed].rank;
    return count;
}

/* What threads of the parent's still carry in its team would mix with what members tell one another there. */
static tutti_result_t settle(struct tutti_comm *parent)
{
    return parent->fabric && fabric_uses_team(parent->fabric) ? fabric_synchronize(parent->fabric) : TUTTI_SUCCESS;
}

tutti_result_t child_split(struct tutti_comm *parent, int color, int key, const tutti_config_t *config, struct tutti_comm **out)
{
    int nranks = parent->team->nranks;
    struct choice_by mine = {color, key, parent->team->rank}, *all = malloc((size_t)nranks * sizeof *all);
    int *members = malloc((size_t)nranks * sizeof *members);
    tutti_result_t result = all && members ? settle(parent) : error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", nranks);
    parent->children++;
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(parent->team, &mine, sizeof mine, all);
    if (result == TUTTI_SUCCESS && color >= 0) {
        int count = members_of(all, nranks, color, members);
        result = make(parent, members, count, mix64((uint64_t)color + 1), config, out);
    }
    free(all);
    free(members);
    return result;
}

tutti_result_t child_shrink(struct tutti_comm *parent, const int *excluded, int count, const tutti_config_t *config,
                            struct tutti_comm **out)
{
    int nranks = parent->team->nranks, left = 0;
    int *members = malloc((size_t)nranks * sizeof *members);
    bool *out_of_it = calloc((size_t)nranks, sizeof *out_of_it);
    tutti_result_t result = TUTTI_SUCCESS;
    if (!members || !out_of_it) {
        result = error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", nranks);
    } else {
        uint64_t salt = 0x5348524e4bull;
        for (int i = 0; i < count; i++) {
            out_of_it[excluded[i]] = true;
            salt += mix64((uint64_t)excluded[i] + 1);
        }
        for (int rank = 0; rank < nranks; rank++)
            if (!out_of_it[rank])
                members[left++] = rank;
        parent->children++;
        result = make(parent, members, left, mix64(salt), config, out);
    }
    free(members);
    free(out_of_it);
    return result;
}
