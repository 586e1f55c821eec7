/* SPDX-License-Identifier: Apache-2.0 */
/* Carries plans out in the nodes of a lab. */
#ifndef LAB_FABRIC_APPLY_H
#define LAB_FABRIC_APPLY_H

#include "lab/fabric.h"
#include "lab/plan.h"

/* Settings, addresses, rates and rules of a new node. */
tutti_result_t fabric_apply_node(struct lab_fabric *fabric, int node);

/* Routes of all nodes, by which ports are switched on. */
tutti_result_t fabric_apply_routes(struct lab_fabric *fabric, const struct fabric_link *links);

/* A batch in one node. */
tutti_result_t fabric_apply_batch(struct lab_fabric *fabric, int node, const char *program, const struct text *batch);

#endif
