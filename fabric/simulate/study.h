/* SPDX-License-Identifier: Apache-2.0 */
/* Compares all algorithms of a collective, in all orders, over all ways of the network. */
#ifndef TUTTI_FABRIC_STUDY_H
#define TUTTI_FABRIC_STUDY_H

#include "simulate/price.h"

/* The order in which an algorithm of few rounds meets near and far ranks (NCCLX section 5.4). */
enum study_order {
    STUDY_NEAREST,
    STUDY_FARTHEST,
    STUDY_HYBRID, /* the ranks of the host first, then the farthest hosts first */
    STUDY_ORDERS
};
extern const char *const study_orders[STUDY_ORDERS];

enum { STUDY_SIZES = 32, STUDY_ROWS = 64 };

struct study_request {
    const struct fabric *fabric;
    enum coll coll;
    int nranks;
    const int32_t *place;   /* the GPU of each rank */
    const char *algorithms; /* names with commas between; NULL: all but those for GPUs of one host */
    uint32_t orders, ways;  /* sets of 1u << enum */
    struct price_model model;
    int draws, failures; /* draws of source ports and hashes; uplinks that are down, drawn anew each time */
    uint64_t seed;
    int sizes;
    double bytes[STUDY_SIZES]; /* of the vector */
};

/* Over all draws. */
struct study_time {
    double mean, least, most; /* seconds */
};

struct study_row {
    const struct algorithm *algorithm;
    enum study_order order; /* STUDY_ORDERS: the algorithm has none */
    bool own;               /* the library has this order */
    double rounds;
    int priced; /* rounds that were looked at */
    double far; /* messages that leave their leaf, of all */
    bool done[ROUTE_WAYS];
    struct study_time time[ROUTE_WAYS][STUDY_SIZES];
    char busiest[ROUTE_WAYS][64]; /* link */
    char why[160];                /* why there are no times */
};

struct study {
    int count;
    struct study_row row[STUDY_ROWS];
};

/* TUTTI_SUCCESS also where an algorithm has no times; its row says why. */
tutti_result_t study_make(const struct study_request *request, struct study *out);

/* The row with the least mean time for that size and way; -1: there is none. */
int study_best(const struct study *study, enum route_way way, int size);

/* place[rank] -> out[rank]: the places of ranks in that order. False: the order needs a power of two. */
bool study_arrange(enum study_order order, enum study_order natural, const int32_t *place, int nranks, int near,
                   int32_t *out);

#endif
