/* SPDX-License-Identifier: Apache-2.0 */
/* A step, as both executors take it. */
#include "executor/islands/walk.h"

int islands_head(const struct islands *islands, int island, int rail)
{
    const struct level *hosts = levels_hosts(islands->team->levels);
    int size = hosts->first[island + 1] - hosts->first[island];
    return (int)((int64_t)rail * size / islands->size);
}

static uint8_t at_most_255(int number)
{
    return (uint8_t)(number < UINT8_MAX ? number : UINT8_MAX);
}

/* Steps are counted alike on all ranks. */
static tutti_result_t next_step(const struct walk *walk, enum islands_part part, struct call *call, size_t longest)
{
    if (part != ISLANDS_COPY) {
        int at = part == ISLANDS_ISLAND ? walk->islands->here : walk->islands->rail;
        call->step = at_most_255(++*walk->number);
        call->steps = at_most_255(walk->steps);
        call->step_of = (uint8_t)walk->call->coll;
        call->step_at = at_most_255(at < 0 ? UINT8_MAX : at);
    }
    return walk->each(walk->context, part, call, longest);
}

tutti_result_t walk_skip(const struct walk *walk, int steps, size_t count)
{
    *walk->number += count ? steps : 0;
    return TUTTI_SUCCESS;
}

/* What the call reduces, as a step of rails, or of an island: there it is not multiplied again, or not divided. */
static void take_operator(const struct walk *walk, enum islands_part part, struct call *call)
{
    if (part == ISLANDS_RAIL) {
        call->premul = false;
        call->scalar_at = NULL;
        call->divisor = call->op == TUTTI_AVG ? walk->islands->team->nranks : 0;
    } else if (call->op == TUTTI_AVG) {
        call->op = TUTTI_SUM;
    }
}

struct buffers {
    const void *in;
    void *out;
};

static tutti_result_t step(const struct walk *walk, enum islands_part part, enum coll coll, size_t count,
                           size_t longest, struct buffers of, int root)
{
    struct call call = *walk->call;
    if (!longest)
        return TUTTI_SUCCESS;
    call.coll = coll;
    call.count = count;
    call.in = of.in;
    call.out = of.out;
    call.root = root;
    call.op = schedule_reduces(coll) ? call.op : -1;
    take_operator(walk, part, &call);
    call_fill(&call);
    return next_step(walk, part, &call, longest);
}

tutti_result_t walk_island(const struct walk *walk, enum coll coll, size_t count, const void *in, void *out, int root)
{
    return step(walk, ISLANDS_ISLAND, coll, count, count, (struct buffers){in, out}, root);
}

tutti_result_t walk_rail(const struct walk *walk, enum coll coll, size_t count, size_t longest, const void *in,
                         void *out, int root)
{
    return step(walk, ISLANDS_RAIL, coll, count, longest, (struct buffers){in, out}, root);
}

tutti_result_t walk_copy(const struct walk *walk, size_t count, const void *in, void *out)
{
    return step(walk, ISLANDS_COPY, walk->call->coll, count, count, (struct buffers){in, out}, 0);
}

tutti_result_t walk_lengths(const struct walk *walk, enum islands_part part, struct call *call, size_t longest)
{
    call->op = schedule_reduces(call->coll) ? call->op : -1;
    take_operator(walk, part, call);
    call_fill(call);
    return next_step(walk, part, call, longest);
}

int walk_root_island(const struct walk *walk)
{
    return walk_hosts(walk)->group[walk->call->root];
}

int walk_root_index(const struct walk *walk)
{
    int position = walk->islands->team->levels->position[walk->call->root];
    return position - walk_hosts(walk)->first[walk_root_island(walk)];
}

bool walk_roots_own(const struct walk *walk)
{
    return walk->islands->here == walk_root_island(walk);
}
