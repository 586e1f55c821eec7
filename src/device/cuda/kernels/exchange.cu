/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between all pairs of ranks. Block (s, y) has stripe s of the messages to and from one peer, which is chosen so
 * that both ends of a pair have the same y: the first unfinished blocks of all ranks then wait for one another, and a grid
 * need not fit on the GPU at once.
 */
#include <ll.cuh>

/* Stripe s of a message; empty where the message has fewer stripes. */
DEVICE struct span exchange_span(uint64_t bytes, uint32_t stripe)
{
    const uint32_t stripes = kernel_exchange_stripes(bytes);
    const struct span none = {0, 0};
    return stripe < stripes ? span_part(bytes, stripe, stripes) : none;
}

DEVICE void exchange_store(const struct ll *ll, const struct kernel_team &team, int p, const unsigned char *from, uint64_t bytes)
{
    for (uint32_t i = threadIdx.x; 8 * i < bytes; i += blockDim.x)
        ll_store(ll, team, blockIdx.x, p, i, load_unit(from + 8 * i, bytes - 8 * i));
}

DEVICE bool exchange_load(const struct ll *ll, const struct kernel_team &team, int p, unsigned char *to, uint64_t bytes,
                          uint64_t (*unit)[KERNEL_LL_THREADS])
{
    for (uint32_t i = threadIdx.x; 8 * i < bytes; i += blockDim.x) {
        if (!ll_collect(ll, team, blockIdx.x, 1u << p, i, unit))
            return false;
        store_unit(to + 8 * i, unit[p][threadIdx.x], bytes - 8 * i);
    }
    return true;
}

DEVICE void exchange_with_self(const struct kernel_exchange &what, int me)
{
    const struct span s = exchange_span(least(what.send_bytes[me], what.recv_bytes[me]), blockIdx.x);
    if (what.send[me] != what.recv[me])
        copy_block((unsigned char *)what.recv[me] + s.begin, (const unsigned char *)what.send[me] + s.begin, s.end - s.begin);
}

/* Chunk by chunk: one out, one in, so that two ranks that send to each other never wait for room at once. */
KERNEL(KERNEL_LL_THREADS) tutti_exchange(PARAMETER(struct kernel_exchange) what)
{
    __shared__ struct ll ll;
    __shared__ uint64_t unit[KERNEL_RANKS][KERNEL_LL_THREADS];
    const int n = what.team.nranks, me = what.team.rank, y = (int)blockIdx.y, p = y >= me ? y - me : y - me + n;
    if (p == me) {
        exchange_with_self(what, me);
        return;
    }
    struct span out = exchange_span(what.send_bytes[p], blockIdx.x), in = exchange_span(what.recv_bytes[p], blockIdx.x);
    if (out.begin == out.end && in.begin == in.end)
        return;
    ll_open(&ll, what.team, blockIdx.x, 1u << p);
    while (out.begin < out.end || in.begin < in.end) {
        const uint64_t sent = least(out.end - out.begin, KERNEL_LL_BYTES), received = least(in.end - in.begin, KERNEL_LL_BYTES);
        if (barrier_or(!ll_begin(&ll, what.team, blockIdx.x, sent ? 1u << p : 0, received ? 1u << p : 0)))
            return;
        exchange_store(&ll, what.team, p, (const unsigned char *)what.send[p] + out.begin, sent);
        if (barrier_or(!exchange_load(&ll, what.team, p, (unsigned char *)what.recv[p] + in.begin, received, unit)))
            return;
        ll_end(&ll, what.team, blockIdx.x, received ? 1u << p : 0);
        out.begin += sent;
        in.begin += received;
    }
    ll_close(&ll, what.team, blockIdx.x, 1u << p);
}
