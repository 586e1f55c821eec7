/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large reductions whose bytes copy engines carry: they fill a link better than stores, and take no processor of the GPU. In chunks,
 * each rank's contributions go to the scratch of the ranks that own them; a kernel of a few blocks adds up what has come; of an
 * allreduce, results go to the others' scratch, where the same kernel takes them. Streams wait for words that kernels write (read,
 * reduced), kernels for words that streams write (arrived). A call needs nothing of its peers but their scratch: once all have made
 * it, everything lies in streams. There is one stream for each peer and way, so that one's pause is filled by the others.
 */
#include "fabric/internal.h"

#include "base/param.h"

/* Of a part, at most: each takes four operations of a stream, and a thousand of them may fill a hardware queue. */
#define STEPS_MOST 128

struct relay {
    struct fabric *fabric;
    const struct call *call;
    int mode;
    uint64_t bytes, slot, chunk;
    uint32_t sent[KERNEL_RELAY_PHASES][KERNEL_RANKS], reduced; /* before this call */
};

static int mode_of(const struct call *call)
{
    return call->coll == COLL_ALLREDUCE ? KERNEL_ALLREDUCE : KERNEL_REDUCE_SCATTER;
}

static uint64_t slot_bytes(void)
{
    return (uint64_t)param_int(PARAM_RELAY_SLOT) & ~(uint64_t)255;
}

/* All ranks come to the same answer. One block alone could not both reduce and collect. */
bool relay_wanted(const struct fabric *fabric, const struct call *call)
{
    uint64_t from = (uint64_t)param_int(PARAM_RELAY_FROM);
    return (call->coll == COLL_ALLREDUCE || call->coll == COLL_REDUCE_SCATTER) && !call->premul && fabric->copies && fabric->nranks > 1 &&
           fabric->most_blocks != 1 && from && call_in_bytes(fabric, call) >= from &&
           kernel_relay_length(mode_of(call), call_bytes(call), fabric->nranks, 0) <= STEPS_MOST * slot_bytes();
}

tutti_result_t relay_prepare(struct fabric *fabric)
{
    tutti_result_t result = scratch_post(fabric, SCRATCH_RELAY);
    for (int i = 0; i < KERNEL_RELAY_PHASES * fabric->nranks && result == TUTTI_SUCCESS; i++)
        if (i % fabric->nranks != fabric->rank)
            result = side_make(fabric, &fabric->relay[i / fabric->nranks][i % fabric->nranks]);
    return result;
}

static _Atomic uint32_t *word(const struct fabric *fabric, int owner, int index)
{
    return &fabric->board->relay[owner][index];
}

/* Of rank `owner`'s part. */
static uint32_t steps(const struct relay *relay, int owner)
{
    uint64_t length = kernel_relay_length(relay->mode, relay->bytes, relay->fabric->nranks, owner);
    return (uint32_t)((length + relay->chunk - 1) / relay->chunk);
}

/* ---- Streams ------------------------------------------------------------------------------------------------------- */

static int phases(const struct relay *relay)
{
    return relay->mode == KERNEL_REDUCE_SCATTER ? 1 : KERNEL_RELAY_PHASES;
}

/* All go on from where the user's stands. */
static tutti_result_t branch(const struct relay *relay, CUstream stream)
{
    struct fabric *fabric = relay->fabric;
    tutti_result_t result = cuda_check(fabric->cu->EventRecord(fabric->mark, stream), "marking a stream");
    for (int i = 0; i < phases(relay) * fabric->nranks && result == TUTTI_SUCCESS; i++)
        if (i % fabric->nranks != fabric->rank)
            result = cuda_check(fabric->cu->StreamWaitEvent(fabric->relay[i / fabric->nranks][i % fabric->nranks], fabric->mark, 0), "ordering copies");
    return result;
}

/* Chunk `step` of a part: a contribution to the rank that owns it, or this rank's own result. */
static tutti_result_t push(const struct relay *relay, int phase, int to, uint32_t step)
{
    struct fabric *fabric = relay->fabric;
    int n = fabric->nranks, me = fabric->rank, owner = phase == KERNEL_RELAY_IN ? to : me;
    uint64_t length = kernel_relay_length(relay->mode, relay->bytes, n, owner), from = step * relay->chunk;
    const char *data = phase == KERNEL_RELAY_IN ? relay->call->in : relay->call->out;
    uint32_t number = relay->sent[phase][to] + 1 + step;
    CUstream side = fabric->relay[phase][to];
    tutti_result_t result = TUTTI_SUCCESS;
    if (from >= length)
        return result;
    if (phase == KERNEL_RELAY_OUT)
        result = side_wait(fabric, side, word(fabric, me, kernel_relay_reduced()), relay->reduced + 1 + step);
    if (result == TUTTI_SUCCESS)
        result = side_wait(fabric, side, word(fabric, to, kernel_relay_freed(phase, me)), number - KERNEL_RELAY_DEPTH);
    if (result == TUTTI_SUCCESS)
        result = fabric_copy(fabric, side,
                             device_address(fabric->scratch[SCRATCH_RELAY].at[to] + kernel_relay_at(n, relay->slot, phase, to, me, number)),
                             device_address(data + kernel_relay_begin(relay->mode, relay->bytes, n, owner) + from),
                             length - from < relay->chunk ? length - from : relay->chunk);
    return result == TUTTI_SUCCESS ? side_write(fabric, side, word(fabric, to, kernel_relay_arrived(phase, me)), number) : result;
}

