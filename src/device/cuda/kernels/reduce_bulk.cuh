/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large reductions. Ranks own parts of the vector; each block has a stripe of every part, cut into chunks. Three stages
 * work on a stripe, each at its own pace, by warps of its own (stages.cuh): contributions are pushed to their owners;
 * the owner reduces them, stores results and pushes them to the ranks that want them; results are copied from where
 * others have pushed them.
 *
 * A channel (one stage of one rank to the next stage of another, one stripe) has KERNEL_BULK_DEPTH slots. A chunk is
 * announced by a flag behind a fence, and its slot may be filled again when it has been acknowledged. A stage waits
 * only for a stage before it at the same chunk, and for one behind it at an earlier chunk, so somebody can always go
 * on. A block ends when all that it sent to slots has been acknowledged, because the next launch may cut the scratch in
 * another way.
 *
 * A rank invites owners to its own `out` when it begins (invitation.cuh): to store results straight there, and to
 * announce the last chunk alone. If a token is needed it lies where the owner's results begin, and comes there when
 * what lies there, in a reduction in place, has been pushed. An owner that cannot reach the memory, or sees no token
 * when contributions have come, sends through slots.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_BULK_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_BULK_CUH

#include <bulk.cuh>
#include <invitation.cuh>
#include <reduce_read.cuh>

#define MOVE_VECTORS 8 /* in flight of a thread that copies */
#define FOLD_VECTORS 2 /* of each rank, in flight of one that reduces */
#define FOLD_SOURCES 4 /* ranks whose vectors are loaded before the first is needed */

enum bulk_stage { BULK_PUSH, BULK_REDUCE, BULK_COPY };

/* ---- invitations, by the lane of rank p ---- */

/* The number of the first chunk of results from one rank to another, which both know, says which launch it is. */
template <class E> DEVICE uint32_t bulk_first_to(const bulk_run<E> &r, int p)
{
    return r.s.end[p].sent[RESULTS] + 1;
}

template <class E> DEVICE uint32_t bulk_first_from(const bulk_run<E> &r, int p)
{
    return r.s.end[p].received[RESULTS] + 1;
}

template <class E> DEVICE uint64_t bulk_token_to(const bulk_run<E> &r, int p)
{
    return ~invite_token_of(bulk_first_to(r, p), r.s.stripe, r.team.rank, p); /* none of a message's */
}

template <class E> DEVICE uint64_t bulk_token_from(const bulk_run<E> &r, int p)
{
    return ~invite_token_of(bulk_first_from(r, p), r.s.stripe, p, r.team.rank);
}

/* What says that this launch's results go straight: never 0, and not what the launch before was told. */
DEVICE uint32_t bulk_straight_word(uint32_t first)
{
    return first << 1 | 1;
}

DEVICE struct packet *bulk_invited(const struct kernel_team &team, int to, int from, uint32_t stripe, uint32_t first)
{
    return &window_of(team, to)->bulk_invited[stripe][from][first % LL_SLOTS];
}

/* To this rank's `out`. */
template <class E> DEVICE uint64_t bulk_invitation(const bulk_run<E> &r, int p)
{
    const uint64_t invitation = r.s.end[p].length >= INVITE_LEAST ? r.what.invite[p] : 0;
    return invitation % VECTOR_BYTES ? 0 : invitation | (invitation && r.what.sure ? KERNEL_INVITE_SURE : 0);
}

template <class E> DEVICE void bulk_invite(const bulk_run<E> &r, int p)
{
    const uint32_t first = bulk_first_from(r, p);
    ll_put(bulk_invited(r.team, p, r.team.rank, r.s.stripe, first), first, bulk_invitation(r, p));
}

/* The first chunk of its contribution has been read. A fence follows, and its flag. */
template <class E> DEVICE void bulk_show(const bulk_run<E> &r, int p)
{
    if (bulk_invitation(r, p) && !r.what.sure)
        store_word(invite_token_at(r.s.end[p].out), bulk_token_from(r, p));
}

