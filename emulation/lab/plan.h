/* SPDX-License-Identifier: Apache-2.0 */
/* What to tell the kernel: batches for `ip` and `tc`, settings and rules, all derived from the topology. Changes
 * nothing. */
#ifndef LAB_PLAN_H
#define LAB_PLAN_H

#include "lab/netlink.h"
#include "wiring/text.h"
#include "wiring/topology.h"

/* Which ends of a link are switched on. Routes avoid an uplink whose leaf's end is off, as a routing protocol would;
 * a spine's end that is off is not noticed. */
struct plan_state {
    bool lower_up, upper_up;
};

/* For `ip`, in the first namespace: the namespaces, and the links between them. */
void plan_spaces(const struct lab_topology *topology, struct text *out);

/* Kernel settings of a node, one "PATH VALUE" a line under /proc/sys; a leading '-' marks those that a kernel may lack.
 */
void plan_settings(const struct lab_topology *topology, int node, struct text *out);

/* For `ip`, in the node: a port's addresses and its neighbour's. Repeatable. `deaf`: with a MAC address nobody sends
 * to. */
void plan_port(const struct lab_topology *topology, const struct lab_link *link, bool lower, bool deaf,
               struct text *out);

/* For `ip`, in the node: all its routes, replacing those there are. */
void plan_routes(const struct lab_topology *topology, int node, const struct plan_state *state, struct text *out);

/* For `tc`, in the node: a port's rate (0: not shaped). `shaped`: whether there is a shaper to remove. */
void plan_rate(const struct lab_topology *topology, const char *port, uint64_t rate, bool shaped, struct text *out);

/* The rules of a node, handed to `add` one by one until it fails. */
typedef tutti_result_t (*plan_rule_fn)(const struct netlink_rule *rule, void *context);
tutti_result_t plan_rules(const struct lab_topology *topology, int node, plan_rule_fn add, void *context);

/* "ADDRESS NAME..." lines for /etc/hosts. */
void plan_hosts(const struct lab_topology *topology, struct text *out);

/* All of the above as a listing to read. */
tutti_result_t plan_show(const struct lab_topology *topology, struct text *out);

#endif
