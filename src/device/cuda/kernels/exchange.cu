/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between all pairs of ranks. Block (s, y) has stripe s of the messages to and from one peer, which is chosen so
 * that both ends of a pair have the same y: the first unfinished blocks of all ranks then wait for one another, and a grid
 * need not fit on the GPU at once.
 */
#include <over.cuh>
#include <stream.cuh>

/* Stripe s of a message; empty where the message has fewer stripes. */
DEVICE struct span exchange_span(const struct kernel_exchange &what, uint64_t bytes, uint32_t stripe)
{
    const uint32_t stripes = kernel_exchange_stripes(&what, bytes);
    const struct span none = {0, 0};
    return stripe < stripes ? span_part(bytes, stripe, stripes) : none;
}

DEVICE void exchange_with_self(const struct kernel_exchange &what, int me)
{
    const struct span s = exchange_span(what, least(what.send_bytes[me], what.recv_bytes[me]), blockIdx.x);
    if (what.send[me] != what.recv[me])
        copy_by<STREAM_VECTORS>((unsigned char *)what.recv[me] + s.begin, (const unsigned char *)what.send[me] + s.begin,
                                s.end - s.begin, whole_block());
}

DEVICE struct stream exchange_stream(const struct kernel_exchange &what, int peer, enum stream_direction direction)
{
    const bool out = direction == STREAM_OUT;
    const uint64_t bytes = out ? what.send_bytes[peer] : what.recv_bytes[peer];
    const struct span span = exchange_span(what, bytes, blockIdx.x);
    unsigned char *user = (unsigned char *)(out ? (void *)what.send[peer] : what.recv[peer]);
    struct stream s = {what.team, direction, kernel_exchange_form(&what, bytes), peer, blockIdx.x, user + span.begin, span.end - span.begin,
                       0, 0, 0, 0, true, {}, {}, {}};
    stream_open(&s, bytes);
    return s;
}

DEVICE void exchange_with_peer(const struct kernel_exchange &what, int peer)
{
    __shared__ struct stages_state state;
    if (ALONE) {
        struct stream out = exchange_stream(what, peer, STREAM_OUT), in = exchange_stream(what, peer, STREAM_IN);
        streams_in_turn(&out, &in);
    } else {
        struct stream s = exchange_stream(what, peer, threadIdx.x < blockDim.x / 2 ? STREAM_OUT : STREAM_IN);
        stream_run(&s, &state);
    }
}

KERNEL(KERNEL_EXCHANGE_THREADS) tutti_exchange(PARAMETER(struct kernel_exchange) what)
{
    const int n = what.team.nranks, me = what.team.rank, y = (int)blockIdx.y, p = y >= me ? y - me : y - me + n;
    if (p == me)
        exchange_with_self(what, me);
    else
        exchange_with_peer(what, p);
    launch_over(what.team);
}
