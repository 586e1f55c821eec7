/* SPDX-License-Identifier: Apache-2.0 */
/* Runs all ranks of a schedule in lockstep on symbolic memory. */
#include "schedule/checker.h"
#include "base/error.h"
#include "schedule/symbol.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A send or a receive of this round. `value` is where the payload starts in checker.payload. */
struct checker_message {
    int src, dst, order;
    const struct action *action;
    size_t value;
};

struct checker {
    const struct algorithm *algorithm;
    struct shape shape;
    int nblocks, bound, round;
    struct symbol_memory *memory; /* [n] */
    struct symbol *cells;
    struct action *actions; /* [n][bound] of this round */
    struct action *again;   /* [bound]: a second answer, to see that it is the same */
    int *counts;            /* [n] */
    int *marks;             /* [most cells of a rank]: 1 + the action that writes a cell in step 2 */
    struct checker_message *sends, *receives;
    size_t nsends, nreceives;
    struct symbol *payload;
    size_t payload_used, payload_room;
    uint64_t *heard, *heard_before; /* barrier: [n][words] */
    size_t words;
    char *why;
    size_t why_size;
};

static tutti_result_t wrong(struct checker *c, int rank, const char *format, ...) __attribute__((format(printf, 3, 4)));

static tutti_result_t wrong(struct checker *c, int rank, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(c->why, c->why_size, "%s %s, %d ranks, root %d: round %d, rank %d: %s", schedule_coll_name(c->shape.coll),
             c->algorithm->name, c->shape.nranks, c->shape.root, c->round, rank, text);
    return error_note(TUTTI_INTERNAL_ERROR, "%s", c->why);
}

static bool checker_reads(const struct action *a)
{
    return a->kind != ACTION_RECV;
}

static bool writes(const struct action *a)
{
    return a->kind != ACTION_SEND;
}

static bool receives(const struct action *a)
{
    return a->kind == ACTION_RECV || a->kind == ACTION_RECV_REDUCE;
}

static bool talks(const struct action *a)
{
    return a->kind == ACTION_SEND || receives(a);
}

static struct symbol *cells_at(struct checker *c, int rank, int buffer, int block)
{
    struct symbol_memory *memory = &c->memory[rank];
    return memory->cells + memory->first[buffer] + block;
}

static struct symbol *source(struct checker *c, int rank, const struct action *a)
{
    return cells_at(c, rank, a->src_buffer, a->src_block);
}

static struct symbol *target(struct checker *c, int rank, const struct action *a)
{
    return cells_at(c, rank, a->dst_buffer, a->dst_block);
}

/* A place must lie in its buffer, and a place in a user buffer must be where the vector's block is. */
static tutti_result_t check_place(struct checker *c, int rank, const struct action *a, int buffer, int block,
                                  int length)
{
    if (buffer > BUFFER_SCRATCH || block < 0 || length > c->memory[rank].size[buffer] - block)
        return wrong(c, rank, "%s of blocks %d..%d outside buffer %d", schedule_kind_name(a->kind), block,
                     block + length - 1, buffer);
    if (buffer == BUFFER_SCRATCH || a->nblocks == 0)
        return c->shape.coll == COLL_ALLTOALLV ? wrong(c, rank, "scratch has no block sizes here") : TUTTI_SUCCESS;
    bool single = c->memory[rank].size[buffer] == 1 && c->nblocks > 1;
    if (a->block != (single ? rank : block))
        return wrong(c, rank, "%s names vector block %d at block %d of buffer %d", schedule_kind_name(a->kind),
                     a->block, block, buffer);
    return TUTTI_SUCCESS;
}

static tutti_result_t check_source(struct checker *c, int rank, const struct action *a)
{
    int nsrc = a->kind == ACTION_REDUCE ? a->nsrc : 1;
    if (!checker_reads(a) || a->nblocks == 0)
        return TUTTI_SUCCESS;
    if (nsrc < 1 || (int64_t)nsrc * a->nblocks > INT32_MAX)
        return wrong(c, rank, "reduces %d sources", nsrc);
    if (nsrc > 1 && a->src_buffer != BUFFER_SCRATCH)
        return wrong(c, rank, "reduces %d sources of a user buffer, which hold different blocks", nsrc);
    return check_place(c, rank, a, a->src_buffer, a->src_block, nsrc * a->nblocks);
}

