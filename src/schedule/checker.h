/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof of a schedule: all ranks run symbolically, and every rule of schedule.h is checked. A block's value is the
 * set of contributions in it, and the tree of operations that made it. Contributions and trees are 128- and 64-bit
 * hashes, so a wrong schedule could pass with a chance of 2^-64, the same on every run.
 *
 * What is checked: Functions are pure and within their bounds. Sends and receives match. Nothing undefined is read, and
 * IN is not written. There is no hazard within a round, in place or not. The result is each contribution exactly once.
 * `final` is set where, and only where, a reduction completes a block. All ranks of an allreduce apply the same tree,
 * so their bits are the same (op is commutative, bit for bit, but not associative). At the end of a barrier every rank
 * has heard from every other.
 */
#ifndef TUTTI_SCHEDULE_CHECKER_H
#define TUTTI_SCHEDULE_CHECKER_H

#include "schedule/schedule.h"
#include "tutti/tutti.h"

/* TUTTI_INTERNAL_ERROR: the schedule is wrong, and `why` says so in one sentence. TUTTI_INVALID_ARGUMENT: the algorithm
 * does not take the shape, or is not defined in place. TUTTI_SYSTEM_ERROR: no memory (the check takes O(n * B)). */
tutti_result_t schedule_check(const struct algorithm *algorithm, struct shape shape, bool in_place, char *why,
                              size_t size);

#endif
