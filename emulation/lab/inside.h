/* SPDX-License-Identifier: Apache-2.0 */
/* Commands inside a node. */
#ifndef LAB_INSIDE_H
#define LAB_INSIDE_H

#include "wiring/topology.h"

/* Exit codes of tutti-lab's own failures where a command's code is returned otherwise, as env(1) and ssh do it. */
#define INSIDE_FAILED       125
#define INSIDE_NOT_RUNNABLE 126
#define INSIDE_NOT_FOUND    127

/* Becomes the command inside a node: its network, its host name, its /sys, the lab's names in /etc/hosts, and LAB_NAME,
 * LAB_NODE, LAB_INDEX and LAB_HOSTS in the environment. Returns, with one of the codes above, only if that fails. */
int inside_become(const struct lab_topology *topology, int node, char *const *argv);

#endif
