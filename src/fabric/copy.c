/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large messages by copy engine: no kernel, no processor of the GPU, no staging (ICCL section 3.2). The receiver posts where its
 * buffer is; the sender maps it, once for each allocation, and copies on a stream of its own. Words on the board order the
 * streams: ready (the receiver's stream has come to the receive), done (the data is there). The call returns at once on both
 * sides: when the post is not there yet, the copy is issued later by the helper.
 */
#include "fabric/internal.h"

#include "base/error.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Peers' buffers ------------------------------------------------------------------------------------------------ */

static bool overlap(const struct import *import, const struct board_buffer *buffer)
{
    return import->base < buffer->base + buffer->handle.size && buffer->base < import->base + import->handle.size;
}

/*
 * Closing a mapping may wait for all work of the context, and that may wait for what this thread is about to issue. So mappings
 * that are not wanted any more are kept until the fabric has nothing under way.
 */
static void retire(struct fabric *fabric, struct import *import)
{
    struct retired *retired = import->used ? malloc(sizeof *retired) : NULL;
    if (retired) { /* without memory it stays mapped */
        *retired = (struct retired){.handle = import->handle, .address = import->address};
        list_push(&fabric->retired, &retired->node);
        fabric->retired_count++;
    }
    import->used = 0;
}

static void close_retired(struct fabric *fabric)
{
    while (!list_empty(&fabric->retired)) {
        struct retired *retired = list_entry(fabric->retired.next, struct retired, node);
        list_remove(&retired->node);
        cuda_unimport(fabric->device, &retired->handle, retired->address);
        free(retired);
    }
    fabric->retired_count = 0;
}

void copy_tidy(struct fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    if (fabric->retired_count > RETIRED_MOST && list_empty(&fabric->pending) &&
        fabric->cu->EventQuery(fabric->order) == CUDA_SUCCESS)
        close_retired(fabric);
    pthread_mutex_unlock(&fabric->lock);
}

/* The place for a new one. What lies where the new one lies was freed by the peer. */
static struct import *make_room(struct fabric *fabric, int peer, const struct board_buffer *buffer)
{
    struct import *oldest = &fabric->import[peer][0];
    for (int i = 0; i < IMPORTS; i++) {
        struct import *import = &fabric->import[peer][i];
        if (import->used && overlap(import, buffer))
            retire(fabric, import);
        if (import->used < oldest->used)
            oldest = import;
    }
    retire(fabric, oldest);
    return oldest;
}

static tutti_result_t find(struct fabric *fabric, int peer, const struct board_buffer *buffer, CUdeviceptr *out)
{
    bool imported;
    *out = buffer->address;
    if (fabric->here[peer])
        return TUTTI_SUCCESS;
    for (int i = 0; i < IMPORTS; i++) {
        struct import *import = &fabric->import[peer][i];
        if (!import->used || import->id != buffer->handle.id || import->base != buffer->base)
            continue;
        import->used = ++fabric->imports_used;
        *out = import->address + (buffer->address - buffer->base);
        return TUTTI_SUCCESS;
    }
    struct import *import = make_room(fabric, peer, buffer);
    tutti_result_t result = scratch_reach(fabric, peer, buffer, out, &imported);
    if (result == TUTTI_SUCCESS)
        *import = (struct import){.id = buffer->handle.id, .base = buffer->base, .used = ++fabric->imports_used, .handle = buffer->handle,
                                  .address = *out - (buffer->address - buffer->base)};
    return result;
}

/* ---- Sending ------------------------------------------------------------------------------------------------------- */

static void release_mark(struct fabric *fabric, struct mark *mark)
{
    if (--mark->users)
        return;
    fabric->cu->EventDestroy(mark->event);
    free(mark);
}

static tutti_result_t copy_stream(struct fabric *fabric, int peer)
{
    if (fabric->copy[peer])
        return TUTTI_SUCCESS;
    return cuda_check(fabric->cu->StreamCreateWithPriority(&fabric->copy[peer], CU_STREAM_NON_BLOCKING, 0), "making a stream");
}

static tutti_result_t enqueue(struct fabric *fabric, const struct transfer *transfer, CUdeviceptr to)
{
    const struct cuda_driver *cu = fabric->cu;
    struct board_pair *pair = &fabric->board->pair[fabric->rank][transfer->peer];
    tutti_result_t result = copy_stream(fabric, transfer->peer);
    CUstream stream = fabric->copy[transfer->peer];
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->StreamWaitEvent(stream, transfer->mark->event, 0), "ordering a copy");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->StreamWaitValue32(stream, board_address(fabric, &pair->ready), transfer->sequence, CU_STREAM_WAIT_VALUE_GEQ),
                            "waiting for the receiver's stream");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->MemcpyDtoDAsync(to, (CUdeviceptr)(uintptr_t)transfer->from, transfer->bytes, stream), "copying to a peer");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->StreamWriteValue32(stream, board_address(fabric, &pair->done), transfer->sequence, 0), "telling the receiver");
    return result;
}

