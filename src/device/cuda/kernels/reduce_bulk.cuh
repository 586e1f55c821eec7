/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large reductions. Each block has a stripe of the vector, cut into a part for each rank, which owns it, and parts into chunks.
 * In step t of its pipeline a block pushes chunk t of all parts to their owners (A), reduces chunk t-1 of its own part, stores
 * and pushes the result (B), and copies results of chunk t-2 that others pushed (C). At its end nothing is under way, so the
 * next launch may cut the scratch in another way.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_BULK_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_BULK_CUH

#include <element.cuh>
#include <ll.cuh>

#define CONTRIBUTIONS 0
#define RESULTS       1

/* Numbers of the last chunk before this launch, in shared memory; thread p of a block uses those of rank p. */
struct bulk_numbers {
    uint32_t sent[BULK_FAMILIES][KERNEL_RANKS], received[BULK_FAMILIES][KERNEL_RANKS];
};

struct bulk_shape {
    uint64_t begin, length; /* the stripe */
    uint64_t part, chunk;   /* bytes */
    uint64_t block;         /* from one rank's block of a reduce-scatter to the next; otherwise 0 */
    uint64_t room;          /* bytes of one stripe in a slot */
    uint32_t steps, stripe, gives, takes;
    bool wants;
};

template <class E> struct bulk_run {
    const struct kernel_team &team;
    const unsigned char *in;
    unsigned char *out;
    const arithmetic<E> &a;
    const struct bulk_shape &s;
};

struct piece {
    uint64_t at;    /* in the vector, or in a block */
    uint64_t bytes;
};

DEVICE struct bulk_shape bulk_shape_of(const struct kernel_reduce &what, uint64_t bytes)
{
    const struct span mine = span_part(bytes, blockIdx.x, gridDim.x);
    const int n = what.team.nranks, me = what.team.rank;
    const bool scatter = what.mode == KERNEL_REDUCE_SCATTER;
    struct bulk_shape s;
    s.begin = mine.begin;
    s.length = mine.end - mine.begin;
    s.part = scatter ? s.length : round_up_16((s.length + n - 1) / n);
    s.block = scatter ? bytes : 0;
    s.room = KERNEL_BULK_BYTES / gridDim.x & ~(uint64_t)15;
    s.chunk = round_up_16((s.part + 7) / 8); /* fewer steps cannot overlap much */
    s.chunk = least(s.chunk < KERNEL_BULK_LEAST ? KERNEL_BULK_LEAST : s.chunk, s.room);
    s.steps = (uint32_t)((s.part + s.chunk - 1) / s.chunk);
    s.stripe = blockIdx.x;
    s.wants = what.mode != KERNEL_REDUCE || what.root == me;
    s.gives = scatter ? 0 : what.mode == KERNEL_REDUCE ? all_ranks_but(n, me) & 1u << what.root : all_ranks_but(n, me);
    s.takes = scatter || !s.wants ? 0 : all_ranks_but(n, me);
    return s;
}

/* Chunk t of rank p's part. */
DEVICE struct piece bulk_piece(const struct bulk_shape &s, int p, uint32_t t)
{
    const uint64_t first = s.block ? 0 : least(s.part * (uint64_t)p, s.length), end = least(first + s.part, s.length);
    const uint64_t from = least(first + t * s.chunk, end);
    struct piece x;
    x.at = s.begin + from;
    x.bytes = least(end - from, s.chunk);
    return x;
}

DEVICE unsigned char *bulk_slot(const struct kernel_team &team, const struct bulk_shape &s, int family, int owner, int source,
                                uint32_t t)
{
    const uint32_t sources = (uint32_t)team.nranks - 1;
    const uint32_t slot = ((uint32_t)family * KERNEL_BULK_DEPTH + t % KERNEL_BULK_DEPTH) * sources + source_index(owner, source);
    return team.bulk[owner] + slot * KERNEL_BULK_BYTES + s.stripe * s.room;
}