static tutti_result_t check_target(struct checker *c, int rank, const struct action *a)
{
    if (!writes(a) || a->nblocks == 0)
        return TUTTI_SUCCESS;
    if (a->dst_buffer == BUFFER_IN)
        return wrong(c, rank, "%s writes IN", schedule_kind_name(a->kind));
    return check_place(c, rank, a, a->dst_buffer, a->dst_block, a->nblocks);
}

/* A local action's target must not overlap its sources, but for a copy onto itself. */
static tutti_result_t check_overlap(struct checker *c, int rank, const struct action *a)
{
    if (talks(a))
        return TUTTI_SUCCESS;
    int length = a->nblocks * (a->kind == ACTION_REDUCE ? a->nsrc : 1);
    struct symbol *from = source(c, rank, a), *to = target(c, rank, a);
    if (from + length <= to || to + a->nblocks <= from || (a->kind == ACTION_COPY && from == to))
        return TUTTI_SUCCESS;
    return wrong(c, rank, "%s overlaps its source", schedule_kind_name(a->kind));
}

static tutti_result_t check_unused(struct checker *c, int rank, const struct action *a)
{
    bool reduces = a->kind == ACTION_REDUCE || a->kind == ACTION_RECV_REDUCE;
    bool clean = (reduces || !a->final) && (a->kind == ACTION_REDUCE || !a->nsrc) && (talks(a) || !a->peer) &&
                 (checker_reads(a) || (!a->src_buffer && !a->src_block)) &&
                 (writes(a) || (!a->dst_buffer && !a->dst_block));
    return clean ? TUTTI_SUCCESS
                 : wrong(c, rank, "%s with a field set that it does not have", schedule_kind_name(a->kind));
}

static tutti_result_t check_action(struct checker *c, int rank, const struct action *a)
{
    int n = c->shape.nranks;
    if (a->kind > ACTION_REDUCE)
        return wrong(c, rank, "unknown action %d", a->kind);
    if (talks(a) && (a->peer < 0 || a->peer >= n || a->peer == rank))
        return wrong(c, rank, "%s with peer %d", schedule_kind_name(a->kind), a->peer);
    bool barrier = c->shape.coll == COLL_BARRIER;
    if (barrier ? a->nblocks != 0 || !talks(a) : a->nblocks < 1)
        return wrong(c, rank, "%s of %d blocks", schedule_kind_name(a->kind), a->nblocks);
    if (a->block < 0 || a->nblocks > c->nblocks - a->block)
        return wrong(c, rank, "%s of vector blocks %d..%d of %d", schedule_kind_name(a->kind), a->block,
                     a->block + a->nblocks - 1, c->nblocks);
    if ((a->kind == ACTION_REDUCE || a->kind == ACTION_RECV_REDUCE) && !schedule_reduces(c->shape.coll))
        return wrong(c, rank, "reduces in a collective that does not");
    tutti_result_t result = check_unused(c, rank, a);
    if (!result)
        result = check_source(c, rank, a);
    if (!result)
        result = check_target(c, rank, a);
    return result ? result : check_overlap(c, rank, a);
}

/* Asks for a round twice, into arrays with different rubbish: a pure function that sets all fields answers the same. */
static tutti_result_t checker_ask(struct checker *c, int rank)
{
    size_t bytes = (size_t)c->bound * sizeof(struct action);
    struct action *actions = c->actions + (size_t)rank * c->bound;
    memset(actions, 0xa5, bytes);
    memset(c->again, 0x5a, bytes);
    int count = schedule_round(c->algorithm, &c->shape, rank, c->round, actions);
    if (count < 0 || count > c->bound)
        return wrong(c, rank, "%d actions, at most %d were declared", count, c->bound);
    int second = schedule_round(c->algorithm, &c->shape, rank, c->round, c->again);
    if (second != count || memcmp(actions, c->again, (size_t)count * sizeof *actions) != 0)
        return wrong(c, rank, "two calls gave different actions");
    c->counts[rank] = count;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && !result; i++)
        result = check_action(c, rank, &actions[i]);
    return result;
}

