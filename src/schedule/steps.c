/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From steps to rounds. A step's own algorithm says what the members of its part do, with blocks of their own. A block
 * of a part stands for runs of the collective's blocks. Each action of the step becomes one for each of these runs;
 * none, if the block stands for nothing.
 */
#include "schedule/steps.h"
#include "schedule/steps_part.h"

#include <limits.h>

struct expansion {
    const struct steps_row *steps;
    const struct step *step;
    const struct shape *shape;
    struct steps_seat seat;
    struct steps_group group;
    int pieces;      /* blocks of a column, of a collective that cuts its vector */
    int turn;        /* of TURNS: how many islands back */
    int own_scratch; /* where the SCRATCH of the step's algorithm begins, and the room of each of its blocks */
    int room;
    bool cuts, spread; /* spread: blocks are of pairs of ranks */
};

static enum coll step_coll(const struct step *step)
{
    return (enum coll)__builtin_ctz(step->by->colls);
}

static struct shape step_shape(const struct step *step, int size, int root)
{
    return (struct shape){
        .coll = step_coll(step), .nranks = size, .root = schedule_has_root(step_coll(step)) ? root : 0};
}

static const struct step *rail_step(const struct steps_row *steps)
{
    int i = 0;
    while (steps->step[i].part != STEPS_RAIL)
        i++;
    return &steps->step[i];
}

static int pieces_of(const struct steps_row *steps, const struct steps_seat *seat)
{
    struct shape rail = step_shape(rail_step(steps), seat->islands, 0);
    return rail_step(steps)->by->blocks(&rail);
}

int steps_blocks(const struct steps_row *steps, const struct shape *shape)
{
    struct steps_seat seat = steps_seat(shape, 0);
    return schedule_cuts_vector(shape->coll) ? seat.rails * pieces_of(steps, &seat) : shape->nranks;
}

/* ---- Time ---- */

/* Members of the largest group. */
static int widest_group(const struct steps_seat *seat, enum steps_part part)
{
    return part == STEPS_RAIL ? seat->islands : part == STEPS_ISLAND ? seat->most : steps_widest(seat);
}

static int rounds_of(const struct steps_seat *seat, const struct step *step)
{
    if (step->part == STEPS_COLUMN && seat->alike)
        return 0;
    struct shape shape = step_shape(step, widest_group(seat, step->part), 0);
    return step->how & STEPS_TURNS ? seat->islands - 1 : step->by->rounds(&shape);
}

/* `before`: of the step before, which has no rounds if it is left out. */
static struct steps_span span_after(const struct steps_seat *seat, const struct step *step, struct steps_span before)
{
    bool beside = (step->how & STEPS_BESIDE) && seat->alike, folds = step->how & STEPS_TURNS;
    int begin = folds ? before.begin + 1 : beside ? before.begin : before.end;
    return (struct steps_span){begin, begin + rounds_of(seat, step)};
}

static struct steps_span steps_when_at(const struct steps_row *steps, const struct steps_seat *seat, int index)
{
    struct steps_span span = {0, 0};
    for (int i = 0; i <= index; i++) {
        if (i && (steps->step[i - 1].how & STEPS_FOLDS))
            span.end--;
        span = span_after(seat, &steps->step[i], span);
    }
    return span;
}

struct steps_span steps_when(const struct steps_row *steps, const struct shape *shape, int index)
{
    struct steps_seat seat = steps_seat(shape, 0);
    return steps_when_at(steps, &seat, index);
}

int steps_rounds(const struct steps_row *steps, const struct shape *shape)
{
    struct steps_seat seat = steps_seat(shape, 0);
    int rounds = 0;
    for (int i = 0; i < steps->count; i++) {
        struct steps_span span = steps_when_at(steps, &seat, i);
        rounds = span.end > rounds ? span.end : rounds;
    }
    return rounds;
}

/* ---- Places ---- */

/* The user's buffer has only this rank's block. */
static bool is_single(enum coll coll, uint8_t buffer)
{
    return buffer == BUFFER_IN ? coll == COLL_ALLGATHER || coll == COLL_GATHER
                               : coll == COLL_SCATTER || coll == COLL_REDUCE_SCATTER;
}

