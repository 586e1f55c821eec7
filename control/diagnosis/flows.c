/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the lanes between hosts carried, in collectives and messages alike. Black boxes hold when each segment was put
 * and when the peer had it. A segment behind others of its lane counts from the landing of the one before: its wait for
 * data, credit or its turn is not the network's. Only segments of one length, over one transport and distance, are
 * compared. The measure is the quickest quarter of the lanes, because one slow host of four touches half of them. Where
 * that quarter is slow, lanes between the same two interfaces still compare with each other: their paths differ.
 */
#include "diagnosis/flows.h"
#include "diagnosis/thresholds.h"
#include "wire/distance.h"

#include <stdlib.h>
#include <string.h>

#define LANE_LENGTHS 4 /* latest lengths of segments that are looked at for one lane */

/* ---- What lanes took ---- */

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static bool is_recent(const struct blackbox *box, const struct blackbox_segment *segment)
{
    return !box->alive || box->now < segment->completed + LANE_RECENT_NS;
}

/* Of the latest `window` segments of this length: the median, and in `best` what nearly all exceeded. 0: too few. */
static uint64_t typical(const struct blackbox *box, const struct blackbox_lane *lane, uint32_t length, size_t window,
                        uint64_t *best)
{
    uint64_t took[LANE_SEGMENTS] = {0}, over = 0;
    size_t count = 0;
    for (size_t i = 0; i < lane->segment_count; i++) {
        const struct blackbox_segment *segment = &lane->segments[i];
        if (!blackbox_landed(segment))
            continue;
        uint64_t from = segment->posted > over ? segment->posted : over;
        if (segment->length == length && is_recent(box, segment))
            took[count++ % window] = segment->completed > from ? segment->completed - from : 0;
        over = segment->completed > over ? segment->completed : over;
    }
    if (count < DELAY_MESSAGES)
        return 0;
    count = count < window ? count : window;
    qsort(took, count, sizeof *took, by_number);
    *best = took[count / LANE_SEGMENTS];
    return took[count / 2] ? took[count / 2] : 1;
}

/* ---- Lanes in order ---- */

const struct member *world_member(const struct scene *scene, size_t process)
{
    const struct member *world = scene->of_process[process];
    for (const struct member *at = world; at; at = at->sibling)
        if (at->comm->nranks > world->comm->nranks)
            world = at;
    return world;
}

/* The interface of the same lane at its other end. */
static const char *interface_there(const struct blackbox *there, const struct blackbox *here,
                                   const struct blackbox_lane *lane)
{
    for (size_t i = 0; i < there->lane_count; i++)
        if (there->lanes[i].peer_pid == here->header.pid && there->lanes[i].index == lane->index)
            return there->lanes[i].interface;
    return "";
}

static const struct member *receiver(const struct scene *scene, const struct blackbox_segment *segment)
{
    struct member_group *group = scene_group(scene, segment->comm);
    const struct member *peer = group ? scene_find(group, (int)segment->peer) : NULL;
    return peer ? world_member(scene, peer->process) : NULL;
}

bool same_host(const struct blackbox *a, const struct blackbox *b)
{
    return strcmp(a->header.host, b->header.host) == 0 &&
           memcmp(a->header.boot_id, b->header.boot_id, sizeof a->header.boot_id) == 0;
}

static bool add_flow(struct flows *flows, const struct lane_flow *flow)
{
    if (flows->count == flows->room) {
        size_t room = flows->room ? 2 * flows->room : 64;
        struct lane_flow *more = realloc(flows->all, room * sizeof *more);
        if (!more)
            return false;
        flows->all = more;
        flows->room = room;
    }
    flows->all[flows->count++] = *flow;
    return true;
}