/* The place that rank p invites to, as this rank reaches it; NULL: none. False: given up. */
template <class E> DEVICE bool bulk_hear_invitation(const bulk_run<E> &r, int p, unsigned char **to, bool *sure)
{
    const uint32_t first = bulk_first_to(r, p);
    uint64_t invitation = 0;
    const bool good =
        ll_get(bulk_invited(r.team, r.team.rank, p, r.s.stripe, first), first, r.team.abort, p, &invitation);
    *sure = invitation & KERNEL_INVITE_SURE;
    *to = good ? invite_reach(invitation & ~KERNEL_INVITE_SURE, r.what.mappings, p) : NULL;
    if (*to)
        *to += r.s.end[r.team.rank].out - (const unsigned char *)r.what.out;
    return good;
}

/* Finds where results for rank p go, before the first chunk is reduced. When this returns, rank p's contribution has
 * come. Rank p hears what comes of its invitation before it gets results. False: given up. */
template <class E> DEVICE bool bulk_accept(const bulk_run<E> &r, int p)
{
    unsigned char *to;
    bool sure;
    if (!bulk_hear_invitation(r, p, &to, &sure) || !bulk_has_come(r, CONTRIBUTIONS, p, 1))
        return false;
    if (to && (!aligned(to, VECTOR_BYTES) || (!sure && load_word(invite_token_at(to)) != bulk_token_to(r, p))))
        to = NULL;
    r.s.end[p].straight = to;
    store_flag(&window_of(r.team, p)->bulk_straight[r.s.stripe][r.team.rank],
               to ? bulk_straight_word(bulk_first_to(r, p)) : 0);
    return true;
}

template <class E> DEVICE uint32_t bulk_straight_of(const bulk_run<E> &r, int p)
{
    return load_relaxed(&window_of(r.team, r.team.rank)->bulk_straight[r.s.stripe][p]);
}

template <class E> DEVICE bool bulk_says_straight(const bulk_run<E> &r, int p)
{
    return bulk_straight_of(r, p) == bulk_straight_word(bulk_first_from(r, p));
}

/* Waits until rank p's first result is there, or rank p has said that all go straight. False: given up. */
template <class E> DEVICE bool bulk_hear(const bulk_run<E> &r, int p)
{
    const uint32_t *arrived = &window_of(r.team, r.team.rank)->bulk_arrived[RESULTS][r.s.stripe][p];
    const uint32_t first = bulk_first_from(r, p);
    struct waiting w = {r.team.abort, 0};
    uint32_t straight, number;
    do { /* both are on their way at once */
        straight = bulk_straight_of(r, p);
        number = load_ack(arrived);
    } while (straight != bulk_straight_word(first) && !reached(number, first) && wait_on(&w, p));
    if (straight != bulk_straight_word(first)) {
        if (!reached(number, first))
            return false;
        load_acquire(arrived); /* what it said comes before what it sent */
        straight = bulk_straight_of(r, p);
    }
    r.s.end[p].comes = straight == bulk_straight_word(first);
    return true;
}

/* The reduction has been given up, and users' memory may be others' soon. This rank stores no more. A rank that has not
 * begun to store in this one's memory shall not, and one that has is waited for. */
template <class E> DEVICE void bulk_revoke(const bulk_run<E> &r, int p)
{
    struct bulk_end &end = r.s.end[p];
    struct window *to = window_of(r.team, p);
    const uint32_t *arrived = &window_of(r.team, r.team.rank)->bulk_arrived[RESULTS][r.s.stripe][p];
    const uint32_t last = end.received[RESULTS] + r.s.steps;
    uint32_t turn = 0;
    uint64_t until = clock_of_gpu() + INVITE_ANSWER;
    if (end.straight) {
        fence_all();
        store_flag(&to->bulk_straight[r.s.stripe][r.team.rank], 0);
    }
    if (!has(r.s.takes, p) || !bulk_invitation(r, p) || reached(load_acquire(arrived), last))
        return;
    if (!r.what.sure)
        store_word(invite_token_at(end.out), ~bulk_token_from(r, p));
    ll_put(bulk_invited(r.team, p, r.team.rank, r.s.stripe, bulk_first_from(r, p)), bulk_first_from(r, p), 0);
    while (!bulk_says_straight(r, p) && clock_of_gpu() < until)
        pause_spin(turn++);
    until = clock_of_gpu() + INVITE_STORE_NS;
    while (bulk_says_straight(r, p) && !reached(load_acquire(arrived), last) && clock_of_gpu() < until)
        pause_spin(turn++);
}

