/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages by copy engine: no kernel, no processor of the GPU (ICCL section 3.2). Several at a time, and chains of them. */
#include "fabric/internal.h"

#include "base/error.h"

#define CHAIN_MOST 64 /* pieces of a chain */

/* Begins a message and lists it. */
static tutti_result_t begin(struct fabric *fabric, struct message *list, int *count, struct message message, CUstream stream)
{
    struct message *place = &list[(*count)++];
    *place = message;
    return message_begin(fabric, place, stream);
}

/* Pieces of all senders in turn: none of them waits for the end of another's message. */
static tutti_result_t end_all(struct fabric *fabric, const struct message *list, int count, CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    bool any = true;
    for (uint32_t index = 0; any; index++) {
        any = false;
        for (int i = 0; i < count; i++)
            any |= message_piece(fabric, &list[i], index, stream, &result);
    }
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = message_end(fabric, &list[i], stream);
    return result;
}

/* `sends`, `recvs`: bits of the peers whose messages go this way. */
tutti_result_t copy_exchange(struct fabric *fabric, const struct kernel_exchange *what, uint32_t sends, uint32_t recvs, CUstream stream)
{
    struct message list[2 * KERNEL_RANKS];
    int count = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    record_way(fabric, &record_copy);
    for (int peer = 0; peer < fabric->nranks && result == TUTTI_SUCCESS; peer++)
        if (recvs >> peer & 1)
            result = begin(fabric, list, &count, (struct message){.peer = peer, .memory = what->recv[peer], .bytes = what->recv_bytes[peer]}, stream);
    for (int k = 1; k < fabric->nranks && result == TUTTI_SUCCESS; k++) { /* not everybody to the same peer first */
        int peer = (fabric->rank + k) % fabric->nranks;
        if (sends >> peer & 1)
            result = begin(fabric, list, &count,
                           (struct message){.peer = peer, .sends = true, .memory = (char *)(uintptr_t)what->send[peer], .bytes = what->send_bytes[peer]},
                           stream);
    }
    return result == TUTTI_SUCCESS ? end_all(fabric, list, count, stream) : result;
}

/*
 * From rank `before` (-1: this rank has it) to rank `after` (-1: it ends here), in pieces: a piece goes on when it has come, while
 * the next ones come in. The user's stream waits for each piece's arrival, and for the sends only at the end.
 */
tutti_result_t copy_chain(struct fabric *fabric, const char *from, char *to, uint64_t bytes, uint64_t piece, int before, int after,
                          CUstream stream)
{
    struct message in[CHAIN_MOST], out[CHAIN_MOST];
    int ins = 0, outs = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint64_t at = 0; before >= 0 && at < bytes && result == TUTTI_SUCCESS; at += piece)
        result = begin(fabric, in, &ins, (struct message){.peer = before, .memory = to + at, .bytes = bytes - at < piece ? bytes - at : piece}, stream);
    int next = 0;
    for (uint64_t at = 0; at < bytes && result == TUTTI_SUCCESS; at += piece, next++) {
        if (before >= 0)
            result = end_all(fabric, &in[next], 1, stream);
        if (after >= 0 && result == TUTTI_SUCCESS)
            result = begin(fabric, out, &outs,
                           (struct message){.peer = after, .sends = true, .memory = (char *)(uintptr_t)from + at,
                                            .bytes = bytes - at < piece ? bytes - at : piece},
                           stream);
    }
    return result == TUTTI_SUCCESS ? end_all(fabric, out, outs, stream) : result;
}

void copy_close(struct fabric *fabric)
{
    for (int i = 0; i < 2 * KERNEL_RANKS; i++) {
        CUstream stream = fabric->copy[i / KERNEL_RANKS][i % KERNEL_RANKS];
        if (!stream)
            continue;
        fabric->cu->StreamSynchronize(stream);
        fabric->cu->StreamDestroy(stream);
    }
    if (fabric->mark)
        fabric->cu->EventDestroy(fabric->mark);
}
