/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message between two ranks by copy engine. Once both calls have returned, it needs no host any more: all that it takes lies
 * in streams. The end whose call comes first says how it is to go and where its data are; the other one does the copying, in
 * either direction. So nobody has to come back to a message later, and a host that is stopped in the driver stops no message.
 */
#include "fabric/internal.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"

#include <sched.h>

#define BYTES_PER_NS 1000          /* a copy moves 390; a sender waits as long as this many would take */
#define LONG         (512u << 20)  /* no longer than for so many */

static struct board_pair *pair_of(const struct fabric *fabric, const struct message *message)
{
    struct board *board = fabric->board;
    return message->sends ? &board->pair[fabric->rank][message->peer] : &board->pair[message->peer][fabric->rank];
}

static int end_of(const struct message *message)
{
    return message->sends ? 0 : 1;
}

/* ---- What streams do ----------------------------------------------------------------------------------------------- */

/* Within a process copies are pushed, if need be on a stream of the sender's. */
static bool is_pushed(const struct fabric *fabric, const struct message *message)
{
    return (message->way == BOARD_HERE && fabric->pushes) || message->sends == message->copies;
}

static struct board_turn turn_of(const struct fabric *fabric, const struct message *message)
{
    const struct message *after = message->after;
    if (!after || after->way == BOARD_STAGED)
        return (struct board_turn){0};
    return (struct board_turn){.number = after->number, .to = (uint16_t)after->peer, .pulled = !is_pushed(fabric, after)};
}

static tutti_result_t wait_turn(struct fabric *owner, CUstream side, int from, const struct board_turn *turn)
{
    struct board_pair *pair = &owner->board->pair[from][turn->to];
    return turn->number ? side_wait(owner, side, turn->pulled ? &pair->pulled : &pair->pushed, turn->number) : TUTTI_SUCCESS;
}

/*
 * Asked behind saying that there will be a copy: who gives up looks at that behind saying so, and if it sees none, its user's buffers are
 * free. So one of the two sees the other.
 */
static tutti_result_t still_wanted(struct fabric *fabric, int peer)
{
    bool failed = atomic_load(&fabric->team->failed) || atomic_load(&fabric->board->failure.state);
    return failed ? fabric_hear_failure(fabric) : fabric_needs(fabric, 1u << peer);
}

/* Within a process. One GPU copies if it addresses both ends; otherwise the driver lets each GPU deal with its own memory. */
static tutti_result_t copy_here(const struct fabric *fabric, const struct fabric *owner, CUstream side, const struct message *message,
                                const struct board_post *post)
{
    CUdeviceptr mine = device_address(message->memory), theirs = post->address;
    CUcontext here = fabric->device->context, there = (CUcontext)(uintptr_t)post->context;
    if (post->reached && memory_is_reached(fabric, message->memory))
        return fabric_copy(owner, side, message->sends ? theirs : mine, message->sends ? mine : theirs, message->bytes);
    return cuda_check(message->sends ? owner->cu->MemcpyPeerAsync(theirs, there, mine, here, message->bytes, side)
                                     : owner->cu->MemcpyPeerAsync(mine, here, theirs, there, message->bytes, side),
                      "copying memory of one GPU to another");
}

static tutti_result_t copy_mapped(const struct fabric *fabric, CUstream side, const struct message *message, const struct board_post *post)
{
    CUdeviceptr mine = device_address(message->memory), theirs = import_address(fabric, message->peer, post->offer) + post->address;
    return fabric_copy(fabric, side, message->sends ? theirs : mine, message->sends ? mine : theirs, message->bytes);
}

/* By `owner`'s copy engine, at the sender's end or at the receiver's, from where this rank's stream was marked. */
static tutti_result_t copy_by(struct fabric *fabric, struct fabric *owner, CUstream *side, bool pushes, const struct message *message,
                              const struct board_post *post, const struct board_turn *turn)
{
    int from = message->sends ? fabric->rank : message->peer, to = message->sends ? message->peer : fabric->rank;
    struct board_pair *pair = &owner->board->pair[from][to];
    _Atomic uint32_t *copying = pushes ? &pair->pushing : &pair->pulling;
    uint32_t before = atomic_exchange(copying, message->number);
    tutti_result_t result = still_wanted(fabric, message->peer);
    if (result == TUTTI_SUCCESS)
        result = side_branch(fabric, owner, side);
    if (result == TUTTI_SUCCESS)
        result = wait_turn(owner, *side, from, turn);
    if (result == TUTTI_SUCCESS)
        result = side_wait(owner, *side, message->sends ? &pair->at_recv : &pair->at_send, message->number);
    if (result == TUTTI_SUCCESS)
        result = post->way == BOARD_HERE ? copy_here(fabric, owner, *side, message, post) : copy_mapped(fabric, *side, message, post);
    if (result != TUTTI_SUCCESS) { /* there is none */
        atomic_store(copying, before);
        return result;
    }
    return side_write(owner, *side, pushes ? &pair->pushed : &pair->pulled, message->number);
}