/* Adds a flow for each of the latest lengths of segments on this lane. */
static bool gather_lane(struct scene *scene, struct flows *flows, size_t process, const struct blackbox_lane *lane)
{
    const struct blackbox *box = scene->snapshot->now.boxes[process];
    uint32_t seen[LANE_LENGTHS];
    size_t lengths = 0;
    for (size_t i = lane->segment_count; i-- > 0 && lengths < LANE_LENGTHS;) {
        const struct blackbox_segment *segment = &lane->segments[i];
        bool known = false;
        for (size_t j = 0; j < lengths && !known; j++)
            known = seen[j] == segment->length;
        if (known || !blackbox_landed(segment))
            continue;
        seen[lengths++] = segment->length;
        const struct member *from = world_member(scene, process), *to = receiver(scene, segment);
        uint64_t best = 0, last = 0;
        uint64_t ns = typical(box, lane, segment->length, LANE_SEGMENTS, &best);
        scene->steps += lane->segment_count;
        if (!ns || !from || !to || same_host(from->box, to->box))
            continue;
        struct lane_flow flow = {.at = {{from, lane->interface, 0}, {to, interface_there(to->box, box, lane), 0}},
                                 .lane = lane,
                                 .length = segment->length,
                                 .ns = ns,
                                 .best = best,
                                 .latest = typical(box, lane, segment->length, LANE_TURNS, &last)};
        flow.newest = box->now < segment->completed + LANE_FRESH_NS ? last : 0;
        if (!add_flow(flows, &flow))
            return false;
    }
    return true;
}

static int by_kind(const void *left, const void *right)
{
    const struct lane_flow *a = left, *b = right;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    if (a->lane->distance != b->lane->distance)
        return a->lane->distance < b->lane->distance ? -1 : 1;
    int names = strcmp(a->lane->transport, b->lane->transport);
    return names ? names : a->ns < b->ns ? -1 : a->ns > b->ns;
}

static bool same_kind(const struct lane_flow *a, const struct lane_flow *b)
{
    return a->length == b->length && a->lane->distance == b->lane->distance &&
           strcmp(a->lane->transport, b->lane->transport) == 0;
}

bool is_slow_beside(uint64_t ns, uint64_t base)
{
    return ns > base + DELAY_MORE_NS && (double)ns > LANE_TIMES * (double)base;
}

bool is_slow_path_beside(uint64_t ns, uint64_t base)
{
    return is_slow_beside(ns, base) && (double)ns > PATH_TIMES * (double)base;
}

/* The best time of the quickest quarter. */
static uint64_t ideal_of(const struct lane_flow *flows, size_t count)
{
    uint64_t *best = calloc(count, sizeof *best), ideal = 0;
    for (size_t i = 0; best && i < count; i++)
        best[i] = flows[i].best;
    if (best) {
        qsort(best, count, sizeof *best, by_number);
        ideal = best[count / 4];
    }
    free(best);
    return ideal;
}

static void mark_slow(struct flows *flows)
{
    for (size_t i = 0, end; i < flows->count; i = end) {
        for (end = i; end < flows->count && same_kind(&flows->all[i], &flows->all[end]);)
            end++;
        uint64_t base = end - i < DELAY_LINKS ? 0 : flows->all[i + (end - i) / 4].ns;
        uint64_t ideal = base ? ideal_of(&flows->all[i], end - i) : 0;
        for (size_t j = i; base && j < end; j++) {
            struct lane_flow *flow = &flows->all[j];
            flow->base = base;
            flow->ideal = ideal;
            flow->slow = is_slow_beside(flow->ns, base);
            flow->turns = flow->slow || is_slow_beside(flow->latest, base);
        }
    }
}

/* ---- Ends of lanes ---- */

struct flows_end {
    const char *host, *interface;
    const uint8_t *boot;
    size_t *number; /* where the number is wanted */
};

static int by_end(const void *left, const void *right)
{
    const struct flows_end *a = left, *b = right;
    int hosts = strcmp(a->host, b->host);
    int boots = hosts ? hosts : memcmp(a->boot, b->boot, sizeof((struct wire_box_header *)0)->boot_id);
    return boots ? boots : strcmp(a->interface, b->interface);
}

/* Numbers the interfaces of all hosts. */
static bool number_ends(struct flows *flows)
{
    struct flows_end *ends = calloc(WAYS * flows->count + 1, sizeof *ends);
    size_t count = 0;
    for (size_t i = 0; ends && i < flows->count; i++)
        for (int way = 0; way < WAYS; way++) {
            const struct wire_box_header *header = &flows->all[i].at[way].member->box->header;
            ends[count++] = (struct flows_end){header->host, flows->all[i].at[way].interface, header->boot_id,
                                               &flows->all[i].at[way].end};
        }
    if (count)
        qsort(ends, count, sizeof *ends, by_end);
    for (size_t i = 0; i < count; i++) {
        flows->ends += i == 0 || by_end(&ends[i - 1], &ends[i]) != 0;
        *ends[i].number = flows->ends - 1;
    }
    free(ends);
    return ends != NULL;
}

/* ---- Lanes between the same two interfaces ---- */

