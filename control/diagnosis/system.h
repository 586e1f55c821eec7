/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says of a process, as lines under a finding. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_SYSTEM_H
#define TUTTI_DIAGNOSIS_SYSTEM_H

#include "diagnosis/finding.h"

/* A quota that was used up, and pages that were waited for, between the looks. */
void prove_system(const struct scene *scene, struct finding *finding, const struct member *member);
/* A frozen process: the state, and what to do. */
void prove_frozen(struct finding *finding, const struct member *member);
/* Was this dead process killed for memory, or one beside it? */
void prove_memory(const struct scene *scene, struct finding *finding, const struct member *dead);

#endif
