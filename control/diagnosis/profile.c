/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/profile.h"

#include "diagnosis/steps.h"

#include <stdlib.h>
#include <string.h>

double profile_rate(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes * 1e9 / (double)ns : 0;
}

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* ---- Lanes ---- */

static bool add_lane(size_t process, const struct blackbox_lane *lane, uint64_t since, struct profile *profile)
{
    struct profile_lane *out = &profile->lanes[profile->lane_count];
    uint64_t *gaps = calloc(lane->segment_count + 1, sizeof *gaps), first = 0, over = 0, last = 0;
    *out = (struct profile_lane){.process = process, .lane = lane};
    for (size_t i = 0; gaps && i < lane->segment_count; i++) {
        const struct blackbox_segment *segment = &lane->segments[i];
        if (!blackbox_landed(segment) || segment->completed < since)
            continue;
        first = out->segments ? first : segment->posted;
        if (out->segments)
            gaps[out->segments - 1] = segment->posted > last ? segment->posted - last : 0;
        last = segment->posted;
        uint64_t from = segment->posted > over ? segment->posted : over;
        out->busy += segment->completed > from ? segment->completed - from : 0;
        over = segment->completed > over ? segment->completed : over;
        out->bytes += segment->length;
        out->segments++;
    }
    if (out->segments > 1) {
        qsort(gaps, out->segments - 1, sizeof *gaps, by_number);
        out->gap = gaps[(out->segments - 1) / 2];
    }
    out->span = over > first ? over - first : 0;
    profile->lane_count += out->segments > 0;
    free(gaps);
    return gaps != NULL;
}

/* ---- Ranks ---- */

static int by_rate(const void *left, const void *right)
{
    const struct profile_rank *a = left, *b = right;
    double x = profile_rate(a->bytes, a->busy), y = profile_rate(b->bytes, b->busy);
    return x < y ? -1 : x > y;
}

static int by_process(const void *left, const void *right)
{
    const struct profile_rank *a = left, *b = right;
    return a->process < b->process ? -1 : a->process > b->process;
}

static void sum_ranks(struct profile *profile)
{
    for (size_t i = 0; i < profile->lane_count; i++) {
        const struct profile_lane *lane = &profile->lanes[i];
        if (!profile->rank_count || profile->ranks[profile->rank_count - 1].process != lane->process)
            profile->ranks[profile->rank_count++] = (struct profile_rank){.process = lane->process};
        profile->ranks[profile->rank_count - 1].bytes += lane->bytes;
        profile->ranks[profile->rank_count - 1].busy += lane->busy;
    }
    qsort(profile->ranks, profile->rank_count, sizeof *profile->ranks, by_rate);
    const struct profile_rank *middle = &profile->ranks[profile->rank_count / 2];
    double usual = profile_rate(middle->bytes, middle->busy);
    for (size_t i = 0; i < profile->rank_count; i++)
        profile->ranks[i].slow = 2 * profile_rate(profile->ranks[i].bytes, profile->ranks[i].busy) < usual;
    qsort(profile->ranks, profile->rank_count, sizeof *profile->ranks, by_process);
}

/* ---- Calls ---- */

/* A time of one call, over all lanes, in which the rank wanted something of its peer or had data under way. */
struct profile_span {
    uint64_t begin, end;
};

struct spans {
    struct profile_span *items;
    size_t count;
};

