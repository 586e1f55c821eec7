/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stripe of a message between two ranks, in chunks, sent by one half of a block and received by the other half of
 * the peer's. Short messages are packets (ll.cuh), longer ones lines (lines.cuh). The longest, and all where links do
 * not carry lines as a whole, are plain data. Chunk k of a pair and stripe lies in slot k % KERNEL_PLAIN_DEPTH. A word
 * behind a fence announces it, and it may be overwritten when it has been acknowledged. Each half is a stage of
 * stages.cuh. Slots lie at the same place in all launches, for chunks of any length, so a kernel may end before its
 * last chunks have been read.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_STREAM_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_STREAM_CUH

#include <lines.cuh>
#include <ll.cuh>
#include <stages.cuh>

#define STREAM_VECTORS 8 /* in flight of a thread that copies */

enum stream_direction { STREAM_OUT, STREAM_IN }; /* also: the half of a block that it is the work of */

struct stream {
    const struct kernel_team *team;
    enum stream_direction direction;
    enum kernel_form form;
    int peer;
    uint32_t stripe;
    unsigned char *user;              /* where bytes come from, or go to */
    uint64_t bytes, chunk;            /* of the stripe, and of its chunks, of which the last may be shorter */
    uint32_t steps;                   /* chunks */
    uint32_t number;                  /* of the last chunk before this launch */
    uint32_t read;                    /* sent, but plain data: the last one known to be read */
    bool good;                        /* not given up; if so, the rest is not sent */
    struct thread_group thread_group; /* the threads that work on it */
    struct lines_tile tile;
    struct packet ahead[LINES_VECTORS]; /* lines: what is sent next */
};

/* On the CPU the only thread of a block is both halves. */
DEVICE struct thread_group half_block(enum stream_direction half)
{
    const uint32_t threads = ALONE ? 1 : blockDim.x / 2;
    const struct thread_group c = {ALONE ? 0 : threadIdx.x - half * threads, threads};
    return c;
}

DEVICE uint64_t stream_bytes(const struct stream &s, uint32_t t)
{
    return least(s.bytes - t * s.chunk, s.chunk);
}

/* Where the number of the last chunk is kept. */
DEVICE uint32_t *stream_number(const struct stream &s)
{
    struct window *mine = window_of(*s.team, s.team->rank);
    const bool out = s.direction == STREAM_OUT;
    stripe_words &words = s.form == KERNEL_PACKETS ? (out ? mine->ll_sent : mine->ll_received)
                          : s.form == KERNEL_LINES ? (out ? mine->lines_sent : mine->lines_received)
                                                   : (out ? mine->plain_sent : mine->plain_received);
    return &words[s.stripe][s.peer];
}

/* ---- plain data ---- */

DEVICE unsigned char *plain_slot(const struct kernel_team &team, int to, int from, uint32_t stripe, uint32_t number)
{
    const uint64_t place = ((uint64_t)source_index(to, from) * KERNEL_EXCHANGE_MOST + stripe) * KERNEL_PLAIN_DEPTH +
                           number % KERNEL_PLAIN_DEPTH;
    const uint64_t before = (uint64_t)(team.nranks - 1) * (sizeof(ll_inbox) + sizeof(lines_inbox));
    return team.window[to] + KERNEL_CONTROL_BYTES + before + place * kernel_plain_slot(team.nranks);
}

/* What stages.cuh calls: there is one peer, and a thread knows its stage by its stream. */
struct plain_work {
    const struct stream &s;
    __device__ uint32_t steps() const
    {
        return s.steps;
    }
    __device__ int ranks() const
    {
        return 1;
    }

    __device__ bool ready(int, uint32_t t, int) const
    {
        const struct window *mine = window_of(*s.team, s.team->rank);
        if (s.direction == STREAM_OUT)
            return wait_ack(&mine->plain_acked[s.stripe][s.peer], s.number + t + 1 - KERNEL_PLAIN_DEPTH, s.team->abort,
                            s.peer);
        return wait_flag(&mine->plain_arrived[s.stripe][s.peer], s.number + t + 1, s.team->abort, s.peer);
    }

    __device__ void work(int, uint32_t t, const struct thread_group &c) const
    {
        const int me = s.team->rank, to = s.direction == STREAM_OUT ? s.peer : me,
                  from = s.direction == STREAM_OUT ? me : s.peer;
        unsigned char *slot = plain_slot(*s.team, to, from, s.stripe, s.number + t + 1), *user = s.user + t * s.chunk;
        copy_by<STREAM_VECTORS>(s.direction == STREAM_OUT ? slot : user, s.direction == STREAM_OUT ? user : slot,
                                stream_bytes(s, t), c);
    }