static size_t low_end(const struct lane_flow *flow)
{
    return flow->at[OUT].end < flow->at[IN].end ? flow->at[OUT].end : flow->at[IN].end;
}

static size_t high_end(const struct lane_flow *flow)
{
    return flow->at[OUT].end < flow->at[IN].end ? flow->at[IN].end : flow->at[OUT].end;
}

static int by_ends(const void *left, const void *right)
{
    const struct lane_flow *a = *(struct lane_flow *const *)left, *b = *(struct lane_flow *const *)right;
    if (low_end(a) != low_end(b))
        return low_end(a) < low_end(b) ? -1 : 1;
    if (high_end(a) != high_end(b))
        return high_end(a) < high_end(b) ? -1 : 1;
    return by_kind(a, b);
}

static bool same_ends(const struct lane_flow *a, const struct lane_flow *b)
{
    return low_end(a) == low_end(b) && high_end(a) == high_end(b) && same_kind(a, b);
}

/*
 * The usual uplink may be slow, if most flows have drawn it. Two quick lanes between the same two interfaces show that
 * it need not be. A way is slow altogether where no lane of it is quick: then an end of it is slow, and no path.
 */
static void mark_between(struct lane_flow **between, size_t count)
{
    uint64_t base = count < DELAY_LINKS ? 0 : between[1]->ns;
    bool quick[WAYS] = {false};
    if (!base || !is_slow_path_beside(between[0]->base, base))
        return;
    for (size_t i = 0; i < count; i++)
        if (!is_slow_path_beside(between[i]->ns, base))
            quick[between[i]->at[OUT].end == low_end(between[i])] = true;
    for (size_t i = 0; i < count; i++) {
        between[i]->base = base;
        between[i]->ideal = between[1]->best;
        between[i]->aside =
            is_slow_path_beside(between[i]->ns, base) && quick[between[i]->at[OUT].end == low_end(between[i])];
    }
}

bool flows_between(struct flows *flows, void (*look)(struct lane_flow **between, size_t count))
{
    struct lane_flow **sorted = calloc(flows->count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < flows->count; i++)
        sorted[i] = &flows->all[i];
    if (sorted)
        qsort(sorted, flows->count, sizeof *sorted, by_ends);
    for (size_t i = 0, end; sorted && i < flows->count; i = end) {
        for (end = i; end < flows->count && same_ends(sorted[i], sorted[end]);)
            end++;
        look(&sorted[i], end - i);
    }
    free(sorted);
    return sorted != NULL;
}

/* Counts the lanes of one kind, which stand together, at each interface: those that leave and those that come. */
static bool count_sharing(struct flows *flows)
{
    size_t *lanes[WAYS] = {calloc(flows->ends + 1, sizeof **lanes), calloc(flows->ends + 1, sizeof **lanes)};
    bool fine = lanes[OUT] && lanes[IN];
    for (size_t i = 0, end; fine && i < flows->count; i = end) {
        for (end = i; end < flows->count && same_kind(&flows->all[i], &flows->all[end]); end++)
            for (int way = 0; way < WAYS; way++)
                lanes[way][flows->all[end].at[way].end]++;
        for (size_t j = i; j < end; j++) {
            size_t out = lanes[OUT][flows->all[j].at[OUT].end], in = lanes[IN][flows->all[j].at[IN].end];
            flows->all[j].sharing = out > in ? out : in;
        }
        for (size_t j = i; j < end; j++)
            lanes[OUT][flows->all[j].at[OUT].end] = lanes[IN][flows->all[j].at[IN].end] = 0;
    }
    free(lanes[OUT]);
    free(lanes[IN]);
    return fine;
}

bool flows_gather(struct scene *scene, struct flows *flows)
{
    bool fine = true;
    for (size_t i = 0; fine && i < scene->snapshot->now.count; i++) {
        const struct blackbox *box = scene->snapshot->now.boxes[i];
        for (size_t j = 0; fine && j < box->lane_count; j++)
            if (box->lanes[j].distance != WIRE_DISTANCE_HOST && !box->lanes[j].borrowed) /* it has what is left */
                fine = gather_lane(scene, flows, i, &box->lanes[j]);
    }
    if (flows->count)
        qsort(flows->all, flows->count, sizeof *flows->all, by_kind);
    mark_slow(flows);
    return flows->count && number_ends(flows) && count_sharing(flows) && flows_between(flows, mark_between);
}