/* Faster than pulling. But it comes behind what the peer's stream waits for, which may be that very copy, if they share a queue. */
static tutti_result_t push_for_peer(struct fabric *fabric, const struct message *message, const struct board_post *post)
{
    struct fabric *peer = quiet_visit(fabric, message->peer);
    if (!peer)
        return error_set(TUTTI_REMOTE_ERROR, "copy from rank %d: it has closed its end", message->peer);
    cuda_enter(peer->device);
    tutti_result_t result = copy_by(fabric, peer, &peer->copy[0][fabric->rank], true, message, post, &post->after);
    cuda_leave();
    quiet_go(peer);
    return result;
}

static tutti_result_t copy_whole(struct fabric *fabric, const struct message *message, const struct board_post *post, CUstream stream)
{
    struct board_turn turn = message->sends ? turn_of(fabric, message) : post->after;
    tutti_result_t result = side_mark(fabric, stream);
    if (result != TUTTI_SUCCESS)
        return result;
    if (post->way == BOARD_HERE && !message->sends && fabric->pushes)
        return push_for_peer(fabric, message, post);
    return copy_by(fabric, fabric, &fabric->copy[end_of(message)][message->peer], message->sends, message, post, &turn);
}

static uint32_t pieces(const struct fabric *fabric, uint64_t bytes)
{
    return (uint32_t)((bytes + fabric->stage - 1) / fabric->stage);
}

static uint64_t piece_bytes(const struct fabric *fabric, const struct message *message, uint64_t from)
{
    return message->bytes - from < fabric->stage ? message->bytes - from : fabric->stage;
}

static tutti_result_t send_piece(struct fabric *fabric, const struct message *message, uint64_t from, uint32_t piece)
{
    struct board_pair *pair = pair_of(fabric, message);
    CUstream side = fabric->copy[0][message->peer];
    uint32_t before = atomic_exchange(&pair->arriving, piece);
    tutti_result_t result = still_wanted(fabric, message->peer);
    if (result == TUTTI_SUCCESS)
        result = side_wait(fabric, side, &pair->freed, piece - BOARD_DEPTH);
    if (result == TUTTI_SUCCESS)
        result = fabric_copy(fabric, side, scratch_stage(fabric, message->peer, fabric->rank, piece), device_address(message->memory + from),
                             piece_bytes(fabric, message, from));
    if (result != TUTTI_SUCCESS) { /* there is none */
        atomic_store(&pair->arriving, before);
        return result;
    }
    return side_write(fabric, side, &pair->arrived, piece);
}

static tutti_result_t take_piece(struct fabric *fabric, const struct message *message, uint64_t from, uint32_t piece, CUstream stream)
{
    struct board_pair *pair = pair_of(fabric, message);
    tutti_result_t result = side_wait(fabric, stream, &pair->arrived, piece);
    if (result == TUTTI_SUCCESS)
        result = fabric_copy(fabric, stream, device_address(message->memory + from), scratch_stage(fabric, fabric->rank, message->peer, piece),
                             piece_bytes(fabric, message, from));
    return result == TUTTI_SUCCESS ? side_write(fabric, stream, &pair->freed, piece) : result;
}

bool message_piece(struct fabric *fabric, const struct message *message, uint32_t index, CUstream stream, tutti_result_t *result)
{
    uint64_t from = (uint64_t)index * fabric->stage;
    uint32_t piece = message->piece + index;
    if (message->way != BOARD_STAGED || from >= message->bytes || *result != TUTTI_SUCCESS)
        return false;
    *result = message->sends ? send_piece(fabric, message, from, piece) : take_piece(fabric, message, from, piece, stream);
    return true;
}

/* ---- Who comes first ----------------------------------------------------------------------------------------------- */

static tutti_result_t wait_for_place(struct fabric *fabric, const struct board_pair *pair, const struct message *message)
{
    const _Atomic uint32_t *called = &pair->called[!end_of(message)];
    while ((int32_t)(message->number - atomic_load_explicit(called, memory_order_acquire)) > BOARD_POSTS) {
        tutti_result_t result = fabric_failure(fabric);
        if (result != TUTTI_SUCCESS)
            return result;
        sched_yield();
    }
    return TUTTI_SUCCESS;
}

