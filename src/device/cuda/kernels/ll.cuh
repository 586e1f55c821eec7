/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel for small messages: each word travels with a flag, so that data need no fence, and their arrival no second look.
 * A message has at most KERNEL_LL_BYTES; message number k of a pair and stripe lies in slot k % 2 and is written when message
 * k-2 has been read. Thread p of a block keeps the numbers of rank p; the others read them behind a barrier.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_LL_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_LL_CUH

#include <memory.cuh>
#include <wait.cuh>
#include <window.cuh>

/* In shared memory. Numbers of the message under way, and the last acknowledgement seen. */
struct ll {
    uint32_t sent[KERNEL_RANKS], received[KERNEL_RANKS], acked[KERNEL_RANKS];
};

#define EACH_RANK(p, n) for (int p = (int)threadIdx.x; p < (n); p += (int)blockDim.x)

DEVICE bool has(uint32_t ranks, int p)
{
    return ranks >> p & 1;
}

DEVICE uint32_t all_ranks_but(int n, int me)
{
    return ((1u << n) - 1) & ~(1u << me);
}

/* For messages to and from `ranks`: the numbers of others may be another block's, which runs at the same time. */
DEVICE void ll_open(struct ll *ll, const struct kernel_team &team, uint32_t stripe, uint32_t ranks)
{
    const struct window *mine = window_of(team, team.rank);
    EACH_RANK (p, team.nranks) {
        if (!has(ranks, p))
            continue;
        ll->acked[p] = load_ack(&mine->ll_acked[stripe][p]);
        ll->sent[p] = mine->ll_sent[stripe][p];
        ll->received[p] = mine->ll_received[stripe][p];
    }
}

/* Starts a message to each of `sends` and from each of `receives`; a barrier must follow. False: given up. */
DEVICE bool ll_begin(struct ll *ll, const struct kernel_team &team, uint32_t stripe, uint32_t sends, uint32_t receives)
{
    struct window *mine = window_of(team, team.rank);
    bool good = true;
    EACH_RANK (p, team.nranks) {
        ll->received[p] += has(receives, p);
        if (!has(sends, p))
            continue;
        const uint32_t needed = ++ll->sent[p] - LL_SLOTS;
        if (!reached(ll->acked[p], needed)) {
            good = good && wait_ack(&mine->ll_acked[stripe][p], needed, team.abort);
            ll->acked[p] = needed;
        }
    }
    return good;
}

/* What began has been read by all threads (behind a barrier): gives the slots back. */
DEVICE void ll_end(const struct ll *ll, const struct kernel_team &team, uint32_t stripe, uint32_t receives)
{
    EACH_RANK (p, team.nranks)
        if (has(receives, p))
            store_ack(&window_of(team, p)->ll_acked[stripe][team.rank], ll->received[p]);
}

DEVICE void ll_close(const struct ll *ll, const struct kernel_team &team, uint32_t stripe, uint32_t ranks)
{
    struct window *mine = window_of(team, team.rank);
    EACH_RANK (p, team.nranks) {
        if (!has(ranks, p))
            continue;
        mine->ll_sent[stripe][p] = ll->sent[p];
        mine->ll_received[stripe][p] = ll->received[p];
    }
}

/* Slots are zero at first, so 0 is no flag; 1 is free in the even slot. */
DEVICE uint64_t ll_flag(uint32_t number)
{
    return (uint64_t)(number ? number : 1) << 32;
}

DEVICE struct packet *ll_slot(const struct kernel_team &team, int to, int from, uint32_t stripe, uint32_t number)
{
    ll_inbox *inbox = (ll_inbox *)(team.window[to] + KERNEL_CONTROL_BYTES);
    return inbox[source_index(to, from)][stripe][number % LL_SLOTS];
}

DEVICE void ll_put(struct packet *at, uint32_t number, uint64_t unit)
{
    const uint64_t flag = ll_flag(number);
    store_halves(at->half, (uint32_t)unit | flag, unit >> 32 | flag);
}

DEVICE void ll_store(const struct ll *ll, const struct kernel_team &team, uint32_t stripe, int p, uint32_t index, uint64_t unit)
{
    ll_put(ll_slot(team, p, team.rank, stripe, ll->sent[p]) + index, ll->sent[p], unit);
}

DEVICE bool ll_is(const struct packet &x, uint32_t number)
{
    const uint64_t flag = ll_flag(number);
    return (((x.half[0] ^ flag) | (x.half[1] ^ flag)) >> 32) == 0;
}

DEVICE uint64_t ll_unit(const struct packet &x)
{
    return (uint32_t)x.half[0] | x.half[1] << 32;
}

/* Waits for one packet. False: given up. */
DEVICE bool ll_get(const struct packet *at, uint32_t number, const uint32_t *abort, uint64_t *unit)
{
    struct waiting w = {abort, 0};
    struct packet x;
    bool there;
    do {
        load_halves(at->half, &x.half[0], &x.half[1]);
        there = ll_is(x, number);
    } while (!there && wait_on(&w));
    *unit = ll_unit(x);
    return there;
}

/* Waits for packet `index` of the message from each of `ranks`; unit[p] is rank p's. False: given up. */
DEVICE bool ll_collect(const struct ll *ll, const struct kernel_team &team, uint32_t stripe, uint32_t ranks, uint32_t index,
                       uint64_t (*unit)[KERNEL_LL_THREADS])
{
    struct waiting w = {team.abort, 0};
    struct packet x[KERNEL_RANKS];
    bool all;
    do {
        all = true;
        UNROLL for (int p = 0; p < KERNEL_RANKS; p++)
            if (has(ranks, p))
                load_halves((ll_slot(team, team.rank, p, stripe, ll->received[p]) + index)->half, &x[p].half[0], &x[p].half[1]);
        UNROLL for (int p = 0; p < KERNEL_RANKS; p++)
            if (has(ranks, p))
                all = all && ll_is(x[p], ll->received[p]);
    } while (!all && wait_on(&w));
    UNROLL for (int p = 0; p < KERNEL_RANKS; p++)
        if (has(ranks, p))
            unit[p][threadIdx.x] = ll_unit(x[p]);
    return all;
}

#endif
