/* SPDX-License-Identifier: Apache-2.0 */
/* What a process did at each moment that its black box remembers whole. Private to network.c. */
#ifndef TUTTI_DIAGNOSIS_TIMELINE_H
#define TUTTI_DIAGNOSIS_TIMELINE_H

#include "diagnosis/network.h"
#include "diagnosis/scene.h"

/* A time from `begin` to the `begin` of the next atom; the last atom ends with the timeline. */
struct atom {
    uint64_t begin;
    enum moment moment;
};

struct timeline {
    uint64_t from, to; /* ns of CLOCK_MONOTONIC there; equal: nothing is remembered whole */
    struct atom *atoms;
    size_t count;
    bool lanes; /* the process has lanes to other hosts */
};

/* One collective of a group, by number. `shortest`: its time on the rank that came last. `network`: the longest time in
 * which a rank had data under way. */
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

/* calls[g] belongs to the scene's group g. False: no memory. The caller frees `atoms`. */
bool timeline_open(const struct scene *scene, const struct timeline_calls *calls, size_t process,
                   struct timeline *timeline);
/* Adds what this process did between `from` and `to`. */
void timeline_add(const struct timeline *timeline, uint64_t from, uint64_t to, uint64_t ns[MOMENTS]);
/* The rank on another host that receives the segments of this lane. NULL: it is on this host, or unknown. */
const struct member *timeline_receiver(const struct scene *scene, const struct blackbox *box,
                                       const struct blackbox_lane *lane);

#endif