/* Where blocks of a place are: one of the user's buffers, if it can hold them. */
static uint8_t buffer_of(const struct steps_seat *seat, enum steps_place place)
{
    enum coll coll = seat->shape->coll;
    bool root = schedule_has_root(coll) && seat->rank == seat->shape->root, gathers = coll == COLL_GATHER;
    if (place == STEPS_IN || place == STEPS_OUT)
        return place == STEPS_IN ? BUFFER_IN : BUFFER_OUT;
    if (place == STEPS_HELD)
        return !root ? BUFFER_SCRATCH : coll == COLL_SCATTER ? BUFFER_IN : BUFFER_OUT;
    if (seat->width == 1)
        return gathers || coll == COLL_ALLGATHER ? BUFFER_IN : BUFFER_OUT;
    return coll == COLL_ALLGATHER || (gathers && root) ? BUFFER_OUT : BUFFER_SCRATCH;
}

static bool uses(const struct steps_row *steps, enum steps_place place)
{
    for (int i = 0; i < steps->count; i++)
        if (steps->step[i].from == place || steps->step[i].to == place)
            return true;
    return false;
}

/* Blocks of SCRATCH that a place takes, at a rank on a rail. */
static int place_room(const struct steps_row *steps, const struct steps_seat *seat, enum steps_place place)
{
    bool spread = seat->shape->coll == COLL_ALLTOALL;
    if (!uses(steps, place) || seat->index != seat->first || buffer_of(seat, place) != BUFFER_SCRATCH)
        return 0;
    if (schedule_cuts_vector(seat->shape->coll))
        return pieces_of(steps, seat);
    if (place == STEPS_SHARE)
        return seat->width * (spread ? seat->shape->nranks : 1);
    return steps_ranks_before(seat, seat->islands) * (spread ? seat->size : 1);
}

static int own_room(const struct steps_row *steps, const struct steps_seat *seat, const struct step *step)
{
    if (schedule_cuts_vector(seat->shape->coll))
        return step->part == STEPS_RAIL ? 1 : pieces_of(steps, seat);
    return step->part == STEPS_RAIL     ? steps_widest(seat)
           : seat->index == seat->first ? steps_ranks_before(seat, seat->islands)
                                        : 0;
}

int steps_scratch(const struct steps_row *steps, const struct shape *shape, int rank)
{
    struct steps_seat seat = steps_seat(shape, rank);
    int most = 0;
    for (int i = 0; i < steps->count; i++) {
        const struct step *step = &steps->step[i];
        struct steps_group group;
        if (!steps_group_of(&seat, step, &group))
            continue;
        struct shape own = step_shape(step, group.size, group.root);
        int room = step->by->scratch(&own, group.me) * own_room(steps, &seat, step);
        most = room > most ? room : most;
    }
    return place_room(steps, &seat, STEPS_HELD) + place_room(steps, &seat, STEPS_SHARE) + most;
}

/* ---- Blocks ---- */

/* What block `block` of the step stands for; false: nothing. */
static bool set_of(const struct expansion *e, int block, bool arrives, struct steps_set *out)
{
    const struct steps_seat *seat = &e->seat;
    enum steps_part part = e->step->part;
    int position = steps_begin(seat, seat->island) + block + (part == STEPS_COLUMN ? seat->first : 0);
    if (part == STEPS_RAIL) {
        int island = e->spread && arrives ? seat->island : block;
        *out = steps_set_of_islands(seat, island, island + 1, seat->column);
    } else if (part == STEPS_COLUMN || (e->step->how & STEPS_OWN)) {
        *out = steps_set_of_one(position);
    } else {
        int index = e->spread && arrives ? seat->index : block, column = steps_column_of(seat, seat->size, index);
        int last = seat->islands, from = 0;
        if (index != steps_first_of(seat, seat->size, column))
            return false;
        if (e->turn)
            from = (seat->island - e->turn + last) % last, last = from + 1;
        *out = steps_set_of_islands(seat, from, last, column);
    }
    if (e->spread && part != STEPS_ISLAND) {
        int island = part == STEPS_RAIL ? (arrives ? block : seat->island) : 0;
        out->from = out->source = steps_begin(seat, island);
        out->to = part == STEPS_RAIL ? steps_begin(seat, island + 1) : e->shape->nranks;
    }
    return true;
}

/* In SCRATCH, from where the place begins. */
static int offset_in(const struct expansion *e, enum steps_place place, int block, const struct steps_run *run)
{
    enum steps_part part = e->step->part;
    if (e->cuts)
        return run->number - e->seat.column * e->pieces;
    int target = run->target, source = run->source, n = e->shape->nranks;
    if (place == STEPS_SHARE) {
        target += part == STEPS_COLUMN ? block : 0;
        source += part == STEPS_RAIL && e->spread ? steps_begin(&e->seat, block) : 0;
        return e->spread ? target * n + source : target;
    }
    if (part == STEPS_RAIL)
        target += steps_ranks_before(&e->seat, block);
    if (part == STEPS_ISLAND)
        source = block;
    return e->spread ? target * e->seat.size + source : target;
}

