/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast of long vectors. Each block has a stripe and passes it on in chunks, as they come: from the root to one
 * rank and from there to all others (a fan), or from rank to rank (a chain). In a fan stripes take turns with the rank
 * in the middle, so that links are used alike. A rank loads a chunk once, and stores it in its own buffer and in the
 * next ranks' scratch.
 *
 * The last two warps of a block do not touch data. While the others move chunk t, one of the two fences, announces
 * chunk t-1 and gives its slot back. The other looks whether chunk t+1 has come and has room where it goes. While it
 * has, one barrier a chunk is enough.
 *
 * In any launch a source writes only to its own part of a rank's scratch. A kernel ends when all that its rank has sent
 * has been read, so the next launch may cut the scratch in another way.
 */
#include <ll.cuh>
#include <over.cuh>

#define CHAIN_DEPTH   KERNEL_BULK_DEPTH
#define CHAIN_VECTORS 8  /* in flight of a thread */
#define CHAIN_CLERKS  32 /* threads that tell, and as many that look; one is enough for a rank */
#define CHAIN_STEPS   64 /* chunks of a stripe at most, while slots have room: the way is filled in a few of them */
#define CHAIN_LOOKS   3  /* for the next chunk, until the block meets: about the time that moving a chunk takes */

struct chain_run {
    const struct kernel_team &team;
    const unsigned char *in;
    unsigned char *out; /* NULL: the data are there */
    uint64_t length;    /* of the stripe */
    uint64_t chunk, room;
    uint32_t steps, stripe, to; /* to: ranks */
    int from;                   /* -1: none, this is the root */
};

/* Numbers of the last chunks before this launch, and the last that was seen to have come from a rank or to have been
 * read by it. */
struct chain_numbers {
    uint32_t sent[KERNEL_RANKS], received[KERNEL_RANKS], seen[KERNEL_RANKS];
};

/* On a GPU the clerk for rank p is thread p of the warp that has the office. On the CPU the only thread of a block does
 * all work in turn. */
enum chain_office { LOOKS, TELLS, OFFICES };
#define EACH_CLERK(office, p, n)                                                                                       \
    for (int p = ALONE ? 0 : (int)threadIdx.x - (int)(blockDim.x - ((office) + 1) * CHAIN_CLERKS); p >= 0 && p < (n);  \
         p += ALONE ? 1 : CHAIN_CLERKS)

/* The threads that move data; numbers behind their end are clerks. */
DEVICE struct thread_group chain_movers()
{
    const struct thread_group c = {threadIdx.x, ALONE ? 1 : blockDim.x - OFFICES * CHAIN_CLERKS};
    return c;
}

DEVICE struct chain_run chain_run_of(const struct kernel_chain &what)
{
    const struct span mine = span_part(what.bytes, blockIdx.x, gridDim.x);
    const uint32_t halves = (gridDim.x + 1) / 2; /* one half of the blocks has the slots of each family */
    const uint32_t part = blockIdx.x % (uint32_t)what.parts;
    const bool root = what.source[part] < 0;
    struct chain_run r = {what.team,
                          root ? (const unsigned char *)what.in + mine.begin : NULL,
                          root && what.in == what.out ? NULL : (unsigned char *)what.out + mine.begin,
                          mine.end - mine.begin,
                          0,
                          KERNEL_BULK_BYTES / halves & ~(KERNEL_LINE - 1),
                          0,
                          blockIdx.x,
                          what.next[part],
                          what.source[part]};
    const uint64_t wanted = kernel_whole_lines(r.length / CHAIN_STEPS),
                   fewest = round_up_16(what.chunk ? what.chunk : KERNEL_CHAIN_CHUNK);
    r.chunk = least(wanted < fewest ? fewest : wanted, r.room);
    r.steps = (uint32_t)((r.length + r.chunk - 1) / r.chunk);
    return r;
}

DEVICE unsigned char *chain_slot(const struct chain_run &r, int to, int from, uint32_t t)
{
    const uint32_t slot = r.stripe % 2 * KERNEL_BULK_DEPTH + t % CHAIN_DEPTH, sources = (uint32_t)r.team.nranks - 1;
    return r.team.bulk[to] + (slot * sources + source_index(to, from)) * KERNEL_BULK_BYTES + r.stripe / 2 * r.room;
}

/* ---- the clerks ---- */

/* All that was sent before has been acknowledged, so the last acknowledgement is the last number. */
DEVICE void chain_open(struct chain_numbers *k, const struct chain_run &r, int office)
{
    const struct window *mine = window_of(r.team, r.team.rank);
    EACH_CLERK(office, p, r.team.nranks)
    {
        k->sent[p] = load_ack(&mine->chain_acked[r.stripe][p]);
        k->received[p] = mine->chain_received[r.stripe][p];
        k->seen[p] = p == r.from ? k->received[p] : k->sent[p];
    }
}

/* Chunk t has been moved (behind a barrier): gives its slot back, and announces it. The fence covers all threads'
 * stores. */