/* Memory that the peer cannot map, or has not mapped yet, or not as a whole, is staged. */
static tutti_result_t describe(struct fabric *fabric, const struct message *message, struct board_post *post)
{
    struct cuda_range range;
    *post = (struct board_post){.address = (uintptr_t)message->memory, .bytes = message->bytes, .way = BOARD_HERE, .after = turn_of(fabric, message)};
    if (fabric->here[message->peer]) {
        post->context = (uintptr_t)fabric->device->context;
        post->reached = memory_is_reached(fabric, message->memory);
        return TUTTI_SUCCESS;
    }
    post->way = BOARD_STAGED;
    tutti_result_t result = cuda_range_of(message->memory, &range);
    if (result != TUTTI_SUCCESS || range.kind != CUDA_DEVICE || range.ordinal != fabric->device->ordinal)
        return result;
    uint64_t offset = post->address - range.base;
    int offer = offset + message->bytes <= range.size ? offer_find(fabric, message->peer, &range) : -1;
    if (offer < 0)
        return TUTTI_SUCCESS;
    post->way = BOARD_MAPPED;
    post->offer = (uint32_t)offer;
    post->address = offset;
    return TUTTI_SUCCESS;
}

static bool is_taken(const struct board_pair *pair, uint32_t number)
{
    return atomic_load_explicit(&pair->first[number % BOARD_POSTS], memory_order_acquire) >> 1 == number;
}

/* False: the other end was faster. */
static bool come_first(struct board_pair *pair, const struct message *message, const struct board_post *post)
{
    uint32_t slot = message->number % BOARD_POSTS;
    int end = end_of(message);
    uint64_t before = atomic_load_explicit(&pair->first[slot], memory_order_acquire);
    pair->post[end][slot] = *post;
    return before >> 1 != message->number &&
           atomic_compare_exchange_strong_explicit(&pair->first[slot], &before, (uint64_t)message->number << 1 | (uint64_t)end,
                                                   memory_order_acq_rel, memory_order_acquire);
}

/*
 * A GPU's copy engines push and pull with one bandwidth. If one end comes first with a send and a receive, the other one has to push and
 * pull, twice as long as if each pushed. So a sender lets a receiver that is near come first: for a fraction of the time that the copy takes.
 */
static void let_come_first(const struct fabric *fabric, const struct board_pair *pair, const struct message *message)
{
    if (!message->sends || fabric->here[message->peer] || is_taken(pair, message->number))
        return;
    uint64_t deadline = clock_ns() + (message->bytes < LONG ? message->bytes : LONG) / BYTES_PER_NS;
    while (!is_taken(pair, message->number) && !clock_passed(deadline))
        cpu_relax();
}

static tutti_result_t check_lengths(const struct fabric *fabric, const struct message *message, uint64_t theirs)
{
    unsigned long long here = message->bytes, there = theirs;
    int from = message->sends ? fabric->rank : message->peer, to = message->sends ? message->peer : fabric->rank;
    if (here == there)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE, "rank %d sends %llu bytes to rank %d, which expects %llu", from, message->sends ? here : there, to,
                     message->sends ? there : here);
}

/* Both ends count alike: by what the first one has decided. */
static void number_pieces(struct fabric *fabric, struct message *message)
{
    _Atomic uint32_t *count = message->sends ? &fabric->sent_pieces[message->peer] : &fabric->received_pieces[message->peer];
    uint32_t before = atomic_load_explicit(count, memory_order_relaxed);
    message->piece = before + 1;
    atomic_store_explicit(count, before + pieces(fabric, message->bytes), memory_order_relaxed);
}

/* A receiver's pieces come in the user's stream. */
static tutti_result_t begin_pieces(struct fabric *fabric, struct message *message, CUstream stream)
{
    number_pieces(fabric, message);
    if (!message->sends)
        return TUTTI_SUCCESS;
    tutti_result_t result = side_mark(fabric, stream);
    return result == TUTTI_SUCCESS ? side_branch(fabric, fabric, &fabric->copy[0][message->peer]) : result;
}

static tutti_result_t issue(struct fabric *fabric, struct message *message, const struct board_post *post, CUstream stream)
{
    struct board_pair *pair = pair_of(fabric, message);
    if (message->way == BOARD_STAGED)
        return begin_pieces(fabric, message, stream);
    if (message->copies)
        return copy_whole(fabric, message, post, stream);
    if (message->way == BOARD_MAPPED)
        offer_use(fabric, message->peer, (int)post->offer, message);
    return side_write(fabric, stream, message->sends ? &pair->at_send : &pair->at_recv, message->number);
}

