/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stripe of a message between two ranks, in chunks, sent by one half of a block and received by the other half of the
 * peer's. Short messages are packets of ll.cuh. Longer ones are plain data: chunk number k of a pair and stripe lies in slot
 * k % depth, is announced by a word behind a fence, and may be overwritten when it has been acknowledged. No launch cuts the
 * slots in another way, so a kernel may end before its last chunks have been read.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_STREAM_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_STREAM_CUH

#include <ll.cuh>

#define STREAM_VECTORS 4 /* in flight of a thread: a chunk is one pass of half a block */

/* The other rank, and who works here. */
struct stream_end {
    const struct kernel_team &team;
    int peer;
    uint32_t stripe, half;
    struct crew crew;
};

struct stream_out {
    const unsigned char *from;
    uint64_t left;
    uint32_t number;  /* of the last chunk sent */
    uint32_t seen;    /* the last one known to be read */
    bool plain, good; /* good: not given up; if so, the rest is not sent */
    struct vector ahead[STREAM_VECTORS]; /* what the first pass over the next chunk stores */
};

struct stream_in {
    unsigned char *to;
    uint64_t left;
    uint32_t number; /* of the last chunk received */
    uint32_t seen;   /* the last one known to be there */
    bool plain;
};

/* On a GPU half a block sends while the other half receives; on the CPU the only thread of a block takes turns. */
DEVICE bool has_half(uint32_t half)
{
    return blockDim.x == 1 || threadIdx.x / (blockDim.x / 2) == half;
}

DEVICE struct crew half_block()
{
    const uint32_t threads = blockDim.x == 1 ? 1 : blockDim.x / 2;
    const struct crew c = {threadIdx.x % threads, threads};
    return c;
}

DEVICE unsigned char *plain_slot(const struct kernel_team &team, int to, int from, uint32_t stripe, uint32_t number)
{
    const uint32_t depth = kernel_plain_depth(team.nranks);
    const uint64_t chunk = ((uint64_t)source_index(to, from) * KERNEL_EXCHANGE_MOST + stripe) * depth + number % depth;
    return team.window[to] + KERNEL_CONTROL_BYTES + (uint64_t)(team.nranks - 1) * sizeof(ll_inbox) + chunk * KERNEL_PLAIN_BYTES;
}

/* ---- sending ---- */

/* Of the next chunk: how many bytes, and how many of its vectors are loaded without a look at each. */
DEVICE uint64_t plain_next(const struct stream_out &out, uint64_t *whole)
{
    const uint64_t bytes = least(out.left, KERNEL_PLAIN_BYTES);
    *whole = whole_vectors(bytes, aligned(out.from, VECTOR_BYTES));
    return bytes;
}

DEVICE void plain_fetch(struct stream_out *out, const struct crew &c)
{
    uint64_t whole;
    plain_next(*out, &whole);
    load_vectors<STREAM_VECTORS>(out->ahead, out->from, c.thread, whole, c.threads);
}

DEVICE void plain_store(const struct stream_out &out, unsigned char *slot, const struct crew &c)
{
    uint64_t whole;
    const uint64_t bytes = plain_next(out, &whole);
    store_vectors<STREAM_VECTORS>(slot, out.ahead, c.thread, whole, c.threads);
    ROLLED for (uint64_t i = c.thread + STREAM_VECTORS * c.threads; i < whole; i += c.threads)
        ((struct vector *)slot)[i] = ((const struct vector *)out.from)[i];
    copy_singly(slot, out.from, whole, bytes, c);
}

/* The next chunk's data and the word that tells of room for it are on their way while this chunk is announced. */
DEVICE void plain_send(struct stream_out *out, const struct stream_end &e)
{
    const struct window *mine = window_of(e.team, e.team.rank);
    const uint32_t needed = ++out->number - kernel_plain_depth(e.team.nranks), *acked = &mine->plain_acked[e.stripe][e.peer];
    out->good = out->good && (reached(out->seen, needed) || wait_ack(acked, needed, e.team.abort));
    if (out->good)
        plain_store(*out, plain_slot(e.team, e.peer, e.team.rank, e.stripe, out->number), e.crew);
    const uint64_t bytes = least(out->left, KERNEL_PLAIN_BYTES);
    out->from += bytes;
    out->left -= bytes;
    if (out->left)
        plain_fetch(out, e.crew);
    out->seen = load_ack(acked);
    out->good = !half_barrier_or(e.half, !out->good);
    if (!out->good || e.crew.thread != 0)
        return;
    fence_all();
    store_flag(&window_of(e.team, e.peer)->plain_arrived[e.stripe][e.team.rank], out->number);
}

