/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small reductions. One-shot: contributions go to every rank that wants the result, which reduces them. Two-shot: each
 * stripe is cut into a part for each rank; its owner reduces it and sends the result on. Both reduce in the order of
 * ranks.
 *
 * Time is what counts here: a thread has a unit of 8 bytes and goes its way alone, numbers and data in registers. There
 * is one barrier, at the end. All messages of a round are equally long. So a rank that has heard from a peer knows that
 * the peer has read what the rank had sent in the round before: nobody acknowledges. A reduction to one root is not as
 * even; there acknowledgements are written and waited for.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_LL_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_LL_CUH

#include <element.cuh>
#include <ll.cuh>

/* A stripe has KERNEL_LL_HALF threads, half a block or all of it: one pass does it on a GPU. */
enum { LL_STEP = BLOCK_OF(KERNEL_LL_HALF), LL_PASSES = LL_PACKETS / LL_STEP };
#define EACH_UNIT(i, bytes)                                                                                            \
    for (uint32_t i = ll_thread(), pass = 0; pass < LL_PASSES && 8 * i < (bytes); pass++, i += LL_STEP)

/*
 * N is 4 or 8, no less than the number of ranks. Loops over it are written out: indices are constants, so that arrays
 * of this length stay in registers.
 */
#define EACH_OF(p, ranks) UNROLL for (int p = 0; p < N; p++) if (has(ranks, p))

/* The thread's number among those that work on a stripe. */
DEVICE uint32_t ll_thread()
{
    return threadIdx.x % LL_STEP;
}

DEVICE bool ll_barrier_or(bool yes)
{
    return blockDim.x > LL_STEP ? half_barrier_or(threadIdx.x / LL_STEP, yes) : barrier_or(yes);
}

/* Of every rank: numbers of the last messages, and the last one that it is known to have read. */
template <int N> struct ll_numbers {
    uint32_t sent[N], received[N], acked[N], read[N];
};

template <class E> struct ll_run {
    const struct kernel_team &team;
    const arithmetic<E> &a;
    uint32_t stripe, others, gives, takes; /* ranks that results go to, and come from */
    bool wants;                            /* does this rank get a result? */
    bool acks;                             /* not all ranks send to all */
};

/* Something in parts, one for each rank: from one to the next, the length of the longest, and of all. */
struct cut {
    uint64_t stride;
    uint32_t each, all;
};

/* ---- numbers: every thread has them all ---- */

/* Loads are only begun here: nothing is done with what they bring. */
template <int N> DEVICE void ll_open(ll_numbers<N> *k, const struct kernel_team &team, uint32_t stripe)
{
    const struct window *mine = window_of(team, team.rank);
    UNROLL for (int p = 0; p < N; p += 4)
    {
        load_relaxed4(&mine->ll_sent[stripe][p], &k->sent[p]);
        load_relaxed4(&mine->ll_received[stripe][p], &k->received[p]);
        load_relaxed4(&mine->ll_implied[stripe][p], &k->read[p]);
        load_relaxed4(&mine->ll_acked[stripe][p], &k->acked[p]);
    }
}

template <int N> DEVICE uint32_t pick(const uint32_t *x, int p)
{
    uint32_t y = x[0];
    UNROLL for (int q = 1; q < N; q++) y = q == p ? x[q] : y;
    return y;
}

/* Starts a message to each of `sends` and from each of `receives`. False: given up. There is room as a rule. */
template <int N>
DEVICE bool ll_begin(ll_numbers<N> *k, const struct kernel_team &team, uint32_t stripe, uint32_t sends,
                     uint32_t receives)
{
    uint32_t full = 0;
    bool good = true;
    UNROLL for (int p = 0; p < N; p++)
    {
        not_before(&k->sent[p]);
        not_before(&k->received[p]);
        not_before(&k->acked[p]);
        not_before(&k->read[p]);
    }
    UNROLL for (int p = 0; p < N; p++)
    {
        k->sent[p] += has(sends, p);
        k->received[p] += has(receives, p);
        full |= has(sends, p) && !ll_has_room(k->acked[p], k->sent[p]) && !ll_has_room(k->read[p], k->sent[p]) ? 1u << p
                                                                                                               : 0;
    }
    ROLLED for (int p = 0; full && p < N; p++) if (has(full, p)) good =
        good && ll_wait_room(&window_of(team, team.rank)->ll_acked[stripe][p], pick<N>(k->sent, p), team.abort, p);
    return good;
}

