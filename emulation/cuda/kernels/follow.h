/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of kernels: their peers and parts, from the schedules that they carry out, as the library takes them. */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_FOLLOW_H
#define TUTTI_EMULATION_CUDA_KERNELS_FOLLOW_H

#include "plan/steps.h"

#include <stdlib.h>

/* The way that a kernel goes; the collective that its mode carries out. */
static inline enum way follow_way(enum kernel_id kernel, enum kernel_mode mode)
{
    if (kernel == KERNEL_REDUCE_BULK)
        return mode == KERNEL_REDUCE_OWN ? WAY_BULK_COPY : WAY_BULK;
    if (kernel == KERNEL_REDUCE_LINES || kernel == KERNEL_REDUCE_LISTED)
        return WAY_LINES;
    return kernel == KERNEL_REDUCE_PEER ? WAY_PEER_LOAD : kernel == KERNEL_REDUCE_TWO ? WAY_TWO_SHOT : WAY_ONE_SHOT;
}

static inline enum coll follow_coll(enum kernel_mode mode)
{
    if (mode == KERNEL_BROADCAST)
        return COLL_BROADCAST;
    return mode == KERNEL_REDUCE ? COLL_REDUCE : mode == KERNEL_REDUCE_SCATTER ? COLL_REDUCE_SCATTER : COLL_ALLREDUCE;
}

/* Team, mode and count of `what` are known already. Of what is reduced in lines, odd counts go in one shot. */
static inline void follow_reduce(enum kernel_id kernel, int root, struct kernel_reduce *what)
{
    struct way_flows flows = {0};
    enum kernel_mode mode = (enum kernel_mode)what->mode;
    bool lines = kernel == KERNEL_REDUCE_LINES || kernel == KERNEL_REDUCE_LISTED,
         one_shot = lines && mode != KERNEL_REDUCE_SCATTER && what->count % 2;
    const struct way_flow *found = way_find(&flows, one_shot ? WAY_ONE_SHOT_LINES : follow_way(kernel, mode),
                                            follow_coll(mode), root, what->team.rank, what->team.nranks);
    if (!found)
        abort();
    steps_reduce(&found->flow, kernel, what->team.nranks, what);
}

/* The same of what goes round, of kernels that can. */
static inline void follow_ring(enum kernel_id kernel, int root, struct kernel_reduce *what)
{
    struct way_flows flows = {0};
    enum kernel_mode mode = (enum kernel_mode)what->mode;
    enum way way = kernel == KERNEL_REDUCE_LINES ? WAY_RING_LINES
                   : mode == KERNEL_REDUCE_OWN   ? WAY_RING_COPY
                                                 : WAY_RING;
    const struct way_flow *found = way_find(&flows, way, follow_coll(mode), root, what->team.rank, what->team.nranks);
    if (!found)
        abort();
    steps_ring(&found->flow, what->team.rank, what);
}

/* The kernel that can do the same as this one, but from rank to rank; KERNEL_NONE: there is none. */
static inline enum kernel_id follow_ring_kernel(enum kernel_id kernel, enum kernel_mode mode, int nranks)
{
    if (nranks < 3)
        return KERNEL_NONE;
    if (kernel == KERNEL_REDUCE_BULK)
        return mode == KERNEL_ALLREDUCE ? KERNEL_NONE : KERNEL_REDUCE_RING;
    return kernel == KERNEL_REDUCE_LINES && mode == KERNEL_REDUCE ? KERNEL_REDUCE_LINES : KERNEL_NONE;
}

static inline void follow_chain(enum way way, int root, struct kernel_chain *what)
{
    struct way_flows flows = {0};
    const struct way_flow *found = way_find(&flows, way, COLL_BROADCAST, root, what->team.rank, what->team.nranks);
    if (!found)
        abort();
    steps_chain(&found->flow, what);
}

#endif