    __device__ void announce(int, uint32_t t, int) const
    {
        struct window *to = window_of(*s.team, s.peer);
        if (s.direction == STREAM_OUT) {
            fence_all();
            store_flag(&to->plain_arrived[s.stripe][s.team->rank], s.number + t + 1);
        } else {
            store_ack(&to->plain_acked[s.stripe][s.team->rank], s.number + t + 1);
        }
    }

    __device__ void close(int, int) const
    {
        *stream_number(s) = s.number + s.steps;
    }
};

/* ---- lines: each warp by itself ---- */

DEVICE void lines_fetch(struct stream *s, uint32_t t)
{
    if (t < s->steps)
        tile_fetch<true>(s->ahead, s->tile, s->user + t * s->chunk, stream_bytes(*s, t));
}

/* Is there room for chunk `number`? Waits. False, in all threads of a warp: given up. */
DEVICE bool lines_room(struct stream *s, uint32_t number)
{
    const uint32_t *acked = &window_of(*s->team, s->team->rank)->lines_acked[s->stripe][s->peer];
    struct waiting w = {s->team->abort, 0};
    bool good = s->good;
    while (good && !reached(s->read, number - KERNEL_LINES_DEPTH)) {
        s->read = load_ack(acked);
        good = reached(s->read, number - KERNEL_LINES_DEPTH) || wait_on(&w, s->peer);
    }
    return !warp_any(!good);
}

/* The next chunk's data are on their way while this one waits for room. */
DEVICE void lines_send(struct stream *s, uint32_t t)
{
    s->good = lines_room(s, s->number + t + 1);
    if (!s->good)
        return;
    tile_send(s->ahead, s->tile, s->number + t + 1);
    lines_fetch(s, t + 1);
}

DEVICE void lines_receive(struct stream *s, uint32_t t)
{
    const uint32_t number = s->number + t + 1;
    struct packet x[LINES_VECTORS];
    s->good = tile_wait(x, s->tile, number, s->team->abort, s->peer);
    if (s->good)
        tile_deliver<true>(x, s->tile, s->user + t * s->chunk, stream_bytes(*s, t));
    s->good = !half_barrier_or(STREAM_IN, !s->good);
    if (s->good && s->thread_group.thread == 0)
        store_ack(&window_of(*s->team, s->peer)->lines_acked[s->stripe][s->team->rank], number);
}

/* ---- short messages: each thread by itself ---- */

DEVICE void ll_send(struct stream *s, uint32_t t)
{
    const struct window *mine = window_of(*s->team, s->team->rank);
    const struct thread_group &c = s->thread_group;
    const uint32_t number = s->number + t + 1, bytes = (uint32_t)stream_bytes(*s, t);
    const unsigned char *from = s->user + t * s->chunk;
    struct packet *slot = ll_slot(*s->team, s->peer, s->team->rank, s->stripe, number);
    if (s->good && !ll_has_room(s->read, number)) {
        s->good = ll_wait_room(&mine->ll_acked[s->stripe][s->peer], number, s->team->abort, s->peer);
        s->read = number - LL_SLOTS;
    }
    for (uint32_t i = c.thread; s->good && 8 * i < bytes; i += c.threads)
        ll_put(slot + i, number, load_unit(from + 8 * i, bytes - 8 * i));
}

DEVICE void ll_receive(struct stream *s, uint32_t t)
{
    const struct thread_group &c = s->thread_group;
    const uint32_t number = s->number + t + 1, bytes = (uint32_t)stream_bytes(*s, t);
    const struct packet *slot = ll_slot(*s->team, s->team->rank, s->peer, s->stripe, number);
    unsigned char *to = s->user + t * s->chunk;
    for (uint32_t i = c.thread; s->good && 8 * i < bytes; i += c.threads) {
        uint64_t unit;
        s->good = ll_get(slot + i, number, s->team->abort, s->peer, &unit);
        if (s->good)
            store_unit(to + 8 * i, unit, bytes - 8 * i);
    }
    s->good = !half_barrier_or(STREAM_IN, !s->good);
    if (s->good && c.thread == 0)
        store_ack(&window_of(*s->team, s->peer)->ll_acked[s->stripe][s->team->rank], number);
}

/* ---- all of them ---- */

