/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes where, where only GPUs know: a rank's lengths and indices become runs of rows, and so does what a peer says
 * of its own. Splits that follow one another in a window and go to the same rank are one run.
 *
 * A rank tells each peer the lengths of all its splits, and which of them are for that peer: a head of two units, then
 * two splits a unit, as words with flags (ll.cuh). There are two places for that, taken in turn, and no
 * acknowledgement. Launch k + 2 of the sender comes behind its launch k + 1, which has heard from all peers' launch
 * k + 1. That one began when the peer's launch k was over, which had read the place. So two places are enough.
 *
 * Whatever a peer says, this rank stores inside its windows: a run that does not fit is refused here.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_DYNAMIC_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_DYNAMIC_CUH

#include <stream.cuh>

#define SPLIT_TAKEN   0x80000000u /* it goes to the rank that is looked at */
#define SPLIT_BAD     0x7fffffffu /* a length that no window has */
#define DYNAMIC_HEAD  2
#define DYNAMIC_UNITS (DYNAMIC_HEAD + KERNEL_DYNAMIC_SPLITS / 2)

typedef struct packet dynamic_inbox[LL_SLOTS][DYNAMIC_UNITS];

static_assert(sizeof(struct kernel_dynamic_words) == 256, "what comes behind is aligned");

/* In shared memory, one for each half of a block. */
struct dynamic_table {
    uint32_t rows[KERNEL_DYNAMIC_SPLITS];  /* of splits; then of runs */
    uint32_t begin[KERNEL_DYNAMIC_SPLITS]; /* the row that a run begins with */
    uint32_t runs;
    uint64_t head[DYNAMIC_HEAD];
    struct kernel_wrong wrong;
};

/* How a half looks at splits. */
struct dynamic_view {
    int peer;
    bool own;      /* they are this rank's */
    uint64_t most; /* rows of a window that the peer's are stored in, or this rank's for itself */
    uint64_t base; /* rows from one window to the next */
    struct thread_group group;
    enum stream_direction half;
};

DEVICE struct kernel_dynamic_words *dynamic_words(const struct kernel_team &team, int rank)
{
    return (struct kernel_dynamic_words *)(team.window[rank] + kernel_dynamic_begin(team.nranks));
}

DEVICE struct packet *dynamic_place(const struct kernel_team &team, int to, int from, uint32_t number)
{
    dynamic_inbox *inbox = (dynamic_inbox *)(dynamic_words(team, to) + 1);
    return inbox[source_index(to, from)][number % LL_SLOTS];
}

DEVICE uint32_t dynamic_units(const struct kernel_dynamic &what)
{
    return (what.count + 1) / 2;
}

/* The same on all ranks. */
DEVICE uint64_t dynamic_shape(const struct kernel_dynamic &what)
{
    return what.row << 16 | what.group;
}

DEVICE struct kernel_wrong wrong_of(uint32_t kind, uint32_t at, uint64_t value)
{
    const struct kernel_wrong wrong = {kind, at, (uint32_t)value, (uint32_t)(value >> 32)};
    return wrong;
}

/* For the host: by one thread for each rank that is to blame. */
DEVICE void dynamic_report(const struct kernel_team &team, int rank, const struct kernel_wrong &wrong)
{
    uint32_t *at = (uint32_t *)team.abort + KERNEL_WRONG + 4 * rank;
    if (!team.abort)
        return;
    store_ack(at + 1, wrong.at);
    store_ack(at + 2, wrong.low);
    store_ack(at + 3, wrong.high);
    fence_all();
    store_flag(at, wrong.what);
    fence_all(); /* the ticket comes behind */
}

/* ---- this rank's own ---- */

DEVICE void dynamic_load(const struct kernel_dynamic &what, struct dynamic_table *table, const struct dynamic_view &v)
{
    for (uint32_t i = v.group.thread; i < what.count; i += v.group.threads) {
        const int64_t rows = what.splits[i];
        store_shared(&table->rows[i], rows < 0 || (uint64_t)rows > what.send_rows ? SPLIT_BAD : (uint32_t)rows);
    }
    if (v.group.thread == 0)
        table->wrong.what = KERNEL_RIGHT;
}

/* The indices for the peer, up to all of them: what is wrong with their numbers, the same in all threads. */
DEVICE struct kernel_wrong dynamic_span(const struct kernel_dynamic &what, int peer, struct span *mine, uint64_t *all)
{
    *all = 0;
    for (int p = 0; p < what.exchange.team.nranks; p++) {
        const int64_t length = what.lengths[p];
        if (length < 0 || (uint64_t)length > what.room)
            return wrong_of(KERNEL_WRONG_LENGTH, (uint32_t)p, (uint64_t)length);
        if (p == peer) {
            mine->begin = *all;
            mine->end = *all + (uint64_t)length;
        }
        *all += (uint64_t)length;
        if (*all > what.room)
            return wrong_of(KERNEL_WRONG_BLOCKS, (uint32_t)p, *all);
    }
    return wrong_of(KERNEL_RIGHT, 0, 0);
}

