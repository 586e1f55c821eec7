/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves rows between all pairs of ranks, as lengths and indices say that only GPUs know (dynamic.cuh). Each run is a
 * message of its own, whose length both ends know before its first byte goes: a stream like those of exchange.cu. The
 * runs of a pair take turns with the pair's stripes, so that short ones go at the same time. A sender does not wait
 * for what its peers say: its data follow its lengths at once.
 *
 * Each half of a block has one peer. The first block of a peer tells and hears lengths for the user; all read them.
 */
#include <dynamic.cuh>
#include <over.cuh>

/* What one half of a block has to do. */
struct dynamic_half {
    enum stream_direction direction;
    int peer;
    uint32_t index;                          /* of the peer's blocks */
    uint32_t run, turn;                      /* the run that it is at, and the pair's stripe where that begins */
    uint32_t stripe, stripes, most, end, at; /* of the run; at: the pair's stripe that was taken */
    uint64_t moved;                          /* bytes */
    struct dynamic_table *table;
};

DEVICE struct dynamic_half dynamic_half_of(const struct kernel_dynamic &what, enum stream_direction direction,
                                           struct dynamic_table *table)
{
    const int n = what.exchange.team.nranks, me = what.exchange.team.rank, k = 1 + (int)(blockIdx.x / what.blocks);
    const int before = me >= k ? me - k : me - k + n, behind = me + k < n ? me + k : me + k - n;
    const struct dynamic_half half = {
        direction, direction == STREAM_OUT ? behind : before, blockIdx.x % what.blocks, 0, 0, 0, 0, 0, 0, 0, 0, table};
    return half;
}

DEVICE struct dynamic_view dynamic_view_of(const struct kernel_dynamic &what, int peer, enum stream_direction half)
{
    const bool own = half == STREAM_OUT;
    const struct dynamic_view v = {peer,
                                   own,
                                   own && peer != what.exchange.team.rank ? UINT64_MAX : what.recv_rows,
                                   own ? what.send_rows : 0,
                                   half_block(half),
                                   half};
    return v;
}

/* ---- what there is to do ---- */

DEVICE void dynamic_open_run(const struct kernel_dynamic &what, struct dynamic_half *half)
{
    const uint64_t bytes = half->table->rows[half->run] * what.row;
    half->stripes = kernel_exchange_stripes(&what.exchange, bytes);
    half->most = kernel_form_stripes(kernel_exchange_form(&what.exchange, bytes));
    half->end = half->turn & (half->most - 1) ? half->most : half->stripes;
    half->stripe = half->index;
}

DEVICE void dynamic_begin(const struct kernel_dynamic &what, struct dynamic_half *half)
{
    half->run = half->turn = half->end = half->stripe = half->stripes = 0;
    if (half->table->runs)
        dynamic_open_run(what, half);
}

/* The next stripe of a run that is this half's; *part: which of the run's. The order is the same at both ends. */
DEVICE bool dynamic_next(const struct kernel_dynamic &what, struct dynamic_half *half, uint32_t *part)
{
    while (half->run < half->table->runs) {
        for (; half->stripe < half->end; half->stripe += what.blocks) {
            *part = (half->stripe - half->turn) & (half->most - 1);
            if (*part >= half->stripes)
                continue;
            half->at = half->stripe;
            half->stripe += what.blocks;
            return true;
        }
        half->turn += half->stripes;
        if (++half->run < half->table->runs)
            dynamic_open_run(what, half);
    }
    return false;
}

