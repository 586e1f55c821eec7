/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between all pairs of ranks. One half of a block sends to one peer and the other half receives from one,
 * perhaps another: each has stripes of one message, one after another, and waits for nothing but the stripes' other
 * end. So whoever launches fewer blocks than a peer, or has other messages beside this one, keeps nobody waiting. Long
 * ones go straight to where their receiver invites them to (invite.cuh). The last blocks copy what a rank has for
 * itself.
 */
#include <gather.cuh>
#include <invite.cuh>
#include <over.cuh>

/* What one half of a block has to do: the part of the message to or from `peer` on the pair's stripes `stripe`,
 * `stripe` + step and so on up to `end`. The order is the same on both sides, whatever the steps are. */
struct exchange_share {
    int peer;
    uint64_t bytes;
    uint32_t stripe, step, end;
    uint32_t stripes, turn, most; /* stripes of the message; the first is stripe `turn` of the pair's `most` */
    bool invites;
};

/* The message's stripe; none if the message has fewer stripes. */
DEVICE uint32_t exchange_stripe(const struct exchange_share &s)
{
    return (s.stripe - s.turn) & (s.most - 1);
}

DEVICE struct exchange_share exchange_share_of(const struct kernel_exchange &what, enum stream_direction direction)
{
    const uint16_t *end = direction == STREAM_OUT ? what.out_end : what.in_end;
    const int n = what.team.nranks, me = what.team.rank;
    struct exchange_share s = {me, 0, 0, 1, 0, 0, 0, 1, false};
    int k = 1;
    while (k < n && blockIdx.x >= end[k])
        k++;
    if (k >= n)
        return s;
    s.peer = direction == STREAM_OUT ? (me + k < n ? me + k : me + k - n) : (me >= k ? me - k : me - k + n);
    s.bytes = direction == STREAM_OUT ? what.send_bytes[s.peer] : what.recv_bytes[s.peer];
    s.stripe = blockIdx.x - end[k - 1];
    s.step = (uint32_t)end[k] - end[k - 1];
    s.stripes = kernel_exchange_stripes(&what, s.bytes);
    s.most = kernel_form_stripes(kernel_exchange_form(&what, s.bytes));
    s.turn = what.turn & (s.most - 1);
    s.end = s.turn ? s.most : s.stripes;
    s.invites = kernel_exchange_invites(&what, s.bytes);
    return s;
}

DEVICE struct stream exchange_stream(const struct kernel_exchange &what, const struct exchange_share &share,
                                     enum stream_direction direction)
{
    const struct span span = span_part(share.bytes, exchange_stripe(share), share.stripes);
    unsigned char *user =
        (unsigned char *)(direction == STREAM_OUT ? (void *)what.send[share.peer] : what.recv[share.peer]);
    struct stream s = {&what.team,
                       direction,
                       kernel_exchange_form(&what, share.bytes),
                       share.peer,
                       share.stripe,
                       user + span.begin,
                       span.end - span.begin,
                       0,
                       0,
                       0,
                       0,
                       true,
                       {},
                       {},
                       {}};
    stream_open(&s, share.bytes);
    return s;
}

/* False, in all threads of a half: given up. */
DEVICE bool exchange_by_half(const struct kernel_exchange &what)
{
    __shared__ struct stages_state state;
    __shared__ struct invite_state invite;
    const enum stream_direction direction = threadIdx.x < blockDim.x / 2 ? STREAM_OUT : STREAM_IN;
    struct exchange_share share = exchange_share_of(what, direction);
    ROLLED for (; share.stripe < share.end; share.stripe += share.step)
    {
        if (exchange_stripe(share) >= share.stripes)
            continue;
        struct stream s = exchange_stream(what, share, direction);
        if (!(share.invites ? invite_run(what, &s, &state, &invite) : stream_run(&s, &state)))
            return false;
    }
    return true;
}

/* ---- a block of one thread: whichever of its two messages can go on ---- */

struct exchange_half {
    struct exchange_share share;
    struct stream s;
    uint32_t t; /* the next chunk */
    enum invite_way way;
    bool more;
};

/* Stripes without chunks are left out. */
DEVICE void exchange_open(const struct kernel_exchange &what, struct exchange_half *half,
                          enum stream_direction direction)
{
    struct exchange_share *share = &half->share;
    for (half->t = 0; share->stripe < share->end; share->stripe += share->step) {
        if (exchange_stripe(*share) >= share->stripes)
            continue;
        half->s = exchange_stream(what, *share, direction);
        half->more = half->s.steps != 0;
        half->way = share->invites ? INVITE_OPEN : INVITE_SLOTS;
        if (half->more && share->invites && direction == STREAM_IN)
            invite_send(what, half->s);
        if (half->more)
            return;
    }
    half->more = false;
}

