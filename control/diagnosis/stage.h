/* SPDX-License-Identifier: Apache-2.0 */
/* The place of a process in training. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_STAGE_H
#define TUTTI_DIAGNOSIS_STAGE_H

#include "diagnosis/finding.h"

/* Adds where in training this process is, if its calls tell. */
void prove_stage(struct finding *finding, const struct blackbox *box);

#endif
