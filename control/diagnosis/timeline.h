/* SPDX-License-Identifier: Apache-2.0 */
/* What one process did at each moment that its black box remembers whole. Private to network.c. */
#ifndef TUTTI_DIAGNOSIS_TIMELINE_H
#define TUTTI_DIAGNOSIS_TIMELINE_H

#include "diagnosis/network.h"
#include "diagnosis/scene.h"

/* From `begin` to that of the next; the last one ends with the timeline. */
struct atom {
    uint64_t begin;
    enum moment moment;
};

struct timeline {
    uint64_t from, to; /* ns of CLOCK_MONOTONIC there; equal: nothing is remembered whole */
    struct atom *atoms;
    size_t count;
    bool lanes; /* it has some to other hosts */
};

/* How long a collective took the rank that took it shortest: the last one to come. And the longest that a rank of it
 * had data under way. Of a group, by number. */
struct timeline_call {
    uint64_t seq, shortest, network;
};

struct timeline_calls {
    struct timeline_call *items;
    size_t count;
};

/* False: no memory. The caller frees `items`. */
bool timeline_calls_open(const struct member_group *group, struct timeline_calls *calls);
struct timeline_call *timeline_call_find(const struct timeline_calls *calls, uint64_t seq);

/* calls[g]: of the scene's group g. False: no memory. The caller frees `atoms`. */
bool timeline_open(const struct scene *scene, const struct timeline_calls *calls, size_t process,
                   struct timeline *timeline);
/* Adds what this process did from `from` to `to`. */
void timeline_add(const struct timeline *timeline, uint64_t from, uint64_t to, uint64_t ns[MOMENTS]);
/* Of the segments of a lane: the one on another host that receives them. NULL: on this one, or nobody knows. */
const struct member *timeline_receiver(const struct scene *scene, const struct blackbox *box,
                                       const struct blackbox_lane *lane);

#endif
