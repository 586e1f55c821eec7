/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message between two ranks by copy engine. Once both calls have returned, it needs no host any more: all that it
 * takes lies in streams. The end whose call comes first says how it is to go and where its data are; the other one does
 * the copying, in either direction. So nobody has to come back to a message later, and a host that is stopped in the
 * driver stops no message.
 */
#include "executor/gpu/transfer.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/numbers.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/here.h"
#include "executor/gpu/imported.h"
#include "executor/gpu/layout.h"
#include "executor/gpu/memory.h"
#include "executor/gpu/mixing.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/opened.h"
#include "executor/gpu/side.h"
#include "executor/stream/beside.h"
#include "executor/stream/ticket.h"

static struct mailbox_pair *transfer_pair_of(const struct gpu *gpu, const struct gpu_transfer *transfer)
{
    return transfer->sends ? &gpu->messages.pair[gpu->rank][transfer->peer]
                           : &gpu->messages.pair[transfer->peer][gpu->rank];
}

static int end_of(const struct gpu_transfer *transfer)
{
    return transfer->sends ? 0 : 1;
}

/* ---- What streams do ---- */

/* Within a process copies are pushed, if need be on a stream of the sender's. */
static bool is_pushed(const struct gpu *gpu, const struct gpu_transfer *transfer)
{
    return (transfer->way == MAILBOX_HERE && gpu->messages.pushes) || transfer->sends == transfer->copies;
}

static struct mailbox_turn transfer_turn_of(const struct gpu *gpu, const struct gpu_transfer *transfer)
{
    const struct gpu_transfer *after = transfer->after;
    if (!after || after->way == MAILBOX_STAGED)
        return (struct mailbox_turn){0};
    return (struct mailbox_turn){
        .number = after->number, .to = (uint16_t)after->peer, .pulled = !is_pushed(gpu, after)};
}

static tutti_result_t wait_turn(struct gpu *owner, struct side_words *words, CUstream side, int from,
                                const struct mailbox_turn *turn)
{
    struct mailbox_pair *pair = &owner->messages.pair[from][turn->to];
    return turn->number ? side_add_wait(owner, words, side, turn->pulled ? &pair->pulled : &pair->pushed, turn->number)
                        : TUTTI_SUCCESS;
}

/*
 * Asked after this rank has said that there will be a copy. A rank that gives up says so and then looks for copies; if
 * it sees none, its user's buffers are free. So one of the two sees the other.
 */
static tutti_result_t still_wanted(struct gpu *gpu, int peer)
{
    bool failed = atomic_load(&gpu->base.team->failed) || atomic_load(&gpu->failure->state);
    return failed ? gpu_hear_failure(gpu) : gpu_needs(gpu, 1u << peer);
}

/* Within a process. One GPU copies if it addresses both ends; otherwise the driver lets each GPU deal with its own
 * memory. */
static tutti_result_t copy_here(const struct gpu *gpu, const struct gpu *owner, CUstream side,
                                const struct gpu_transfer *transfer, const struct mailbox_post *post)
{
    CUdeviceptr mine = device_address(transfer->memory), theirs = post->address;
    CUcontext here = gpu->base.device->context, there = (CUcontext)(uintptr_t)post->context;
    if (post->reached && memory_is_reached(gpu, transfer->memory))
        return gpu_copy(owner, side, transfer->sends ? theirs : mine, transfer->sends ? mine : theirs, transfer->bytes);
    return cuda_check(transfer->sends
                          ? owner->base.cu->MemcpyPeerAsync(theirs, there, mine, here, transfer->bytes, side)
                          : owner->base.cu->MemcpyPeerAsync(mine, here, theirs, there, transfer->bytes, side),
                      "copying memory of one GPU to another");
}

static tutti_result_t copy_mapped(const struct gpu *gpu, CUstream side, const struct gpu_transfer *transfer,
                                  const struct mailbox_post *post)
{
    CUdeviceptr mine = device_address(transfer->memory),
                theirs = imported_address(gpu, transfer->peer, post->offer) + post->address;
    return gpu_copy(gpu, side, transfer->sends ? theirs : mine, transfer->sends ? mine : theirs, transfer->bytes);
}

/* Says to which message, or piece, this rank's stream has come, where no peer's stream waits for that word: mixing.c
 * looks at it. `stream` is that one or behind it. */
static tutti_result_t tell_coming(const struct gpu *owner, struct side_words *words, CUstream stream,
                                  const _Atomic uint32_t *word, uint32_t number)
{
    bool mixing = atomic_load_explicit(owner->captured, memory_order_relaxed);
    return mixing ? side_add_write(owner, words, stream, word, number) : TUTTI_SUCCESS;
}