static int by_begin(const void *left, const void *right)
{
    const struct profile_span *a = left, *b = right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static void add_span(struct spans *spans, const struct blackbox_op *op, uint64_t begin, uint64_t end)
{
    begin = begin < op->begin ? op->begin : begin;
    end = end > op->end ? op->end : end;
    if (begin < end)
        spans->items[spans->count++] = (struct profile_span){begin, end};
}

static uint64_t covered(struct spans *spans)
{
    uint64_t sum = 0, over = 0;
    if (spans->count)
        qsort(spans->items, spans->count, sizeof *spans->items, by_begin);
    for (size_t i = 0; i < spans->count; i++) {
        uint64_t from = spans->items[i].begin > over ? spans->items[i].begin : over;
        sum += spans->items[i].end > from ? spans->items[i].end - from : 0;
        over = spans->items[i].end > over ? spans->items[i].end : over;
    }
    return sum;
}

static bool is_of(const struct blackbox_segment *segment, const struct blackbox_comm *comm,
                  const struct blackbox_op *op)
{
    return segment->comm == comm->id && segment->seq == (uint32_t)op->seq && segment->slice != UINT16_MAX &&
           blackbox_landed(segment);
}

/* Has this box forgotten segments that may belong to this call? */
static bool forgets(const struct blackbox *box, const struct blackbox_op *op)
{
    for (size_t i = 0; i < box->lane_count; i++)
        if (box->lanes[i].segment_count && box->lanes[i].segments->position &&
            op->begin < box->lanes[i].segments->posted)
            return true;
    return false;
}

/* Times are of all lanes together: a moment in which one lane has data under way and another waits for a credit is
 * data. */
static void time_call(const struct blackbox *box, struct profile_call *call, struct spans *spans)
{
    uint64_t most = 0;
    spans->count = 0;
    for (size_t i = 0; i < box->lane_count; i++) {
        uint64_t bytes = 0;
        for (size_t j = 0; j < box->lanes[i].segment_count; j++) {
            const struct blackbox_segment *segment = &box->lanes[i].segments[j];
            if (!is_of(segment, call->comm, call->op))
                continue;
            bytes += segment->length;
            add_span(spans, call->op, segment->posted, segment->completed);
        }
        call->bytes += bytes;
        if (bytes > most) {
            most = bytes;
            call->interface = box->lanes[i].interface;
        }
    }
    call->data = covered(spans);
    for (size_t i = 0; i < box->lane_count; i++)
        for (size_t j = 0; j < box->lanes[i].segment_count; j++) {
            const struct blackbox_segment *segment = &box->lanes[i].segments[j];
            if (is_of(segment, call->comm, call->op) && segment->ready && segment->credit)
                add_span(spans, call->op, segment->ready, segment->credit);
        }
    call->control = covered(spans) - call->data;
}

static void add_calls(const struct member *member, struct steps steps, struct spans *spans, struct profile *profile)
{
    for (size_t i = 0; i < member->comm->op_count; i++) {
        const struct blackbox_op *op = &member->comm->ops[i];
        if (op->collective >= WIRE_SEND || op->state != WIRE_OP_DONE || op->end <= op->begin || op->seq < steps.base ||
            forgets(member->box, op))
            continue;
        struct profile_call *call = &profile->calls[profile->call_count++];
        *call = (struct profile_call){.process = member->process,
                                      .comm = member->comm,
                                      .op = op,
                                      .step = (op->seq - steps.base) / steps.period,
                                      .registering = op->registering};
        time_call(member->box, call, spans);
        uint64_t took = op->end - op->begin, told = call->registering + call->control + call->data;
        call->rest = took > told ? took - told : 0;
    }
}

/* ---- All of it ---- */

/* `steps`: one for each group. */
static bool look_at_process(const struct scene *scene, const struct steps *steps, size_t process, uint64_t window,
                            struct profile *profile)
{
    const struct blackbox *box = scene->snapshot->now.boxes[process];
    size_t segments = 0;
    bool fine = true;
    for (size_t i = 0; i < box->lane_count; i++)
        segments += box->lanes[i].segment_count;
    for (size_t i = 0; fine && i < box->lane_count; i++)
        fine = add_lane(process, &box->lanes[i], window && window < box->now ? box->now - window : 0, profile);
    struct spans spans = {calloc(2 * segments + 1, sizeof *spans.items), 0};
    for (const struct member *at = scene->of_process[process]; spans.items && at; at = at->sibling)
        add_calls(at, steps[at->group - scene->groups], &spans, profile);
    fine = fine && spans.items;
    free(spans.items);
    return fine;
}

bool profile_look(const struct snapshot *snapshot, uint64_t window, struct profile *profile)
{
    const struct look *look = &snapshot->now;
    struct scene scene;
    size_t calls = 0, lanes = 0;
    *profile = (struct profile){0};
    if (!scene_open(&scene, snapshot, snapshot->stuck, false))
        return false;
    for (size_t i = 0; i < scene.count; i++)
        calls += scene.members[i].comm->op_count;
    for (size_t i = 0; i < look->count; i++)
        lanes += look->boxes[i]->lane_count;
    profile->calls = calloc(calls + 1, sizeof *profile->calls);
    profile->lanes = calloc(lanes + 1, sizeof *profile->lanes);
    profile->ranks = calloc(look->count + 1, sizeof *profile->ranks);
    struct steps *steps = calloc(scene.group_count + 1, sizeof *steps);
    bool fine = profile->calls && profile->lanes && profile->ranks && steps;
    for (size_t i = 0; fine && i < scene.group_count; i++)
        steps[i] = steps_of(&scene.groups[i]);
    for (size_t i = 0; fine && i < look->count; i++)
        fine = look_at_process(&scene, steps, i, window, profile);
    if (fine)
        sum_ranks(profile);
    free(steps);
    scene_close(&scene);
    return fine;
}

void profile_free(struct profile *profile)
{
    free(profile->calls);
    free(profile->lanes);
    free(profile->ranks);
    *profile = (struct profile){0};
}