/* Of a step's buffer and block: where its blocks are. */
static void place_at(const struct expansion *e, uint8_t own_buffer, int own_block, int block,
                     const struct steps_run *run, uint8_t *buffer, int32_t *at)
{
    if (own_buffer == BUFFER_SCRATCH) {
        *buffer = BUFFER_SCRATCH;
        *at = e->own_scratch + own_block * e->room + (e->cuts ? 0 : run->target);
        return;
    }
    enum steps_place place = own_buffer == BUFFER_IN ? e->step->from : e->step->to;
    *buffer = buffer_of(&e->seat, place);
    if (*buffer != BUFFER_SCRATCH)
        *at = is_single(e->shape->coll, *buffer) ? 0 : run->number;
    else
        *at = (place == STEPS_SHARE ? place_room(e->steps, &e->seat, STEPS_HELD) : 0) + offset_in(e, place, block, run);
}

static bool ends_nowhere(const struct expansion *e, const struct action *a)
{
    bool same = a->src_buffer == a->dst_buffer && a->src_block == a->dst_block;
    return a->kind == ACTION_COPY && (same || (e->step->how & STEPS_BESIDE));
}

/* One action for blocks that lie together. */
static int put(const struct expansion *e, const struct action *own, int ahead, const struct steps_run *run,
               struct action *out)
{
    struct action a = {.kind = own->kind, .block = run->number, .nblocks = run->nblocks, .nsrc = own->nsrc};
    bool whole = e->step->part == STEPS_RAIL || e->seat.islands == 1;
    int block = own->block + ahead;
    a.final = own->final && whole;
    if (own->kind == ACTION_SEND || own->kind == ACTION_RECV || own->kind == ACTION_RECV_REDUCE)
        a.peer = steps_member(&e->seat, e->step->part, own->peer);
    if (own->kind != ACTION_RECV)
        place_at(e, own->src_buffer, own->src_block + ahead, block, run, &a.src_buffer, &a.src_block);
    if (own->kind != ACTION_SEND)
        place_at(e, own->dst_buffer, own->dst_block + ahead, block, run, &a.dst_buffer, &a.dst_block);
    if (ends_nowhere(e, &a))
        return 0;
    *out = a;
    return 1;
}

/* Parts of a vector are neighbours as blocks of the step are: one action remains one. */
static int expand_cut(const struct expansion *e, const struct action *own, struct action *out)
{
    int column = e->seat.column, unit = 1, first = own->block;
    if (e->step->part == STEPS_ISLAND) {
        column = steps_column_of(&e->seat, e->seat.size, own->block);
        if (own->block != steps_first_of(&e->seat, e->seat.size, column))
            return 0;
        unit = e->pieces;
        first = 0;
    }
    struct steps_run run = {.number = column * e->pieces + first, .nblocks = own->nblocks * unit};
    return put(e, own, 0, &run, out);
}

/* Operands lie one behind the other, all blocks of each. */
static int reduce_at_once(const struct expansion *e, const struct action *own, struct action *out)
{
    struct steps_run run = {.nblocks = steps_ranks_before(&e->seat, e->seat.islands)};
    return run.nblocks ? put(e, own, 0, &run, out) : 0;
}

static int expand_action(const struct expansion *e, const struct action *own, struct action *out)
{
    int count = 0;
    bool arrives = own->kind == ACTION_RECV;
    if (e->cuts)
        return expand_cut(e, own, out);
    if (own->kind == ACTION_REDUCE)
        return e->seat.index == e->seat.first ? reduce_at_once(e, own, out) : 0;
    for (int ahead = 0; ahead < own->nblocks; ahead++) {
        struct steps_set set;
        struct steps_run run;
        bool any = set_of(e, own->block + ahead, arrives, &set);
        while (any && steps_next(&e->seat, &set, &run))
            count += put(e, own, ahead, &run, out + count);
    }
    return count;
}

/* ---- Rounds ---- */