/* Copies by `owner`'s copy engine, at the sender's end or at the receiver's, from where this rank's stream was marked.
 */
static tutti_result_t transfer_copy_by(struct gpu *gpu, struct gpu *owner, CUstream *side, bool pushes,
                                       const struct gpu_transfer *transfer, const struct mailbox_post *post,
                                       const struct mailbox_turn *turn)
{
    int from = transfer->sends ? gpu->rank : transfer->peer, to = transfer->sends ? transfer->peer : gpu->rank;
    struct mailbox_pair *pair = &owner->messages.pair[from][to];
    _Atomic uint32_t *copying = pushes ? &pair->pushing : &pair->pulling;
    uint32_t before = atomic_exchange(copying, transfer->number);
    struct side_words words = {.count = 0};
    tutti_result_t result = still_wanted(gpu, transfer->peer);
    if (result == TUTTI_SUCCESS)
        result = beside_branch(&gpu->base, &owner->base, side);
    if (result == TUTTI_SUCCESS)
        result = tell_coming(owner, &words, *side, &pair->at_copy[end_of(transfer)], transfer->number);
    if (result == TUTTI_SUCCESS)
        result = wait_turn(owner, &words, *side, from, turn);
    if (result == TUTTI_SUCCESS)
        result =
            side_add_wait(owner, &words, *side, transfer->sends ? &pair->at_recv : &pair->at_send, transfer->number);
    if (result == TUTTI_SUCCESS)
        result = side_issue(owner, &words, *side);
    if (result == TUTTI_SUCCESS)
        result = post->way == MAILBOX_HERE ? copy_here(gpu, owner, *side, transfer, post)
                                           : copy_mapped(gpu, *side, transfer, post);
    if (result != TUTTI_SUCCESS) { /* there is none */
        atomic_store(copying, before);
        return result;
    }
    return side_write(owner, *side, pushes ? &pair->pushed : &pair->pulled, transfer->number);
}

/* Pushing is faster than pulling. But a push comes behind what the peer's stream waits for, if they share a queue, and
 * that may be this very copy. */
static tutti_result_t push_for_peer(struct gpu *gpu, const struct gpu_transfer *transfer,
                                    const struct mailbox_post *post)
{
    struct gpu *peer = here_visit_rank(gpu, transfer->peer);
    if (!peer)
        return error_set(TUTTI_REMOTE_ERROR, "copy from rank %d: it has closed its end",
                         team_told_rank(gpu->base.team, transfer->peer));
    cuda_enter(peer->base.device);
    tutti_result_t result =
        transfer_copy_by(gpu, peer, &peer->messages.copy[0][gpu->rank], true, transfer, post, &post->after);
    cuda_leave();
    here_go(peer);
    return result;
}

static tutti_result_t copy_whole(struct gpu *gpu, const struct gpu_transfer *transfer)
{
    const struct mailbox_post *post = &transfer->post;
    struct mailbox_turn turn = transfer->sends ? transfer_turn_of(gpu, transfer) : post->after;
    if (post->way == MAILBOX_HERE && !transfer->sends && gpu->messages.pushes)
        return push_for_peer(gpu, transfer, post);
    return transfer_copy_by(gpu, gpu, &gpu->messages.copy[end_of(transfer)][transfer->peer], transfer->sends, transfer,
                            post, &turn);
}

bool transfer_is_push(const struct gpu_transfer *transfer)
{
    return transfer->way == MAILBOX_MAPPED && transfer->sends && transfer->copies;
}

/* Says that there will be copies; before: what was said of the ones before. */
static tutti_result_t say_pushing(struct gpu *gpu, const struct gpu_transfer *const *list, int count, uint32_t *before)
{
    for (int i = 0; i < count; i++)
        before[i] = atomic_exchange(&transfer_pair_of(gpu, list[i])->pushing, list[i]->number);
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = still_wanted(gpu, list[i]->peer);
    return result;
}

static tutti_result_t push_all(struct gpu *gpu, CUstream side, const struct gpu_transfer *const *list, int count)
{
    struct side_words words = {.count = 0};
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = tell_coming(gpu, &words, side, &transfer_pair_of(gpu, list[i])->at_copy[0], list[i]->number);
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = side_add_wait(gpu, &words, side, &transfer_pair_of(gpu, list[i])->at_recv, list[i]->number);
    if (result == TUTTI_SUCCESS)
        result = side_issue(gpu, &words, side);
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = copy_mapped(gpu, side, list[i], &list[i]->post);
    return result;
}

