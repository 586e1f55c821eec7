/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short allgathers and alltoalls, in the channel of small reductions and on its terms: every rank sends to every other
 * one, messages of a round are equally long, a thread has a unit of 8 bytes. What has come from a rank is put where its
 * block lies.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_GATHER_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_GATHER_CUH

#include <reduce_ll.cuh>

typedef element<TUTTI_UINT8> gather_byte;

/* Gathers the same range of every block: of the one block that all get, or of the block for each rank. False: given up.
 */
template <int N>
DEVICE bool gather_round(const ll_run<gather_byte> &r, ll_numbers<N> *k, const unsigned char *from, unsigned char *to,
                         const struct cut &in, const struct cut &out)
{
    const uint32_t all = (1u << r.team.nranks) - 1;
    uint64_t unit[N];
    fetch<gather_byte, N>(r, unit, from, in, ll_thread());
    bool good = ll_begin(k, r.team, r.stripe, r.others, r.others);
    EACH_UNIT(i, in.each)
    {
        if (pass)
            fetch<gather_byte, N>(r, unit, from, in, i);
        EACH_OF(p, good ? r.others : 0)
        ll_put(ll_slot(r.team, p, r.team.rank, r.stripe, k->sent[p]) + i, k->sent[p], unit[p]);
    }
    EACH_UNIT(i, in.each)
    {
        if (LL_PASSES > 1)
            fetch<gather_byte, N>(r, unit, from, in, i);
        good = good && collect(r, *k, r.others, i, unit);
        if (good)
            store_parts<gather_byte, N>(r, unit, all, to, out, i);
    }
    return end_round(r, k, good, r.others);
}

/* Items [first, end) of the list: of each what is on the team's stripe `stripe`. */
template <int N> DEVICE void gather(const struct kernel_list &list, uint32_t stripe, uint32_t first, uint32_t end)
{
    const struct kernel_reduce &what = list.reduce;
    bool met = false; /* without a round there is no barrier, and others may not have opened yet */
    ll_numbers<N> k;
    ll_open(&k, what.team, stripe);
    const arithmetic<gather_byte> a = {};
    const ll_run<gather_byte> r = ll_run_of(what, a, stripe);
    ROLLED for (uint32_t i = first; i < end; i++)
    {
        const struct list_vector item = list_item(list, i);
        const uint64_t block = what.mode == KERNEL_ALLTOALL ? item.count : 0;
        const struct small_span mine =
            small_stripe((uint32_t)item.count, item_stripe(list, item, stripe), item.stripes);
        const unsigned char *in = (const unsigned char *)item.in;
        if (mine.begin != mine.end)
            fetch_ahead(in + mine.begin, cut_of_one(mine, mine.begin, block), what.team.nranks);
        met |= mine.begin != mine.end;
        for (uint32_t at = mine.begin; at < mine.end; at += KERNEL_LL_BYTES)
            if (!gather_round<N>(r, &k, in + at, (unsigned char *)item.out + at, cut_of_one(mine, at, block),
                                 cut_of_one(mine, at, item.count)))
                return;
    }
    if (met)
        ll_close(k, what.team, stripe);
}

DEVICE void gather_stripe(const struct kernel_list &list, uint32_t stripe, uint32_t first, uint32_t end)
{
    if (list.reduce.team.nranks <= 4)
        gather<4>(list, stripe, first, end);
    else
        gather<8>(list, stripe, first, end);
}

DEVICE void gather_stripes(const struct kernel_list &list)
{
    each_stripe<gather_stripe>(list);
}

#endif