/* Each thread by itself. */
DEVICE void ll_send(struct stream_out *out, const struct stream_end &e)
{
    const struct window *mine = window_of(e.team, e.team.rank);
    const uint32_t bytes = (uint32_t)least(out->left, KERNEL_LL_BYTES);
    struct packet *slot = ll_slot(e.team, e.peer, e.team.rank, e.stripe, ++out->number);
    if (out->good && !ll_has_room(out->seen, out->number)) {
        out->good = ll_wait_room(&mine->ll_acked[e.stripe][e.peer], out->number, e.team.abort);
        out->seen = out->number - LL_SLOTS;
    }
    for (uint32_t i = e.crew.thread; out->good && 8 * i < bytes; i += e.crew.threads)
        ll_put(slot + i, out->number, load_unit(out->from + 8 * i, bytes - 8 * i));
    out->from += bytes;
    out->left -= bytes;
}

DEVICE void stream_send(struct stream_out *out, const struct stream_end &e)
{
    if (out->plain)
        plain_send(out, e);
    else
        ll_send(out, e);
}

DEVICE void stream_out_open(struct stream_out *out, const struct stream_end &e)
{
    const struct window *mine = window_of(e.team, e.team.rank);
    out->good = true;
    out->number = out->seen = 0;
    if (out->left == 0)
        return;
    out->number = out->plain ? mine->plain_sent[e.stripe][e.peer] : mine->ll_sent[e.stripe][e.peer];
    out->seen = load_ack(out->plain ? &mine->plain_acked[e.stripe][e.peer] : &mine->ll_acked[e.stripe][e.peer]);
    if (!out->plain)
        out->seen = ll_read(out->seen, mine->ll_implied[e.stripe][e.peer], out->number);
    if (out->plain)
        plain_fetch(out, e.crew);
}

/* Behind the barrier every thread has read the old number. */
DEVICE void stream_out_close(const struct stream_out &out, const struct stream_end &e)
{
    struct window *mine = window_of(e.team, e.team.rank);
    if (half_barrier_or(e.half, !out.good) || e.crew.thread != 0)
        return;
    if (out.plain)
        mine->plain_sent[e.stripe][e.peer] = out.number;
    else
        mine->ll_sent[e.stripe][e.peer] = out.number;
}

/* ---- receiving ---- */

/* One thread waits and tells the others. False: given up. */
DEVICE bool plain_wait(struct stream_in *in, const struct stream_end &e, uint32_t *shared)
{
    const struct window *mine = window_of(e.team, e.team.rank);
    bool good = true;
    if (e.crew.thread == 0)
        good = wait_more(&mine->plain_arrived[e.stripe][e.peer], in->number, shared, e.team.abort);
    if (half_barrier_or(e.half, !good))
        return false;
    in->seen = *shared;
    return true;
}

DEVICE bool plain_receive(struct stream_in *in, const struct stream_end &e, uint32_t *shared)
{
    const uint64_t bytes = least(in->left, KERNEL_PLAIN_BYTES);
    if (!reached(in->seen, ++in->number) && !plain_wait(in, e, shared))
        return false;
    copy_by<STREAM_VECTORS>(in->to, plain_slot(e.team, e.team.rank, e.peer, e.stripe, in->number), bytes, e.crew);
    half_barrier_or(e.half, false);
    if (e.crew.thread == 0)
        store_ack(&window_of(e.team, e.peer)->plain_acked[e.stripe][e.team.rank], in->number);
    in->to += bytes;
    in->left -= bytes;
    return true;
}

DEVICE bool ll_receive(struct stream_in *in, const struct stream_end &e)
{
    const uint32_t bytes = (uint32_t)least(in->left, KERNEL_LL_BYTES);
    const struct packet *slot = ll_slot(e.team, e.team.rank, e.peer, e.stripe, ++in->number);
    bool good = true;
    for (uint32_t i = e.crew.thread; good && 8 * i < bytes; i += e.crew.threads) {
        uint64_t unit;
        good = ll_get(slot + i, in->number, e.team.abort, &unit);
        if (good)
            store_unit(in->to + 8 * i, unit, bytes - 8 * i);
    }
    if (half_barrier_or(e.half, !good))
        return false;
    if (e.crew.thread == 0)
        store_ack(&window_of(e.team, e.peer)->ll_acked[e.stripe][e.team.rank], in->number);
    in->to += bytes;
    in->left -= bytes;
    return true;
}

DEVICE bool stream_receive(struct stream_in *in, const struct stream_end &e, uint32_t *shared)
{
    return in->plain ? plain_receive(in, e, shared) : ll_receive(in, e);
}

DEVICE void stream_in_open(struct stream_in *in, const struct stream_end &e)
{
    const struct window *mine = window_of(e.team, e.team.rank);
    in->number = in->seen = 0;
    if (in->left)
        in->number = in->seen = in->plain ? mine->plain_received[e.stripe][e.peer] : mine->ll_received[e.stripe][e.peer];
}

/* Behind the last chunk's barrier. */
DEVICE void stream_in_close(const struct stream_in &in, const struct stream_end &e)
{
    struct window *mine = window_of(e.team, e.team.rank);
    if (e.crew.thread != 0)
        return;
    if (in.plain)
        mine->plain_received[e.stripe][e.peer] = in.number;
    else
        mine->ll_received[e.stripe][e.peer] = in.number;
}

#endif