tutti_result_t transfer_push_all(struct gpu *gpu, const struct gpu_transfer *const *list, int count)
{
    CUstream *side = &gpu->messages.copy[0][list[0]->peer];
    struct side_words words = {.count = 0};
    uint32_t before[KERNEL_RANKS];
    tutti_result_t result = say_pushing(gpu, list, count, before);
    if (result == TUTTI_SUCCESS)
        result = beside_branch(&gpu->base, &gpu->base, side);
    if (result == TUTTI_SUCCESS)
        result = push_all(gpu, *side, list, count);
    for (int i = 0; i < count && result != TUTTI_SUCCESS; i++) /* nothing will tell of them */
        atomic_store(&transfer_pair_of(gpu, list[i])->pushing, before[i]);
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = side_add_write(gpu, &words, *side, &transfer_pair_of(gpu, list[i])->pushed, list[i]->number);
    return result == TUTTI_SUCCESS ? side_issue(gpu, &words, *side) : result;
}

static uint32_t pieces(const struct gpu *gpu, uint64_t bytes)
{
    return (uint32_t)((bytes + gpu->messages.stage - 1) / gpu->messages.stage);
}

static uint64_t piece_bytes(const struct gpu *gpu, const struct gpu_transfer *transfer, uint64_t from)
{
    return transfer->bytes - from < gpu->messages.stage ? transfer->bytes - from : gpu->messages.stage;
}

static tutti_result_t send_piece(struct gpu *gpu, const struct gpu_transfer *transfer, uint64_t from, uint32_t piece)
{
    struct mailbox_pair *pair = transfer_pair_of(gpu, transfer);
    CUstream side = gpu->messages.copy[0][transfer->peer];
    uint32_t before = atomic_exchange(&pair->arriving, piece);
    tutti_result_t result = still_wanted(gpu, transfer->peer);
    if (result == TUTTI_SUCCESS)
        result = side_wait(gpu, side, &pair->freed, piece - MAILBOX_DEPTH);
    if (result == TUTTI_SUCCESS)
        result = gpu_copy(gpu, side, layout_stage(gpu, transfer->peer, gpu->rank, piece),
                          device_address(transfer->memory + from), piece_bytes(gpu, transfer, from));
    if (result != TUTTI_SUCCESS) { /* there is none */
        atomic_store(&pair->arriving, before);
        return result;
    }
    return side_write(gpu, side, &pair->arrived, piece);
}

static tutti_result_t transfer_take_piece(struct gpu *gpu, const struct gpu_transfer *transfer, uint64_t from,
                                          uint32_t piece, CUstream stream)
{
    struct mailbox_pair *pair = transfer_pair_of(gpu, transfer);
    tutti_result_t result = side_wait(gpu, stream, &pair->arrived, piece);
    if (result == TUTTI_SUCCESS)
        result = gpu_copy(gpu, stream, device_address(transfer->memory + from),
                          layout_stage(gpu, gpu->rank, transfer->peer, piece), piece_bytes(gpu, transfer, from));
    return result == TUTTI_SUCCESS ? side_write(gpu, stream, &pair->freed, piece) : result;
}

bool transfer_piece(struct gpu *gpu, const struct gpu_transfer *transfer, uint32_t index, CUstream stream,
                    tutti_result_t *result)
{
    uint64_t from = (uint64_t)index * gpu->messages.stage;
    uint32_t piece = transfer->piece + index;
    if (transfer->way != MAILBOX_STAGED || from >= transfer->bytes || *result != TUTTI_SUCCESS)
        return false;
    *result = transfer->sends ? send_piece(gpu, transfer, from, piece)
                              : transfer_take_piece(gpu, transfer, from, piece, stream);
    return true;
}

/* ---- Order among messages ---- */

/* What other messages have said so far goes out before: a peer may wait for that, and this rank for that peer. */
static tutti_result_t wait_for_place(struct gpu *gpu, const struct mailbox_pair *pair,
                                     const struct gpu_transfer *transfer, struct side_words *words, CUstream stream)
{
    int end = end_of(transfer);
    uint32_t before = transfer->number - MAILBOX_POSTS; /* in whose place it comes */
    unsigned turn = 0;
    while ((int32_t)(before - atomic_load_explicit(&pair->called[!end], memory_order_acquire)) > 0) {
        tutti_result_t result = side_issue(gpu, words, stream);
        if (result == TUTTI_SUCCESS)
            result = gpu_failure(gpu);
        if (result != TUTTI_SUCCESS)
            return result;
        mixing_wait(gpu, transfer->peer, end, before);
        backoff(&turn);
    }
    return TUTTI_SUCCESS;
}