/* All have sent to all, and have read what was sent before. */
template <int N> DEVICE void ll_imply(ll_numbers<N> *k)
{
    UNROLL for (int p = 0; p < N; p++) k->read[p] = k->sent[p] - 1;
}

/* Behind a barrier: what came from all has been read. */
template <int N>
DEVICE void ll_acknowledge(const ll_numbers<N> &k, const struct kernel_team &team, uint32_t stripe, uint32_t ranks)
{
    if (ll_thread() == 0)
        EACH_OF(p, ranks)
    store_ack(&window_of(team, p)->ll_acked[stripe][team.rank], k.received[p]);
}

/* Behind a barrier. */
template <int N> DEVICE void ll_close(const ll_numbers<N> &k, const struct kernel_team &team, uint32_t stripe)
{
    struct window *mine = window_of(team, team.rank);
    if (ll_thread() != 0)
        return;
    UNROLL for (int p = 0; p < N; p++)
    {
        mine->ll_sent[stripe][p] = k.sent[p];
        mine->ll_received[stripe][p] = k.received[p];
        mine->ll_implied[stripe][p] = k.read[p];
    }
}

/* ---- units: of every rank one ---- */

template <int N> DEVICE uint64_t pick(const uint64_t *unit, int p)
{
    uint64_t x = unit[0];
    UNROLL for (int q = 1; q < N; q++) x = q == p ? unit[q] : x;
    return x;
}

template <int N> DEVICE void replace(uint64_t *unit, int p, uint64_t x)
{
    UNROLL for (int q = 0; q < N; q++) unit[q] = q == p ? x : unit[q];
}

/* Bytes of part p from unit i on. */
DEVICE uint32_t part_left(const struct cut &c, int p, uint32_t i)
{
    const uint32_t before = c.each * (uint32_t)p + 8 * i;
    if (before >= c.all || 8 * i >= c.each)
        return 0;
    return c.all - before < c.each - 8 * i ? c.all - before : c.each - 8 * i;
}

/* What the first pass of a round is going to fetch. */
DEVICE void fetch_ahead(const unsigned char *base, const struct cut &c, int n)
{
    const uint32_t i = ll_thread();
    if (8 * i < c.each)
        for (int p = 0; p < (c.stride ? n : 1); p++)
            if (part_left(c, p, i))
                load_ahead(base + c.stride * p + 8 * i);
}

/* Are units i of all parts whole, and need no look at each? */
DEVICE bool all_whole(const unsigned char *base, const struct cut &c, int n, uint32_t i)
{
    return aligned(base, 8) && (c.stride & 7) == 0 && part_left(c, n - 1, i) >= 8;
}

/* This rank's contribution to unit i, of each part; the same for all ranks if there is but one. */
template <class E, int N>
DEVICE void fetch(const ll_run<E> &r, uint64_t *unit, const unsigned char *base, const struct cut &c, uint32_t i)
{
    const int n = r.team.nranks;
    if (c.stride == 0) {
        uint64_t x = part_left(c, 0, i) ? load_unit(base + 8 * i, part_left(c, 0, i)) : 0;
        prepare<E, 1>(r.a, &x);
        UNROLL for (int p = 0; p < N; p++) unit[p] = x;
        return;
    }
    if (all_whole(base, c, n, i)) {
        UNROLL for (int p = 0; p < N; p++) unit[p] = p < n ? *(const uint64_t *)(base + c.stride * p + 8 * i) : 0;
    } else {
        ROLLED for (int p = 0; p < n; p++)
        {
            const uint32_t left = part_left(c, p, i);
            replace<N>(unit, p, left ? load_unit(base + c.stride * p + 8 * i, left) : 0);
        }
    }
    ROLLED for (int p = 0; r.a.scaled && p < n; p++)
    {
        uint64_t x = pick<N>(unit, p);
        prepare<E, 1>(r.a, &x);
        replace<N>(unit, p, x);
    }
}

template <class E, int N>
DEVICE void store_parts(const ll_run<E> &r, const uint64_t *unit, uint32_t ranks, unsigned char *base,
                        const struct cut &c, uint32_t i)
{
    const int n = r.team.nranks;
    if (all_whole(base, c, n, i)) {
        EACH_OF(p, ranks)
        *(uint64_t *)(base + c.stride * p + 8 * i) = unit[p];
        return;
    }
    ROLLED for (int p = 0; p < n; p++) if (has(ranks, p) && part_left(c, p, i))
        store_unit(base + c.stride * p + 8 * i, pick<N>(unit, p), part_left(c, p, i));
}