/* TUTTI_IN_PROGRESS: the receiver has not posted. */
static tutti_result_t try_transfer(struct fabric *fabric, const struct transfer *transfer)
{
    struct board_pair *pair = &fabric->board->pair[fabric->rank][transfer->peer];
    struct board_post *post = &pair->post[transfer->sequence % BOARD_POSTS];
    if (atomic_load_explicit(&post->sequence, memory_order_acquire) != transfer->sequence)
        return TUTTI_IN_PROGRESS;
    struct board_buffer buffer = post->buffer;
    uint64_t bytes = post->bytes;
    CUdeviceptr to = 0;
    atomic_store_explicit(&pair->taken, transfer->sequence, memory_order_release);
    if (bytes != transfer->bytes)
        return error_set(TUTTI_INVALID_USAGE, "rank %d sends %llu bytes to rank %d, which expects %llu", fabric->rank,
                         (unsigned long long)transfer->bytes, transfer->peer, (unsigned long long)bytes);
    tutti_result_t result = find(fabric, transfer->peer, &buffer, &to);
    return result == TUTTI_SUCCESS ? enqueue(fabric, transfer, to) : result;
}

static void end_transfer(struct fabric *fabric, struct transfer *transfer)
{
    list_remove(&transfer->node);
    release_mark(fabric, transfer->mark);
    free(transfer);
}

/* In order for each peer; peers do not wait for one another. */
static void push_locked(struct fabric *fabric)
{
    uint32_t blocked = 0;
    for (struct list *node = fabric->pending.next, *next; node != &fabric->pending; node = next) {
        struct transfer *transfer = list_entry(node, struct transfer, node);
        next = node->next;
        if (blocked >> transfer->peer & 1)
            continue;
        tutti_result_t result = try_transfer(fabric, transfer);
        if (result == TUTTI_IN_PROGRESS) {
            blocked |= 1u << transfer->peer;
            continue;
        }
        if (result != TUTTI_SUCCESS) {
            team_fail(fabric->team, result, fabric->rank, error_last());
            board_ring(fabric->board, fabric->rank);
        }
        end_transfer(fabric, transfer);
    }
}

void copy_pending(struct fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    push_locked(fabric);
    pthread_mutex_unlock(&fabric->lock);
}

void copy_drop(struct fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    while (!list_empty(&fabric->pending))
        end_transfer(fabric, list_entry(fabric->pending.next, struct transfer, node));
    pthread_mutex_unlock(&fabric->lock);
}

void fabric_push(struct fabric *fabric)
{
    cuda_enter(fabric->device);
    copy_pending(fabric);
    cuda_leave();
}

/* ---- Issuing ------------------------------------------------------------------------------------------------------- */