/* ---- the numbers: thread p for rank p ---- */

DEVICE void bulk_open(struct bulk_numbers *k, const struct kernel_team &team, uint32_t stripe)
{
    const struct window *mine = window_of(team, team.rank);
    EACH_RANK (p, team.nranks)
        for (int family = 0; family < BULK_FAMILIES; family++) {
            k->sent[family][p] = mine->bulk_sent[family][stripe][p];
            k->received[family][p] = mine->bulk_received[family][stripe][p];
        }
}

/* Waits until all that was sent has been read, and keeps the numbers. */
DEVICE void bulk_close(const struct bulk_numbers *k, const struct kernel_team &team, const struct bulk_shape &s)
{
    struct window *mine = window_of(team, team.rank);
    EACH_RANK (p, team.nranks)
        for (int family = 0; family < BULK_FAMILIES; family++) {
            const uint32_t sent = family == RESULTS && !has(s.gives, p) ? 0 : s.steps;
            const uint32_t received = family == RESULTS && !has(s.takes, p) ? 0 : s.steps;
            if (p == team.rank)
                continue;
            wait_flag(&mine->bulk_acked[family][s.stripe][p], k->sent[family][p] + sent, team.abort);
            mine->bulk_sent[family][s.stripe][p] = k->sent[family][p] + sent;
            mine->bulk_received[family][s.stripe][p] = k->received[family][p] + received;
        }
}

/* Is there room for what step t pushes? */
DEVICE bool bulk_room(const struct bulk_numbers *k, const struct kernel_team &team, const struct bulk_shape &s, uint32_t t)
{
    const struct window *mine = window_of(team, team.rank);
    bool good = true;
    EACH_RANK (p, team.nranks) {
        if (p != team.rank && t < s.steps && t >= KERNEL_BULK_DEPTH)
            good = good && wait_flag(&mine->bulk_acked[CONTRIBUTIONS][s.stripe][p],
                                     k->sent[CONTRIBUTIONS][p] + t + 1 - KERNEL_BULK_DEPTH, team.abort);
        if (has(s.gives, p) && t <= s.steps && t > KERNEL_BULK_DEPTH)
            good = good && wait_flag(&mine->bulk_acked[RESULTS][s.stripe][p], k->sent[RESULTS][p] + t - KERNEL_BULK_DEPTH,
                                     team.abort);
    }
    return good;
}

/* Waits for chunk number `chunks` of this launch from each of `ranks`. */
DEVICE bool bulk_arrived(const struct bulk_numbers *k, const struct kernel_team &team, const struct bulk_shape &s, int family,
                         uint32_t ranks, uint32_t chunks)
{
    const struct window *mine = window_of(team, team.rank);
    bool good = true;
    EACH_RANK (p, team.nranks)
        if (has(ranks, p))
            good = good && wait_flag(&mine->bulk_arrived[family][s.stripe][p], k->received[family][p] + chunks, team.abort);
    return good;
}

/*
 * Behind a barrier: what this block stored in step t (A and B) is announced, what it read (B, and C of the step before) is given
 * back. The fence, by whoever announces, covers all threads' stores: the barrier ordered them before it.
 */
DEVICE void bulk_signal(const struct bulk_numbers *k, const struct kernel_team &team, const struct bulk_shape &s, uint32_t t)
{
    const bool reduced = t >= 1 && t <= s.steps;
    EACH_RANK (p, team.nranks) {
        if (p == team.rank)
            continue;
        struct window *to = window_of(team, p);
        fence_all();
        if (t < s.steps)
            store_flag(&to->bulk_arrived[CONTRIBUTIONS][s.stripe][team.rank], k->sent[CONTRIBUTIONS][p] + t + 1);
        if (reduced && has(s.gives, p))
            store_flag(&to->bulk_arrived[RESULTS][s.stripe][team.rank], k->sent[RESULTS][p] + t);
        if (reduced)
            store_ack(&to->bulk_acked[CONTRIBUTIONS][s.stripe][team.rank], k->received[CONTRIBUTIONS][p] + t);
        if (t >= 3 && has(s.takes, p))
            store_ack(&to->bulk_acked[RESULTS][s.stripe][team.rank], k->received[RESULTS][p] + t - 2);
    }
}