template <class E, int N>
DEVICE void put_units(const ll_run<E> &r, const ll_numbers<N> &k, uint32_t ranks, uint32_t i, const uint64_t *unit)
{
    EACH_OF(p, ranks)
    ll_put(ll_slot(r.team, p, r.team.rank, r.stripe, k.sent[p]) + i, k.sent[p], unit[p]);
}

template <int N> DEVICE uint32_t missing(const struct packet *x, const ll_numbers<N> &k, uint32_t ranks)
{
    uint32_t out = 0;
    EACH_OF(p, ranks)
    out |= ll_is(x[p], k.received[p]) ? 0 : 1u << p;
    return out;
}

/* Waits for packet i of the message from each of `ranks`. False: given up. */
template <class E, int N>
DEVICE bool collect(const ll_run<E> &r, const ll_numbers<N> &k, uint32_t ranks, uint32_t i, uint64_t *unit)
{
    struct waiting w = {r.team.abort, 0};
    const struct packet *at[N];
    struct packet x[N];
    bool all;
    EACH_OF(p, ranks)
    at[p] = ll_slot(r.team, r.team.rank, p, r.stripe, k.received[p]) + i;
    do {
        all = true;
        EACH_OF(p, ranks)
        load_halves(at[p]->half, &x[p].half[0], &x[p].half[1]);
        EACH_OF(p, ranks)
        all = all && ll_is(x[p], k.received[p]);
    } while (!all && (!wait_pause(&w) || wait_hear(&w, missing<N>(x, k, ranks))));
    EACH_OF(p, ranks)
    unit[p] = ll_unit(x[p]);
    return all;
}

template <class E, int N, int OP> DEVICE void fold_by(parts<E, 1> &sum, const uint64_t *unit, int n)
{
    UNROLL for (int p = 1; p < N; p++) if (p < n) parts_absorb(sum, &unit[p], OP);
}

/* Reduces what all ranks contributed. Elements of a byte are many, and each takes many instructions: there in a loop.
 */
template <class E, int N> DEVICE uint64_t fold_units(const ll_run<E> &r, const uint64_t *unit)
{
    const int n = r.team.nranks;
    uint64_t x = unit[0];
    parts<E, 1> sum;
    if (n == 1)
        return x;
    parts_widen(sum, &x);
    if (E::BYTES == 1)
        ROLLED for (int p = 1; p < n; p++)
        {
            x = pick<N>(unit, p);
            parts_absorb(sum, &x, r.a.op);
        }
    else if (r.a.op == TUTTI_SUM)
        fold_by<E, N, TUTTI_SUM>(sum, unit, n);
    else if (r.a.op == TUTTI_PROD)
        fold_by<E, N, TUTTI_PROD>(sum, unit, n);
    else if (r.a.op == TUTTI_MAX)
        fold_by<E, N, TUTTI_MAX>(sum, unit, n);
    else
        fold_by<E, N, TUTTI_MIN>(sum, unit, n);
    parts_narrow(&x, sum);
    finish<E, 1>(r.a, &x);
    return x;
}

/* ---- the kernels ---- */

/* Ends a round: all threads have read what came. False: given up. */
template <class E, int N> DEVICE bool end_round(const ll_run<E> &r, ll_numbers<N> *k, bool good, uint32_t receives)
{
    if (ll_barrier_or(!good))
        return false;
    if (r.acks)
        ll_acknowledge(*k, r.team, r.stripe, receives);
    else
        ll_imply(k);
    return true;
}

/* The same range of every rank's vector, or of the block for each rank, which begins at `from`. False: given up. */
template <class E, int N>
DEVICE bool one_round(const ll_run<E> &r, ll_numbers<N> *k, const unsigned char *from, unsigned char *to,
                      const struct cut &c)
{
    const int me = r.team.rank;
    uint64_t unit[N];
    fetch<E, N>(r, unit, from, c, ll_thread());
    bool good = ll_begin(k, r.team, r.stripe, r.gives, r.takes);
    EACH_UNIT(i, c.each)
    {
        if (pass)
            fetch<E, N>(r, unit, from, c, i);
        if (good)
            put_units(r, *k, r.gives, i, unit);
    }
    EACH_UNIT(i, r.wants ? c.each : 0)
    {
        if (LL_PASSES > 1)
            fetch<E, N>(r, unit, from, c, i);
        good = good && collect(r, *k, r.takes, i, unit);
        if (good)
            store_unit(to + 8 * i, fold_units<E, N>(r, unit), part_left(c, me, i));
    }
    return end_round(r, k, good, r.takes);
}

