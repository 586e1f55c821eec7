/* SPDX-License-Identifier: Apache-2.0 */
/* The tables for filling, which can be filled again and again for one set of flows. */
#ifndef TUTTI_FABRIC_MAXMIN_WORK_H
#define TUTTI_FABRIC_MAXMIN_WORK_H

#include "model/maxmin.h"

#include <stdbool.h>

struct maxmin_work {
    const struct maxmin *problem;
    uint32_t *users_of;            /* link l is used by user[users_of[l]] to user[users_of[l + 1] - 1] */
    int32_t *user;                 /* flows */
    double *left, *weight, *share; /* of links: capacity; flows without a rate yet; the quotient */
    int32_t *heap, heaped;         /* links, the least share first */
    bool *fixed;                   /* flows that have their rate, or need none */
};

/* The caller calls maxmin_close() also after a failure. */
tutti_result_t maxmin_open(const struct maxmin *problem, struct maxmin_work *w);
void maxmin_close(struct maxmin_work *w);

/* Rates of the active flows (NULL: all), 0 for the others. */
void maxmin_fill(struct maxmin_work *w, const bool *active, double *rate);

#endif