/* The most runs that a block of the step stands for. Of ranks in order, those of an island follow one another. */
static int64_t most_runs(const struct steps_seat *seat, const struct step *step)
{
    bool spread = seat->shape->coll == COLL_ALLTOALL, ordered = !seat->hosts || seat->shape->levels->in_order;
    if (schedule_cuts_vector(seat->shape->coll) || (step->how & STEPS_OWN))
        return 1;
    if (step->part == STEPS_COLUMN)
        return spread && !ordered ? seat->shape->nranks : 1;
    if (step->part == STEPS_RAIL)
        return (int64_t)steps_widest(seat) * (spread && !ordered ? seat->most : 1);
    return (int64_t)steps_widest(seat) * (step->how & STEPS_TURNS ? 1 : seat->islands);
}

static int own_actions(const struct steps_seat *seat, const struct step *step)
{
    struct shape shape = step_shape(step, widest_group(seat, step->part), 0);
    return step->by->actions(&shape);
}

int steps_actions(const struct steps_row *steps, const struct shape *shape)
{
    struct steps_seat seat = steps_seat(shape, 0);
    int64_t count = 0;
    for (int i = 0; i < steps->count; i++)
        if (steps->step[i].part != STEPS_COLUMN || !seat.alike)
            count += own_actions(&seat, &steps->step[i]) * most_runs(&seat, &steps->step[i]);
    return count < INT_MAX / 2 ? (int)count : INT_MAX / 2; /* more than there is memory for */
}

/* The step's own actions are put at the end of its room, and make way for what they become. */
static int expand_round(struct expansion *e, int round, struct action *out)
{
    const struct step *step = e->step;
    if (!steps_group_of(&e->seat, step, &e->group))
        return 0;
    int most = own_actions(&e->seat, step), count = 0;
    struct action *own = out + most * (most_runs(&e->seat, step) - 1);
    struct shape shape = step_shape(step, e->group.size, e->group.root);
    e->turn = step->how & STEPS_TURNS ? round + 1 : 0;
    e->room = own_room(e->steps, &e->seat, step);
    int n = step->by->round(&shape, e->group.me, e->turn ? 0 : round, own);
    for (int i = 0; i < n; i++) {
        struct action action = own[i];
        count += expand_action(e, &action, out + count);
    }
    return count;
}

static struct expansion expansion_of(const struct steps_row *steps, const struct shape *shape, int rank)
{
    struct expansion e = {.steps = steps,
                          .shape = shape,
                          .seat = steps_seat(shape, rank),
                          .cuts = schedule_cuts_vector(shape->coll),
                          .spread = shape->coll == COLL_ALLTOALL};
    e.pieces = e.cuts ? pieces_of(steps, &e.seat) : 0;
    e.own_scratch = place_room(steps, &e.seat, STEPS_HELD) + place_room(steps, &e.seat, STEPS_SHARE);
    return e;
}

static int expand_if_due(struct expansion *e, int index, int round, struct action *out)
{
    struct steps_span span = steps_when_at(e->steps, &e->seat, index);
    e->step = &e->steps->step[index];
    return round >= span.begin && round < span.end ? expand_round(e, round - span.begin, out) : 0;
}

int steps_round_of(const struct steps_row *steps, const struct shape *shape, int index, int rank, int round,
                   struct action *out)
{
    struct expansion e = expansion_of(steps, shape, rank);
    return expand_if_due(&e, index, round, out);
}

int steps_round(const struct steps_row *steps, const struct shape *shape, int rank, int round, struct action *out)
{
    struct expansion e = expansion_of(steps, shape, rank);
    int count = 0;
    for (int i = 0; i < steps->count; i++)
        count += expand_if_due(&e, i, round, out + count);
    return count;
}

/* ---- What rails carry ---- */

double steps_rail_vectors(const struct shape *shape)
{
    struct steps_seat seat = steps_seat(shape, shape->root);
    double n = shape->nranks, squares = 0;
    for (int i = 0; i < seat.islands; i++)
        squares += (double)steps_size(&seat, i) * steps_size(&seat, i);
    switch (shape->coll) {
    case COLL_ALLREDUCE:
        return 2.0 * (seat.islands - 1);
    case COLL_ALLTOALL:
        return (n * n - squares) / n;
    case COLL_GATHER:
    case COLL_SCATTER:
        return (n - seat.size) / n;
    default:
        return seat.islands - 1;
    }
}

const char *steps_rail_formula(enum coll coll)
{
    switch (coll) {
    case COLL_ALLREDUCE:
        return "2 (islands - 1)";
    case COLL_ALLTOALL:
        return "(n^2 - sum of the squares of island sizes) / n";
    case COLL_GATHER:
    case COLL_SCATTER:
        return "(n - ranks of the root's island) / n";
    default:
        return "islands - 1";
    }
}
