/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of an identifier. With the lock held; 0 or errno. */
#ifndef RDMACM_QUERY_H
#define RDMACM_QUERY_H

#include "rdmacm/id.h"

void query_route(const struct cm_id *id, struct rdma_ucm_query_route_resp *out);
void query_address(const struct cm_id *id, struct rdma_ucm_query_addr_resp *out);
/* The attributes that lead a queue pair into a state (IBV_QPS_*). */
int query_qp(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *out);

#endif
