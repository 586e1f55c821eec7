/* SPDX-License-Identifier: Apache-2.0 */
/* How far devices of this host are from the processors that this process may run on. */
#ifndef TUTTI_BASE_NEAR_H
#define TUTTI_BASE_NEAR_H

#include <sched.h>

/* The system's distance (10: the same NUMA node, more: farther) from the node of a device, whose folder is below
 * `root`, to the nearest node with a processor of `set`. 0: not known. */
int near_distance(const char *root, const char *device, const cpu_set_t *set);

/* How many folders the places of two devices have in common: the adapter that has more of them in common with a GPU is
 * nearer to it, as fewer bridges lie between. `a` and `b` are folders below `root`, or links to folders. 0: not known.
 */
int near_shared(const char *root, const char *a, const char *b);

#endif
