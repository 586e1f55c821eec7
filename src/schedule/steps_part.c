/* SPDX-License-Identifier: Apache-2.0 */
/* Islands, columns and rails. */
#include "schedule/steps_part.h"

int steps_begin(const struct steps_seat *seat, int island)
{
    return seat->hosts ? seat->hosts->first[island] : island * seat->shape->nranks;
}

int steps_size(const struct steps_seat *seat, int island)
{
    return steps_begin(seat, island + 1) - steps_begin(seat, island);
}

int steps_rank_at(const struct steps_seat *seat, int position)
{
    return seat->hosts ? seat->shape->levels->order[position] : position;
}

int steps_first_of(const struct steps_seat *seat, int size, int column)
{
    return (int)((int64_t)column * size / seat->rails);
}

int steps_column_of(const struct steps_seat *seat, int size, int index)
{
    return (int)((((int64_t)index + 1) * seat->rails - 1) / size);
}

int steps_widest(const struct steps_seat *seat)
{
    return (seat->most + seat->rails - 1) / seat->rails;
}

struct steps_seat steps_seat(const struct shape *shape, int rank)
{
    struct steps_seat seat = {.shape = shape,
                              .rank = rank,
                              .islands = 1,
                              .rails = shape->nranks,
                              .most = shape->nranks,
                              .index = rank,
                              .size = shape->nranks};
    if (shape->levels) {
        seat.hosts = levels_hosts(shape->levels);
        seat.islands = seat.hosts->groups;
        seat.rails = seat.hosts->least;
        seat.most = seat.hosts->most;
        seat.island = seat.hosts->group[rank];
        seat.index = shape->levels->position[rank] - seat.hosts->first[seat.island];
        seat.size = steps_size(&seat, seat.island);
    }
    seat.alike = seat.rails == seat.most;
    seat.column = steps_column_of(&seat, seat.size, seat.index);
    seat.first = steps_first_of(&seat, seat.size, seat.column);
    seat.width = steps_first_of(&seat, seat.size, seat.column + 1) - seat.first;
    return seat;
}

int steps_ranks_before(const struct steps_seat *seat, int island)
{
    int count = seat->alike ? island : 0;
    for (int i = 0; i < island && !seat->alike; i++) {
        int size = steps_size(seat, i);
        count += steps_first_of(seat, size, seat->column + 1) - steps_first_of(seat, size, seat->column);
    }
    return count;
}

bool steps_group_of(const struct steps_seat *seat, const struct step *step, struct steps_group *out)
{
    int root = seat->hosts ? seat->hosts->group[seat->shape->root] : 0;
    *out = (struct steps_group){.size = seat->size, .me = seat->index};
    switch (step->part) {
    case STEPS_ISLAND:
        if ((step->how & STEPS_ROOT) && seat->island != root)
            return false;
        out->root = step->how & STEPS_ROOT ? steps_seat(seat->shape, seat->shape->root).index : 0;
        return true;
    case STEPS_COLUMN:
        *out = (struct steps_group){.size = seat->width, .me = seat->index - seat->first};
        return true;
    default:
        *out = (struct steps_group){.size = seat->islands, .me = seat->island, .root = root};
        return seat->index == seat->first;
    }
}

int steps_member(const struct steps_seat *seat, enum steps_part part, int index)
{
    int position = steps_begin(seat, seat->island) + index;
    if (part == STEPS_COLUMN)
        position += seat->first;
    if (part == STEPS_RAIL)
        position = steps_begin(seat, index) + steps_first_of(seat, steps_size(seat, index), seat->column);
    return steps_rank_at(seat, position);
}

static void enter_island(const struct steps_seat *seat, struct steps_set *set)
{
    int size = steps_size(seat, set->island), begin = steps_begin(seat, set->island);
    set->at = begin + steps_first_of(seat, size, set->column);
    set->end = begin + steps_first_of(seat, size, set->column + 1);
}

struct steps_set steps_set_of_islands(const struct steps_seat *seat, int island, int last, int column)
{
    struct steps_set set = {.island = island, .last = last, .column = column};
    enter_island(seat, &set);
    return set;
}

struct steps_set steps_set_of_one(int position)
{
    return (struct steps_set){.at = position, .end = position + 1};
}

/* Past the present position. False: it was the last. */
static bool step_on(const struct steps_seat *seat, struct steps_set *set)
{
    set->target++;
    if (++set->at < set->end)
        return true;
    if (set->island + 1 >= set->last) {
        set->island = set->last;
        return false;
    }
    set->island++;
    enter_island(seat, set);
    return true;
}

static bool next_sources(const struct steps_seat *seat, struct steps_set *set, struct steps_run *out)
{
    int from = set->source;
    out->source = from - set->from;
    out->number = steps_rank_at(seat, from);
    while (++set->source < set->to && steps_rank_at(seat, set->source) == out->number + set->source - from)
        continue;
    out->nblocks = set->source - from;
    if (set->source == set->to) {
        set->source = set->from;
        step_on(seat, set);
    }
    return true;
}

bool steps_next(const struct steps_seat *seat, struct steps_set *set, struct steps_run *out)
{
    if (set->at >= set->end)
        return false;
    out->target = set->target;
    if (set->to)
        return next_sources(seat, set, out);
    *out = (struct steps_run){.number = steps_rank_at(seat, set->at), .nblocks = 1, .target = set->target};
    while (step_on(seat, set) && seat->shape->coll != COLL_ALLTOALL &&
           steps_rank_at(seat, set->at) == out->number + out->nblocks)
        out->nblocks++;
    return true;
}
