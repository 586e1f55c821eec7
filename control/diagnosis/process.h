/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says of the processes whose boxes were read: the one part of the diagnosis that asks it. */
#ifndef TUTTI_DIAGNOSIS_PROCESS_H
#define TUTTI_DIAGNOSIS_PROCESS_H

#include "diagnosis/diagnosis.h"

/* Of the living: the others' facts are all 0. Also of processes in PID namespaces below this one. Freed by the caller;
 * NULL: no memory. */
struct process_facts *process_facts_read(struct blackbox *const *boxes, size_t count);

/* The number by which the process of a living box is known here; 0: it is not seen from here. */
uint32_t process_seen_here(const struct blackbox *box);

#endif
