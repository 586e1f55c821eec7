/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages by copy engine: no kernel, no processor of the GPU (ICCL section 3.2). Several at a time, and chains
 * of them. */
#include "executor/gpu/copy.h"

#include "base/error.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/memory.h"
#include "executor/gpu/observer.h"
#include "executor/gpu/side.h"
#include "executor/gpu/transfer.h"
#include "executor/stream/beside.h"
#include "executor/stream/ticket.h"

#define CHAIN_MOST 64 /* pieces of a chain */

/* Begins a message and lists it. */
static tutti_result_t begin(struct gpu *gpu, struct copies *copies, struct gpu_transfer transfer, CUstream stream)
{
    struct gpu_transfer *place = &copies->list[copies->count++];
    *place = transfer;
    return transfer_begin(gpu, place, &copies->words, stream);
}

/* Begins the message with what is copied for it, from where the stream is now. */
static tutti_result_t begin_now(struct gpu *gpu, struct gpu_transfer *list, int *count, struct gpu_transfer transfer,
                                CUstream stream)
{
    struct gpu_transfer *place = &list[(*count)++];
    struct side_words words = {.count = 0};
    *place = transfer;
    tutti_result_t result = transfer_begin(gpu, place, &words, stream);
    if (result == TUTTI_SUCCESS)
        result = side_issue(gpu, &words, stream);
    if (result == TUTTI_SUCCESS)
        result = beside_mark(&gpu->base, stream);
    return result == TUTTI_SUCCESS ? transfer_copy(gpu, place) : result;
}

/*
 * Pieces of all messages, one a peer and way at most, in turn: no message waits for the end of another. Where streams
 * share a hardware queue, a stream that waits holds up the others, and ranks could wait for one another. So what is
 * sent comes first, and then what is received.
 */
static tutti_result_t pass_pieces(struct gpu *gpu, const struct gpu_transfer *list, int count, CUstream stream)
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

/* `so_far`: also when it is a failure, streams beside have copies of the messages: what the user's stream does next, as
 * to free the memory, must come behind these. The helper lets the wait go when they are over. */
static tutti_result_t end_all(struct gpu *gpu, const struct gpu_transfer *list, int count, CUstream stream,
                              tutti_result_t so_far)
{
    struct side_words words = {.count = 0};
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = transfer_end(gpu, &list[i], &words, stream);
    if (result == TUTTI_SUCCESS)
        result = side_issue(gpu, &words, stream);
    return so_far == TUTTI_SUCCESS ? result : so_far;
}

/* The last message is left to the kernel: nothing of it is under way. */
static bool leave_last(struct copies *copies, uint32_t *way)
{
    const struct gpu_transfer *last = &copies->list[copies->count - 1];
    if (last->way != MAILBOX_STAGED || !last->by_kernel)
        return false;
    *way &= ~(1u << last->peer);
    copies->count--;
    return true;
}

static tutti_result_t begin_recv(struct gpu *gpu, const struct kernel_exchange *what, uint32_t *way, int from,
                                 struct copies *copies, CUstream stream)
{
    if (!(*way >> from & 1))
        return TUTTI_SUCCESS;
    struct gpu_transfer transfer = {.peer = from,
                                    .by_kernel = gpu->messages.by_kernel,
                                    .memory = what->recv[from],
                                    .bytes = what->recv_bytes[from]};
    tutti_result_t result = begin(gpu, copies, transfer, stream);
    if (result == TUTTI_SUCCESS)
        leave_last(copies, way);
    return result;
}

static uint64_t all_bytes(const struct gpu *gpu, const uint64_t *bytes, uint32_t set)
{
    uint64_t sum = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        sum += set >> peer & 1 ? bytes[peer] : 0;
    return sum;
}

/*
 * after: the last message sent; NULL: no matter. In turn, copies are pushed: a rank whose host is late would have to
 * pull what it gets besides, from ranks that push to others meanwhile. The kernel carries what this rank is too late
 * for.
 */
static tutti_result_t begin_send(struct gpu *gpu, const struct kernel_exchange *what, uint32_t *way, uint64_t sent,
                                 int to, const struct gpu_transfer **after, struct copies *copies, CUstream stream)
{
    if (!(*way >> to & 1))
        return TUTTI_SUCCESS;
    struct gpu_transfer transfer = {.peer = to,
                                    .sends = true,
                                    .by_kernel = gpu->messages.by_kernel,
                                    .pushed = after && gpu->messages.by_kernel && !gpu->here[to],
                                    .memory = (char *)(uintptr_t)what->send[to],
                                    .bytes = what->send_bytes[to],
                                    .sent = sent,
                                    .after = after ? *after : NULL};
    tutti_result_t result = begin(gpu, copies, transfer, stream);
    if (result == TUTTI_SUCCESS && !leave_last(copies, way) && after)
        *after = &copies->list[copies->count - 1];
    return result;
}

static tutti_result_t copy_own(struct gpu *gpu, const struct kernel_exchange *what, CUstream stream)
{
    int me = gpu->rank;
    if (!what->send_bytes[me] || what->send[me] == what->recv[me])
        return TUTTI_SUCCESS;
    ticket_more(&gpu->base);
    return gpu_copy(gpu, stream, device_address(what->recv[me]), device_address(what->send[me]), what->send_bytes[me]);
}

