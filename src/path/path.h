/* SPDX-License-Identifier: Apache-2.0 */
/* Policies for lanes: which of the lanes that have room takes the next segment. The mechanism is src/link. */
#ifndef TUTTI_PATH_PATH_H
#define TUTTI_PATH_PATH_H

#include "link/policy.h"

/* The lane that will be free first: the fewest unfinished segments, weighed by how long its segments take. C4P section 3.2 sends
 * on the queue pair that completes fastest; DQPLB (NCCLX section 4.4) bounds what is outstanding on each: the link's window. */
extern const struct path_policy path_stripe;

/* A policy's lanes(): as path_all_data(), but those of the interfaces that TUTTI_BACKUP names are backups, unless that were all (ICCL
 * section 3.3: a queue pair on another adapter, open and idle). */
int path_lanes_and_backups(void *state, const struct path_question *question, struct path_wish *wishes);

/* A policy's source(): the port that TUTTI_PATHS plans (dnlb.h). */
uint16_t path_planned_source(const struct path_source *lane);

#endif
