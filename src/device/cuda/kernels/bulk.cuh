/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels of large reductions share: the stripe of a block in every rank's part of the vector, and channels of
 * plain data. A channel (one family of one rank to another, one stripe) has KERNEL_BULK_DEPTH slots. A chunk is
 * announced by a flag behind a fence, and its slot may be filled again when it has been acknowledged. A block ends when
 * all that it sent has been acknowledged, because the next launch may cut the scratch in another way.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_BULK_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_BULK_CUH

#include <element.cuh>
#include <ll.cuh>
#include <stages.cuh>

#define CONTRIBUTIONS 0
#define RESULTS       1
#define ROUND         2 /* slots of these are in reduce_ring.cuh */

/* What a block knows of another rank, or of the own one. */
struct bulk_end {
    const unsigned char *in;                               /* what is contributed to its part, in this block's stripe */
    unsigned char *out;                                    /* where results of its part go */
    uint64_t length;                                       /* bytes of that stripe */
    unsigned char *there[BULK_FAMILIES];                   /* slot 0 in its scratch, for this rank's chunks */
    unsigned char *here[BULK_FAMILIES];                    /* slot 0 in this rank's scratch, for its chunks */
    uint32_t sent[BULK_CHANNELS], received[BULK_CHANNELS]; /* numbers of the last chunk before this launch */
    uint32_t read[BULK_CHANNELS], come[BULK_CHANNELS];     /* the last that it is known to have read; that has come */
    unsigned char *straight; /* where it has invited this rank's results to; NULL: they go to slots */
    unsigned char *to[2];    /* where this rank's results go, of even and of odd chunks */
    bool comes;              /* its results come straight */
};

/* In shared memory: registers are few. */
struct bulk_shape {
    uint64_t length;      /* bytes of the stripe of a part that is whole */
    uint64_t chunk, slot; /* bytes; from one slot to the next */
    uint32_t steps, stripe, others, gives, takes;
    bool wants; /* the own part's results */
    struct bulk_end end[KERNEL_RANKS];
};

template <class E> struct bulk_run {
    const struct kernel_team &team;
    const struct kernel_reduce &what;
    const arithmetic<E> &a;
    struct bulk_shape &s;
};

/* By thread 0. */
DEVICE void bulk_cut(struct bulk_shape *s, const struct kernel_reduce &what, uint64_t part)
{
    const int n = what.team.nranks, me = what.team.rank;
    const struct span mine = span_part(part, blockIdx.x, gridDim.x);
    const uint64_t length = mine.end - mine.begin, room = KERNEL_BULK_BYTES / gridDim.x & ~(KERNEL_LINE - 1);
    const uint64_t wanted = kernel_whole_lines((length + KERNEL_BULK_CHUNKS - 1) / KERNEL_BULK_CHUNKS);
    const bool few = what.invites && length < KERNEL_BULK_FEW * KERNEL_BULK_LEAST;
    const uint64_t smallest = few ? KERNEL_BULK_LEAST / 2 : KERNEL_BULK_LEAST;
    s->chunk = least(what.chunk ? round_up_16(what.chunk) : wanted < smallest ? smallest : wanted, room);
    s->length = length;
    s->slot = (uint64_t)(n - 1) * KERNEL_BULK_BYTES;
    s->steps = (uint32_t)((length + s->chunk - 1) / s->chunk);
    s->stripe = blockIdx.x;
    s->others = all_ranks_but(n, me);
    s->wants = what.wants;
    s->gives = what.gives;
    s->takes = what.takes;
}

DEVICE unsigned char *bulk_slots(const struct kernel_team &team, int family, int owner, int source)
{
    const uint64_t sources = (uint64_t)team.nranks - 1,
                   place = (uint64_t)family * KERNEL_BULK_DEPTH * sources + source_index(owner, source);
    const uint64_t room = KERNEL_BULK_BYTES / gridDim.x & ~(KERNEL_LINE - 1);
    return team.bulk[owner] + place * KERNEL_BULK_BYTES + blockIdx.x * room;
}

/* By the thread of rank p. */
DEVICE void bulk_find(struct bulk_end *end, const struct kernel_reduce &what, uint64_t bytes, uint64_t part, int p)
{
    const struct kernel_team &team = what.team;
    const struct window *mine = window_of(team, team.rank);
    const bool scatter = what.mode == KERNEL_REDUCE_SCATTER;
    const struct span stripe = span_part(part, blockIdx.x, gridDim.x);
    const int owner = what.part[p];
    const uint64_t first = scatter ? 0 : owner < 0 ? bytes : least(part * (uint64_t)owner, bytes);
    const uint64_t begin = least(first + stripe.begin, bytes);
    end->in = (const unsigned char *)what.in + (scatter ? bytes * (uint64_t)p : 0) + begin;
    end->out = (unsigned char *)what.out + begin;
    end->length = least(first + stripe.end, bytes) - begin;
    end->straight = NULL;
    end->comes = false;
    for (int family = 0; family < BULK_CHANNELS; family++) {
        end->sent[family] = mine->bulk_sent[family][blockIdx.x][p];
        end->received[family] = mine->bulk_received[family][blockIdx.x][p];
        end->read[family] = end->sent[family];
        end->come[family] = end->received[family];
    }
    for (int family = 0; family < BULK_FAMILIES; family++) {
        end->there[family] = p == team.rank ? NULL : bulk_slots(team, family, p, team.rank);
        end->here[family] = p == team.rank ? NULL : bulk_slots(team, family, team.rank, p);
    }
}

/* Bytes of chunk t of rank p's part. */
DEVICE uint64_t bulk_bytes(const struct bulk_shape &s, int p, uint32_t t)
{
    const uint64_t from = t * s.chunk, length = s.end[p].length;
    return from < length ? least(length - from, s.chunk) : 0;
}

/* ---- the words: a lane for each rank ---- */

/* Waits until rank p has read what was sent to it, all but the last `unread` of `chunks` chunks. What was seen is kept:
 * a look takes nearly a microsecond, and most tell of several chunks. */
template <class E> DEVICE bool bulk_has_read(const bulk_run<E> &r, int family, int p, uint32_t chunks, uint32_t unread)
{
    const uint32_t *acked = &window_of(r.team, r.team.rank)->bulk_acked[family][r.s.stripe][p];
    struct bulk_end &end = r.s.end[p];
    struct waiting w = {r.team.abort, 0};
    const uint32_t number = end.sent[family] + chunks - unread;
    while (!reached(end.read[family], number)) {
        end.read[family] = load_ack(acked);
        if (!reached(end.read[family], number) && !wait_on(&w, p))
            return false;
    }
    return true;
}

/* An acquiring load empties a cache that others of this block use: there is one load for each news. */
template <class E> DEVICE bool bulk_has_come(const bulk_run<E> &r, int family, int p, uint32_t chunks)
{
    const uint32_t *arrived = &window_of(r.team, r.team.rank)->bulk_arrived[family][r.s.stripe][p];
    struct bulk_end &end = r.s.end[p];
    const uint32_t number = end.received[family] + chunks;
    if (reached(end.come[family], number))
        return true;
    if (!wait_ack(arrived, number, r.team.abort, p))
        return false;
    end.come[family] = load_acquire(arrived);
    return true;
}

#endif
