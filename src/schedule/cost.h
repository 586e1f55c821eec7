/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a schedule costs, in the alpha-beta-gamma model (Hockney's latency and bandwidth; Thakur et al. 2005 for
 * collectives), from its own actions. One slice takes
 *     rounds * alpha + messages * overhead + bytes * beta + reduced * gamma.
 * Slices overlap: each further one adds only what keeps the busiest rank busy. Links are full duplex and do not share
 * wires; local copies are free.
 */
#ifndef TUTTI_SCHEDULE_COST_H
#define TUTTI_SCHEDULE_COST_H

#include "schedule/schedule.h"
#include "tutti/tutti.h"

struct cost_model {
    double alpha;    /* seconds: latency of a round */
    double overhead; /* seconds: each message of a rank */
    double beta;     /* seconds per byte through a rank's link, each way */
    double gamma;    /* seconds per byte reduced */
};

/* The terms from the algorithm's closed form if it has one, else by cost_walk. TUTTI_INVALID_ARGUMENT if the shape does
 * not fit. */
tutti_result_t cost_terms(const struct algorithm *algorithm, const struct shape *shape, struct cost_terms *out);

/* The terms by asking every rank for every round. */
tutti_result_t cost_walk(const struct algorithm *algorithm, const struct shape *shape, struct cost_terms *out);

/* What the links between hosts carry, which all ranks of a host share: summed over rounds, the most of any host, and of
 * any rank. Bytes are fractions of the vector. */
struct cost_far {
    double rounds, messages, bytes;
    double rank_bytes;
};

/* A rank sends over one link of its host at a time, and all ranks together over all. */
struct cost_network {
    double alpha, overhead; /* as in the model within a host */
    double beta;            /* seconds per byte of one link */
    int links;
};

/* The shape must have levels: else TUTTI_INVALID_ARGUMENT. */
tutti_result_t cost_far_walk(const struct algorithm *algorithm, const struct shape *shape, struct cost_far *out);

/* Seconds for a vector of `bytes` cut into `slices`, where hosts are joined by `network` and ranks of a host by
 * `model`. A slice uses them as if the two never worked at the same time; further ones keep the busier of them busy. */
double cost_far_seconds(const struct cost_terms *terms, const struct cost_model *model, const struct cost_far *far,
                        const struct cost_network *network, double bytes, int slices);

/* Seconds for a vector of `bytes` (all B blocks: n times a rank's block where each rank has one) cut into `slices`. */
double cost_seconds(const struct cost_terms *terms, const struct cost_model *model, double bytes, int slices);

#endif
