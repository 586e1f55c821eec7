/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of RDMA devices, and which address of each, are wanted. Nothing here calls the library. */
#ifndef TUTTI_TRANSPORT_VERBS_CHOOSE_H
#define TUTTI_TRANSPORT_VERBS_CHOOSE_H

#include "base/net.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * Does the wish (TUTTI_IB_HCA) take port `port` of device `name`? "mlx5_0,mlx5_2": names that begin so; "=mlx5_0:1":
 * this name, and of it this port; "^mlx5_3", "^=mlx5_3:2": all but those. "": all.
 */
bool choose_port(const char *wish, const char *name, unsigned port);

/* How good an entry of a port's table of addresses is: lower is better, negative is none to use. */
int choose_gid_class(const struct ibv_gid_entry *entry);
/* The same address for TCP, port 0. False: it is none of IP, or means nothing on another host. */
bool choose_ip(const struct ibv_gid_entry *entry, struct net_address *out);
/* Mbit/s of a port, by the codes of its width and of the speed of each of its lanes; 0: not known. */
uint32_t choose_rate(unsigned width, unsigned speed);
/* Does the address reach only this host? */
bool choose_is_loopback(const union ibv_gid *gid);

#endif
