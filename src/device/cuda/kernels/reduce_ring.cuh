/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large reductions of three ranks or more whose contributions go round: the rank behind an owner sends its own, each
 * one further on adds its own to what comes and sends the sum, and the owner keeps it. So a rank has one sender and one
 * receiver, and a part comes once. To an owner that hears from all, n - 1 of them come at once.
 *
 * Turn k of a rank, from 0 on, is the part of the rank that is k + 1 before it, the last one its own. What it sends in
 * a turn it has got in the one before. So chunks go in groups, all of a group in one turn before any in the next: a
 * fence, a word and a look have the time that the rest of a group takes. Of a rooted reduction a rank has one turn.
 *
 * Chunks are numbered, announced and acknowledged as those of reduce_bulk.cuh, but lie in slots of their own: more and
 * longer ones than every source could have, as each costs a fence and two barriers.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_RING_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_RING_CUH

#include <bulk.cuh>
#include <over.cuh>

#define RING_DEPTH  6 /* slots for what comes from the rank before */
#define RING_GROUP  4
#define RING_ROUNDS 2 /* of loads, in a chunk: one is half hidden by barriers and a fence, three fill the way later */
#define RING_FEW    3 /* chunks of a stripe: they are shorter then */

/* In shared memory. */
struct ring_shape {
    uint64_t slot;         /* bytes of one */
    uint32_t chunks;       /* of the stripe of a part */
    uint32_t turns;        /* that this rank has: one for each part, or one */
    uint32_t size, longer; /* chunks of a group; how many groups, the first ones, have one more */
};

template <class E> struct ring_run {
    const bulk_run<E> &bulk;
    const struct ring_shape &s;
};

/* The work on one chunk in one turn. */
struct ring_unit {
    int owner;
    uint32_t chunk;
    uint32_t from, to; /* what number it has among the chunks from the rank before, and to the next one, from 0 on */
    bool gets, puts;   /* from the one; to the other */
};

/* Vectors of a thread. A chunk is a round of loads. */
template <class E> DEVICE constexpr uint32_t ring_vectors()
{
    return E::BYTES < 2 ? 2 : 6;
}

/* By thread 0. Chunks are RING_ROUNDS rounds of all workers, or one, where there are few, as far as there is room. */
template <class E> DEVICE void ring_cut(struct ring_shape *s, const bulk_run<E> &r)
{
    const uint64_t round = ALONE ? 4096 : (blockDim.x - 2 * WARP) * ring_vectors<E>() * (uint64_t)VECTOR_BYTES,
                   usual = (r.s.length < RING_FEW * RING_ROUNDS * round ? 1 : RING_ROUNDS) * round;
    s->slot = KERNEL_RING_BYTES / RING_DEPTH / gridDim.x & ~(KERNEL_LINE - 1);
    r.s.chunk = least(r.what.chunk ? round_up_16(r.what.chunk) : usual, s->slot);
    s->chunks = (uint32_t)((r.s.length + r.s.chunk - 1) / r.s.chunk);
    s->turns = r.what.parts == 1 ? 1 : (uint32_t)r.what.parts;
    const uint32_t groups = (s->chunks + RING_GROUP - 1) / RING_GROUP;
    s->size = groups ? s->chunks / groups : 0;
    s->longer = s->chunks - groups * s->size;
}

template <class E> DEVICE struct ring_unit ring_unit_of(const ring_run<E> &r, uint32_t t)
{
    const struct kernel_reduce &what = r.bulk.what;
    const uint32_t turns = r.s.turns, end = r.s.longer * (r.s.size + 1), me = (uint32_t)r.bulk.team.rank;
    const bool longer = t < end * turns;
    const uint32_t size = r.s.size + longer, from = longer ? 0 : end;
    const uint32_t before = from + (t - from * turns) / (size * turns) * size, rest = t - before * turns,
                   turn = rest / size, place = rest - turn * size;
    struct ring_unit u;
    u.chunk = before + place;
    if (turns == 1) {
        u.owner = (int)me;
        u.from = u.to = u.chunk;
        u.gets = what.before >= 0;
        u.puts = what.next >= 0;
        return u;
    }
    u.owner = (int)(me > turn ? me - 1 - turn : me + turns - 1 - turn);
    u.to = before * (turns - 1) + turn * size + place;
    u.from = u.to - size;
    u.gets = turn > 0;
    u.puts = turn + 1 < turns;
    return u;
}

/* How many chunks come from a neighbour, or go to one, that is there. */
template <class E> DEVICE uint32_t ring_all(const ring_run<E> &r)
{
    return r.s.turns == 1 ? r.s.chunks : (r.s.turns - 1) * r.s.chunks;
}