static tutti_result_t check_final(struct checker *c, int rank, const struct action *a, const struct symbol *value)
{
    bool complete = (int)value->count == c->shape.nranks;
    if (complete == (a->final != 0))
        return TUTTI_SUCCESS;
    return wrong(c, rank, "%s of block %d %s", schedule_kind_name(a->kind), a->block,
                 complete ? "completes it but is not marked final" : "is marked final but does not complete it");
}

/* A value that is read must be defined, and of the length that the action says. */
static tutti_result_t check_value(struct checker *c, int rank, const struct action *a, const struct symbol *value,
                                  int b)
{
    if (!value->count)
        return wrong(c, rank, "%s reads what is undefined: block %d of the action, buffer %d",
                     schedule_kind_name(a->kind), b, a->src_buffer);
    if (schedule_cuts_vector(c->shape.coll) && value->block != a->block + b)
        return wrong(c, rank, "%s takes vector block %d for block %d", schedule_kind_name(a->kind), value->block,
                     a->block + b);
    return TUTTI_SUCCESS;
}

static tutti_result_t run_local(struct checker *c, int rank, const struct action *a)
{
    struct symbol *from = source(c, rank, a), *to = target(c, rank, a);
    int nsrc = a->kind == ACTION_REDUCE ? a->nsrc : 1;
    for (int b = 0; b < a->nblocks; b++) {
        struct symbol value = from[b];
        for (int s = 0; s < nsrc; s++) {
            struct symbol operand = from[s * a->nblocks + b];
            tutti_result_t result = check_value(c, rank, a, &operand, b);
            if (result)
                return result;
            value = s ? symbol_join(value, operand) : operand;
        }
        to[b] = value;
        tutti_result_t result = a->kind == ACTION_REDUCE ? check_final(c, rank, a, &value) : TUTTI_SUCCESS;
        if (result)
            return result;
    }
    return TUTTI_SUCCESS;
}

/* Marks what action `index` writes in step 2; a cell that is marked already is written twice. */
static tutti_result_t mark_writes(struct checker *c, int rank, const struct action *a, int index)
{
    ptrdiff_t first = target(c, rank, a) - c->memory[rank].cells;
    for (int b = 0; b < a->nblocks; b++) {
        if (c->marks[first + b])
            return wrong(c, rank, "block %d of buffer %d is written twice", a->dst_block + b, a->dst_buffer);
        c->marks[first + b] = index + 1;
    }
    return TUTTI_SUCCESS;
}

/* Reads in step 2 must not see a block that another action writes, but for a SEND of what a RECV_REDUCE writes. */
static tutti_result_t check_reads(struct checker *c, int rank, const struct action *actions, int index)
{
    const struct action *a = &actions[index];
    ptrdiff_t first = source(c, rank, a) - c->memory[rank].cells;
    for (int b = 0; b < a->nblocks; b++) {
        int writer = c->marks[first + b] - 1;
        if (writer < 0 || writer == index)
            continue;
        if (a->kind != ACTION_SEND || actions[writer].kind != ACTION_RECV_REDUCE)
            return wrong(c, rank, "%s reads block %d of buffer %d while a %s writes it", schedule_kind_name(a->kind),
                         a->src_block + b, a->src_buffer, schedule_kind_name(actions[writer].kind));
    }
    /* A reduction onto its own source must cover it exactly. */
    ptrdiff_t shift = a->kind == ACTION_RECV_REDUCE ? source(c, rank, a) - target(c, rank, a) : 0;
    if (shift && shift < a->nblocks && shift > -a->nblocks)
        return wrong(c, rank, "recv-reduce overlaps its source");
    return TUTTI_SUCCESS;
}

