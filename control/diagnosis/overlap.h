/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that compute while their collectives are under way. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_OVERLAP_H
#define TUTTI_DIAGNOSIS_OVERLAP_H

#include "diagnosis/scene.h"

/* Calls of these ranks last because the programs compute meanwhile, and the job is as quick as it was before. */
bool overlap_hides_waits(struct scene *scene, const struct member_group *group);
/* Did this process make more calls a second, from its beginning to the latest time? */
bool overlap_was_faster(const struct blackbox *box);
/* Times for which a rank is outside of calls, or for which others wait for it. */
struct overlap_waits {
    double mean;     /* ns; 0: there are none */
    double variance; /* in squares of the mean, and as large as few of them may have. That of requests at random is 1 */
};
struct overlap_waits overlap_waits_of(size_t count, double sum, double squares);
/* Does this rank sleep for times that differ much, as ever since the job began? So does a server's rank, which waits
 * for requests. */
bool overlap_waits_for_work(struct scene *scene, const struct member *member, const struct overlap_waits *waits);

#endif
