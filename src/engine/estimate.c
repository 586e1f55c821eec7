/* SPDX-License-Identifier: Apache-2.0 */
/* The price of the algorithm that host memory takes, with numbers of what joins the ranks: GPUs of one host, processors
 * of one host, or a network. */
#include "engine/estimate.h"

#include "engine/collective.h"
#include "engine/op.h"
#include "schedule/cost.h"

enum between { BETWEEN_GPUS, BETWEEN_PROCESSES, BETWEEN_HOSTS };

/* Orders of magnitude: 300 GB/s and a launch; 10 GB/s and a cache line; 1 GB/s and a socket. */
static const struct cost_model models[] = {
    [BETWEEN_GPUS] = {.alpha = 5e-6, .overhead = 5e-7, .beta = 3.3e-12, .gamma = 0},
    [BETWEEN_PROCESSES] = {.alpha = 5e-7, .overhead = 1e-7, .beta = 1e-10, .gamma = 2e-11},
    [BETWEEN_HOSTS] = {.alpha = 2e-5, .overhead = 5e-7, .beta = 1e-9, .gamma = 2e-11},
};

static const struct cost_model *model_of(bool devices, bool one_host)
{
    return &models[!one_host ? BETWEEN_HOSTS : devices ? BETWEEN_GPUS : BETWEEN_PROCESSES];
}

static size_t estimate_bytes(const struct team *team, const struct call *call)
{
    size_t sent = 0, received = 0;
    if (call->coll != COLL_ALLTOALLV)
        return team_vector_bytes(team, call);
    for (int rank = 0; rank < team->nranks; rank++) {
        sent += call->send_counts[rank];
        received += call->recv_counts[rank];
    }
    return (sent > received ? sent : received) * call->size;
}

double team_estimate(const struct team *team, bool devices, const struct call *call)
{
    const struct cost_model *model = model_of(devices, team->local_ranks == team->nranks);
    const struct shape shape = {.coll = call->coll == COLL_ALLTOALLV ? COLL_ALLTOALL : call->coll,
                                .nranks = team->nranks,
                                .root = call->root < 0 ? 0 : call->root};
    struct call as = *call;
    struct cost_terms terms;
    as.coll = shape.coll;
    as.bytes = call->coll == COLL_ALLTOALLV ? estimate_bytes(team, call) / (size_t)team->nranks : call->bytes;
    if (cost_terms(team_algorithm(team, &as), &shape, &terms) != TUTTI_SUCCESS)
        return model->alpha; /* of an algorithm that wants levels */
    return cost_seconds(&terms, model, (double)estimate_bytes(team, call), 1);
}

double team_estimate_message(const struct team *team, bool devices, int peer, size_t bytes)
{
    const struct cost_model *model = model_of(devices, team_row(team, peer)->host == team_row(team, team->rank)->host);
    return model->alpha + model->overhead + (double)bytes * model->beta;
}
