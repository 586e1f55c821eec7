/* SPDX-License-Identifier: Apache-2.0 */
/* What streams wait for and write: words of the mailbox. And streams of this rank beside users'. */
#include "executor/gpu/side.h"

#include "executor/gpu/gpu.h"

#include <string.h>

CUdeviceptr side_address(const struct gpu *gpu, const void *word)
{
    return gpu->mailbox_device + (CUdeviceptr)((const char *)word - (const char *)gpu->mailbox);
}

tutti_result_t side_wait(const struct gpu *gpu, CUstream stream, const _Atomic uint32_t *word, uint32_t value)
{
    return cuda_check(
        gpu->base.cu->StreamWaitValue32(stream, side_address(gpu, (const void *)word), value, CU_STREAM_WAIT_VALUE_GEQ),
        "waiting for a peer");
}

tutti_result_t side_write(const struct gpu *gpu, CUstream stream, const _Atomic uint32_t *word, uint32_t value)
{
    return cuda_check(gpu->base.cu->StreamWriteValue32(stream, side_address(gpu, (const void *)word), value, 0),
                      "telling a peer");
}

tutti_result_t side_issue(const struct gpu *gpu, struct side_words *words, CUstream stream)
{
    unsigned count = words->count;
    words->count = 0;
    return count ? cuda_check(gpu->base.cu->StreamBatchMemOp(stream, count, words->list, 0),
                              "waiting for peers, telling them")
                 : TUTTI_SUCCESS;
}

static tutti_result_t side_add(const struct gpu *gpu, struct side_words *words, CUstream stream,
                               CUstreamBatchMemOpType what, const _Atomic uint32_t *word, uint32_t value)
{
    tutti_result_t result = words->count == SIDE_WORDS ? side_issue(gpu, words, stream) : TUTTI_SUCCESS;
    CUstreamBatchMemOpParams *place = &words->list[words->count++];
    memset(place, 0, sizeof *place);
    place->waitValue = (struct CUstreamMemOpValueParams_st){
        .operation = what, .address = side_address(gpu, (const void *)word), .value = value};
    return result;
}

tutti_result_t side_add_wait(const struct gpu *gpu, struct side_words *words, CUstream stream,
                             const _Atomic uint32_t *word, uint32_t value)
{
    return side_add(gpu, words, stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, word, value); /* no flags: GEQ */
}

tutti_result_t side_add_write(const struct gpu *gpu, struct side_words *words, CUstream stream,
                              const _Atomic uint32_t *word, uint32_t value)
{
    return side_add(gpu, words, stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, word, value);
}

void side_release(_Atomic uint32_t *word, uint32_t value)
{
    if ((int32_t)(value - atomic_load(word)) > 0)
        atomic_store(word, value);
}