/* ---- what stages wait for, and tell ---- */

/* Waits for chunk t of rank p's results. */
template <class E> DEVICE bool bulk_takes(const bulk_run<E> &r, uint32_t t, int p)
{
    const bool hears = t == 0 && r.what.invites;
    if (hears && !bulk_hear(r, p))
        return false;
    if (!r.s.end[p].comes)
        return hears || bulk_has_come(r, RESULTS, p, t + 1);
    return t + 1 < r.s.steps || bulk_has_come(r, RESULTS, p, r.s.steps);
}

/* Finds room for chunk t of results to rank p. Workers are done with chunk t - 2, and look where chunk t - 1 goes. */
template <class E> DEVICE bool bulk_gives(const bulk_run<E> &r, uint32_t t, int p)
{
    struct bulk_end &end = r.s.end[p];
    end.to[t % 2] = end.straight ? end.straight + t * r.s.chunk : end.there[RESULTS] + t % KERNEL_BULK_DEPTH * r.s.slot;
    return end.straight || bulk_has_read(r, RESULTS, p, t + 1, KERNEL_BULK_DEPTH);
}

/* May a stage begin with chunk t, as far as rank p is concerned? Waits. False: given up. */
template <class E> DEVICE bool bulk_ready(const bulk_run<E> &r, int stage, uint32_t t, int p)
{
    const bool first = t == 0 && r.what.invites, gives = has(r.s.gives, p), takes = has(r.s.takes, p);
    if (stage == BULK_PUSH) {
        if (first && takes)
            bulk_invite(r, p);
        return !has(r.s.others, p) || bulk_has_read(r, CONTRIBUTIONS, p, t + 1, KERNEL_BULK_DEPTH);
    }
    if (stage == BULK_COPY)
        return !takes || bulk_takes(r, t, p);
    if (first && gives ? !bulk_accept(r, p) : has(r.s.others, p) && !bulk_has_come(r, CONTRIBUTIONS, p, t + 1))
        return false;
    return !gives || bulk_gives(r, t, p);
}

/* Tells rank p that a stage has finished with chunk t. The fence covers what all threads stored: a barrier was between.
 */
template <class E> DEVICE void bulk_announce(const bulk_run<E> &r, int stage, uint32_t t, int p)
{
    struct window *to = window_of(r.team, p);
    const int me = r.team.rank;
    if (stage == BULK_REDUCE && has(r.s.others, p))
        store_ack(&to->bulk_acked[CONTRIBUTIONS][r.s.stripe][me], r.s.end[p].received[CONTRIBUTIONS] + t + 1);
    if (stage == BULK_COPY && has(r.s.takes, p) && (!r.s.end[p].comes || t + 1 == r.s.steps))
        store_ack(&to->bulk_acked[RESULTS][r.s.stripe][me], r.s.end[p].received[RESULTS] + t + 1);
    const int family = stage == BULK_PUSH ? CONTRIBUTIONS : RESULTS;
    if (stage == BULK_COPY || !has(stage == BULK_PUSH ? r.s.others : r.s.gives, p))
        return;
    if (stage == BULK_REDUCE && r.s.end[p].straight && t + 1 < r.s.steps)
        return;
    if (stage == BULK_PUSH && t == 0 && r.what.invites && has(r.s.takes, p))
        bulk_show(r, p);
    fence_all();
    store_flag(&to->bulk_arrived[family][r.s.stripe][me], r.s.end[p].sent[family] + t + 1);
}

/* Counts which way results go, as far as there is room: messages have fewer stripes. */
template <class E> DEVICE void bulk_count(const bulk_run<E> &r, int p)
{
    struct kernel_mappings *to = r.what.mappings;
    if (to && r.s.stripe < KERNEL_EXCHANGE_MOST)
        ++(r.s.end[p].straight ? to->straight : to->slots)[r.s.stripe][p];
}

