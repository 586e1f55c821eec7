/* SPDX-License-Identifier: Apache-2.0 */
/* How the vectors of a call are cut into slices, and where the blocks of a slice lie: for rounds over links and for
 * shared memory alike. */
#ifndef TUTTI_ENGINE_SLICES_H
#define TUTTI_ENGINE_SLICES_H

#include "base/cpu.h"
#include "engine/team.h"

#define SLICES_PAD 4096 /* bytes of a block from which on it is whole lines of the cache */

struct slicing {
    const struct call *call;
    size_t stride; /* elements of a block of a slice */
    int blocks;    /* of the schedule */
    bool cut;      /* the collective cuts one vector into blocks */
};

/*
 * Elements of a block of a slice: `most` bytes of them at most. `pads`: a long block is whole lines. Returns how many
 * slices that makes. alltoallv, whose blocks differ, is one slice, and so is a barrier, which has no elements.
 */
static inline size_t slices_cut(struct slicing *slicing, size_t size, size_t most, bool pads)
{
    size_t parts = slicing->cut && slicing->blocks > 0 ? (size_t)slicing->blocks : 1, line = CACHE_LINE / size;
    size_t count = slicing->call->count, whole = (count + parts - 1) / parts, room = most / size / line * line;
    if (pads && whole * size >= SLICES_PAD)
        whole = (whole + line - 1) / line * line;
    slicing->stride = whole < room ? whole : room;
    if (slicing->stride == 0)
        slicing->stride = 1;
    if (slicing->call->coll == COLL_ALLTOALLV || slicing->call->coll == COLL_BARRIER)
        return 1;
    return (count + slicing->stride * parts - 1) / (slicing->stride * parts);
}

/* Elements of blocks [block, block + nblocks) of slice `index`. */
static inline size_t slices_span(const struct slicing *slicing, size_t index, int32_t block, int32_t nblocks)
{
    size_t stride = slicing->stride, slice = stride * (slicing->cut ? (size_t)slicing->blocks : 1);
    size_t left = slicing->call->count - index * slice, count = left < slice ? left : slice;
    return slicing->cut ? schedule_span(count, stride, block, nblocks) : count * (size_t)nblocks;
}

/* The block's first element in a user's buffer. */
static inline size_t slices_offset(const struct slicing *slicing, size_t index, int32_t block)
{
    return slicing->cut ? (index * (size_t)slicing->blocks + (size_t)block) * slicing->stride
                        : (size_t)block * slicing->call->count + index * slicing->stride;
}

/* Blocks of the input. */
static inline int slices_input_blocks(const struct slicing *slicing, int nranks)
{
    return slicing->cut ? slicing->blocks : slicing->call->coll == COLL_REDUCE_SCATTER ? nranks : 1;
}

#endif
