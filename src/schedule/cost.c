/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up a schedule. */
#include "schedule/cost.h"
#include "base/error.h"

#include <stdlib.h>

/* Of one rank: in one round, or in all. */
struct load {
    double sends, receives, sent, received, reduced;
};

static double most(double a, double b)
{
    return a > b ? a : b;
}

static double load_messages(const struct load *load)
{
    return most(load->sends, load->receives);
}

static double load_bytes(const struct load *load)
{
    return most(load->sent, load->received);
}

static void load_action(struct load *load, const struct action *a, double block)
{
    double bytes = a->nblocks * block;
    switch (a->kind) {
    case ACTION_SEND:
        load->sends++;
        load->sent += bytes;
        break;
    case ACTION_RECV_REDUCE:
        load->reduced += bytes;
        load->receives++;
        load->received += bytes;
        break;
    case ACTION_RECV:
        load->receives++;
        load->received += bytes;
        break;
    case ACTION_REDUCE:
        load->reduced += bytes * (a->nsrc - 1);
        break;
    default:
        break;
    }
}

static void load_add(struct load *sum, const struct load *load)
{
    sum->sends += load->sends;
    sum->receives += load->receives;
    sum->sent += load->sent;
    sum->received += load->received;
    sum->reduced += load->reduced;
}

static void walk_round(const struct algorithm *algorithm, const struct shape *shape, int round, struct action *actions,
                       struct load *totals, struct cost_terms *terms)
{
    int nblocks = algorithm->blocks(shape);
    double block = nblocks ? 1.0 / nblocks : 0, messages = 0, bytes = 0, reduced = 0;
    for (int rank = 0; rank < shape->nranks; rank++) {
        struct load load = {0};
        int count = schedule_round(algorithm, shape, rank, round, actions);
        for (int i = 0; i < count; i++)
            load_action(&load, &actions[i], block);
        load_add(&totals[rank], &load);
        messages = most(messages, load_messages(&load));
        bytes = most(bytes, load_bytes(&load));
        reduced = most(reduced, load.reduced);
    }
    terms->rounds += messages > 0;
    terms->messages += messages;
    terms->bytes += bytes;
    terms->reduced += reduced;
}

static tutti_result_t cost_refuse(const struct algorithm *algorithm, const struct shape *shape)
{
    return error_set(TUTTI_INVALID_ARGUMENT, "cost of %s %s: it does not take %d ranks with root %d",
                     schedule_coll_name(shape->coll), algorithm->name, shape->nranks, shape->root);
}

tutti_result_t cost_walk(const struct algorithm *algorithm, const struct shape *shape, struct cost_terms *out)
{
    if (!schedule_fits(algorithm, shape))
        return cost_refuse(algorithm, shape);
    struct cost_terms terms = {0};
    struct action *actions = calloc((size_t)algorithm->actions(shape) + 1, sizeof *actions);
    struct load *totals = calloc((size_t)shape->nranks, sizeof *totals);
    if (actions && totals) {
        for (int round = 0; round < algorithm->rounds(shape); round++)
            walk_round(algorithm, shape, round, actions, totals, &terms);
        for (int rank = 0; rank < shape->nranks; rank++) {
            terms.rank_messages = most(terms.rank_messages, load_messages(&totals[rank]));
            terms.rank_bytes = most(terms.rank_bytes, load_bytes(&totals[rank]));
            terms.rank_reduced = most(terms.rank_reduced, totals[rank].reduced);
        }
        *out = terms;
    }
    tutti_result_t result = actions && totals ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "cost: out of memory");
    free(actions);
    free(totals);
    return result;
}

tutti_result_t cost_terms(const struct algorithm *algorithm, const struct shape *shape, struct cost_terms *out)
{
    if (!schedule_fits(algorithm, shape))
        return cost_refuse(algorithm, shape);
    if (!algorithm->cost)
        return cost_walk(algorithm, shape, out);
    *out = shape->nranks > 1 ? algorithm->cost(shape) : (struct cost_terms){0};
    return TUTTI_SUCCESS;
}

double cost_seconds(const struct cost_terms *terms, const struct cost_model *model, double bytes, int slices)
{
    double slice = bytes / slices;
    double first = terms->rounds * model->alpha + terms->messages * model->overhead +
                   slice * (terms->bytes * model->beta + terms->reduced * model->gamma);
    double next = terms->rank_messages * model->overhead +
                  slice * most(terms->rank_bytes * model->beta, terms->rank_reduced * model->gamma);
    return first + (slices - 1) * next;
}