/* First shot: everybody's contributions to their owners. False: given up. */
template <class E, int N>
DEVICE bool two_send(const ll_run<E> &r, ll_numbers<N> *k, const unsigned char *from, const struct cut &c,
                     uint64_t *unit)
{
    if (!ll_begin(k, r.team, r.stripe, r.others, r.others))
        return false;
    EACH_UNIT(i, c.each)
    {
        if (pass)
            fetch<E, N>(r, unit, from, c, i);
        put_units(r, *k, r.others, i, unit);
    }
    return true;
}

/* Second shot: owners reduce and send the results to the ranks that want them. False: given up. */
template <class E, int N>
DEVICE bool two_reduce(const ll_run<E> &r, ll_numbers<N> *k, const unsigned char *from, unsigned char *to,
                       const struct cut &c, uint64_t *unit)
{
    if (!r.acks)
        ll_imply(k); /* of a peer whose contribution has come */
    if (!ll_begin(k, r.team, r.stripe, r.gives, 0))
        return false;
    EACH_UNIT(i, c.each)
    {
        if (LL_PASSES > 1)
            fetch<E, N>(r, unit, from, c, i);
        if (!collect(r, *k, r.others, i, unit))
            return false;
        const uint64_t x = fold_units<E, N>(r, unit);
        UNROLL for (int p = 0; p < N; p++) unit[p] = x;
        put_units(r, *k, r.gives, i, unit);
        if (r.wants && part_left(c, r.team.rank, i))
            store_unit(to + c.stride * r.team.rank + 8 * i, x, part_left(c, r.team.rank, i));
    }
    return true;
}

template <class E, int N>
DEVICE bool two_receive(const ll_run<E> &r, ll_numbers<N> *k, unsigned char *to, const struct cut &c, uint64_t *unit)
{
    ll_begin(k, r.team, r.stripe, 0, r.takes);
    EACH_UNIT(i, r.takes ? c.each : 0)
    {
        if (!collect(r, *k, r.takes, i, unit))
            return false;
        store_parts<E, N>(r, unit, r.takes, to, c, i);
    }
    return true;
}

/* A range of the vector, cut into a part for each rank. False: given up. */
template <class E, int N>
DEVICE bool two_round(const ll_run<E> &r, ll_numbers<N> *k, const unsigned char *from, unsigned char *to,
                      const struct cut &c)
{
    uint64_t unit[N];
    fetch<E, N>(r, unit, from, c, ll_thread());
    bool good = two_send(r, k, from, c, unit);
    good = good && two_reduce(r, k, from, to, c, unit);
    if (r.acks && !end_round(r, k, good, r.others)) /* the root has no result to send, by which it would imply this */
        return false;
    good = good && two_receive(r, k, to, c, unit);
    return end_round(r, k, good, r.takes);
}

template <class E> DEVICE ll_run<E> ll_run_of(const struct kernel_reduce &what, const arithmetic<E> &a, uint32_t stripe)
{
    const int n = what.team.nranks, me = what.team.rank;
    const ll_run<E> r = {what.team,  a,          stripe,          all_ranks_but(n, me),
                         what.gives, what.takes, what.wants != 0, what.mode == KERNEL_REDUCE};
    return r;
}

struct small_span {
    uint32_t begin, end;
};

/* Small vectors are counted in 32 bits: they are far shorter. */
DEVICE struct small_span small_stripe(uint32_t bytes, uint32_t stripe, uint32_t stripes)
{
    const uint32_t each = ((bytes + stripes - 1) / stripes + 15) & ~15u, begin = each * stripe;
    struct small_span s;
    s.begin = begin < bytes ? begin : bytes;
    s.end = s.begin + each < bytes ? s.begin + each : bytes;
    return s;
}

DEVICE struct cut cut_of_one(const struct small_span &mine, uint32_t at, uint64_t block)
{
    const struct cut c = {block, (uint32_t)least(mine.end - at, KERNEL_LL_BYTES), ~0u};
    return c;
}

DEVICE struct cut cut_of_two(const struct small_span &mine, uint32_t at, uint32_t n)
{
    const uint32_t bytes = (uint32_t)least(mine.end - at, n * KERNEL_LL_BYTES),
                   each = ((bytes + n - 1) / n + 15) & ~15u;
    const struct cut c = {each, each, bytes};
    return c;
}