static tutti_result_t wait_for_place(struct fabric *fabric, struct board_pair *pair, uint32_t sequence)
{
    while ((int32_t)(sequence - atomic_load_explicit(&pair->taken, memory_order_acquire)) > BOARD_POSTS) {
        tutti_result_t result = fabric_failure(fabric);
        if (result != TUTTI_SUCCESS)
            return result;
        copy_pending(fabric);
        sched_yield();
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t post_recv(struct fabric *fabric, int peer, void *to, uint64_t bytes, CUstream stream)
{
    struct board_pair *pair = &fabric->board->pair[peer][fabric->rank];
    uint32_t sequence = atomic_load_explicit(&fabric->received[peer], memory_order_relaxed) + 1;
    struct board_post *post = &pair->post[sequence % BOARD_POSTS];
    struct board_buffer buffer;
    tutti_result_t result = scratch_describe(fabric, (CUdeviceptr)(uintptr_t)to, &buffer);
    if (result == TUTTI_SUCCESS)
        result = wait_for_place(fabric, pair, sequence);
    if (result != TUTTI_SUCCESS)
        return result;
    atomic_store_explicit(&fabric->received[peer], sequence, memory_order_relaxed);
    post->buffer = buffer;
    post->bytes = bytes;
    atomic_store_explicit(&post->sequence, sequence, memory_order_release);
    board_ring(fabric->board, peer);
    return cuda_check(fabric->cu->StreamWriteValue32(stream, board_address(fabric, &pair->ready), sequence, 0), "telling the sender");
}

static tutti_result_t queue_send(struct fabric *fabric, int peer, const void *from, uint64_t bytes, struct mark *mark)
{
    struct transfer *transfer = malloc(sizeof *transfer);
    if (!transfer)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a send");
    uint32_t sequence = atomic_load_explicit(&fabric->sent[peer], memory_order_relaxed) + 1;
    atomic_store_explicit(&fabric->sent[peer], sequence, memory_order_relaxed);
    *transfer = (struct transfer){.peer = peer, .from = from, .bytes = bytes, .sequence = sequence, .mark = mark};
    pthread_mutex_lock(&fabric->lock);
    mark->users++;
    list_push(&fabric->pending, &transfer->node);
    pthread_mutex_unlock(&fabric->lock);
    return TUTTI_SUCCESS;
}

static tutti_result_t queue_sends(struct fabric *fabric, const struct kernel_exchange *what, uint32_t sends, CUstream stream)
{
    struct mark *mark = malloc(sizeof *mark);
    if (!mark)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a send");
    tutti_result_t result = cuda_check(fabric->cu->EventCreate(&mark->event, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result != TUTTI_SUCCESS) {
        free(mark);
        return result;
    }
    mark->users = 1;
    result = cuda_check(fabric->cu->EventRecord(mark->event, stream), "marking a stream");
    for (int k = 1; k < fabric->nranks && result == TUTTI_SUCCESS; k++) { /* not everybody to the same peer first */
        int peer = (fabric->rank + k) % fabric->nranks;
        if (sends >> peer & 1)
            result = queue_send(fabric, peer, what->send[peer], what->send_bytes[peer], mark);
    }
    pthread_mutex_lock(&fabric->lock);
    release_mark(fabric, mark);
    pthread_mutex_unlock(&fabric->lock);
    return result;
}

static tutti_result_t wait_done(struct fabric *fabric, _Atomic uint32_t *done, uint32_t sequence, CUstream stream)
{
    return cuda_check(fabric->cu->StreamWaitValue32(stream, board_address(fabric, done), sequence, CU_STREAM_WAIT_VALUE_GEQ),
                      "waiting for a copy");
}

/* `sends`, `recvs`: bits of the peers whose messages go this way. */
tutti_result_t copy_exchange(struct fabric *fabric, const struct kernel_exchange *what, uint32_t sends, uint32_t recvs, CUstream stream)
{
    struct board *board = fabric->board;
    int me = fabric->rank;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int peer = 0; peer < fabric->nranks && result == TUTTI_SUCCESS; peer++)
        if (recvs >> peer & 1)
            result = post_recv(fabric, peer, what->recv[peer], what->recv_bytes[peer], stream);
    if (result == TUTTI_SUCCESS && sends)
        result = queue_sends(fabric, what, sends, stream);
    copy_pending(fabric);
    for (int peer = 0; peer < fabric->nranks && result == TUTTI_SUCCESS; peer++) {
        if (recvs >> peer & 1)
            result = wait_done(fabric, &board->pair[peer][me].done, atomic_load(&fabric->received[peer]), stream);
        if (result == TUTTI_SUCCESS && sends >> peer & 1)
            result = wait_done(fabric, &board->pair[me][peer].done, atomic_load(&fabric->sent[peer]), stream);
    }
    return result;
}

/*
 * From rank `before` (-1: this rank has it) to rank `after` (-1: it ends here), in pieces: a piece goes on when it has come, while
 * the next ones come in. The user's stream waits for each piece's arrival, and for the sends only at the end.
 */
tutti_result_t copy_chain(struct fabric *fabric, const char *from, char *to, uint64_t bytes, uint64_t piece, int before, int after,
                          CUstream stream)
{
    struct board *board = fabric->board;
    struct kernel_exchange what;
    uint32_t first = before < 0 ? 0 : atomic_load(&fabric->received[before]);
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint64_t at = 0; before >= 0 && at < bytes && result == TUTTI_SUCCESS; at += piece)
        result = post_recv(fabric, before, to + at, bytes - at < piece ? bytes - at : piece, stream);
    for (uint64_t at = 0; at < bytes && result == TUTTI_SUCCESS; at += piece) {
        if (before >= 0)
            result = wait_done(fabric, &board->pair[before][fabric->rank].done, ++first, stream);
        if (after < 0 || result != TUTTI_SUCCESS)
            continue;
        memset(&what, 0, sizeof what);
        what.send[after] = from + at;
        what.send_bytes[after] = bytes - at < piece ? bytes - at : piece;
        result = queue_sends(fabric, &what, 1u << after, stream);
        copy_pending(fabric);
    }
    if (after >= 0 && result == TUTTI_SUCCESS)
        result = wait_done(fabric, &board->pair[fabric->rank][after].done, atomic_load(&fabric->sent[after]), stream);
    return result;
}

void copy_close(struct fabric *fabric)
{
    copy_drop(fabric);
    for (int peer = 0; peer < fabric->nranks; peer++) {
        if (fabric->copy[peer]) {
            fabric->cu->StreamSynchronize(fabric->copy[peer]);
            fabric->cu->StreamDestroy(fabric->copy[peer]);
        }
        for (int i = 0; i < IMPORTS; i++)
            retire(fabric, &fabric->import[peer][i]);
    }
    close_retired(fabric);
}
