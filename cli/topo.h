/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that the text and the picture of tutti topo share: nodes that nest one in one are shown as one. */
#ifndef TUTTI_CLI_TOPO_H
#define TUTTI_CLI_TOPO_H

#include "topology/topology.h"

#include <stdio.h>

/* The innermost node with exactly the processors of `node`, by way of only children. */
int topo_chain_end(const struct topology *topology, int node);
/* The next child to show of the chain that starts at `node`: processors of its end, then devices of all. -1: no more.
 */
int topo_next_child(const struct topology *topology, int node, int previous);
/* "Package 0, L3 32 MiB" or "Net eth0: 25 Gb/s, up, driver ..." */
void topo_label(const struct topology *topology, int node, char *out, size_t size);

void topo_write_svg(const struct topology *topology, FILE *out);

#endif