/* Memory that the peer cannot map, or has not mapped yet, or not as a whole, is staged. */
static tutti_result_t transfer_describe(struct gpu *gpu, const struct gpu_transfer *transfer, struct mailbox_post *post)
{
    struct cuda_range range;
    *post = (struct mailbox_post){.address = (uintptr_t)transfer->memory,
                                  .bytes = transfer->bytes,
                                  .way = MAILBOX_HERE,
                                  .after = transfer_turn_of(gpu, transfer)};
    if (gpu->here[transfer->peer]) {
        post->context = (uintptr_t)gpu->base.device->context;
        post->reached = memory_is_reached(gpu, transfer->memory);
        return TUTTI_SUCCESS;
    }
    post->way = MAILBOX_STAGED;
    if (transfer->sends && transfer->pushed)
        return TUTTI_SUCCESS;
    tutti_result_t result = cuda_range_of(transfer->memory, &range);
    if (result != TUTTI_SUCCESS || range.kind != CUDA_DEVICE || range.ordinal != gpu->base.device->ordinal)
        return result;
    uint64_t offset = post->address - range.base;
    int offer = offset + transfer->bytes <= range.size ? offer_find(gpu, transfer->peer, &range) : -1;
    if (offer < 0)
        return TUTTI_SUCCESS;
    post->way = MAILBOX_MAPPED;
    post->offer = (uint32_t)offer;
    post->address = offset;
    return TUTTI_SUCCESS;
}

static bool transfer_is_taken(const struct mailbox_pair *pair, uint32_t number)
{
    return atomic_load_explicit(&pair->first[number % MAILBOX_POSTS], memory_order_acquire) >> 1 == number;
}

/* False: the other end was faster. */
static bool come_first(struct mailbox_pair *pair, const struct gpu_transfer *transfer, const struct mailbox_post *post)
{
    uint32_t slot = transfer->number % MAILBOX_POSTS;
    int end = end_of(transfer);
    uint64_t before = atomic_load_explicit(&pair->first[slot], memory_order_acquire);
    pair->post[end][slot] = *post;
    return before >> 1 != transfer->number &&
           atomic_compare_exchange_strong_explicit(&pair->first[slot], &before,
                                                   (uint64_t)transfer->number << 1 | (uint64_t)end,
                                                   memory_order_acq_rel, memory_order_acquire);
}

/*
 * A GPU's copy engines push and pull with one bandwidth. If one end comes first with a send and a receive, the other
 * one has to push and pull, twice as long as if each pushed. So a sender lets a receiver come first, if that comes in
 * twice the time that its copies take, which may be half of the operation: so hosts keep together, unless one is slower
 * than the GPUs. Other peers are told before what their copies wait for.
 */
static tutti_result_t let_come_first(const struct gpu *gpu, const struct mailbox_pair *pair,
                                     const struct gpu_transfer *transfer, struct side_words *words, CUstream stream)
{
    if (!transfer->sends || gpu->here[transfer->peer] || transfer_is_taken(pair, transfer->number))
        return TUTTI_SUCCESS;
    tutti_result_t result = side_issue(gpu, words, stream);
    uint64_t sent = transfer->sent > transfer->bytes ? transfer->sent : transfer->bytes;
    uint64_t deadline = clock_ns() + (sent < NUMBER_COPY_WAIT_TO ? sent : NUMBER_COPY_WAIT_TO) / NUMBER_COPY_RATE *
                                         gpu->messages.wait / 100;
    while (!transfer_is_taken(pair, transfer->number) && !clock_passed(deadline))
        cpu_relax();
    return result;
}

static tutti_result_t check_lengths(const struct gpu *gpu, const struct gpu_transfer *transfer, uint64_t theirs)
{
    unsigned long long here = transfer->bytes, there = theirs;
    int from = transfer->sends ? gpu->rank : transfer->peer, to = transfer->sends ? transfer->peer : gpu->rank;
    if (here == there)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE, "rank %d sends %llu bytes to rank %d, which expects %llu",
                     team_told_rank(gpu->base.team, from), transfer->sends ? here : there,
                     team_told_rank(gpu->base.team, to), transfer->sends ? there : here);
}

/* Both ends count alike, by what the first end has decided. */
static void number_pieces(struct gpu *gpu, struct gpu_transfer *transfer)
{
    _Atomic uint32_t *count =
        transfer->sends ? &gpu->messages.sent_pieces[transfer->peer] : &gpu->messages.received_pieces[transfer->peer];
    uint32_t before = atomic_load_explicit(count, memory_order_relaxed);
    transfer->piece = before + 1;
    atomic_store_explicit(count, before + pieces(gpu, transfer->bytes), memory_order_relaxed);
}

