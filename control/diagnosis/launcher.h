/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that have started ranks, and are stopped. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_LAUNCHER_H
#define TUTTI_DIAGNOSIS_LAUNCHER_H

#include "diagnosis/finding.h"

/* The process that has started this rank, stopped at both looks; 0: none, or it runs. */
uint32_t launcher_stopped(const struct scene *scene, const struct member *member);
/* A finding that names the launcher. The sentence is to be continued. NULL: there is one, and these victims were added.
 */
struct finding *launcher_add(struct findings *findings, const struct blackbox_comm *comm, uint32_t launcher,
                             size_t victims);

#endif
