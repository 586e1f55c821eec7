/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared parts of `tutti doctor`. A check looks at one thing of this machine and says what it found. If the library
 * wants another value, the check says what that costs and what mends it. Checks change nothing, and each looks by
 * itself.
 */
#ifndef TUTTI_CLI_DOCTOR_H
#define TUTTI_CLI_DOCTOR_H

#include "cli/trace_set.h"

#include "topology/topology.h"

enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_WRONG };

/* The input of checks. */
struct doctor {
    int ranks;               /* ranks that will run on this host */
    struct view_set boxes;   /* of living and dead processes */
    struct topology devices; /* interfaces, RDMA ports, GPUs */
};

struct doctor_result {
    enum doctor_state state;
    char found[600], cost[240], remedy[360]; /* the last two are empty when all is well */
};

struct doctor_row {
    const char *name, *subject;
    void (*look)(const struct doctor *doctor, struct doctor_result *out);
};

/* ---- doctor_text.c: for checks ---- */

/* Appends to the text of what was found. */
void doctor_found(struct doctor_result *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the gravest of several complaints of one check, of equal ones the first. */
void doctor_complain(struct doctor_result *out, enum doctor_state state, const char *cost, const char *remedy, ...)
    __attribute__((format(printf, 4, 5)));
const char *doctor_state_name(enum doctor_state state);
/* "unlimited", or the number. */
struct phrase doctor_limit(uint64_t limit);

/* ---- the checks ---- */

/* doctor_memory.c */
void doctor_boxes(const struct doctor *doctor, struct doctor_result *out);
void doctor_shared(const struct doctor *doctor, struct doctor_result *out);
void doctor_attach(const struct doctor *doctor, struct doctor_result *out);
void doctor_memlock(const struct doctor *doctor, struct doctor_result *out);
void doctor_pages(const struct doctor *doctor, struct doctor_result *out);
/* doctor_processors.c */
void doctor_processors(const struct doctor *doctor, struct doctor_result *out);
void doctor_quota(const struct doctor *doctor, struct doctor_result *out);
void doctor_clock(const struct doctor *doctor, struct doctor_result *out);
void doctor_files(const struct doctor *doctor, struct doctor_result *out);
void doctor_parameters(const struct doctor *doctor, struct doctor_result *out);
/* doctor_network.c */
void doctor_interfaces(const struct doctor *doctor, struct doctor_result *out);
void doctor_mtu(const struct doctor *doctor, struct doctor_result *out);
void doctor_tcp(const struct doctor *doctor, struct doctor_result *out);
/* doctor_devices.c */
void doctor_gpus(const struct doctor *doctor, struct doctor_result *out);
void doctor_rdma(const struct doctor *doctor, struct doctor_result *out);
/* doctor_namespaces.c */
void doctor_namespaces(const struct doctor *doctor, struct doctor_result *out);

#endif