/* By one thread: the first that is no split's. */
DEVICE struct kernel_wrong dynamic_bad_index(const struct kernel_dynamic &what, uint64_t all)
{
    for (uint64_t i = 0; i < all; i++)
        if (what.indices[i] < 0 || (uint64_t)what.indices[i] >= what.count)
            return wrong_of(KERNEL_WRONG_INDEX, (uint32_t)i, (uint64_t)what.indices[i]);
    return wrong_of(KERNEL_RIGHT, 0, 0);
}

/* Marks the splits for the peer. Those for others are looked at, too, so that all peers hear what is wrong. */
DEVICE void dynamic_mark(const struct kernel_dynamic &what, struct dynamic_table *table, const struct dynamic_view &v)
{
    struct span mine = {0, 0};
    uint64_t all = 0;
    struct kernel_wrong wrong = dynamic_span(what, v.peer, &mine, &all);
    bool bad = false;
    if (wrong.what != KERNEL_RIGHT)
        all = 0;
    half_barrier_or(v.half, false);
    for (uint64_t i = v.group.thread; i < all; i += v.group.threads) {
        const int64_t split = what.indices[i];
        if (split < 0 || (uint64_t)split >= what.count)
            bad = true;
        else if (i >= mine.begin && i < mine.end)
            store_shared(&table->rows[split], load_shared(&table->rows[split]) | SPLIT_TAKEN);
    }
    bad = half_barrier_or(v.half, bad);
    if (v.group.thread != 0)
        return;
    if (bad)
        wrong = dynamic_bad_index(what, all);
    table->wrong = wrong;
}

/* ---- runs ---- */

/* What a warp knows of the splits before the ones that it looks at. */
struct dynamic_pass {
    uint64_t before; /* rows of the window */
    uint32_t runs;
    bool taken; /* the last one is */
};

/* Rows of the window up to each thread's split: sums that begin anew where a window does. */
DEVICE uint64_t dynamic_sums(uint64_t rows, bool first, uint32_t lane, uint64_t before)
{
    uint64_t sum = rows;
    bool whole = first; /* the sum begins with its window */
    UNROLL for (uint32_t by = 1; by < WARP; by *= 2)
    {
        const uint64_t other = warp_up(sum, by), begun = warp_up(whole, by);
        if (lane >= by && !whole) {
            sum += other;
            whole = begun != 0;
        }
    }
    return whole ? sum : sum + before;
}

/* Splits i to i + WARP - 1, by a warp. False, in all of it: one does not fit. */
DEVICE bool dynamic_pass_on(const struct kernel_dynamic &what, struct dynamic_table *table,
                            const struct dynamic_view &v, struct dynamic_pass *pass, uint32_t tile)
{
    const uint32_t lane = v.group.thread, i = tile + lane, below = (1u << lane) - 1;
    const bool there = i < what.count;
    const uint32_t word = there ? load_shared(&table->rows[i]) : 0, rows = word & ~SPLIT_TAKEN;
    const bool taken = (word & SPLIT_TAKEN) != 0, first = there && i % what.group == 0;
    const uint64_t end = dynamic_sums(rows, first, lane, pass->before);
    const bool long_here = there && v.own && end > what.send_rows;
    const uint32_t bad = warp_votes(long_here || (taken && end > v.most));
    if (bad) {
        if (lane == first_bit(bad))
            table->wrong = v.own && rows == SPLIT_BAD ? wrong_of(KERNEL_WRONG_SPLIT, i, (uint64_t)what.splits[i])
                           : long_here                ? wrong_of(KERNEL_WRONG_SUM, i, end)
                                                      : wrong_of(KERNEL_WRONG_WINDOW, i, end);
        return false;
    }
    const uint32_t votes = warp_votes(taken),
                   starts = votes & (~(votes << 1 | (uint32_t)pass->taken) | warp_votes(first));
    if (starts >> lane & 1)
        table->begin[pass->runs + count_bits(starts & below)] = (uint32_t)(end - rows + i / what.group * v.base);
    warp_sync();
    /* The last thread of a run says where it ends, so far. */
    const bool last = lane == WARP - 1 || !((votes & ~starts) >> (lane + 1) & 1);
    if (taken && last) {
        const uint32_t run = pass->runs + count_bits(starts & (below | 1u << lane)) - 1;
        store_shared(&table->rows[run], (uint32_t)(end + i / what.group * v.base) - table->begin[run]);
    }
    warp_sync();
    pass->runs += count_bits(starts);
    pass->taken = votes >> (WARP - 1) & 1;
    pass->before = warp_of(end, WARP - 1);
    return true;
}