/* ---- the data: all threads ---- */

/* A: chunk t of every part to its owner, beginning with the next rank so that not all push to one. */
template <class E> DEVICE void bulk_push(const bulk_run<E> &r, uint32_t t)
{
    const int n = r.team.nranks, me = r.team.rank;
    ROLLED for (int k = 1; k < n; k++) {
        const int p = me + k < n ? me + k : me + k - n;
        const struct piece x = bulk_piece(r.s, p, t);
        const unsigned char *from = r.in + r.s.block * p + x.at;
        unsigned char *to = bulk_slot(r.team, r.s, CONTRIBUTIONS, p, me, t);
        if (!r.a.scaled) {
            copy_block(to, from, x.bytes);
            continue;
        }
        ROLLED for (uint64_t i = threadIdx.x; i * VECTOR_BYTES < x.bytes; i += blockDim.x) {
            struct vector v;
            load_vector(&v, from + i * VECTOR_BYTES, x.bytes - i * VECTOR_BYTES);
            prepare<E, 2>(r.a, v.unit);
            ((struct vector *)to)[i] = v;
        }
    }
}

/*
 * B works on U vectors at a time of each thread: i, i + blockDim.x and so on. WHOLE: those before `end` are whole and aligned;
 * otherwise there is one, and `end` is in bytes.
 */
template <class E, bool WHOLE, int U> DEVICE void take_source(const bulk_run<E> &r, struct vector *x, int p, uint32_t t,
                                                              const unsigned char *own, uint64_t i, uint64_t end)
{
    const int me = r.team.rank;
    if (p != me) {
        load_vectors<U>(x, bulk_slot(r.team, r.s, CONTRIBUTIONS, me, p, t), i, WHOLE ? end : i + 1);
        return;
    }
    if (WHOLE)
        load_vectors<U>(x, own, i, end);
    else
        load_vector(x, own + i * VECTOR_BYTES, end - i * VECTOR_BYTES);
    UNROLL for (int u = 0; u < U; u++)
        prepare<E, 2>(r.a, x[u].unit);
}

/* Reduces x, rank 0's vectors, with the other ranks'; those of the next rank are being loaded meanwhile. */
template <class E, bool WHOLE, int U> DEVICE void fold_vectors(const bulk_run<E> &r, struct vector *x, uint32_t t,
                                                               const unsigned char *own, uint64_t i, uint64_t end)
{
    const int n = r.team.nranks;
    struct vector y[U];
    parts<E, 2> sum[U];
    take_source<E, WHOLE, U>(r, y, 1, t, own, i, end);
    UNROLL for (int u = 0; u < U; u++)
        parts_widen(sum[u], x[u].unit);
    ROLLED for (int p = 1; p < n; p++) {
        UNROLL for (int u = 0; u < U; u++)
            x[u] = y[u];
        if (p + 1 < n)
            take_source<E, WHOLE, U>(r, y, p + 1, t, own, i, end);
        UNROLL for (int u = 0; u < U; u++)
            parts_absorb(sum[u], x[u].unit, r.a.op);
    }
    UNROLL for (int u = 0; u < U; u++) {
        parts_narrow(x[u].unit, sum[u]);
        finish<E, 2>(r.a, x[u].unit);
    }
}

