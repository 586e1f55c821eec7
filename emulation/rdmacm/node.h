/* SPDX-License-Identifier: Apache-2.0 */
/* In the preloaded library: the device node of the connection manager. */
#ifndef RDMACM_NODE_H
#define RDMACM_NODE_H

#define RDMACM_NODE "/dev/infiniband/rdma_cm"

/* As open(). */
int node_open(int flags);

#endif
