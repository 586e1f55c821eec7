/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's ways to write lists. */
#ifndef TUTTI_BOOTSTRAP_ENV_SLURM_H
#define TUTTI_BOOTSTRAP_ENV_SLURM_H

#include <stdbool.h>
#include <stddef.h>

/* "node[03-05,9],other" -> "node03". False if the list is malformed or the name does not fit. */
bool slurm_first_host(const char *list, char *out, size_t size);
/* "2(x3),1" and node 3 -> 1. False if the text is malformed or does not have the node. */
bool slurm_tasks_of_node(const char *tasks, int node, int *out);

#endif
