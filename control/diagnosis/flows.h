/* SPDX-License-Identifier: Apache-2.0 */
/* What the lanes between hosts took, sorted. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_FLOWS_H
#define TUTTI_DIAGNOSIS_FLOWS_H

#include "diagnosis/scene.h"

enum { OUT, IN, WAYS };

/* One lane, and its latest segments of one length. */
struct lane_flow {
    struct {
        const struct member *member; /* in the largest communicator of its process */
        const char *interface;
        size_t end; /* number of this interface of this host */
    } at[WAYS];
    const struct blackbox_lane *lane;
    uint32_t length;
    uint64_t ns, base; /* the median; what the quickest quarter takes, 0: nothing to compare with */
    uint64_t latest;   /* median of the last few segments */
    uint64_t best;     /* only one segment in eight took less than this, */
    uint64_t ideal;    /* and the same of the quickest quarter */
    uint64_t newest;   /* least of the last few segments, if the latest is fresh; else 0 */
    size_t sharing;    /* lanes of this kind that may use either interface at the same time */
    bool slow, told;   /* slow: beside comparable lanes; told: a finding has it, or none is wanted */
    bool turns;        /* slow, or becoming slow */
    bool aside;        /* slow beside others between the same two interfaces, so neither of these is to blame */
};

struct flows {
    struct lane_flow *all;
    size_t count, room, ends;
};

/* Gathers all lanes of the snapshot, comparable ones in a row, each with its `base`, `slow`, `turns` and `aside`.
 * False: there are no lanes, or no memory. The caller frees `all`. */
bool flows_gather(struct scene *scene, struct flows *flows);
/* Calls `look` once for each pair of interfaces, with all lanes of one kind between them, both ways. The quickest lane
 * comes first. False: no memory. */
bool flows_between(struct flows *flows, void (*look)(struct lane_flow **between, size_t count));
/* Several flows that share an uplink by chance are slower by their number: a slow path is slower than they are. */
bool is_slow_path_beside(uint64_t ns, uint64_t base);
bool is_slow_beside(uint64_t ns, uint64_t base);
/* Tells, too, where a lane does not say how far it goes. */
bool same_host(const struct blackbox *a, const struct blackbox *b);
/* The process in its largest communicator, which gives its rank among all. */
const struct member *world_member(const struct scene *scene, size_t process);

#endif