static tutti_result_t check_hazards(struct checker *c, int rank)
{
    const struct action *actions = c->actions + (size_t)rank * c->bound;
    tutti_result_t result = TUTTI_SUCCESS;
    memset(c->marks, 0, (size_t)c->memory[rank].total * sizeof *c->marks);
    for (int i = 0; i < c->counts[rank] && !result; i++)
        if (receives(&actions[i]))
            result = mark_writes(c, rank, &actions[i], i);
    for (int i = 0; i < c->counts[rank] && !result; i++)
        if (talks(&actions[i]) && checker_reads(&actions[i]))
            result = check_reads(c, rank, actions, i);
    return result;
}

static bool payload_reserve(struct checker *c, size_t more)
{
    if (c->payload_used + more <= c->payload_room)
        return true;
    size_t room = (c->payload_used + more) * 2;
    struct symbol *grown = realloc(c->payload, room * sizeof *grown);
    if (!grown)
        return false;
    c->payload = grown;
    c->payload_room = room;
    return true;
}

/* Takes a send's values as they are before step 2. */
static tutti_result_t post_send(struct checker *c, int rank, const struct action *a, int order)
{
    struct symbol *from = source(c, rank, a);
    if (!payload_reserve(c, (size_t)a->nblocks))
        return error_set(TUTTI_SYSTEM_ERROR, "checking a schedule: out of memory");
    for (int b = 0; b < a->nblocks; b++) {
        tutti_result_t result = check_value(c, rank, a, &from[b], b);
        if (result)
            return result;
    }
    c->sends[c->nsends++] = (struct checker_message){rank, a->peer, order, a, c->payload_used};
    if (a->nblocks)
        memcpy(c->payload + c->payload_used, from, (size_t)a->nblocks * sizeof *from);
    c->payload_used += (size_t)a->nblocks;
    return TUTTI_SUCCESS;
}

static tutti_result_t post_messages(struct checker *c, int rank)
{
    const struct action *actions = c->actions + (size_t)rank * c->bound;
    for (int i = 0; i < c->counts[rank]; i++) {
        const struct action *a = &actions[i];
        if (receives(a))
            c->receives[c->nreceives++] = (struct checker_message){a->peer, rank, i, a, 0};
        tutti_result_t result = a->kind == ACTION_SEND ? post_send(c, rank, a, i) : TUTTI_SUCCESS;
        if (result)
            return result;
    }
    return TUTTI_SUCCESS;
}

static int checker_by_pair(const void *left, const void *right)
{
    const struct checker_message *a = left, *b = right;
    if (a->src != b->src)
        return a->src < b->src ? -1 : 1;
    if (a->dst != b->dst)
        return a->dst < b->dst ? -1 : 1;
    return a->order - b->order;
}

static tutti_result_t checker_deliver(struct checker *c, const struct checker_message *send,
                                      const struct checker_message *receive)
{
    const struct action *a = receive->action;
    int rank = receive->dst;
    if (send->action->nblocks != a->nblocks || (schedule_cuts_vector(c->shape.coll) && send->action->block != a->block))
        return wrong(c, rank, "receives blocks %d+%d where rank %d sends %d+%d", a->block, a->nblocks, send->src,
                     send->action->block, send->action->nblocks);
    struct symbol *to = target(c, rank, a), *from = source(c, rank, a);
    bool reduces = a->kind == ACTION_RECV_REDUCE;
    for (int b = 0; b < a->nblocks; b++) {
        struct symbol value = c->payload[send->value + (size_t)b];
        tutti_result_t result = reduces ? check_value(c, rank, a, &from[b], b) : TUTTI_SUCCESS;
        if (result)
            return result;
        to[b] = reduces ? symbol_join(from[b], value) : value;
        result = reduces ? check_final(c, rank, a, &to[b]) : TUTTI_SUCCESS;
        if (result)
            return result;
    }
    for (size_t w = 0; w < c->words; w++)
        c->heard[(size_t)rank * c->words + w] |= c->heard_before[(size_t)send->src * c->words + w];
    return TUTTI_SUCCESS;
}