/* Items [first, end) of the list, one after another: of each what is on the team's stripe `stripe`. */
template <class E, int N>
DEVICE void reduce_one(const struct kernel_list &list, uint32_t stripe, uint32_t first, uint32_t end)
{
    const struct kernel_reduce &what = list.reduce;
    bool met = false; /* without a round there is no barrier, and others may not have opened yet */
    ll_numbers<N> k;
    ll_open(&k, what.team, stripe);
    const arithmetic<E> a = arithmetic_of<E>(what);
    const ll_run<E> r = ll_run_of(what, a, stripe);
    ROLLED for (uint32_t i = first; i < end; i++)
    {
        const struct list_vector item = list_item(list, i);
        const uint64_t block = what.mode == KERNEL_REDUCE_SCATTER ? item.count * E::BYTES : 0;
        const struct small_span mine =
            small_stripe((uint32_t)item.count * E::BYTES, item_stripe(list, item, stripe), item.stripes);
        const unsigned char *in = (const unsigned char *)item.in;
        if (mine.begin != mine.end)
            fetch_ahead(in + mine.begin, cut_of_one(mine, mine.begin, block), what.team.nranks);
        met |= mine.begin != mine.end;
        for (uint32_t at = mine.begin; at < mine.end; at += KERNEL_LL_BYTES)
            if (!one_round(r, &k, in + at, (unsigned char *)item.out + at, cut_of_one(mine, at, block)))
                return;
    }
    if (met)
        ll_close(k, what.team, stripe);
}

template <class E, int N>
DEVICE void reduce_two(const struct kernel_list &list, uint32_t stripe, uint32_t first, uint32_t end)
{
    const struct kernel_reduce &what = list.reduce;
    const uint32_t n = (uint32_t)what.team.nranks;
    bool met = false; /* without a round there is no barrier, and others may not have opened yet */
    ll_numbers<N> k;
    ll_open(&k, what.team, stripe);
    const arithmetic<E> a = arithmetic_of<E>(what);
    const ll_run<E> r = ll_run_of(what, a, stripe);
    ROLLED for (uint32_t i = first; i < end; i++)
    {
        const struct list_vector item = list_item(list, i);
        const struct small_span mine =
            small_stripe((uint32_t)item.count * E::BYTES, item_stripe(list, item, stripe), item.stripes);
        const unsigned char *in = (const unsigned char *)item.in;
        if (mine.begin != mine.end)
            fetch_ahead(in + mine.begin, cut_of_two(mine, mine.begin, n), what.team.nranks);
        met |= mine.begin != mine.end;
        for (uint32_t at = mine.begin; at < mine.end; at += n * KERNEL_LL_BYTES)
            if (!two_round(r, &k, in + at, (unsigned char *)item.out + at, cut_of_two(mine, at, n)))
                return;
    }
    if (met)
        ll_close(k, what.team, stripe);
}

template <class E, bool TWO>
DEVICE void reduce_stripe(const struct kernel_list &list, uint32_t stripe, uint32_t first, uint32_t end)
{
    if (TWO && list.reduce.team.nranks <= 4)
        reduce_two<E, 4>(list, stripe, first, end);
    else if (TWO)
        reduce_two<E, 8>(list, stripe, first, end);
    else if (list.reduce.team.nranks <= 4)
        reduce_one<E, 4>(list, stripe, first, end);
    else
        reduce_one<E, 8>(list, stripe, first, end);
}

/* Each half of a block has a stripe, or the whole block one. Halves do not wait for one another. A block of one thread
 * has both stripes. It goes from item to item with them, and to the lower stripe first, as all blocks of all ranks do.
 */
typedef void ll_work(const struct kernel_list &list, uint32_t stripe, uint32_t first, uint32_t end);

template <ll_work *WORK> DEVICE void each_stripe(const struct kernel_list &list)
{
    const uint32_t each = list.reduce.stripes > gridDim.x ? 2 : 1, first = blockIdx.x * each, items = list_items(list);
    const bool wraps = list_stripe(list, first + each - 1) < list_stripe(list, first);
    if (!ALONE)
        WORK(list, list_stripe(list, first + threadIdx.x / LL_STEP), 0, items);
    for (uint32_t item = 0; ALONE && item < items; item++)
        for (uint32_t i = 0; i < each; i++)
            WORK(list, list_stripe(list, first + (wraps ? each - 1 - i : i)), item, item + 1);
}

template <class E, bool TWO> DEVICE void reduce_stripes(const struct kernel_list &list)
{
    each_stripe<reduce_stripe<E, TWO>>(list);
}

#endif
