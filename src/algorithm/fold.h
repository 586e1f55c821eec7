/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding: how algorithms for 2^k ranks serve any n. With 2^k <= n the first 2(n - 2^k) ranks form pairs: the even one
 * gives its vector to the odd one and waits; the odd ones and all others are the 2^k members (Thakur et al. 2005,
 * section 4.5).
 */
#ifndef TUTTI_ALGORITHM_FOLD_H
#define TUTTI_ALGORITHM_FOLD_H

#include "algorithm/rows.h"

/* Ranks that are folded away: n - 2^k. */
static inline int fold_extra(int n)
{
    return n - (1 << log2_floor(n));
}

/* The member number of a rank, -1 if it is folded away. */
static inline int fold_member(int rank, int extra)
{
    if (rank >= 2 * extra)
        return rank - extra;
    return rank % 2 ? rank / 2 : -1;
}

static inline int fold_rank(int member, int extra)
{
    return member < extra ? 2 * member + 1 : member + extra;
}

/* The `bits` bits of a number, the highest last: neighbours become farthest, and the farthest neighbours. */
static inline int fold_reverse(int number, int bits)
{
    int out = 0;
    for (int bit = 0; bit < bits; bit++)
        out |= (number >> bit & 1) << (bits - 1 - bit);
    return out;
}

#endif