static tutti_result_t transfer_tell(struct gpu *gpu, struct gpu_transfer *transfer, struct side_words *words,
                                    CUstream stream)
{
    struct mailbox_pair *pair = transfer_pair_of(gpu, transfer);
    if (transfer->way == MAILBOX_STAGED && !transfer->by_kernel) {
        number_pieces(gpu, transfer);
        return tell_coming(gpu, words, stream, &pair->at_pieces[end_of(transfer)],
                           transfer->piece + pieces(gpu, transfer->bytes) - 1);
    }
    if (transfer->way == MAILBOX_STAGED || transfer->copies)
        return TUTTI_SUCCESS;
    if (transfer->way == MAILBOX_MAPPED)
        offer_use(gpu, transfer->peer, (int)transfer->post.offer, transfer->sends, transfer->number);
    return side_add_write(gpu, words, stream, transfer->sends ? &pair->at_send : &pair->at_recv, transfer->number);
}

/* A receiver's pieces come in the user's stream. */
tutti_result_t transfer_copy(struct gpu *gpu, const struct gpu_transfer *transfer)
{
    if (transfer->copies)
        return copy_whole(gpu, transfer);
    if (transfer->way == MAILBOX_STAGED && transfer->sends)
        return beside_branch(&gpu->base, &gpu->base, &gpu->messages.copy[0][transfer->peer]);
    return TUTTI_SUCCESS;
}

tutti_result_t transfer_begin(struct gpu *gpu, struct gpu_transfer *transfer, struct side_words *words, CUstream stream)
{
    struct mailbox_pair *pair = transfer_pair_of(gpu, transfer);
    _Atomic uint32_t *count =
        transfer->sends ? &gpu->messages.sent[transfer->peer] : &gpu->messages.received[transfer->peer];
    struct mailbox_post *post = &transfer->post;
    ticket_more(&gpu->base);
    transfer->number = atomic_load_explicit(count, memory_order_relaxed) + 1;
    atomic_store_explicit(count, transfer->number, memory_order_relaxed);
    atomic_store_explicit(&gpu->messages.first[end_of(transfer)][transfer->peer][transfer->number % MIXING_MESSAGES],
                          gpu->base.tickets.handed_out + 1, memory_order_relaxed);
    tutti_result_t result = wait_for_place(gpu, pair, transfer, words, stream);
    if (result == TUTTI_SUCCESS)
        result = let_come_first(gpu, pair, transfer, words, stream);
    if (result != TUTTI_SUCCESS)
        return result;
    bool second = transfer_is_taken(pair, transfer->number);
    if (!second) {
        result = transfer_describe(gpu, transfer, post);
        if (result != TUTTI_SUCCESS)
            return result;
        second = !come_first(pair, transfer, post);
    }
    if (second) {
        *post = pair->post[!end_of(transfer)][transfer->number % MAILBOX_POSTS];
        result = check_lengths(gpu, transfer, post->bytes);
    }
    transfer->way = (enum mailbox_way)post->way;
    transfer->copies = second && transfer->way != MAILBOX_STAGED;
    log_trace("rank %d %s rank %d message %u, %s", gpu->rank, transfer->sends ? "sends to" : "receives from",
              transfer->peer, transfer->number,
              transfer->copies ? transfer->sends ? "from buffer to buffer, pushed" : "from buffer to buffer, pulled"
              : transfer->way != MAILBOX_STAGED ? "from buffer to buffer"
              : transfer->by_kernel             ? "through scratch, by kernel"
                                                : "through scratch");
    if (!transfer->sends && transfer->way != MAILBOX_STAGED)
        opened_given(gpu, 1u << transfer->peer, transfer->memory, transfer->bytes);
    if (result == TUTTI_SUCCESS)
        result = transfer_tell(gpu, transfer, words, stream);
    atomic_store_explicit(&pair->called[end_of(transfer)], transfer->number, memory_order_release);
    return result;
}

tutti_result_t transfer_end(struct gpu *gpu, const struct gpu_transfer *transfer, struct side_words *words,
                            CUstream stream)
{
    struct mailbox_pair *pair = transfer_pair_of(gpu, transfer);
    if (transfer->way != MAILBOX_STAGED)
        return side_add_wait(gpu, words, stream, is_pushed(gpu, transfer) ? &pair->pushed : &pair->pulled,
                             transfer->number);
    /* a receiver's stream has waited for every piece */
    return transfer->sends
               ? side_add_wait(gpu, words, stream, &pair->arrived, transfer->piece + pieces(gpu, transfer->bytes) - 1)
               : TUTTI_SUCCESS;
}
