/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that compute while their collectives are under way. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_OVERLAP_H
#define TUTTI_DIAGNOSIS_OVERLAP_H

#include "diagnosis/scene.h"

/* Calls of these ranks last because the programs compute meanwhile, and the job is as quick as it was before. */
bool overlap_hides_waits(struct scene *scene, const struct member_group *group);
/* Did this process make more calls a second, from its beginning to the latest time? */
bool overlap_was_faster(const struct blackbox *box);
/* Does this rank sleep for times that differ much, as ever since the job began? So does a server's rank, which waits
 * for requests. The mean of these times, and that of their squares. */
bool overlap_waits_for_work(struct scene *scene, const struct member *member, double mean, double squares);

#endif
