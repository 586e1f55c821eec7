/* SPDX-License-Identifier: Apache-2.0 */
/* tutti simulate: the question, and its answers. */
#ifndef TUTTI_CLI_SIMULATE_H
#define TUTTI_CLI_SIMULATE_H

#include "simulate/study.h"

#include <stdio.h>

enum { SIMULATE_SCALES = 16 }; /* numbers of GPUs */

/* The results for one number of GPUs. */
struct simulate_scale {
    int gpus, hosts;
    int pairs[FABRIC_DISTANCES]; /* neighbours in rank order, by distance */
    int crossings;               /* of a job: hosts whose next one has another leaf */
    struct study study;
};

struct simulate_report {
    const struct fabric *fabric;
    struct study_request request; /* of the last scale */
    int scales;
    struct simulate_scale *scale;
    /* With the hosts of a job: the same in the best order of hosts. NULL: not asked. */
    struct simulate_scale *sorted;
};

/* The last way that was asked for: its times count where one is wanted. */
enum route_way simulate_way(const struct simulate_report *report);

void simulate_fabric_text(FILE *out, const struct fabric *fabric);
void simulate_text(FILE *out, const struct simulate_report *report);
/* Returns an exit status. */
int simulate_json(const struct simulate_report *report);
void simulate_svg(FILE *out, const struct simulate_report *report);

#endif