DEVICE struct stream dynamic_stream(const struct kernel_dynamic &what, struct dynamic_half *half, uint32_t part)
{
    const uint64_t begin = half->table->begin[half->run] * what.row, bytes = half->table->rows[half->run] * what.row;
    const struct span span = span_part(bytes, part, half->stripes);
    unsigned char *user = (unsigned char *)(half->direction == STREAM_OUT ? (void *)what.exchange.send[half->peer]
                                                                          : what.exchange.recv[half->peer]);
    struct stream s = {&what.exchange.team,
                       half->direction,
                       kernel_exchange_form(&what.exchange, bytes),
                       half->peer,
                       half->at,
                       user + begin + span.begin,
                       span.end - span.begin,
                       0,
                       0,
                       0,
                       0,
                       true,
                       {},
                       {},
                       {}};
    stream_open(&s, bytes);
    half->moved += s.bytes;
    return s;
}

DEVICE void dynamic_count(const struct kernel_dynamic &what, const struct dynamic_half &half)
{
    struct kernel_dynamic_words *mine = dynamic_words(what.exchange.team, what.exchange.team.rank);
    if (half.direction == STREAM_OUT && half.moved)
        add_word(&mine->sent[half.peer], half.moved);
}

/* ---- lengths ---- */

/* This rank's own. A peer hears what is wrong, and is sent nothing then. */
DEVICE void dynamic_prepare_out(const struct kernel_dynamic &what, struct dynamic_half *half, uint32_t number)
{
    const struct dynamic_view v = dynamic_view_of(what, half->peer, STREAM_OUT);
    dynamic_load(what, half->table, v);
    dynamic_mark(what, half->table, v);
    half_barrier_or(STREAM_OUT, false);
    if (half->index == 0)
        dynamic_tell_splits(what, half->table, v, number);
    dynamic_find_runs(what, half->table, v);
    if (half->index == 0 && v.group.thread == 0)
        dynamic_tell_head(what, half->table->wrong, half->peer, number);
    dynamic_begin(what, half);
}

/* The peer's. False, in all threads of the half: given up, or the peer's do not fit, which the host hears. */
DEVICE bool dynamic_prepare_in(const struct kernel_dynamic &what, struct dynamic_half *half, uint32_t number)
{
    const struct dynamic_view v = dynamic_view_of(what, half->peer, STREAM_IN);
    if (!dynamic_hear(what, half->table, v, number, half->index == 0))
        return false;
    dynamic_find_runs(what, half->table, v);
    if (half->index == 0 && v.group.thread == 0 && half->table->wrong.what != KERNEL_RIGHT)
        dynamic_report(what.exchange.team, half->peer, half->table->wrong);
    dynamic_begin(what, half);
    return half->table->wrong.what == KERNEL_RIGHT;
}

/* ---- half a block ---- */

DEVICE void dynamic_by_half(const struct kernel_dynamic &what, struct dynamic_table *table, uint32_t number)
{
    __shared__ struct stages_state state;
    const enum stream_direction direction = threadIdx.x < blockDim.x / 2 ? STREAM_OUT : STREAM_IN;
    struct dynamic_half half = dynamic_half_of(what, direction, &table[direction]);
    bool good = true;
    uint32_t part;
    if (direction == STREAM_OUT)
        dynamic_prepare_out(what, &half, number);
    else
        good = dynamic_prepare_in(what, &half, number);
    while (good && dynamic_next(what, &half, &part)) {
        struct stream s = dynamic_stream(what, &half, part);
        good = stream_run(&s, &state);
    }
    if (half_block(direction).thread == 0)
        dynamic_count(what, half);
}

/* ---- a block of one thread: whichever of its two messages can go on ---- */

struct dynamic_work {
    struct dynamic_half half;
    struct stream s;
    uint32_t t; /* the next chunk */
    bool more;
};

/* Stripes without chunks are left out. */
DEVICE void dynamic_open(const struct kernel_dynamic &what, struct dynamic_work *work)
{
    uint32_t part;
    work->more = false;
    while (!work->more && dynamic_next(what, &work->half, &part)) {
        work->s = dynamic_stream(what, &work->half, part);
        work->more = work->s.steps != 0;
        work->t = 0;
    }
}

