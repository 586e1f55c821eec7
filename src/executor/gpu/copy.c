/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages by copy engine: no kernel, no processor of the GPU (ICCL section 3.2). Several at a time, and chains
 * of them. */
#include "executor/gpu/internal.h"

#include "base/error.h"

#define CHAIN_MOST 64 /* pieces of a chain */

/* Begins a message and lists it. */
static tutti_result_t begin(struct gpu *gpu, struct transfer *list, int *count, struct transfer transfer,
                            CUstream stream)
{
    struct transfer *place = &list[(*count)++];
    *place = transfer;
    return transfer_begin(gpu, place, stream);
}

/*
 * Pieces of all messages, one a peer and way at most, in turn: none of them waits for the end of another. What is sent
 * comes first, and then what is received: where streams share a hardware queue, in which a waiting one holds up the
 * others, ranks would otherwise wait for one another.
 */
static tutti_result_t pass_pieces(struct gpu *gpu, const struct transfer *list, int count, CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    bool any = true;
    for (uint32_t index = 0; any; index++) {
        any = false;
        for (int i = 0; i < 2 * count; i++)
            if (list[i % count].sends == (i < count))
                any |= transfer_piece(gpu, &list[i % count], index, stream, &result);
    }
    return result;
}

static tutti_result_t end_all(struct gpu *gpu, const struct transfer *list, int count, CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = transfer_end(gpu, &list[i], stream);
    return result;
}

/* One message from `from` and one to `to`, of those that go this way. `after`: the last one sent; NULL: no matter. */
static tutti_result_t begin_pair(struct gpu *gpu, const struct kernel_exchange *what, const uint32_t *ways, int from,
                                 int to, const struct transfer **after, struct transfer *list, int *count,
                                 CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (ways[1] >> from & 1)
        result =
            begin(gpu, list, count,
                  (struct transfer){.peer = from, .memory = what->recv[from], .bytes = what->recv_bytes[from]}, stream);
    if (result != TUTTI_SUCCESS || !(ways[0] >> to & 1))
        return result;
    result = begin(gpu, list, count,
                   (struct transfer){.peer = to,
                                     .sends = true,
                                     .memory = (char *)(uintptr_t)what->send[to],
                                     .bytes = what->send_bytes[to],
                                     .after = after ? *after : NULL},
                   stream);
    if (after)
        *after = &list[*count - 1];
    return result;
}

static tutti_result_t copy_own(struct gpu *gpu, const struct kernel_exchange *what, CUstream stream)
{
    int me = gpu->rank;
    if (!what->send_bytes[me] || what->send[me] == what->recv[me])
        return TUTTI_SUCCESS;
    order_more(gpu);
    return gpu_copy(gpu, stream, device_address(what->recv[me]), device_address(what->send[me]), what->send_bytes[me]);
}

/*
 * `sends`, `recvs`: bits of the peers whose messages go this way. In step k everybody sends to the k-th rank behind it.
 * `in_turn`: one after another. Otherwise two GPUs may come to push to the same one at a time, which halves the speed
 * of both, and stay so. Sends and receives of a group must not wait for one another: their peers may order them in any
 * way.
 */
tutti_result_t copy_exchange(struct gpu *gpu, const struct kernel_exchange *what, uint32_t sends, uint32_t recvs,
                             bool in_turn, CUstream stream)
{
    struct transfer list[2 * KERNEL_RANKS];
    const struct transfer *last = NULL;
    const uint32_t ways[2] = {sends, recvs};
    int count = 0, n = gpu->nranks;
    tutti_result_t result = TUTTI_SUCCESS;
    if (sends | recvs)
        record_copies(gpu);
    for (int k = 1; k < n && result == TUTTI_SUCCESS; k++)
        result = begin_pair(gpu, what, ways, (gpu->rank - k + n) % n, (gpu->rank + k) % n, in_turn ? &last : NULL, list,
                            &count, stream);
    if (result == TUTTI_SUCCESS)
        result = copy_own(gpu, what, stream);
    if (result == TUTTI_SUCCESS)
        result = pass_pieces(gpu, list, count, stream);
    return result == TUTTI_SUCCESS ? end_all(gpu, list, count, stream) : result;
}

/*
 * From rank `before` (-1: this rank has it) to rank `after` (-1: it ends here), in pieces: a piece goes on when it has
 * come, while the next ones come in. The user's stream waits for each piece's arrival, and for the sends only at the
 * end.
 */
tutti_result_t copy_chain(struct gpu *gpu, const char *from, char *to, uint64_t bytes, uint64_t piece, int before,
                          int after, CUstream stream)
{
    struct transfer in[CHAIN_MOST], out[CHAIN_MOST];
    int ins = 0, outs = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint64_t at = 0; before >= 0 && at < bytes && result == TUTTI_SUCCESS; at += piece) {
        struct transfer transfer = {
            .peer = before, .memory = to + at, .bytes = bytes - at < piece ? bytes - at : piece};
        result = begin(gpu, in, &ins, transfer, stream);
    }
    int next = 0;
    for (uint64_t at = 0; at < bytes && result == TUTTI_SUCCESS; at += piece, next++) {
        if (before >= 0)
            result = pass_pieces(gpu, &in[next], 1, stream);
        if (before >= 0 && result == TUTTI_SUCCESS)
            result = end_all(gpu, &in[next], 1, stream);
        if (after >= 0 && result == TUTTI_SUCCESS)
            result = begin(gpu, out, &outs,
                           (struct transfer){.peer = after,
                                             .sends = true,
                                             .memory = (char *)(uintptr_t)from + at,
                                             .bytes = bytes - at < piece ? bytes - at : piece},
                           stream);
        if (after >= 0 && result == TUTTI_SUCCESS)
            result = pass_pieces(gpu, &out[outs - 1], 1, stream);
    }
    return result == TUTTI_SUCCESS ? end_all(gpu, out, outs, stream) : result;
}

tutti_result_t copy_drain(struct gpu *gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < 2 * KERNEL_RANKS && result == TUTTI_SUCCESS; i++)
        result = side_wait_all(gpu, gpu->messages.copy[i / KERNEL_RANKS][i % KERNEL_RANKS]);
    return result;
}

void copy_close(struct gpu *gpu)
{
    for (int i = 0; i < 2 * KERNEL_RANKS; i++)
        side_end(gpu, gpu->messages.copy[i / KERNEL_RANKS][i % KERNEL_RANKS]);
    if (gpu->messages.mark)
        gpu->cu->EventDestroy(gpu->messages.mark);
}
