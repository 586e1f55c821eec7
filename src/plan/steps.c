/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule's peers and blocks as kernels take them. */
#include "plan/steps.h"

#include <string.h>

void steps_reduce(const struct flow *flow, enum kernel_id kernel, int nranks, struct kernel_reduce *what)
{
    bool one = kernel == KERNEL_REDUCE_ONE, own = what->mode == KERNEL_REDUCE_OWN;
    what->wants = flow->result;
    what->gives = own ? 0 : one ? flow->to : flow->gives;
    what->takes = own ? 0 : one ? flow->from : flow->takes;
    what->parts = flow->blocks;
    for (int rank = 0; rank < nranks; rank++) {
        const struct flow_place *contribution = &flow->peer[rank].send;
        what->part[rank] = contribution->used ? (int8_t)contribution->about : -1;
    }
}

void steps_gather(int nranks, struct kernel_reduce *what)
{
    what->wants = true;
    what->gives = what->takes = ((1u << nranks) - 1) & ~(1u << what->team.rank);
    what->parts = 1;
    memset(what->part, 0, sizeof what->part);
}

static int8_t only(uint32_t ranks)
{
    return ranks ? (int8_t)__builtin_ctz(ranks) : -1;
}

void steps_ring(const struct flow *flow, int rank, struct kernel_reduce *what)
{
    what->ring = true;
    what->wants = flow->result;
    what->before = only(flow->from ? flow->from : flow->takes);
    what->next = only(flow->to ? flow->to : flow->gives);
    what->parts = flow->blocks;
    for (int owner = 0; owner < KERNEL_RANKS; owner++)
        what->part[owner] = flow->blocks == 1 ? (owner == rank ? 0 : -1) : owner < flow->blocks ? (int8_t)owner : -1;
}

void steps_chain(const struct flow *flow, struct kernel_chain *what)
{
    what->parts = flow->blocks;
    for (int part = 0; part < flow->blocks && part < KERNEL_RANKS; part++) {
        what->source[part] = flow->source[part];
        what->next[part] = flow->next[part];
    }
}
