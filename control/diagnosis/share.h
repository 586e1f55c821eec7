/* SPDX-License-Identifier: Apache-2.0 */
/* What a process had of processors, and what its machine has for others. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_SHARE_H
#define TUTTI_DIAGNOSIS_SHARE_H

#include "diagnosis/scene.h"

/* What a process had of processors between the looks. */
struct processor_share {
    uint64_t time;         /* between them; 0: it is not known */
    uint64_t ran, delayed; /* on a processor, all threads; ready to run without one, the thread that was so longest */
    uint64_t least;        /* of the threads that wanted to run, the one that was so shortest */
    size_t active;         /* so many did */
};
struct processor_share share_of(const struct scene *scene, const struct member *member);
bool share_is_starved(const struct processor_share *share);
bool share_hardly_runs(const struct processor_share *share);
/* Of the time: that of the thread that was ready without a processor longest, and shortest; 0: it is not known. */
double share_part(const struct processor_share *share);
double share_least(const struct processor_share *share);
/* All of its threads lack processors, others' on its machine do not. */
bool share_is_starved_whole(struct scene *scene, const struct member *member);
/* Others of its machine have no processors either: what others take there is to blame, and no rank. */
bool share_is_crowded_out(struct scene *scene, const struct member *member);

#endif
