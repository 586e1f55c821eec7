/* SPDX-License-Identifier: Apache-2.0 */
/* What the lanes between hosts took, put in order. Private to the rules. */
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
    uint64_t latest;   /* the median of the last few */
    uint64_t best;     /* as the median, but only one in eight took less, */
    uint64_t ideal;    /* and the same of the quickest quarter */
    uint64_t newest;   /* the least of the last few, if the latest is fresh; else 0 */
    size_t sharing;    /* lanes of its kind that may have the interface here, or that there, at the same time */
    bool slow, told;   /* slow: beside those it is compared with; there is a finding of it, or none is wanted */
    bool turns;        /* slow, or becoming so */
    bool aside;        /* slow beside others between the same two interfaces, so neither of these is to blame */
};

struct flows {
    struct lane_flow *all;
    size_t count, room, ends;
};

/* Of all lanes of the snapshot, those that compare in a row, each with its `base`, `slow`, `turns` and `aside`. False:
 * there are none, or no memory. The caller frees `all`. */
bool flows_gather(struct scene *scene, struct flows *flows);
/* Calls `look` with all lanes of one kind between the same two interfaces, both ways, for each such pair; the quickest
 * lane comes first. False: no memory. */
bool flows_between(struct flows *flows, void (*look)(struct lane_flow **between, size_t count));
/* Several flows that share an uplink by chance take as many times as long: a slow path is worse than that. */
bool is_slow_path_beside(uint64_t ns, uint64_t base);
bool is_slow_beside(uint64_t ns, uint64_t base);
/* Also where a lane does not say how far it goes. */
bool same_host(const struct blackbox *a, const struct blackbox *b);
/* The largest communicator of this process tells its rank among all. */
const struct member *world_member(const struct scene *scene, size_t process);

#endif
