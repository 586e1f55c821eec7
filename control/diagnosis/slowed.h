/* SPDX-License-Identifier: Apache-2.0 */
/* Is a process slower than it was? By its own samples. */
#ifndef TUTTI_DIAGNOSIS_SLOWED_H
#define TUTTI_DIAGNOSIS_SLOWED_H

#include "diagnosis/diagnosis.h"

/* Less than half of its best speed, and in calls for most of the time. */
bool process_is_slowed(const struct blackbox *box);

#endif