static tutti_result_t match(struct checker *c)
{
    qsort(c->sends, c->nsends, sizeof *c->sends, checker_by_pair);
    qsort(c->receives, c->nreceives, sizeof *c->receives, checker_by_pair);
    for (size_t i = 0; i < c->nsends || i < c->nreceives; i++) {
        const struct checker_message *send = i < c->nsends ? &c->sends[i] : NULL;
        const struct checker_message *receive = i < c->nreceives ? &c->receives[i] : NULL;
        if (!send)
            return wrong(c, receive->dst, "a receive from rank %d has no send", receive->src);
        if (!receive || send->src != receive->src || send->dst != receive->dst)
            return wrong(c, send->src, "a send to rank %d has no receive, or a receive near it no send", send->dst);
        tutti_result_t result = checker_deliver(c, send, receive);
        if (result)
            return result;
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t run_rank(struct checker *c, int rank)
{
    const struct action *actions = c->actions + (size_t)rank * c->bound;
    tutti_result_t result = checker_ask(c, rank);
    for (int i = 0; !result && i < c->counts[rank]; i++)
        if (!talks(&actions[i]))
            result = run_local(c, rank, &actions[i]);
    if (!result)
        result = check_hazards(c, rank);
    return result ? result : post_messages(c, rank);
}

static tutti_result_t run_round(struct checker *c)
{
    tutti_result_t result = TUTTI_SUCCESS;
    c->nsends = c->nreceives = c->payload_used = 0;
    if (c->words)
        memcpy(c->heard_before, c->heard, (size_t)c->shape.nranks * c->words * sizeof *c->heard);
    for (int rank = 0; rank < c->shape.nranks && !result; rank++)
        result = run_rank(c, rank);
    return result ? result : match(c);
}

/* What a rank's OUT block must hold. */
static struct symbol expected(const struct checker *c, int rank, int block)
{
    int root = c->shape.root;
    switch (c->shape.coll) {
    case COLL_BROADCAST:
        return symbol_leaf(root, block);
    case COLL_SCATTER:
        return symbol_leaf(root, rank);
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
        return symbol_leaf(block, rank);
    case COLL_ALLGATHER:
    case COLL_GATHER:
        return symbol_leaf(block, block);
    default:
        break;
    }
    struct symbol sum = {.count = 0};
    int givers = c->shape.coll == COLL_SCAN ? rank + 1 : c->shape.nranks;
    for (int from = 0; from < givers; from++)
        sum = symbol_join(sum, symbol_leaf(from, c->shape.coll == COLL_REDUCE_SCATTER ? rank : block));
    return sum;
}

static tutti_result_t check_results(struct checker *c)
{
    bool rank_matters = !schedule_cuts_vector(c->shape.coll) || c->shape.coll == COLL_SCAN;
    for (int block = 0; block < c->nblocks; block++) {
        struct symbol want = expected(c, 0, block), first = {.count = 0};
        for (int rank = 0; rank < c->shape.nranks; rank++) {
            if (block >= c->memory[rank].size[BUFFER_OUT])
                continue;
            if (rank_matters)
                want = expected(c, rank, block);
            struct symbol got = *cells_at(c, rank, BUFFER_OUT, block);
            if (!symbol_same_set(got, want))
                return wrong(c, rank, "block %d ends with %u contributions, not the %u it should have", block,
                             got.count, want.count);
            if (c->shape.coll == COLL_ALLREDUCE && first.count && got.tree != first.tree)
                return wrong(c, rank, "block %d is summed in another order than on rank 0", block);
            first = got;
        }
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t check_heard(struct checker *c)
{
    for (int rank = 0; rank < c->shape.nranks; rank++)
        for (int other = 0; other < c->shape.nranks; other++)
            if (!(c->heard[(size_t)rank * c->words + (size_t)other / 64] >> (other % 64) & 1))
                return wrong(c, rank, "leaves the barrier before rank %d has come", other);
    return TUTTI_SUCCESS;
}

static void fill_inputs(struct checker *c)
{
    for (int rank = 0; rank < c->shape.nranks; rank++) {
        struct symbol_memory *memory = &c->memory[rank];
        bool single = memory->size[BUFFER_IN] == 1 && c->nblocks > 1;
        for (int block = 0; block < memory->size[BUFFER_IN]; block++)
            *cells_at(c, rank, BUFFER_IN, block) = symbol_leaf(rank, single ? rank : block);
        if (c->words)
            c->heard[(size_t)rank * c->words + (size_t)rank / 64] |= 1ull << (rank % 64);
    }
}

static bool place_cells(struct checker *c, bool in_place)
{
    size_t total = 0, most = 1;
    for (int rank = 0; rank < c->shape.nranks; rank++) {
        int scratch = schedule_scratch(c->algorithm, &c->shape, rank);
        symbol_layout(&c->memory[rank], &c->shape, rank, c->nblocks, scratch, in_place);
        total += (size_t)c->memory[rank].total;
        if ((size_t)c->memory[rank].total > most)
            most = (size_t)c->memory[rank].total;
    }
    c->cells = calloc(total + 1, sizeof *c->cells);
    c->marks = calloc(most, sizeof *c->marks);
    total = 0;
    for (int rank = 0; rank < c->shape.nranks && c->cells; rank++) {
        c->memory[rank].cells = c->cells + total;
        total += (size_t)c->memory[rank].total;
    }
    return c->cells && c->marks;
}

static bool checker_allocate(struct checker *c, bool in_place)
{
    size_t n = (size_t)c->shape.nranks, all = n * (size_t)c->bound;
    c->memory = calloc(n, sizeof *c->memory);
    c->counts = calloc(n, sizeof *c->counts);
    c->actions = calloc(all + 1, sizeof *c->actions);
    c->again = calloc((size_t)c->bound + 1, sizeof *c->again);
    c->sends = calloc(all + 1, sizeof *c->sends);
    c->receives = calloc(all + 1, sizeof *c->receives);
    c->words = c->shape.coll == COLL_BARRIER ? (n + 63) / 64 : 0;
    c->heard = calloc(n * c->words + 1, sizeof *c->heard);
    c->heard_before = calloc(n * c->words + 1, sizeof *c->heard_before);
    return c->memory && c->counts && c->actions && c->again && c->sends && c->receives && c->heard && c->heard_before &&
           place_cells(c, in_place);
}

static void checker_release(struct checker *c)
{
    void *all[] = {c->memory, c->counts, c->actions, c->again,   c->sends,       c->receives,
                   c->heard,  c->cells,  c->marks,   c->payload, c->heard_before};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static tutti_result_t checker_run(struct checker *c)
{
    tutti_result_t result = TUTTI_SUCCESS;
    int rounds = c->algorithm->rounds(&c->shape);
    fill_inputs(c);
    for (c->round = 0; c->round < rounds && !result; c->round++)
        result = run_round(c);
    if (!result)
        result = c->shape.coll == COLL_BARRIER ? check_heard(c) : check_results(c);
    return result;
}

tutti_result_t schedule_check(const struct algorithm *algorithm, struct shape shape, bool in_place, char *why,
                              size_t size)
{
    struct checker c = {.algorithm = algorithm, .shape = shape, .why = why, .why_size = size};
    if (!schedule_fits(algorithm, &shape) || (in_place && !schedule_in_place_defined(shape.coll))) {
        snprintf(why, size, "%s %s does not take %d ranks, root %d%s", schedule_coll_name(shape.coll), algorithm->name,
                 shape.nranks, shape.root, in_place ? ", in place" : "");
        return error_note(TUTTI_INVALID_ARGUMENT, "%s", why);
    }
    c.nblocks = algorithm->blocks(&shape);
    c.bound = algorithm->actions(&shape);
    tutti_result_t result = checker_allocate(&c, in_place)
                                ? checker_run(&c)
                                : error_set(TUTTI_SYSTEM_ERROR, "checking a schedule: out of memory");
    checker_release(&c);
    return result;
}
