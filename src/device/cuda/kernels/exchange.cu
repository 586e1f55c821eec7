/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between all pairs of ranks. One half of a block sends to one peer and the other half receives from one,
 * perhaps another: each has stripes of one message, one after another, and waits for nothing but the stripes' other
 * end. So whoever launches fewer blocks than a peer, or has other messages beside this one, keeps nobody waiting. The
 * last blocks copy what a rank has for itself.
 */
#include <over.cuh>
#include <stream.cuh>

/* What one half of a block has to do: stripes `stripe`, `stripe` + step and so on of the message to or from `peer`. */
struct exchange_share {
    int peer;
    uint64_t bytes;
    uint32_t stripe, step, stripes;
};

DEVICE struct exchange_share exchange_share_of(const struct kernel_exchange &what, enum stream_direction direction)
{
    const uint16_t *end = direction == STREAM_OUT ? what.out_end : what.in_end;
    const int n = what.team.nranks, me = what.team.rank;
    struct exchange_share s = {me, 0, 0, 1, 0};
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
    return s;
}

DEVICE struct stream exchange_stream(const struct kernel_exchange &what, const struct exchange_share &share,
                                     enum stream_direction direction)
{
    const struct span span = span_part(share.bytes, share.stripe, share.stripes);
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

DEVICE void exchange_by_half(const struct kernel_exchange &what)
{
    __shared__ struct stages_state state;
    const enum stream_direction direction = threadIdx.x < blockDim.x / 2 ? STREAM_OUT : STREAM_IN;
    struct exchange_share share = exchange_share_of(what, direction);
    ROLLED for (; share.stripe < share.stripes; share.stripe += share.step)
    {
        struct stream s = exchange_stream(what, share, direction);
        if (!stream_run(&s, &state))
            return;
    }
}

/* ---- a block of one thread: whichever of its two messages can go on ---- */

/* Chunk t is next. Stripes without chunks are left out. */
DEVICE bool exchange_open(const struct kernel_exchange &what, struct exchange_share *share, int half, struct stream *s,
                          uint32_t *t)
{
    for (*t = 0; share->stripe < share->stripes; share->stripe += share->step) {
        *s = exchange_stream(what, *share, (enum stream_direction)half);
        if (s->steps)
            return true;
    }
    return false;
}

DEVICE void exchange_alone(const struct kernel_exchange &what)
{
    struct exchange_share share[2] = {exchange_share_of(what, STREAM_OUT), exchange_share_of(what, STREAM_IN)};
    struct stream s[2];
    struct waiting w = {what.team.abort, 0};
    uint32_t t[2];
    bool more[2], moved = true;
    for (int half = 0; half < 2; half++)
        more[half] = exchange_open(what, &share[half], half, &s[half], &t[half]);
    while ((more[0] || more[1]) && (moved || wait_on(&w))) {
        moved = false;
        for (int half = 0; half < 2; half++) {
            if (!more[half] || !stream_is_ready(s[half], t[half]))
                continue;
            moved = true;
            if (!stream_step(&s[half], t[half]++))
                return;
            if (t[half] < s[half].steps)
                continue;
            stream_close(s[half]);
            share[half].stripe += share[half].step;
            more[half] = exchange_open(what, &share[half], half, &s[half], &t[half]);
        }
    }
}

/* ---- */

/* Block `index` of `blocks` that do nothing else. */
DEVICE void exchange_with_self(const struct kernel_exchange &what, uint32_t index, uint32_t blocks)
{
    const int me = what.team.rank;
    const struct span s = span_part(least(what.send_bytes[me], what.recv_bytes[me]), index, blocks);
    if (what.send[me] != what.recv[me])
        copy_by<STREAM_VECTORS>((unsigned char *)what.recv[me] + s.begin,
                                (const unsigned char *)what.send[me] + s.begin, s.end - s.begin, whole_block());
}

KERNEL(KERNEL_EXCHANGE_THREADS) tutti_exchange(PARAMETER(struct kernel_exchange) what)
{
    const uint32_t last = (uint32_t)what.team.nranks - 1, own = kernel_exchange_own(&what, last);
    launch_begins(what.team);
    if (blockIdx.x >= own)
        exchange_with_self(what, blockIdx.x - own, gridDim.x - own);
    else if (ALONE)
        exchange_alone(what);
    else
        exchange_by_half(what);
    launch_over(what.team);
}