/* Numbers of the last chunks before this launch. */
template <class E> DEVICE uint32_t ring_received(const ring_run<E> &r)
{
    return r.bulk.s.end[r.bulk.what.before].received[ROUND];
}

template <class E> DEVICE uint32_t ring_sent(const ring_run<E> &r)
{
    return r.bulk.s.end[r.bulk.what.next].sent[ROUND];
}

/* The slot of a rank for a chunk. All are free when a launch begins. */
template <class E> DEVICE unsigned char *ring_slot(const ring_run<E> &r, int rank, uint32_t chunk)
{
    return r.bulk.team.bulk[rank] + kernel_bulk_lines(r.bulk.team.nranks) +
           (blockIdx.x * RING_DEPTH + chunk % RING_DEPTH) * r.s.slot;
}

/* ---- the data ---- */

/* At `at` in the chunk. WHOLE: U vectors, a warp apart; otherwise one, of `left` bytes or more, which need not be
 * aligned. came: what has come; to: where the sum goes, a slot or the user's. */
template <class E, bool WHOLE, uint32_t U>
DEVICE void ring_vectors_at(const ring_run<E> &r, const struct ring_unit &u, const unsigned char *in,
                            const unsigned char *came, unsigned char *to, uint64_t at, uint64_t left)
{
    const arithmetic<E> &a = r.bulk.a;
    struct vector x[U], y[U] = {};
    if (u.gets && WHOLE)
        load_tile<U>(y, came + at);
    else if (u.gets)
        y[0] = *(const struct vector *)(came + at);
    if (WHOLE)
        load_tile<U>(x, in + at);
    else
        load_vector(x, in + at, left);
    UNROLL for (uint32_t k = 0; k < U; k++)
    {
        if (a.scaled)
            prepare<E, 2>(a, x[k].unit);
        if (u.gets)
            units_absorb<E, 2>(x[k].unit, y[k].unit, a.op);
        if (!u.puts)
            finish<E, 2>(a, x[k].unit);
    }
    if (WHOLE)
        store_tile<U>(to + at, x);
    else if (u.puts)
        *(struct vector *)(to + at) = x[0];
    else
        store_vector(to + at, x[0], left);
}

/* What has come, or begins here, to the next rank and to the user. to, out: NULL: not there. */
template <bool WHOLE, uint32_t U>
DEVICE void ring_pass(const unsigned char *from, unsigned char *to, unsigned char *out, uint64_t at, uint64_t left)
{
    struct vector x[U];
    if (WHOLE)
        load_tile<U>(x, from + at);
    else
        load_vector(x, from + at, left);
    if (WHOLE && to)
        store_tile<U>(to + at, x);
    else if (to)
        *(struct vector *)(to + at) = x[0];
    if (WHOLE && out)
        store_tile<U>(out + at, x);
    else if (out)
        store_vector(out + at, x[0], left);
}

/* A chunk of a broadcast. */
template <class E>
DEVICE void ring_pass_on(const ring_run<E> &r, const struct ring_unit &u, const struct thread_group &c)
{
    enum : uint32_t { U = ring_vectors<E>() };
    const struct bulk_shape &s = r.bulk.s;
    const uint64_t bytes = bulk_bytes(s, u.owner, u.chunk), begin = u.chunk * s.chunk;
    const unsigned char *from = u.gets ? ring_slot(r, r.bulk.team.rank, u.from) : s.end[u.owner].in + begin;
    unsigned char *to = u.puts ? ring_slot(r, r.bulk.what.next, u.to) : NULL,
                  *out = u.gets || r.bulk.what.in != r.bulk.what.out ? s.end[u.owner].out + begin : NULL;
    const uint32_t tiles =
        (uint32_t)(whole_vectors(bytes, aligned(from, VECTOR_BYTES) && aligned(out, VECTOR_BYTES)) / (U * WARP));
    ROLLED for (uint32_t tile = c.thread / WARP; tile < tiles; tile += c.threads / WARP)
        ring_pass<true, U>(from, to, out, (tile * (U * WARP) + c.thread % WARP) * (uint64_t)VECTOR_BYTES, 0);
    ROLLED for (uint64_t at = (tiles * (U * WARP) + c.thread) * (uint64_t)VECTOR_BYTES; at < bytes;
                at += c.threads * VECTOR_BYTES) ring_pass<false, 1>(from, to, out, at, bytes - at);
}

