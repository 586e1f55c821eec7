/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls and lanes took, one by one (the three profilers of NCCLX section 7.4). Of each collective: the time of
 * registering, of waiting for control words, and of data. Of each lane: how often it got work, and how long it had
 * none. Of each rank: its bandwidth beside the others'. A snapshot goes in.
 */
#ifndef TUTTI_DIAGNOSIS_PROFILE_H
#define TUTTI_DIAGNOSIS_PROFILE_H

#include "diagnosis/diagnosis.h"

/* A finished collective, all of whose segments are remembered. */
struct profile_call {
    size_t process; /* its place in the look */
    const struct blackbox_comm *comm;
    const struct blackbox_op *op;
    const char *interface; /* carried most of the bytes; NULL: nothing was sent to other processes */
    uint64_t step;         /* counted from the first step that its communicator remembers */
    uint64_t bytes;        /* sent */
    uint64_t registering, control, data,
        rest; /* ns; the sum is the time of the call, unless registering went on beside */
};

struct profile_lane {
    size_t process;
    const struct blackbox_lane *lane;
    uint64_t segments, bytes; /* what has landed */
    uint64_t span, busy;      /* ns from the first put to the last landing; of those, with a segment under way */
    uint64_t gap;             /* median from one put to the next */
};

/* All lanes of a process. */
struct profile_rank {
    size_t process;
    uint64_t bytes, busy;
    bool slow; /* less than half of the median of the ranks that send */
};

struct profile {
    struct profile_call *calls; /* by process, communicator and number */
    struct profile_lane *lanes;
    struct profile_rank *ranks; /* ranks that send to other processes */
    size_t call_count, lane_count, rank_count;
};

/* `window`: lanes and ranks are those of this latest time, in ns; 0: of all that is remembered. False: no memory. The
 * caller frees the profile by profile_free in both cases. */
bool profile_look(const struct snapshot *snapshot, uint64_t window, struct profile *profile);
void profile_free(struct profile *profile);
/* Bytes a second; 0: none. */
double profile_rate(uint64_t bytes, uint64_t ns);

#endif
