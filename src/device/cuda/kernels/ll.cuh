/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel for small messages: each word travels with a flag, so that data need no fence, and their arrival no
 * second look. A message has at most KERNEL_LL_BYTES; message number k of a pair and stripe lies in slot k % 2 and is
 * written when message k-2 has been read: the reader acknowledges it, or has implied it by what it has sent since.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_LL_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_LL_CUH

#include <memory.cuh>
#include <wait.cuh>
#include <window.cuh>

#define EACH_RANK(p, n) for (int p = (int)threadIdx.x; p < (n); p += (int)blockDim.x)

DEVICE uint32_t all_ranks_but(int n, int me)
{
    return ((1u << n) - 1) & ~(1u << me);
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

DEVICE bool ll_is(const struct packet &x, uint32_t number)
{
    const uint64_t flag = ll_flag(number);
    return (((x.half[0] ^ flag) | (x.half[1] ^ flag)) >> 32) == 0;
}

DEVICE uint64_t ll_unit(const struct packet &x)
{
    return (uint32_t)x.half[0] | x.half[1] << 32;
}

/* Waits for one packet of rank p. False: given up. */
DEVICE bool ll_get(const struct packet *at, uint32_t number, const uint32_t *abort, int p, uint64_t *unit)
{
    struct waiting w = {abort, 0};
    struct packet x;
    bool there;
    do {
        load_halves(at->half, &x.half[0], &x.half[1]);
        there = ll_is(x, number);
    } while (!there && wait_on(&w, p));
    *unit = ll_unit(x);
    return there;
}

/*
 * Is there room for message `number` when the last one known to be read is `read`? `read` is the message before at
 * most. A word that was not written for 2^31 messages, because readers have only implied what they read, does not
 * count.
 */
DEVICE bool ll_has_room(uint32_t read, uint32_t number)
{
    return read - (number - LL_SLOTS) < LL_SLOTS;
}

/* The last message known to be read, where `sent` have been sent. */
DEVICE uint32_t ll_read(uint32_t acked, uint32_t implied, uint32_t sent)
{
    return ll_has_room(acked, sent + 1) ? acked : implied;
}

/*
 * A thread that has nothing to send may come late. By then the others may have sent this message and the next, which is
 * the last before they wait for the late thread. The reader may have read both.
 */
DEVICE bool ll_may_send(uint32_t acked, uint32_t number)
{
    return acked - (number - LL_SLOTS) <= LL_SLOTS + 1;
}

/* Waits until there is room at rank p. False: given up. */
DEVICE bool ll_wait_room(const uint32_t *acked, uint32_t number, const uint32_t *abort, int p)
{
    struct waiting w = {abort, 0};
    while (!ll_may_send(load_ack(acked), number))
        if (!wait_on(&w, p))
            return false;
    return true;
}

#endif
