/* SPDX-License-Identifier: Apache-2.0 */
/* One command on all hosts at once. */
#ifndef LAB_EVERYWHERE_H
#define LAB_EVERYWHERE_H

#include "wiring/topology.h"

/* Runs the command on every host in parallel; each line of output gets the host's name in front. Returns 0, or the code
 * of the first that failed (128 + signal if a signal ended it), after ending the others; 125 for our own failures. */
int everywhere_run(const struct lab_topology *topology, char *const *argv);

#endif