template <class E, bool WHOLE, int U> DEVICE void reduce_vectors(const bulk_run<E> &r, const struct piece &own, uint32_t t,
                                                                 uint64_t i, uint64_t end)
{
    const int n = r.team.nranks;
    const unsigned char *in = r.in + r.s.block * r.team.rank + own.at;
    struct vector x[U];
    take_source<E, WHOLE, U>(r, x, 0, t, in, i, end);
    if (n > 1)
        fold_vectors<E, WHOLE, U>(r, x, t, in, i, end);
    if (r.s.wants && WHOLE)
        store_vectors<U>(r.out + own.at, x, i, end);
    else if (r.s.wants)
        store_vector(r.out + own.at + i * VECTOR_BYTES, x[0], end - i * VECTOR_BYTES);
    ROLLED for (int p = 0; p < n; p++)
        if (has(r.s.gives, p))
            store_vectors<U>(bulk_slot(r.team, r.s, RESULTS, p, r.team.rank, t), x, i, WHOLE ? end : i + 1);
}

/* B: reduces chunk t of the own part. */
template <class E> DEVICE void bulk_reduce(const bulk_run<E> &r, uint32_t t)
{
    enum { U = E::BYTES == 1 ? 2 : 4 };
    const struct piece own = bulk_piece(r.s, r.team.rank, t);
    const bool good = aligned(r.in + r.s.block * r.team.rank + own.at, VECTOR_BYTES) &&
                      (!r.s.wants || aligned(r.out + own.at, VECTOR_BYTES));
    const uint64_t whole = whole_vectors(own.bytes, good);
    ROLLED for (uint64_t i = threadIdx.x; i < whole; i += U * blockDim.x)
        reduce_vectors<E, true, U>(r, own, t, i, whole);
    ROLLED for (uint64_t i = whole + threadIdx.x; i * VECTOR_BYTES < own.bytes; i += blockDim.x)
        reduce_vectors<E, false, 1>(r, own, t, i, own.bytes);
}

/* C: results of chunk t of the others' parts. */
template <class E> DEVICE void bulk_copy(const bulk_run<E> &r, uint32_t t)
{
    ROLLED for (int p = 0; p < r.team.nranks; p++)
        if (has(r.s.takes, p)) {
            const struct piece x = bulk_piece(r.s, p, t);
            copy_block(r.out + x.at, bulk_slot(r.team, r.s, RESULTS, r.team.rank, p, t), x.bytes);
        }
}

/* One step of the pipeline. False: given up. */
template <class E> DEVICE bool bulk_step(const bulk_run<E> &r, const struct bulk_numbers *k, uint32_t t)
{
    const uint32_t others = all_ranks_but(r.team.nranks, r.team.rank), steps = r.s.steps;
    if (barrier_or(!bulk_room(k, r.team, r.s, t)))
        return false;
    if (t < steps)
        bulk_push(r, t);
    if (t >= 1 && t <= steps) {
        if (barrier_or(!bulk_arrived(k, r.team, r.s, CONTRIBUTIONS, others, t)))
            return false;
        bulk_reduce(r, t - 1);
    }
    barrier();
    bulk_signal(k, r.team, r.s, t);
    if (t >= 2 && r.s.takes) {
        if (barrier_or(!bulk_arrived(k, r.team, r.s, RESULTS, r.s.takes, t - 1)))
            return false;
        bulk_copy(r, t - 2);
    }
    return true;
}

template <class E> DEVICE void reduce_bulk(const struct kernel_reduce &what)
{
    __shared__ struct bulk_numbers k;
    const struct bulk_shape s = bulk_shape_of(what, what.count * E::BYTES);
    const arithmetic<E> a = arithmetic_of<E>(what);
    const bulk_run<E> r = {what.team, (const unsigned char *)what.in, (unsigned char *)what.out, a, s};
    const uint32_t last = s.takes ? s.steps + 1 : s.steps;
    if (s.length == 0)
        return;
    bulk_open(&k, what.team, s.stripe);
    for (uint32_t t = 0; t <= last; t++)
        if (!bulk_step(r, &k, t))
            return;
    barrier();
    EACH_RANK (p, what.team.nranks)
        if (has(s.takes, p))
            store_ack(&window_of(what.team, p)->bulk_acked[RESULTS][s.stripe][what.team.rank], k.received[RESULTS][p] + s.steps);
    bulk_close(&k, what.team, s);
}

#endif
