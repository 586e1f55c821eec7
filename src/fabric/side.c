/* SPDX-License-Identifier: Apache-2.0 */
/* What streams wait for and write: words of the board. And streams of this rank beside users'. */
#include "fabric/internal.h"

tutti_result_t side_wait(const struct fabric *fabric, CUstream stream, const _Atomic uint32_t *word, uint32_t value)
{
    return cuda_check(fabric->cu->StreamWaitValue32(stream, board_address(fabric, (const void *)word), value, CU_STREAM_WAIT_VALUE_GEQ),
                      "waiting for a peer");
}

tutti_result_t side_write(const struct fabric *fabric, CUstream stream, const _Atomic uint32_t *word, uint32_t value)
{
    return cuda_check(fabric->cu->StreamWriteValue32(stream, board_address(fabric, (const void *)word), value, 0), "telling a peer");
}

tutti_result_t side_make(const struct fabric *owner, CUstream *side)
{
    return *side ? TUTTI_SUCCESS : cuda_check(owner->cu->StreamCreateWithPriority(side, CU_STREAM_NON_BLOCKING, 0), "making a stream");
}

tutti_result_t side_mark(const struct fabric *fabric, CUstream stream)
{
    return cuda_check(fabric->cu->EventRecord(fabric->mark, stream), "marking a stream");
}

tutti_result_t side_branch(const struct fabric *fabric, const struct fabric *owner, CUstream *side)
{
    tutti_result_t result = side_make(owner, side);
    return result == TUTTI_SUCCESS ? cuda_check(fabric->cu->StreamWaitEvent(*side, fabric->mark, 0), "ordering a copy") : result;
}

tutti_result_t side_wait_all(const struct fabric *owner, CUstream side)
{
    return side ? cuda_check(owner->cu->StreamSynchronize(side), "waiting for copies") : TUTTI_SUCCESS;
}

void side_end(const struct fabric *owner, CUstream side)
{
    if (!side)
        return;
    owner->cu->StreamSynchronize(side);
    owner->cu->StreamDestroy(side);
}

void side_release(_Atomic uint32_t *word, uint32_t value)
{
    if ((int32_t)(value - atomic_load(word)) > 0)
        atomic_store(word, value);
}