/* By the first warp of a half; then all know. */
DEVICE void dynamic_find_runs(const struct kernel_dynamic &what, struct dynamic_table *table,
                              const struct dynamic_view &v)
{
    struct dynamic_pass pass = {0, 0, false};
    half_barrier_or(v.half, false);
    if (v.group.thread < WARP && table->wrong.what == KERNEL_RIGHT) {
        bool good = true;
        ROLLED for (uint32_t tile = 0; good && tile < what.count; tile += WARP) good =
            dynamic_pass_on(what, table, v, &pass, tile);
        if (v.group.thread == 0)
            table->runs = good ? pass.runs : 0;
    } else if (v.group.thread == 0) {
        table->runs = 0;
    }
    half_barrier_or(v.half, false);
}

/* ---- what ranks tell one another ---- */

DEVICE void dynamic_tell_splits(const struct kernel_dynamic &what, const struct dynamic_table *table,
                                const struct dynamic_view &v, uint32_t number)
{
    struct packet *at = dynamic_place(what.exchange.team, v.peer, what.exchange.team.rank, number) + DYNAMIC_HEAD;
    for (uint32_t i = v.group.thread; i < dynamic_units(what); i += v.group.threads) {
        const uint32_t more = 2 * i + 1 < what.count ? load_shared(&table->rows[2 * i + 1]) : 0;
        ll_put(at + i, number, load_shared(&table->rows[2 * i]) | (uint64_t)more << 32);
    }
}

/* By one thread. */
DEVICE void dynamic_tell_head(const struct kernel_dynamic &what, const struct kernel_wrong &wrong, int peer,
                              uint32_t number)
{
    struct packet *at = dynamic_place(what.exchange.team, peer, what.exchange.team.rank, number);
    const bool right = wrong.what == KERNEL_RIGHT;
    ll_put(at, number, (uint64_t)(right ? what.count : wrong.at) << 8 | wrong.what);
    ll_put(at + 1, number, right ? dynamic_shape(what) : wrong.low | (uint64_t)wrong.high << 32);
}

/* By one thread: what the peer says is wrong, if anything is. */
DEVICE struct kernel_wrong dynamic_judge(const struct kernel_dynamic &what, const uint64_t *head)
{
    const uint32_t kind = (uint32_t)head[0] & 255, at = (uint32_t)(head[0] >> 8);
    if (kind != KERNEL_RIGHT)
        return wrong_of(kind <= KERNEL_WRONG_WINDOW ? kind : (uint32_t)KERNEL_WRONG_SHAPE, at, head[1]);
    return at == what.count && head[1] == dynamic_shape(what) ? wrong_of(KERNEL_RIGHT, 0, 0)
                                                              : wrong_of(KERNEL_WRONG_SHAPE, at, head[1]);
}

/* What the peer says, into the table. `keeps`: for the user, too. False, in all threads of the half: given up. */
DEVICE bool dynamic_hear(const struct kernel_dynamic &what, struct dynamic_table *table, const struct dynamic_view &v,
                         uint32_t number, bool keeps)
{
    const struct kernel_team &team = what.exchange.team;
    const struct packet *at = dynamic_place(team, team.rank, v.peer, number);
    int64_t *to = keeps && what.recv_splits ? what.recv_splits + (uint64_t)v.peer * what.count : NULL;
    bool good = true;
    if (v.group.thread == 0) {
        for (uint32_t i = 0; good && i < DYNAMIC_HEAD; i++)
            good = ll_get(at + i, number, team.abort, v.peer, &table->head[i]);
        table->wrong = good ? dynamic_judge(what, table->head) : wrong_of(KERNEL_RIGHT, 0, 0);
    }
    if (half_barrier_or(v.half, !good))
        return false;
    if (table->wrong.what != KERNEL_RIGHT)
        return true;
    for (uint32_t i = v.group.thread; good && i < dynamic_units(what); i += v.group.threads) {
        uint64_t pair;
        good = ll_get(at + DYNAMIC_HEAD + i, number, team.abort, v.peer, &pair);
        for (uint32_t k = 0; good && k < 2 && 2 * i + k < what.count; k++) {
            const uint32_t word = (uint32_t)(pair >> 32 * k);
            store_shared(&table->rows[2 * i + k], word);
            if (to)
                to[2 * i + k] = word & ~SPLIT_TAKEN;
        }
    }
    return !half_barrier_or(v.half, !good);
}

#endif
