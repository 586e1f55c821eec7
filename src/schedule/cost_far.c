/* SPDX-License-Identifier: Apache-2.0 */
/* What a schedule sends between hosts. */
#include "base/error.h"
#include "schedule/cost.h"

#include <stdlib.h>

/* Of a host, or of a rank, in one round. */
struct traffic {
    double sent, received, messages;
};

static double most_of(double a, double b)
{
    return a > b ? a : b;
}

static void traffic_add(struct traffic *from, struct traffic *to, double bytes)
{
    from->sent += bytes;
    from->messages++;
    to->received += bytes;
}

/* Of ranks it is behind that of hosts. */
static void add_messages(struct traffic *traffic, const struct level *hosts, int rank, const struct action *actions,
                         int count, double block)
{
    struct traffic *ranks = traffic + hosts->groups;
    for (int i = 0; i < count; i++) {
        const struct action *a = &actions[i];
        int here = hosts->group[rank];
        if (a->kind != ACTION_SEND || hosts->group[a->peer] == here)
            continue;
        traffic_add(&traffic[here], &traffic[hosts->group[a->peer]], a->nblocks * block);
        traffic_add(&ranks[rank], &ranks[a->peer], a->nblocks * block);
    }
}

static double most_bytes(const struct traffic *traffic, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        most = most_of(most, most_of(traffic[i].sent, traffic[i].received));
    return most;
}

static void add_round(const struct traffic *traffic, int hosts, int ranks, struct cost_far *out)
{
    double messages = 0;
    for (int host = 0; host < hosts; host++)
        messages = most_of(messages, traffic[host].messages);
    out->rounds += messages > 0;
    out->messages += messages;
    out->bytes += most_bytes(traffic, hosts);
    out->rank_bytes += most_bytes(traffic + hosts, ranks);
}

tutti_result_t cost_far_walk(const struct algorithm *algorithm, const struct shape *shape, struct cost_far *out)
{
    if (!schedule_fits(algorithm, shape) || !shape->levels)
        return error_set(TUTTI_INVALID_ARGUMENT, "cost of %s between hosts: the shape has no hosts, or does not fit",
                         algorithm->name);
    int nblocks = algorithm->blocks(shape), hosts = levels_hosts(shape->levels)->groups, all = hosts + shape->nranks;
    struct action *actions = calloc((size_t)algorithm->actions(shape) + 1, sizeof *actions);
    struct traffic *traffic = calloc((size_t)all, sizeof *traffic);
    if (!actions || !traffic) {
        free(actions);
        free(traffic);
        return error_set(TUTTI_SYSTEM_ERROR, "cost: out of memory");
    }
    *out = (struct cost_far){0};
    for (int round = 0; round < algorithm->rounds(shape); round++) {
        for (int i = 0; i < all; i++)
            traffic[i] = (struct traffic){0};
        for (int rank = 0; rank < shape->nranks; rank++) {
            int count = schedule_round(algorithm, shape, rank, round, actions);
            add_messages(traffic, levels_hosts(shape->levels), rank, actions, count, nblocks ? 1.0 / nblocks : 0);
        }
        add_round(traffic, hosts, shape->nranks, out);
    }
    free(actions);
    free(traffic);
    return TUTTI_SUCCESS;
}

double cost_far_seconds(const struct cost_terms *terms, const struct cost_model *model, const struct cost_far *far,
                        const struct cost_network *network, double bytes, int slices)
{
    double slice = bytes / slices;
    double busy = far->messages * network->overhead +
                  slice * network->beta * most_of(far->bytes / network->links, far->rank_bytes);
    double near = terms->rank_messages * model->overhead +
                  slice * most_of(terms->rank_bytes * model->beta, terms->rank_reduced * model->gamma);
    return cost_seconds(terms, model, slice, 1) + far->rounds * network->alpha + busy +
           (slices - 1) * most_of(near, busy);
}
