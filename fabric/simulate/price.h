/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of a schedule on a fabric. All ranks do a round together. The slowest message of a round is its time: the
 * latency of its distance, and its bytes at the max-min fair rate. Slices of a long vector overlap, until the busiest
 * link, or the number of slices in flight, is the limit.
 *
 * Left out are queues, losses and congestion control, and the time in which a rate settles. Of software only a time for
 * each message and each reduced byte counts.
 */
#ifndef TUTTI_FABRIC_PRICE_H
#define TUTTI_FABRIC_PRICE_H

#include "model/route.h"
#include "simulate/pattern.h"

struct price_model {
    double overhead; /* seconds: each message of a rank in a round */
    double gamma;    /* seconds per byte reduced */
    double slice;    /* bytes of a block of a slice (TUTTI_SLICE) */
    int slices;      /* in flight (TUTTI_SLICES) */
    int lanes;       /* of each pair of ranks */
};

/* A round, and the rounds like it. Seconds per byte of the vector, by distance; -1: no message goes that far. */
struct price_round {
    double times, messages, reduced;
    double slope[FABRIC_DISTANCES];
};

struct price {
    int count;
    struct price_round round[PATTERN_ROUNDS];
    double busy;     /* seconds per byte of the vector that the busiest link needs, over all rounds */
    int32_t busiest; /* that link */
    double messages; /* of the busiest rank, over all rounds */
    double rounds;   /* of the schedule */
    double far;      /* messages beyond the leaf, of all messages */
    int blocks;      /* blocks of the vector in a slice */
};

/* place[rank]: the GPU of a rank. TUTTI_INVALID_ARGUMENT: the algorithm does not fit, or there is no way. */
tutti_result_t price_make(const struct algorithm *algorithm, const struct shape *shape, const int32_t *place,
                          struct router *router, const struct price_model *model, struct price *out);

double price_seconds(const struct price *price, const struct fabric *fabric, const struct price_model *model,
                     double bytes);

#endif
