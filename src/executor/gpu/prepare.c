/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a call, and the memory that it needs. */
#include "executor/gpu/prepare.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/failure.h"
#include "engine/op.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/peer_reduce.h"
#include "executor/gpu/scratch.h"
#include "executor/gpu/symmetric.h"

/* Calls repeat: the plans of the last one are kept. */
static const struct plan *prepare_plans(struct gpu *gpu, const struct call *call, bool symmetric)
{
    struct planned *last = &gpu->plan.planned[call->coll];
    if (!last->made || last->bytes != call->bytes || last->symmetric != symmetric || last->element != call->size ||
        last->together != call->together) {
        struct plan_facts facts = gpu->plan.facts;
        facts.symmetric = symmetric;
        facts.element = (unsigned)call->size;
        facts.together = call->together;
        *last = (struct planned){.made = true,
                                 .symmetric = symmetric,
                                 .element = call->size,
                                 .bytes = call->bytes,
                                 .together = call->together};
        for (int captured = 0; captured < 2; captured++)
            last->plan[captured] = plan_call(&gpu->plan.rules, &facts, call->coll, call->bytes, captured);
    }
    return last->plan;
}

static bool plans_have(const struct plan *plan, enum way way)
{
    return plan[0].way == way || plan[1].way == way;
}

static tutti_result_t prepare_memory(struct gpu *gpu, const struct call *call, struct prepared *prepared)
{
    const struct plan *plan = prepared->plan;
    bool loads = plans_have(plan, WAY_PEER_LOAD) && !prepared->symmetric,
         bulk = !gpu->scratch.bulk_posted && (plan[0].needs_bulk || plan[1].needs_bulk);
    tutti_result_t result = TUTTI_SUCCESS;
    if (!loads && !bulk)
        return result;
    cuda_enter(gpu->base.device);
    if (loads)
        result = peer_reduce_prepare(gpu, call, prepared);
    if (result == TUTTI_SUCCESS && bulk)
        result = scratch_post_bulk(gpu);
    cuda_leave();
    return result == TUTTI_SUCCESS
               ? result
               : team_fail(gpu->base.team, result, gpu->rank, error_last()); /* peers wait for what is not there */
}

bool prepare_is_empty(const struct call *call)
{
    return !call->count && call->coll != COLL_BARRIER && call->coll != COLL_ALLTOALLV;
}

tutti_result_t prepare_call(struct gpu *gpu, const struct call *call, struct prepared *out)
{
    *out = (struct prepared){.symmetric = symmetric_holds(gpu, call)};
    if (prepare_is_empty(call))
        return TUTTI_SUCCESS;
    const struct plan *plan = prepare_plans(gpu, call, out->symmetric);
    out->plan[0] = plan[0];
    out->plan[1] = plan[1];
    return prepare_memory(gpu, call, out);
}