/* Waits until all slots have been read, and keeps the numbers. */
template <class E> DEVICE void bulk_close(const bulk_run<E> &r, int stage, int p)
{
    struct window *mine = window_of(r.team, r.team.rank);
    const uint32_t stripe = r.s.stripe, steps = r.s.steps;
    if (stage == BULK_PUSH && has(r.s.others, p)) {
        mine->bulk_sent[CONTRIBUTIONS][stripe][p] = r.s.end[p].sent[CONTRIBUTIONS] + steps;
        bulk_has_read(r, CONTRIBUTIONS, p, steps, 0);
    }
    if (stage == BULK_REDUCE && has(r.s.others, p))
        mine->bulk_received[CONTRIBUTIONS][stripe][p] = r.s.end[p].received[CONTRIBUTIONS] + steps;
    if (stage == BULK_REDUCE && has(r.s.gives, p)) {
        mine->bulk_sent[RESULTS][stripe][p] = r.s.end[p].sent[RESULTS] + steps;
        bulk_count(r, p);
        if (!r.s.end[p].straight)
            bulk_has_read(r, RESULTS, p, steps, 0);
    }
    if (stage == BULK_COPY && has(r.s.takes, p))
        mine->bulk_received[RESULTS][stripe][p] = r.s.end[p].received[RESULTS] + steps;
}

/* ---- the data: a stage's workers ---- */

/* The k-th other rank, k from 0 on. */
DEVICE int bulk_peer(const struct kernel_team &team, uint32_t k)
{
    const int p = team.rank + 1 + (int)k;
    return p < team.nranks ? p : p - team.nranks;
}

/* A chunk on its way: from the user's input to its owner, or a result from the scratch to the user's output. */
struct bulk_way {
    const unsigned char *from;
    unsigned char *to;
    uint64_t bytes;
};

DEVICE struct bulk_way bulk_way_of(const struct bulk_shape &s, int stage, int p, uint32_t t)
{
    const uint64_t slot = t % KERNEL_BULK_DEPTH * s.slot, chunk = t * s.chunk;
    struct bulk_way w;
    w.from = stage == BULK_PUSH ? s.end[p].in + chunk : s.end[p].here[RESULTS] + slot;
    w.to = stage == BULK_PUSH ? s.end[p].there[CONTRIBUTIONS] + slot : s.end[p].out + chunk;
    w.bytes = stage == BULK_COPY && s.end[p].comes ? 0 : bulk_bytes(s, p, t);
    return w;
}

/* Tiles: MOVE_VECTORS times as many vectors as a warp has threads. How many are whole and aligned? */
DEVICE uint32_t bulk_tiles(const struct bulk_way &w)
{
    return (uint32_t)(whole_vectors(w.bytes, aligned(w.from, VECTOR_BYTES) && aligned(w.to, VECTOR_BYTES)) /
                      (MOVE_VECTORS * WARP));
}

/* Chunk t to, or of, every other rank. Neighbouring warps work for different ranks, so that all links are used all the
 * time. */
template <class E> DEVICE void bulk_move(const bulk_run<E> &r, int stage, uint32_t t, const struct thread_group &c)
{
    const uint32_t others = (uint32_t)r.team.nranks - 1, lane = c.thread % WARP, warps = c.threads / WARP;
    const uint32_t most = (uint32_t)(r.s.chunk / (MOVE_VECTORS * WARP * VECTOR_BYTES)) * others;
    ROLLED for (uint32_t i = c.thread / WARP; i < most; i += warps)
    {
        const struct bulk_way w = bulk_way_of(r.s, stage, bulk_peer(r.team, i % others), t);
        const uint32_t tile = i / others;
        struct vector x[MOVE_VECTORS];
        if (tile >= bulk_tiles(w))
            continue;
        const uint64_t at = (tile * (MOVE_VECTORS * WARP) + lane) * (uint64_t)VECTOR_BYTES;
        load_tile<MOVE_VECTORS>(x, w.from + at);
        store_tile<MOVE_VECTORS>(w.to + at, x);
    }
    ROLLED for (uint32_t k = 0; k < others; k++)
    {
        const struct bulk_way w = bulk_way_of(r.s, stage, bulk_peer(r.team, k), t);
        copy_singly(w.to, w.from, bulk_tiles(w) * (MOVE_VECTORS * WARP), w.bytes, c);
    }
}