/*
 * In step k every rank sends to the k-th rank behind it; in a collective one step comes after another. Otherwise two
 * GPUs may come to push to the same one at a time, and stay so, which halves the speed of both. Sends and receives of a
 * group must not wait for one another: their peers may order them in any way.
 */
tutti_result_t copy_begin(struct gpu *gpu, const struct kernel_exchange *what, uint32_t ways[2], enum exchange kind,
                          CUstream stream, struct copies *copies)
{
    const struct gpu_transfer *last = NULL;
    uint64_t sent = all_bytes(gpu, what->send_bytes, ways[0]);
    int n = gpu->nranks;
    tutti_result_t result = TUTTI_SUCCESS;
    copies->count = 0;
    copies->words.count = 0;
    copies->kind = kind;
    for (int k = 1; k < n && result == TUTTI_SUCCESS; k++)
        result = begin_recv(gpu, what, &ways[1], (gpu->rank - k + n) % n, copies, stream);
    for (int k = 1; k < n && result == TUTTI_SUCCESS; k++)
        result = begin_send(gpu, what, &ways[0], sent, (gpu->rank + k) % n, kind == EXCHANGE_GROUP ? NULL : &last,
                            copies, stream);
    if (result == TUTTI_SUCCESS)
        result = side_issue(gpu, &copies->words, stream);
    return result == TUTTI_SUCCESS && copies->count ? beside_mark(&gpu->base, stream) : result;
}

/* Turns cost pauses between copies. Where no rank ends before all have come, all are waited for first. */
static tutti_result_t gpu_copy_copy_all(struct gpu *gpu, const struct copies *copies)
{
    const struct gpu_transfer *pushes[KERNEL_RANKS];
    int count = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < copies->count && result == TUTTI_SUCCESS; i++) {
        if (copies->kind == EXCHANGE_ALL && transfer_is_push(&copies->list[i]))
            pushes[count++] = &copies->list[i];
        else
            result = transfer_copy(gpu, &copies->list[i]);
    }
    return result == TUTTI_SUCCESS && count ? transfer_push_all(gpu, pushes, count) : result;
}

tutti_result_t copy_end(struct gpu *gpu, const struct kernel_exchange *what, const struct copies *copies,
                        CUstream stream)
{
    if (copies->count) {
        if (gpu->observer)
            gpu->observer->copies(gpu);
        ticket_more(&gpu->base);
    }
    tutti_result_t result = gpu_copy_copy_all(gpu, copies);
    if (result == TUTTI_SUCCESS)
        result = copy_own(gpu, what, stream);
    if (result == TUTTI_SUCCESS)
        result = pass_pieces(gpu, copies->list, copies->count, stream);
    return end_all(gpu, copies->list, copies->count, stream, result);
}

/*
 * From rank `before` (-1: this rank has it) to rank `after` (-1: it ends here), in pieces: a piece goes on when it has
 * come, while the next ones come in. The user's stream waits for each piece's arrival, and for the sends only at the
 * end.
 */
tutti_result_t copy_chain(struct gpu *gpu, const char *from, char *to, uint64_t bytes, uint64_t piece, int before,
                          int after, CUstream stream)
{
    struct gpu_transfer in[CHAIN_MOST], out[CHAIN_MOST];
    int ins = 0, outs = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint64_t at = 0; before >= 0 && at < bytes && result == TUTTI_SUCCESS; at += piece) {
        struct gpu_transfer transfer = {
            .peer = before, .memory = to + at, .bytes = bytes - at < piece ? bytes - at : piece};
        result = begin_now(gpu, in, &ins, transfer, stream);
    }
    int next = 0;
    for (uint64_t at = 0; at < bytes && result == TUTTI_SUCCESS; at += piece, next++) {
        if (before >= 0)
            result = pass_pieces(gpu, &in[next], 1, stream);
        if (before >= 0)
            result = end_all(gpu, &in[next], 1, stream, result);
        if (after >= 0 && result == TUTTI_SUCCESS)
            result = begin_now(gpu, out, &outs,
                               (struct gpu_transfer){.peer = after,
                                                     .sends = true,
                                                     .memory = (char *)(uintptr_t)from + at,
                                                     .bytes = bytes - at < piece ? bytes - at : piece},
                               stream);
        if (after >= 0 && result == TUTTI_SUCCESS)
            result = pass_pieces(gpu, &out[outs - 1], 1, stream);
    }
    if (next < ins)
        result = end_all(gpu, &in[next], ins - next, stream, result);
    return end_all(gpu, out, outs, stream, result);
}

tutti_result_t copy_drain(struct gpu *gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < 2 * KERNEL_RANKS && result == TUTTI_SUCCESS; i++)
        result = beside_wait_all(&gpu->base, gpu->messages.copy[i / KERNEL_RANKS][i % KERNEL_RANKS]);
    return result;
}

void copy_close(struct gpu *gpu)
{
    for (int i = 0; i < 2 * KERNEL_RANKS; i++)
        beside_end(&gpu->base, gpu->messages.copy[i / KERNEL_RANKS][i % KERNEL_RANKS]);
}
