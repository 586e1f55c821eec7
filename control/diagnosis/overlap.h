/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that compute while their collectives are under way. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_OVERLAP_H
#define TUTTI_DIAGNOSIS_OVERLAP_H

#include "diagnosis/scene.h"

/* Calls of these ranks last because the programs compute meanwhile, and the job is as quick as it was before. */
bool overlap_hides_waits(struct scene *scene, const struct member_group *group);
/* Did this process make more calls a second, from its beginning to the latest time? */
bool overlap_was_faster(const struct blackbox *box);

#endif