template <class E> DEVICE void bulk_push_scaled(const bulk_run<E> &r, uint32_t t, const struct thread_group &c)
{
    ROLLED for (uint32_t k = 0; k + 1 < (uint32_t)r.team.nranks; k++)
    {
        const struct bulk_way w = bulk_way_of(r.s, BULK_PUSH, bulk_peer(r.team, k), t);
        ROLLED for (uint64_t i = c.thread; i * VECTOR_BYTES < w.bytes; i += c.threads)
        {
            struct vector v;
            load_vector(&v, w.from + i * VECTOR_BYTES, w.bytes - i * VECTOR_BYTES);
            prepare<E, 2>(r.a, v.unit);
            ((struct vector *)w.to)[i] = v;
        }
    }
}

/*
 * Vectors of S ranks, from rank `first` on, at `at` in the chunk. WHOLE: U of them, a warp apart; otherwise one, of
 * `left` bytes or more, which need not be aligned.
 */
template <class E, bool WHOLE, int S, int U>
DEVICE void bulk_load(const bulk_run<E> &r, struct vector (*x)[U], int first, uint32_t t, uint64_t at, uint64_t left)
{
    UNROLL for (int s = 0; s < S; s++)
    {
        const int p = first + s;
        if (p >= r.team.nranks)
            continue;
        const struct bulk_end &end = r.s.end[p];
        const unsigned char *from =
            p == r.team.rank ? end.in + t * r.s.chunk : end.here[CONTRIBUTIONS] + t % KERNEL_BULK_DEPTH * r.s.slot;
        if (WHOLE)
            load_tile<U>(x[s], from + at);
        else
            load_vector(x[s], from + at, left);
    }
    if (!r.a.scaled)
        return;
    UNROLL for (int s = 0; s < S; s++) if (first + s == r.team.rank)
    {
        UNROLL for (int u = 0; u < U; u++) prepare<E, 2>(r.a, x[s][u].unit);
    }
}

/* Reduces in the order of ranks, to x[0]. */
template <class E, bool WHOLE, int S, int U>
DEVICE void bulk_fold(const bulk_run<E> &r, struct vector (*x)[U], uint32_t t, uint64_t at, uint64_t left)
{
    parts<E, 2> sum[U] = {};
    if (r.team.nranks == 1) { /* bits stay as they are */
        bulk_load<E, WHOLE, 1, U>(r, x, 0, t, at, left);
        return;
    }
    ROLLED for (int first = 0; first < r.team.nranks; first += S)
    {
        bulk_load<E, WHOLE, S, U>(r, x, first, t, at, left);
        UNROLL for (int s = 0; s < S; s++) UNROLL for (int u = 0; u < U; u++) if (first + s == 0)
            parts_widen(sum[u], x[s][u].unit);
        else if (first + s < r.team.nranks) parts_absorb(sum[u], x[s][u].unit, r.a.op);
    }
    UNROLL for (int u = 0; u < U; u++)
    {
        parts_narrow(x[0][u].unit, sum[u]);
        finish<E, 2>(r.a, x[0][u].unit);
    }
}

template <class E, bool WHOLE, int S, int U>
DEVICE void bulk_vectors(const bulk_run<E> &r, uint32_t t, uint32_t turn, uint64_t at, uint64_t left)
{
    struct vector x[S][U];
    bulk_fold<E, WHOLE, S, U>(r, x, t, at, left);
    unsigned char *out = r.s.end[r.team.rank].out + t * r.s.chunk + at;
    if (r.s.wants && WHOLE)
        store_tile<U>(out, x[0]);
    else if (r.s.wants)
        store_vector(out, x[0][0], left);
    const uint32_t others = r.s.gives ? (uint32_t)r.team.nranks - 1 : 0;
    ROLLED for (uint32_t k = 0; k < others; k++)
    {
        const int p = bulk_peer(r.team, (turn + k) % others);
        if (!has(r.s.gives, p))
            continue;
        unsigned char *to = r.s.end[p].to[t % 2] + at;
        if (WHOLE)
            store_tile<U>(to, x[0]);
        else
            store_vector(to, x[0][0], left);
    }
}