DEVICE bool dynamic_wait(struct waiting *w, const struct dynamic_work *works)
{
    uint32_t ranks = 0;
    if (!wait_pause(w))
        return true;
    for (int i = 0; i < 2; i++)
        ranks |= works[i].more ? 1u << works[i].half.peer : 0;
    return wait_hear(w, ranks);
}

DEVICE void dynamic_alone(const struct kernel_dynamic &what, struct dynamic_table *table, uint32_t number)
{
    struct dynamic_work works[2];
    struct waiting w = {what.exchange.team.abort, 0};
    bool moved = true, good = true;
    for (int i = 0; i < 2; i++)
        works[i].half = dynamic_half_of(what, (enum stream_direction)i, &table[i]);
    dynamic_prepare_out(what, &works[STREAM_OUT].half, number);
    if (!dynamic_prepare_in(what, &works[STREAM_IN].half, number))
        works[STREAM_IN].half.table->runs = 0;
    for (int i = 0; i < 2; i++)
        dynamic_open(what, &works[i]);
    while (good && (works[0].more || works[1].more) && (moved || dynamic_wait(&w, works))) {
        moved = false;
        for (int i = 0; i < 2 && good; i++) {
            struct dynamic_work *work = &works[i];
            if (!work->more || !stream_is_ready(work->s, work->t))
                continue;
            moved = true;
            good = stream_step(&work->s, work->t++);
            if (!good || work->t < work->s.steps)
                continue;
            stream_close(work->s);
            dynamic_open(what, work);
        }
    }
    dynamic_count(what, works[STREAM_OUT].half);
}

/* ---- */

/* What a rank has for itself, by blocks that do nothing else. */
DEVICE void dynamic_with_self(const struct kernel_dynamic &what, struct dynamic_table *table, uint32_t index,
                              uint32_t blocks)
{
    const struct kernel_team &team = what.exchange.team;
    const struct dynamic_view v = dynamic_view_of(what, team.rank, STREAM_OUT);
    if (v.group.thread >= v.group.threads)
        return; /* one half does it */
    dynamic_load(what, table, v);
    dynamic_mark(what, table, v);
    half_barrier_or(STREAM_OUT, false);
    for (uint32_t i = v.group.thread; index == 0 && what.recv_splits && i < what.count; i += v.group.threads)
        what.recv_splits[(uint64_t)team.rank * what.count + i] = table->rows[i] & ~SPLIT_TAKEN;
    dynamic_find_runs(what, table, v);
    if (index == 0 && v.group.thread == 0 && table->wrong.what != KERNEL_RIGHT)
        dynamic_report(team, team.rank, table->wrong);
    for (uint32_t run = 0; run < table->runs; run++) {
        const uint64_t from = table->begin[run], to = what.send_rows ? from % what.send_rows : 0,
                       bytes = table->rows[run] * what.row;
        const struct span s = span_part(bytes, (index + run) % blocks, blocks);
        copy_by<STREAM_VECTORS>((unsigned char *)what.exchange.recv[team.rank] + to * what.row + s.begin,
                                (const unsigned char *)what.exchange.send[team.rank] + from * what.row + s.begin,
                                s.end - s.begin, v.group);
    }
}

KERNEL(KERNEL_DYNAMIC_THREADS) tutti_exchange_dynamic(PARAMETER(struct kernel_dynamic) what)
{
    __shared__ struct dynamic_table table[2];
    const struct kernel_team &team = what.exchange.team;
    struct kernel_dynamic_words *mine = dynamic_words(team, team.rank);
    const uint32_t others = ((uint32_t)team.nranks - 1) * what.blocks;
    launch_begins(team);
    const uint32_t number = mine->number + 1;
    if (blockIdx.x >= others)
        dynamic_with_self(what, table, blockIdx.x - others, gridDim.x - others);
    else if (ALONE)
        dynamic_alone(what, table, number);
    else
        dynamic_by_half(what, table, number);
    if (!launch_is_last(team))
        return;
    mine->number = number;
    if (team.ticket)
        launch_tell(team);
}