/* Dividing by what the compiler does not know takes long. */
DEVICE uint32_t stream_steps(const struct stream &s)
{
    if (s.form == KERNEL_PACKETS)
        return (uint32_t)((s.bytes + KERNEL_LL_BYTES - 1) / KERNEL_LL_BYTES);
    return s.bytes <= s.chunk ? s.bytes != 0 : (uint32_t)((s.bytes + s.chunk - 1) / s.chunk);
}

DEVICE void lines_open(struct stream *s)
{
    const bool out = s->direction == STREAM_OUT;
    const int to = out ? s->peer : s->team->rank, from = out ? s->team->rank : s->peer;
    s->tile = lines_tile_of(lines_slots(*s->team, to, from, s->stripe), s->thread_group);
    if (out) {
        s->read = load_ack(&window_of(*s->team, s->team->rank)->lines_acked[s->stripe][s->peer]);
        lines_fetch(s, 0);
    }
}

/* The rest of what is given up to form, and bytes. */
DEVICE void stream_open(struct stream *s, uint64_t message)
{
    const struct window *mine = window_of(*s->team, s->team->rank);
    s->good = true;
    s->thread_group = half_block(s->direction);
    s->chunk = s->form == KERNEL_PACKETS ? KERNEL_LL_BYTES
               : s->form == KERNEL_LINES ? lines_chunk(s->thread_group.threads)
                                         : kernel_plain_chunk(message, s->team->nranks);
    s->steps = stream_steps(*s);
    if (!s->steps)
        return;
    s->number = *stream_number(*s);
    if (s->form == KERNEL_LINES)
        lines_open(s);
    if (s->direction == STREAM_OUT && s->form == KERNEL_PACKETS)
        s->read =
            ll_read(load_ack(&mine->ll_acked[s->stripe][s->peer]), mine->ll_implied[s->stripe][s->peer], s->number);
}

/* One chunk. False: given up. */
DEVICE bool stream_step(struct stream *s, uint32_t t)
{
    const struct plain_work work = {*s};
    if (s->form == KERNEL_PLAIN)
        return stage_step(work, s->direction, t);
    if (s->form == KERNEL_LINES)
        s->direction == STREAM_OUT ? lines_send(s, t) : lines_receive(s, t);
    else
        s->direction == STREAM_OUT ? ll_send(s, t) : ll_receive(s, t);
    return s->good || s->direction == STREAM_OUT; /* of a half that sends threads give up one by one */
}

/* Behind the barrier every thread has read the old number. False, in all threads of a half: given up. */
DEVICE bool stream_close(const struct stream &s)
{
    const bool good = !half_barrier_or(s.direction, !s.good);
    if (good && s.thread_group.thread == 0)
        *stream_number(s) = s.number + s.steps;
    return good;
}

/* All chunks, by one half of a block. False, in all its threads: given up. */
DEVICE bool stream_run(struct stream *s, struct stages_state *state)
{
    const uint32_t half = blockDim.x / WARP / 2;
    const struct plain_work work = {*s};
    if (!s->steps)
        return true;
    if (s->form == KERNEL_PLAIN)
        return stage_run(work, state, stage_among(s->direction, s->direction * half, (s->direction + 1) * half));
    ROLLED for (uint32_t t = 0; t < s->steps; t++) if (!stream_step(s, t)) return false;
    return stream_close(*s);
}

/* For a block of one thread, which has both halves' work: could it do chunk t now, without waiting for a peer? */
DEVICE bool stream_is_ready(const struct stream &s, uint32_t t)
{
    const struct window *mine = window_of(*s.team, s.team->rank);
    const uint32_t number = s.number + t + 1;
    struct packet x[LINES_VECTORS];
    if (s.direction == STREAM_OUT && s.form == KERNEL_PACKETS)
        return ll_has_room(s.read, number) || ll_may_send(load_ack(&mine->ll_acked[s.stripe][s.peer]), number);
    if (s.direction == STREAM_OUT)
        return s.form == KERNEL_LINES
                   ? reached(load_ack(&mine->lines_acked[s.stripe][s.peer]), number - KERNEL_LINES_DEPTH)
                   : reached(load_ack(&mine->plain_acked[s.stripe][s.peer]), number - KERNEL_PLAIN_DEPTH);
    if (s.form == KERNEL_LINES)
        return tile_look(x, s.tile, number);
    if (s.form == KERNEL_PLAIN)
        return reached(load_acquire(&mine->plain_arrived[s.stripe][s.peer]), number);
    load_halves(ll_slot(*s.team, s.team->rank, s.peer, s.stripe, number)->half, &x->half[0], &x->half[1]);
    return ll_is(*x, number);
}

#endif
