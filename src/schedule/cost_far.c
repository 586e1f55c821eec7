/* SPDX-License-Identifier: Apache-2.0 */
/* What a schedule sends between hosts. */
#include "base/error.h"
#include "schedule/cost.h"

#include <stdlib.h>

/* Of a host in one round. */
struct traffic {
    double sent, received, messages;
};

static void add_messages(struct traffic *traffic, const struct level *hosts, int rank, const struct action *actions,
                         int count, double block)
{
    for (int i = 0; i < count; i++) {
        const struct action *a = &actions[i];
        if (a->kind != ACTION_SEND || hosts->group[a->peer] == hosts->group[rank])
            continue;
        traffic[hosts->group[rank]].sent += a->nblocks * block;
        traffic[hosts->group[rank]].messages++;
        traffic[hosts->group[a->peer]].received += a->nblocks * block;
    }
}

static void add_round(const struct traffic *traffic, int hosts, struct cost_far *out)
{
    double bytes = 0, messages = 0;
    for (int host = 0; host < hosts; host++) {
        const struct traffic *t = &traffic[host];
        double most = t->sent > t->received ? t->sent : t->received;
        bytes = most > bytes ? most : bytes;
        messages = t->messages > messages ? t->messages : messages;
    }
    out->rounds += messages > 0;
    out->messages += messages;
    out->bytes += bytes;
}

tutti_result_t cost_far_walk(const struct algorithm *algorithm, const struct shape *shape, struct cost_far *out)
{
    if (!schedule_fits(algorithm, shape) || !shape->levels)
        return error_set(TUTTI_INVALID_ARGUMENT, "cost of %s between hosts: the shape has no hosts, or does not fit",
                         algorithm->name);
    int nblocks = algorithm->blocks(shape), hosts = levels_hosts(shape->levels)->groups;
    struct action *actions = calloc((size_t)algorithm->actions(shape) + 1, sizeof *actions);
    struct traffic *traffic = calloc((size_t)hosts, sizeof *traffic);
    if (!actions || !traffic) {
        free(actions);
        free(traffic);
        return error_set(TUTTI_SYSTEM_ERROR, "cost: out of memory");
    }
    *out = (struct cost_far){0};
    for (int round = 0; round < algorithm->rounds(shape); round++) {
        for (int host = 0; host < hosts; host++)
            traffic[host] = (struct traffic){0};
        for (int rank = 0; rank < shape->nranks; rank++) {
            int count = schedule_round(algorithm, shape, rank, round, actions);
            add_messages(traffic, levels_hosts(shape->levels), rank, actions, count, nblocks ? 1.0 / nblocks : 0);
        }
        add_round(traffic, hosts, out);
    }
    free(actions);
    free(traffic);
    return TUTTI_SUCCESS;
}

double cost_far_seconds(const struct cost_terms *terms, const struct cost_model *model, const struct cost_far *far,
                        const struct cost_model *network, double bytes)
{
    return cost_seconds(terms, model, bytes, 1) + far->rounds * network->alpha + far->messages * network->overhead +
           far->bytes * network->beta * bytes;
}