DEVICE void chain_tell(const struct chain_numbers *k, const struct chain_run &r, uint32_t t)
{
    EACH_CLERK(TELLS, p, r.team.nranks)
    {
        if (p == r.from)
            store_ack(&window_of(r.team, p)->chain_acked[r.stripe][r.team.rank], k->received[p] + t + 1);
        if (has(r.to, p)) {
            fence_all();
            store_flag(&window_of(r.team, p)->chain_arrived[r.stripe][r.team.rank], k->sent[p] + t + 1);
        }
    }
}

/* Has chunk t come, and is there room for it where it goes? Looks for news at most `looks` times (0: until it is time
 * to give up). */
DEVICE bool chain_look(struct chain_numbers *k, const struct chain_run &r, uint32_t t, uint32_t looks)
{
    const struct window *mine = window_of(r.team, r.team.rank);
    bool good = true;
    EACH_CLERK(LOOKS, p, r.team.nranks)
    {
        struct waiting w = {r.team.abort, 0};
        const uint32_t needed = p == r.from ? k->received[p] + t + 1 : k->sent[p] + t + 1 - CHAIN_DEPTH;
        bool there = (p != r.from && !has(r.to, p)) || reached(k->seen[p], needed), on = true;
        while (!there && on) {
            k->seen[p] = p == r.from ? load_acquire(&mine->chain_arrived[r.stripe][p])
                                     : load_ack(&mine->chain_acked[r.stripe][p]);
            there = reached(k->seen[p], needed);
            on = wait_on(&w, p) && (looks == 0 || w.turns < looks);
        }
        good = good && there;
    }
    return good;
}

/* Keeps the numbers, and waits until all that was sent has been read. */
DEVICE void chain_close(const struct chain_numbers *k, const struct chain_run &r)
{
    struct window *mine = window_of(r.team, r.team.rank);
    EACH_CLERK(TELLS, p, r.team.nranks)
    {
        if (p == r.from)
            mine->chain_received[r.stripe][p] = k->received[p] + r.steps;
        if (has(r.to, p))
            wait_ack(&mine->chain_acked[r.stripe][p], k->sent[p] + r.steps, r.team.abort, p);
    }
}

/* ---- the movers ---- */

template <int U>
DEVICE void chain_pass_on(const struct chain_run &r, uint32_t t, const struct vector *x, uint64_t i, uint64_t end,
                          uint32_t stride)
{
    ROLLED for (int p = 0; p < r.team.nranks; p++) if (has(r.to, p))
        store_vectors<U>(chain_slot(r, p, r.team.rank, t), x, i, end, stride);
}

DEVICE void chain_move(const struct chain_run &r, uint32_t t)
{
    const struct thread_group c = chain_movers();
    const uint64_t at = t * r.chunk, bytes = least(r.length - at, r.chunk);
    const unsigned char *from = r.from < 0 ? r.in + at : chain_slot(r, r.team.rank, r.from, t);
    unsigned char *out = r.out ? r.out + at : NULL;
    const uint64_t whole = whole_vectors(bytes, aligned(from, VECTOR_BYTES) && aligned(out, VECTOR_BYTES));
    if (c.thread >= c.threads)
        return;
    ROLLED for (uint64_t i = c.thread; i < whole; i += CHAIN_VECTORS * c.threads)
    {
        struct vector x[CHAIN_VECTORS];
        load_vectors<CHAIN_VECTORS>(x, from, i, whole, c.threads);
        chain_pass_on<CHAIN_VECTORS>(r, t, x, i, whole, c.threads);
        if (out)
            store_vectors<CHAIN_VECTORS>(out, x, i, whole, c.threads);
    }
    ROLLED for (uint64_t i = whole + c.thread; i * VECTOR_BYTES < bytes; i += c.threads)
    {
        struct vector x;
        load_vector(&x, from + i * VECTOR_BYTES, bytes - i * VECTOR_BYTES);
        chain_pass_on<1>(r, t, &x, i, i + 1, c.threads);
        if (out)
            store_vector(out + i * VECTOR_BYTES, x, bytes - i * VECTOR_BYTES);
    }
}

DEVICE void chain(const struct kernel_chain &what)
{
    __shared__ struct chain_numbers k[OFFICES];
    const struct chain_run r = chain_run_of(what);
    bool ready = false; /* for chunk t, in every thread */
    if (r.length == 0)
        return;
    for (int office = 0; office < OFFICES; office++)
        chain_open(&k[office], r, office);
    for (uint32_t t = 0; t < r.steps; t++) {
        if (t > 0)
            chain_tell(&k[TELLS], r, t - 1);
        if (!ready && barrier_or(!chain_look(&k[LOOKS], r, t, 0)))
            return;
        chain_move(r, t);
        ready = !barrier_or(t + 1 < r.steps && !chain_look(&k[LOOKS], r, t + 1, CHAIN_LOOKS));
    }
    chain_tell(&k[TELLS], r, r.steps - 1);
    chain_close(&k[TELLS], r);
}

LAUNCHED(KERNEL_CHAIN_THREADS, tutti_chain, kernel_chain, what.team, chain(what))