tutti_result_t message_begin(struct fabric *fabric, struct message *message, CUstream stream)
{
    struct board_pair *pair = pair_of(fabric, message);
    _Atomic uint32_t *count = message->sends ? &fabric->sent[message->peer] : &fabric->received[message->peer];
    struct board_post post;
    order_more(fabric);
    message->number = atomic_load_explicit(count, memory_order_relaxed) + 1;
    atomic_store_explicit(count, message->number, memory_order_relaxed);
    tutti_result_t result = wait_for_place(fabric, pair, message);
    if (result != TUTTI_SUCCESS)
        return result;
    let_come_first(fabric, pair, message);
    bool second = is_taken(pair, message->number);
    if (!second) {
        result = describe(fabric, message, &post);
        if (result != TUTTI_SUCCESS)
            return result;
        second = !come_first(pair, message, &post);
    }
    if (second) {
        post = pair->post[!end_of(message)][message->number % BOARD_POSTS];
        result = check_lengths(fabric, message, post.bytes);
    }
    message->way = (enum board_way)post.way;
    message->copies = second && message->way != BOARD_STAGED;
    log_trace("rank %d %s rank %d message %u, %s", fabric->rank, message->sends ? "sends to" : "receives from", message->peer, message->number,
              message->way == BOARD_STAGED ? "through scratch" : "from buffer to buffer");
    if (result == TUTTI_SUCCESS)
        result = issue(fabric, message, &post, stream);
    atomic_store_explicit(&pair->called[end_of(message)], message->number, memory_order_release);
    return result;
}

tutti_result_t message_end(struct fabric *fabric, const struct message *message, CUstream stream)
{
    struct board_pair *pair = pair_of(fabric, message);
    if (message->way != BOARD_STAGED)
        return side_wait(fabric, stream, is_pushed(fabric, message) ? &pair->pushed : &pair->pulled, message->number);
    /* a receiver's stream has waited for every piece */
    return message->sends ? side_wait(fabric, stream, &pair->arrived, message->piece + pieces(fabric, message->bytes) - 1) : TUTTI_SUCCESS;
}

/* ---- When it comes to nothing -------------------------------------------------------------------------------------- */

/* `copying`: the last copy that lies in a stream. It needs nothing more than it is given here. */
static void release_end(_Atomic uint32_t *word, const _Atomic uint32_t *copying, _Atomic uint64_t *let_go, uint32_t value, bool at_once)
{
    uint32_t done = atomic_load(word);
    uint64_t none = 0;
    if ((int32_t)(value - done) <= 0 || (!at_once && (int32_t)(done - atomic_load(copying)) < 0))
        return;
    atomic_compare_exchange_strong(let_go, &none, 1ull << 32 | done); /* the other end looks at this behind its wait */
    side_release(word, value);
}

static void release_ends(struct board_pair *pair, uint32_t messages, uint32_t staged, bool at_once)
{
    release_end(&pair->pushed, &pair->pushing, &pair->let_go[0], messages, at_once);
    release_end(&pair->pulled, &pair->pulling, &pair->let_go[1], messages, at_once);
    release_end(&pair->arrived, &pair->arriving, &pair->let_go[2], staged, at_once);
}

void message_give_up(struct fabric *fabric, bool at_once)
{
    for (int peer = 0; peer < fabric->nranks; peer++) {
        struct board_pair *to = &fabric->board->pair[fabric->rank][peer], *from = &fabric->board->pair[peer][fabric->rank];
        bool lost = at_once || atomic_load(&fabric->team->gone[peer]) || atomic_load(&fabric->board->rank[peer].gone);
        side_release(&to->at_recv, atomic_load(&fabric->sent[peer]));
        side_release(&to->freed, atomic_load(&fabric->sent_pieces[peer]));
        side_release(&from->at_send, atomic_load(&fabric->received[peer]));
        release_ends(to, atomic_load(&fabric->sent[peer]), atomic_load(&fabric->sent_pieces[peer]), lost);
        release_ends(from, atomic_load(&fabric->received[peer]), atomic_load(&fabric->received_pieces[peer]), lost);
    }
}

static bool is_undone(const struct board_pair *pair, uint32_t messages, uint32_t staged)
{
    bool undone = false;
    for (int word = 0; word < 3; word++) {
        uint64_t let_go = atomic_load(&pair->let_go[word]);
        undone = undone || (let_go && (int32_t)((word == 2 ? staged : messages) - (uint32_t)let_go) > 0);
    }
    return undone;
}

bool message_undone(const struct fabric *fabric, int peer)
{
    return is_undone(&fabric->board->pair[fabric->rank][peer], atomic_load(&fabric->sent[peer]), atomic_load(&fabric->sent_pieces[peer])) ||
           is_undone(&fabric->board->pair[peer][fabric->rank], atomic_load(&fabric->received[peer]), atomic_load(&fabric->received_pieces[peer]));
}