/* Everybody begins with the rank behind it. */
static tutti_result_t push_all(const struct relay *relay)
{
    int n = relay->fabric->nranks, me = relay->fabric->rank;
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint32_t step = 0; step < steps(relay, 0); step++) /* rank 0's part is the longest */
        for (int phase = 0; phase < phases(relay); phase++)
            for (int k = 1; k < n && result == TUTTI_SUCCESS; k++)
                result = push(relay, phase, (me + k) % n, step);
    return result;
}

/* The user's memory is read no more when all chunks have arrived where they go. */
static tutti_result_t wait_for_all(const struct relay *relay, CUstream stream)
{
    struct fabric *fabric = relay->fabric;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < phases(relay) * fabric->nranks && result == TUTTI_SUCCESS; i++) {
        int phase = i / fabric->nranks, to = i % fabric->nranks;
        if (to != fabric->rank)
            result = side_wait(fabric, stream, word(fabric, to, kernel_relay_arrived(phase, fabric->rank)),
                               atomic_load(&fabric->relay_sent[phase][to]));
    }
    return result;
}

/* ---- The kernel ---------------------------------------------------------------------------------------------------- */

/* Without a ticket: copies come behind it. */
static tutti_result_t launch(const struct relay *relay, struct kernel_relay *what, CUstream stream)
{
    struct fabric *fabric = relay->fabric;
    const struct call *call = relay->call;
    struct kernel_launch how;
    what->reduce = (struct kernel_reduce){.team = fabric->kernels, .in = call->in, .out = call->out, .count = call->count,
                                          .mode = relay->mode, .op = call->op};
    what->scratch = fabric->scratch[SCRATCH_RELAY].at[fabric->rank];
    what->words = (uint32_t *)(uintptr_t)board_address(fabric, fabric->board->relay[fabric->rank]);
    what->slot = relay->slot;
    what->chunk = relay->chunk;
    kernel_choose_relay(what, fabric->most_blocks, &how);
    record_way(fabric, record_kernel(how.kernel));
    return cuda_launch(fabric->device, &how, call->type, what, stream);
}

static uint32_t advance(_Atomic uint32_t *count, uint32_t by)
{
    uint32_t before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + by, memory_order_relaxed);
    return before;
}

/* Both ends count alike. Done first: whoever gives up lets go all that may be waited for. */
static void number_chunks(struct relay *relay, struct kernel_relay *what)
{
    struct fabric *fabric = relay->fabric;
    for (int i = 0; i < phases(relay) * fabric->nranks; i++) {
        int phase = i / fabric->nranks, peer = i % fabric->nranks, me = fabric->rank;
        if (peer == me)
            continue;
        relay->sent[phase][peer] = advance(&fabric->relay_sent[phase][peer], steps(relay, phase == KERNEL_RELAY_IN ? peer : me));
        what->first[phase][peer] = 1 + advance(&fabric->relay_received[phase][peer], steps(relay, phase == KERNEL_RELAY_IN ? me : peer));
    }
    relay->reduced = advance(&fabric->relay_reduced, phases(relay) == KERNEL_RELAY_PHASES ? steps(relay, fabric->rank) : 0);
    what->first_reduced = relay->reduced + 1;
}

tutti_result_t relay_issue(struct fabric *fabric, const struct call *call, CUstream stream)
{
    struct relay relay = {.fabric = fabric, .call = call, .mode = mode_of(call), .bytes = call_bytes(call), .slot = slot_bytes()};
    struct kernel_relay what = {.scratch = NULL};
    relay.chunk = kernel_relay_chunk(relay.mode, relay.bytes, fabric->nranks, relay.slot);
    tutti_result_t result = scratch_take(fabric, SCRATCH_RELAY, (1u << fabric->nranks) - 1);
    if (result != TUTTI_SUCCESS)
        return result;
    number_chunks(&relay, &what);
    result = branch(&relay, stream);
    if (result == TUTTI_SUCCESS)
        result = launch(&relay, &what, stream);
    if (result == TUTTI_SUCCESS)
        result = push_all(&relay);
    return result == TUTTI_SUCCESS ? wait_for_all(&relay, stream) : result;
}

/* ---- The end ------------------------------------------------------------------------------------------------------- */

void relay_give_up(struct fabric *fabric)
{
    int me = fabric->rank;
    for (int phase = 0; phase < KERNEL_RELAY_PHASES; phase++)
        for (int peer = 0; peer < fabric->nranks; peer++) {
            uint32_t sent = atomic_load(&fabric->relay_sent[phase][peer]);
            side_release(word(fabric, peer, kernel_relay_arrived(phase, me)), sent);
            side_release(word(fabric, peer, kernel_relay_freed(phase, me)), sent);
        }
    side_release(word(fabric, me, kernel_relay_reduced()), atomic_load(&fabric->relay_reduced));
}
