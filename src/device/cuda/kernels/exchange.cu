/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between all pairs of ranks. Block (s, y) has stripe s of the messages to and from one peer, which is chosen so
 * that both ends of a pair have the same y: the first unfinished blocks of all ranks then wait for one another, and a grid
 * need not fit on the GPU at once.
 */
#include <over.cuh>
#include <stream.cuh>

/* Stripe s of a message; empty where the message has fewer stripes. */
DEVICE struct span exchange_span(uint64_t bytes, uint64_t plain_from, uint32_t stripe)
{
    const uint32_t stripes = kernel_exchange_stripes(bytes, plain_from);
    const struct span none = {0, 0};
    return stripe < stripes ? span_part(bytes, stripe, stripes) : none;
}

DEVICE void exchange_with_self(const struct kernel_exchange &what, int me)
{
    const struct span s = exchange_span(least(what.send_bytes[me], what.recv_bytes[me]), what.plain_from, blockIdx.x);
    if (what.send[me] != what.recv[me])
        copy_by<STREAM_VECTORS>((unsigned char *)what.recv[me] + s.begin, (const unsigned char *)what.send[me] + s.begin,
                                s.end - s.begin, whole_block());
}

DEVICE void exchange_outgoing(struct stream_out *out, const struct kernel_exchange &what, const struct stream_end &e)
{
    const struct span s = exchange_span(what.send_bytes[e.peer], what.plain_from, e.stripe);
    out->plain = kernel_exchange_plain(what.send_bytes[e.peer], what.plain_from);
    out->from = (const unsigned char *)what.send[e.peer] + s.begin;
    out->left = has_half(0) ? s.end - s.begin : 0;
    stream_out_open(out, e);
}

DEVICE void exchange_incoming(struct stream_in *in, const struct kernel_exchange &what, const struct stream_end &e)
{
    const struct span s = exchange_span(what.recv_bytes[e.peer], what.plain_from, e.stripe);
    in->plain = kernel_exchange_plain(what.recv_bytes[e.peer], what.plain_from);
    in->to = (unsigned char *)what.recv[e.peer] + s.begin;
    in->left = has_half(1) ? s.end - s.begin : 0;
    stream_in_open(in, e);
}

/*
 * Half of the block sends and the other half receives; a thread that does both (stream.cuh) takes turns: one chunk out, one in.
 * Chunk k out then waits for what the peer has read in turns before k, and chunk k in for what it has sent in turn k, so that
 * two ranks never wait for room at once.
 */
DEVICE void exchange_with_peer(const struct kernel_exchange &what, int peer, uint32_t *shared)
{
    const struct stream_end sender = {what.team, peer, blockIdx.x, 0, half_block()};
    const struct stream_end receiver = {what.team, peer, blockIdx.x, 1, half_block()};
    struct stream_out out;
    struct stream_in in;
    exchange_outgoing(&out, what, sender);
    exchange_incoming(&in, what, receiver);
    const bool sends = out.left != 0, receives = in.left != 0;
    if (receives && receiver.crew.thread == 0)
        *shared = in.seen;
    while (out.left || in.left) {
        if (out.left)
            stream_send(&out, sender);
        if (in.left && !stream_receive(&in, receiver, shared))
            return;
    }
    if (sends)
        stream_out_close(out, sender);
    if (receives)
        stream_in_close(in, receiver);
}

KERNEL(KERNEL_EXCHANGE_THREADS) tutti_exchange(PARAMETER(struct kernel_exchange) what)
{
    __shared__ uint32_t shared;
    const int n = what.team.nranks, me = what.team.rank, y = (int)blockIdx.y, p = y >= me ? y - me : y - me + n;
    if (p == me)
        exchange_with_self(what, me);
    else
        exchange_with_peer(what, p, &shared);
    launch_over(what.team);
}
