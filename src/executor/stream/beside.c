/* SPDX-License-Identifier: Apache-2.0 */
/* Streams beside users' streams. */
#include "executor/stream/beside.h"

#include "base/error.h"
#include "executor/stream/base.h"

tutti_result_t beside_make(const struct stream_base *owner, CUstream *side)
{
    return *side ? TUTTI_SUCCESS
                 : cuda_check(owner->cu->StreamCreateWithPriority(side, CU_STREAM_NON_BLOCKING, 0), "making a stream");
}

void beside_end(const struct stream_base *owner, CUstream side)
{
    if (!side)
        return;
    owner->cu->StreamSynchronize(side);
    owner->cu->StreamDestroy(side);
}

tutti_result_t beside_wait_all(const struct stream_base *owner, CUstream side)
{
    return side ? cuda_check(owner->cu->StreamSynchronize(side), "waiting for copies") : TUTTI_SUCCESS;
}

tutti_result_t beside_mark(const struct stream_base *base, CUstream stream)
{
    return cuda_check(base->cu->EventRecord(base->mark, stream), "marking a stream");
}

tutti_result_t beside_branch(const struct stream_base *base, const struct stream_base *owner, CUstream *side)
{
    tutti_result_t result = beside_make(owner, side);
    return result == TUTTI_SUCCESS ? cuda_check(base->cu->StreamWaitEvent(*side, base->mark, 0), "ordering a copy")
                                   : result;
}
