/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts, gets, signals and waits of CUDA graphs. A replay has no numbers of its own: a signal counts its word up from
 * what stands there, and a wait counts what it has taken. Nothing follows a rank's own word but the rank's operations,
 * one after another. A put has three parts, as its peer may give up: the rank says that it puts, copies unless the peer
 * has shut its memory, and says that it is over. A peer that shuts its memory looks for the first of these afterwards.
 * So the rank finds the memory shut, or the peer finds the put. docs/understand/window.md.
 */
#include <memory.cuh>
#include <over.cuh>
#include <wait.cuh>

#define PUTS_VECTORS 8

/* By thread 0 of the only block. */
DEVICE void puts_announce(const struct kernel_puts &what)
{
    if (load_relaxed(what.team.abort) & KERNEL_GIVE_UP)
        return;
    ROLLED for (int p = 0; p < KERNEL_RANKS; p++) if (has(what.peers, p))
        store_flag(what.pair[p].putting, load_relaxed(what.pair[p].putting) + 1);
    fence_total();
}

/* Bits of the ranks whose memory may be touched. */
DEVICE uint32_t puts_allowed(const struct kernel_puts &what)
{
    uint32_t ranks = load_relaxed(what.team.abort) & KERNEL_GIVE_UP ? 0 : what.peers | 1u << what.team.rank;
    ROLLED for (int p = 0; p < KERNEL_RANKS; p++) if (has(what.peers, p) && load_acquire(what.pair[p].shut)) ranks &=
        ~(1u << p);
    return ranks;
}

DEVICE void puts_move(const struct kernel_puts &what)
{
    __shared__ uint32_t allowed;
    if (threadIdx.x == 0)
        allowed = puts_allowed(what);
    barrier();
    ROLLED for (uint32_t i = 0; i < what.items; i++)
    {
        const struct kernel_puts_item &item = what.item[i];
        const struct span s = span_part(item.bytes, blockIdx.x, gridDim.x);
        if (item.bytes && has(allowed, item.peer))
            copy_by<PUTS_VECTORS>((unsigned char *)item.to + s.begin, (const unsigned char *)item.from + s.begin,
                                  s.end - s.begin, whole_block());
    }
    barrier();
}

/* By thread 0 of the only block: signals behind all that was put, and then waits. */
DEVICE void puts_tell(const struct kernel_puts &what)
{
    fence_all();
    ROLLED for (int p = 0; p < KERNEL_RANKS; p++) if (has(what.peers, p))
        store_flag(what.pair[p].put, load_relaxed(what.pair[p].putting));
    ROLLED for (uint32_t i = 0; i < what.items; i++) if (what.item[i].word && !what.item[i].taken)
        store_flag(what.item[i].word, load_relaxed(what.item[i].word) + 1);
    bool good = true;
    ROLLED for (uint32_t i = 0; good && i < what.items; i++)
    {
        const struct kernel_puts_item &item = what.item[i];
        const uint32_t number = item.taken ? load_relaxed(item.taken) + item.count : 0;
        good = !item.taken || wait_flag(item.word, number, what.team.abort, item.peer);
        if (item.taken && good)
            store_flag(item.taken, number);
    }
}

KERNEL(KERNEL_PUTS_THREADS) tutti_puts(PARAMETER(struct kernel_puts) what)
{
    launch_begins(what.team);
    if (what.announces && threadIdx.x == 0)
        puts_announce(what);
    if (what.moves)
        puts_move(what);
    if (what.tells && threadIdx.x == 0)
        puts_tell(what);
    launch_over(what.team);
}
