/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says of the processes whose boxes were read. No other part of the diagnosis asks the system. */
#ifndef TUTTI_DIAGNOSIS_PROCESS_H
#define TUTTI_DIAGNOSIS_PROCESS_H

#include "diagnosis/diagnosis.h"

/* The facts of living processes; those of others are all 0. Processes in PID namespaces below this one are included.
 * The caller frees the array; NULL: no memory. */
struct process_facts *process_facts_read(struct blackbox *const *boxes, size_t count);

/* Returns after `ns`, and notes in the facts of the living how often they were in which state meanwhile: a look at the
 * boxes of many ranks takes processors from the job, and finds other states than the job usually has. */
void process_facts_watch(struct process_facts *facts, size_t count, uint64_t ns);

/* The number of a living box's process in this PID namespace; 0: this namespace does not see it. */
uint32_t process_seen_here(const struct blackbox *box);

#endif