template <class E>
DEVICE void ring_work_on(const ring_run<E> &r, const struct ring_unit &u, const struct thread_group &c)
{
    enum : uint32_t { U = ring_vectors<E>() };
    const struct bulk_shape &s = r.bulk.s;
    const struct bulk_end &owner = s.end[u.owner];
    const uint64_t bytes = bulk_bytes(s, u.owner, u.chunk), begin = u.chunk * s.chunk;
    const unsigned char *in = owner.in + begin, *came = u.gets ? ring_slot(r, r.bulk.team.rank, u.from) : NULL;
    unsigned char *to = u.puts ? ring_slot(r, r.bulk.what.next, u.to) : owner.out + begin;
    const uint32_t tiles =
        (uint32_t)(whole_vectors(bytes, aligned(in, VECTOR_BYTES) && aligned(to, VECTOR_BYTES)) / (U * WARP));
    ROLLED for (uint32_t tile = c.thread / WARP; tile < tiles; tile += c.threads / WARP) ring_vectors_at<E, true, U>(
        r, u, in, came, to, (tile * (U * WARP) + c.thread % WARP) * (uint64_t)VECTOR_BYTES, 0);
    ROLLED for (uint64_t at = (tiles * (U * WARP) + c.thread) * (uint64_t)VECTOR_BYTES; at < bytes;
                at += c.threads * VECTOR_BYTES) ring_vectors_at<E, false, 1>(r, u, in, came, to, at, bytes - at);
}

/* ---- what stages.cuh calls: there is one stage ---- */

template <class E> struct ring_work {
    const ring_run<E> &r;
    __device__ uint32_t steps() const
    {
        return r.s.chunks * r.s.turns;
    }
    __device__ int ranks() const
    {
        return r.bulk.team.nranks;
    }
    __device__ uint32_t weight(int) const
    {
        return 1;
    }
    __device__ bool ready(int, uint32_t t, int p) const
    {
        const struct ring_unit u = ring_unit_of(r, t);
        if (u.gets && p == r.bulk.what.before && !bulk_has_come(r.bulk, ROUND, p, u.from + 1))
            return false;
        return !u.puts || p != r.bulk.what.next || bulk_has_read(r.bulk, ROUND, p, u.to + 1, RING_DEPTH);
    }
    __device__ void work(int, uint32_t t, const struct thread_group &c) const
    {
        if (r.bulk.what.mode == KERNEL_BROADCAST)
            ring_pass_on(r, ring_unit_of(r, t), c);
        else
            ring_work_on(r, ring_unit_of(r, t), c);
    }
    /* The fence covers what all threads stored: a barrier was between. */
    __device__ void announce(int, uint32_t t, int p) const
    {
        const struct ring_unit u = ring_unit_of(r, t);
        struct window *to = window_of(r.bulk.team, p);
        const uint32_t stripe = r.bulk.s.stripe;
        const int me = r.bulk.team.rank;
        if (u.gets && p == r.bulk.what.before)
            store_ack(&to->bulk_acked[ROUND][stripe][me], ring_received(r) + u.from + 1);
        if (u.puts && p == r.bulk.what.next) {
            fence_all();
            store_flag(&to->bulk_arrived[ROUND][stripe][me], ring_sent(r) + u.to + 1);
        }
    }
    /* Waits until all has been read, and keeps the numbers. */
    __device__ void close(int, int p) const
    {
        struct window *mine = window_of(r.bulk.team, r.bulk.team.rank);
        const uint32_t stripe = r.bulk.s.stripe;
        if (p == r.bulk.what.before)
            mine->bulk_received[ROUND][stripe][p] = ring_received(r) + ring_all(r);
        if (p == r.bulk.what.next) {
            mine->bulk_sent[ROUND][stripe][p] = ring_sent(r) + ring_all(r);
            bulk_has_read(r.bulk, ROUND, p, ring_all(r), 0);
        }
    }
};

template <class E> DEVICE void reduce_ring(const struct kernel_reduce &what)
{
    __shared__ struct bulk_shape shape;
    __shared__ struct ring_shape s;
    __shared__ struct stages_state state;
    const uint64_t bytes = what.mode == KERNEL_BROADCAST ? what.count : what.count * E::BYTES;
    const uint64_t part = what.mode == KERNEL_REDUCE_SCATTER ? bytes : kernel_part_bytes(bytes, what.parts);
    const arithmetic<E> a = arithmetic_of<E>(what);
    const bulk_run<E> bulk = {what.team, what, a, shape};
    const ring_run<E> r = {bulk, s};
    const ring_work<E> work = {r};
    if (threadIdx.x == 0) {
        bulk_cut(&shape, what, part);
        ring_cut(&s, bulk);
    }
    EACH_RANK(p, what.team.nranks)
    bulk_find(&shape.end[p], what, bytes, part, p);
    barrier();
    if (s.chunks)
        stages_run(work, &state, 1);
}

#define RING_KERNELS(type, name)                                                                                       \
    LAUNCHED(KERNEL_BULK_THREADS, tutti_reduce_ring_##name, kernel_reduce, what.team, reduce_ring<element<type>>(what))

#endif