DEVICE bool exchange_is_ready(const struct exchange_half &half)
{
    return half.way == INVITE_OPEN ? invite_is_ready(half.s) : stream_is_ready(half.s, half.t);
}

/* False: given up, in the middle of a chunk. */
DEVICE bool exchange_step(const struct kernel_exchange &what, struct exchange_half *half)
{
    if (half->way != INVITE_OPEN)
        return stream_step(&half->s, half->t++);
    half->way = invite_alone(what, half->s);
    half->t = half->way == INVITE_STRAIGHT ? half->s.steps : 0;
    return true;
}

DEVICE bool exchange_wait(struct waiting *w, const struct exchange_half *halves)
{
    uint32_t ranks = 0;
    if (!wait_pause(w))
        return true;
    for (int i = 0; i < 2; i++)
        ranks |= halves[i].more ? 1u << halves[i].s.peer : 0;
    return wait_hear(w, ranks);
}

DEVICE bool exchange_alone(const struct kernel_exchange &what)
{
    struct exchange_half halves[2];
    struct waiting w = {what.team.abort, 0};
    bool moved = true, good = true;
    for (int i = 0; i < 2; i++) {
        halves[i].share = exchange_share_of(what, (enum stream_direction)i);
        exchange_open(what, &halves[i], (enum stream_direction)i);
    }
    while (good && (halves[0].more || halves[1].more) && (moved || exchange_wait(&w, halves))) {
        moved = false;
        for (int i = 0; i < 2 && good; i++) {
            struct exchange_half *half = &halves[i];
            if (!half->more || !exchange_is_ready(*half))
                continue;
            moved = true;
            good = exchange_step(what, half);
            if (!good || half->t < half->s.steps)
                continue;
            stream_close(half->s);
            half->share.stripe += half->share.step;
            exchange_open(what, half, (enum stream_direction)i);
        }
    }
    if (halves[STREAM_IN].more && halves[STREAM_IN].way == INVITE_OPEN)
        invite_revoke(what, halves[STREAM_IN].s);
    return !halves[STREAM_OUT].more && !halves[STREAM_IN].more;
}

/* ---- */

/* Block `index` of `blocks` blocks that do nothing else. Blocks take turns where a message has fewer stripes. */
DEVICE void exchange_with_self(const struct kernel_exchange &what, uint32_t index, uint32_t blocks)
{
    const int me = what.team.rank;
    const uint64_t bytes = least(what.send_bytes[me], what.recv_bytes[me]);
    const uint32_t parts = (uint32_t)least(kernel_exchange_stripes(&what, bytes), blocks),
                   part = (index + blocks - what.turn % blocks) % blocks;
    if (part >= parts || what.send[me] == what.recv[me])
        return;
    const struct span s = span_part(bytes, part, parts);
    copy_by<STREAM_VECTORS>((unsigned char *)what.recv[me] + s.begin, (const unsigned char *)what.send[me] + s.begin,
                            s.end - s.begin, whole_block());
}

/* False: given up. */
DEVICE bool exchange_all(const struct kernel_exchange &what)
{
    const uint32_t last = (uint32_t)what.team.nranks - 1, own = kernel_exchange_own(&what, last);
    if (blockIdx.x < own)
        return ALONE ? exchange_alone(what) : exchange_by_half(what);
    exchange_with_self(what, blockIdx.x - own, gridDim.x - own);
    return true;
}

KERNEL(KERNEL_EXCHANGE_THREADS) tutti_exchange(PARAMETER(struct kernel_exchange) what)
{
    launch_begins(what.team);
    exchange_all(what);
    launch_over(what.team);
}

KERNEL(KERNEL_EXCHANGE_THREADS) tutti_messages(PARAMETER(struct kernel_messages) what)
{
    launch_begins(what.item[0].team);
    bool good = true;
    ROLLED for (uint32_t i = 0; good && i < what.items; i++) good = exchange_all(what.item[i]);
    launch_over(what.item[0].team);
}

LAUNCHED(KERNEL_LL_THREADS, tutti_gather_words, kernel_list, what.reduce.team, gather_stripes(what))