/* As much of the own part's chunk t as is whole tiles, U vectors of each thread. Returns the number of vectors that
 * were. */
template <class E, int S, int U>
DEVICE uint32_t bulk_reduce_tiles(const bulk_run<E> &r, uint32_t t, uint64_t vectors, const struct thread_group &c)
{
    const uint32_t tiles = (uint32_t)(vectors / (U * WARP)), warp = c.thread / WARP;
    ROLLED for (uint32_t tile = warp; tile < tiles; tile += c.threads / WARP)
        bulk_vectors<E, true, S, U>(r, t, warp, (tile * (U * WARP) + c.thread % WARP) * (uint64_t)VECTOR_BYTES, 0);
    return tiles * (U * WARP);
}

/* Chunk t of the own part. What a stage does in a microsecond is what it has in flight: of two ranks more of each. */
template <class E> DEVICE void bulk_reduce(const bulk_run<E> &r, uint32_t t, const struct thread_group &c)
{
    enum { U = E::BYTES < 2 ? 1 : FOLD_VECTORS };
    const struct bulk_end &own = r.s.end[r.team.rank];
    const uint64_t chunk = t * r.s.chunk, bytes = bulk_bytes(r.s, r.team.rank, t);
    const bool good = aligned(own.in + chunk, VECTOR_BYTES) && (!r.s.wants || aligned(own.out + chunk, VECTOR_BYTES));
    const uint64_t vectors = whole_vectors(bytes, good);
    const uint32_t whole = r.team.nranks == 2 ? bulk_reduce_tiles<E, 2, 2 * U>(r, t, vectors, c)
                                              : bulk_reduce_tiles<E, FOLD_SOURCES, U>(r, t, vectors, c);
    ROLLED for (uint64_t at = (whole + c.thread) * (uint64_t)VECTOR_BYTES; at < bytes; at += c.threads * VECTOR_BYTES)
        bulk_vectors<E, false, 1, 1>(r, t, c.thread / WARP, at, bytes - at);
}

/* What stages.cuh calls. */
template <class E> struct bulk_work {
    const bulk_run<E> &r;
    __device__ uint32_t steps() const
    {
        return r.s.steps;
    }
    __device__ int ranks() const
    {
        return r.team.nranks;
    }
    __device__ uint32_t weight(int stage) const
    {
        return stage == BULK_REDUCE ? 2 : 1;
    }
    __device__ bool ready(int stage, uint32_t t, int p) const
    {
        return bulk_ready(r, stage, t, p);
    }
    __device__ void announce(int stage, uint32_t t, int p) const
    {
        bulk_announce(r, stage, t, p);
    }
    __device__ void close(int stage, int p) const
    {
        bulk_close(r, stage, p);
    }
    __device__ void work(int stage, uint32_t t, const struct thread_group &c) const
    {
        if (stage == BULK_REDUCE)
            bulk_reduce(r, t, c);
        else if (stage == BULK_PUSH && r.a.scaled)
            bulk_push_scaled(r, t, c);
        else
            bulk_move(r, stage, t, c);
    }
};

template <class E> DEVICE void reduce_bulk(const struct kernel_reduce &what)
{
    __shared__ struct bulk_shape s;
    __shared__ struct stages_state state;
    if (what.reads && reduce_read<E>(what))
        return;
    const uint64_t bytes = what.count * E::BYTES;
    const uint64_t part = what.mode == KERNEL_REDUCE_SCATTER ? bytes : kernel_part_bytes(bytes, what.parts);
    const arithmetic<E> a = arithmetic_of<E>(what);
    const bulk_run<E> r = {what.team, what, a, s};
    const bulk_work<E> work = {r};
    if (threadIdx.x == 0)
        bulk_cut(&s, what, part);
    EACH_RANK(p, what.team.nranks)
    bulk_find(&s.end[p], what, bytes, part, p);
    barrier();
    if (s.steps == 0)
        return;
    const bool good = stages_run(work, &state, s.takes ? 3 : 2);
    if (what.invites && barrier_or(!good))
        EACH_RANK(p, what.team.nranks) bulk_revoke(r, p);
}

#endif
