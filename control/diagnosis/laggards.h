/* SPDX-License-Identifier: Apache-2.0 */
/* What lies on the lanes of a process that waits. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_LAGGARDS_H
#define TUTTI_DIAGNOSIS_LAGGARDS_H

#include "diagnosis/finding.h"

/* Tells of interfaces whose lanes are down, or whose data has been on its way for `stuck` and longer: of all interfaces
 * of the host at once, or one by one. */
void prove_laggards(struct finding *finding, const struct member *member, uint64_t stuck);

#endif
