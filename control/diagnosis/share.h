/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time of a process, and what its machine leaves for others. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_SHARE_H
#define TUTTI_DIAGNOSIS_SHARE_H

#include "diagnosis/scene.h"

/* The processor time of a process between the looks. */
struct processor_share {
    uint64_t time;         /* between the looks; 0: unknown */
    uint64_t ran, delayed; /* on a processor, all threads; ready without a processor, the thread with most */
    uint64_t least;        /* ready without a processor, the thread with least of those that wanted to run */
    uint64_t throttled;    /* the quota of its control group was used up */
    size_t active;         /* threads that wanted to run */
};
struct processor_share share_of(const struct scene *scene, const struct member *member);
bool share_is_starved(const struct processor_share *share);
/* Does a slow rank lack processors, by a half of them or a quota? */
bool share_is_short(const struct processor_share *share);
/* Does it compute, as far as it gets a processor? */
bool share_computes(const struct processor_share *share);
bool share_hardly_runs(const struct processor_share *share);
/* Parts of the time in which a thread was ready without a processor: the most of a thread, and the least. 0:
 * unknown. */
double share_part(const struct processor_share *share);
double share_least(const struct processor_share *share);
/* All threads of this process lack processors, and those of other processes on the machine do not. */
bool share_is_starved_whole(struct scene *scene, const struct member *member);
/* Others on its machine have no processors either: their load is to blame, and no rank. */
bool share_is_crowded_out(struct scene *scene, const struct member *member);
/* So it is, and most processes of the job there lack processors for a quarter of the time. */
bool share_lacks_all(struct scene *scene, const struct member *member);

#endif
