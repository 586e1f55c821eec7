/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: slow interfaces and slow paths, by what the lanes between hosts carried inside collectives and messages alike
 * (C4 section 3.1, with lanes in place of workers). Black boxes hold when each segment was put and when the peer had
 * it. A segment behind others of its lane counts from when the one before had landed, so that neither its wait for
 * data or credit nor that for its turn is the network's. Only segments of one length, over one transport and distance,
 * are compared: with the quickest quarter of the lanes, as of four hosts one slow one touches half of them. Where that
 * quarter is slow, lanes between the same two interfaces still compare with each other: what differs is their path.
 *
 * Who is to blame: the interface of a host that most of its lanes, and the most lanes, have in common; what is left is
 * a path. One process whose lanes are slow beside quick ones of its host is no matter of the network.
 */
#include "diagnosis/scene.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/words.h"
#include "wire/distance.h"

#include <stdlib.h>
#include <string.h>

#define LANE_LENGTHS    4 /* of segments, of one lane, that are looked at: the latest */
#define PATHS_SHOWN     3
#define INTERFACES_MOST 8 /* when more are slow it is not they */

enum { OUT, IN, WAYS };

/* One lane, and its latest segments of one length. */
struct flow {
    struct {
        const struct member *member; /* in the largest communicator of its process */
        const char *interface;
        size_t end; /* number of this interface of this host */
    } at[WAYS];
    const struct blackbox_lane *lane;
    uint32_t length;
    uint64_t ns, base; /* the median; what the quickest quarter takes, 0: nothing to compare with */
    uint64_t latest;   /* the median of the last few */
    bool slow, told;   /* slow: beside those it is compared with; there is a finding of it, or none is wanted */
    bool turns;        /* slow, or becoming so */
    bool aside;        /* slow beside others between the same two interfaces, so neither of these is to blame */
};

struct flows {
    struct flow *all;
    size_t count, room, ends;
};

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

static bool has_landed(const struct blackbox_segment *segment)
{
    return segment->status == WIRE_SEGMENT_LANDED && segment->posted && segment->completed >= segment->posted;
}

/* The median of so many of the latest segments of this length; 0: too few. */
static uint64_t typical(const struct blackbox *box, const struct blackbox_lane *lane, uint32_t length, size_t window)
{
    uint64_t took[LANE_SEGMENTS] = {0}, over = 0;
    size_t count = 0;
    for (size_t i = 0; i < lane->segment_count; i++) {
        const struct blackbox_segment *segment = &lane->segments[i];
        if (!has_landed(segment))
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
    return took[count / 2] ? took[count / 2] : 1;
}

/* ---- Lanes in order ---- */

/* The largest communicator of this process tells its rank among all. */
static const struct member *world_member(const struct scene *scene, size_t process)
{
    const struct member *world = scene->of_process[process];
    for (const struct member *at = world; at; at = at->sibling)
        if (at->comm->nranks > world->comm->nranks)
            world = at;
    return world;
}

/* The same lane as its other end knows it. */
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
    struct group *group = scene_group(scene, segment->comm);
    const struct member *peer = group ? scene_find(group, (int)segment->peer) : NULL;
    return peer ? world_member(scene, peer->process) : NULL;
}

/* Also where a lane does not say how far it goes. */
static bool same_host(const struct blackbox *a, const struct blackbox *b)
{
    return strcmp(a->header.host, b->header.host) == 0 &&
           memcmp(a->header.boot_id, b->header.boot_id, sizeof a->header.boot_id) == 0;
}

static bool add_flow(struct flows *flows, const struct flow *flow)
{
    if (flows->count == flows->room) {
        size_t room = flows->room ? 2 * flows->room : 64;
        struct flow *more = realloc(flows->all, room * sizeof *more);
        if (!more)
            return false;
        flows->all = more;
        flows->room = room;
    }
    flows->all[flows->count++] = *flow;
    return true;
}

/* Each length of which the lane remembers segments, once: where the last of that length stands. */
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
        if (known || !has_landed(segment))
            continue;
        seen[lengths++] = segment->length;
        const struct member *from = world_member(scene, process), *to = receiver(scene, segment);
        uint64_t ns = typical(box, lane, segment->length, LANE_SEGMENTS);
        scene->steps += lane->segment_count;
        if (!ns || !from || !to || same_host(from->box, to->box))
            continue;
        struct flow flow = {.at = {{from, lane->interface, 0}, {to, interface_there(to->box, box, lane), 0}},
                            .lane = lane,
                            .length = segment->length,
                            .ns = ns,
                            .latest = typical(box, lane, segment->length, LANE_TURNS)};
        if (!add_flow(flows, &flow))
            return false;
    }
    return true;
}

static int by_kind(const void *left, const void *right)
{
    const struct flow *a = left, *b = right;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    if (a->lane->distance != b->lane->distance)
        return a->lane->distance < b->lane->distance ? -1 : 1;
    int names = strcmp(a->lane->transport, b->lane->transport);
    return names ? names : a->ns < b->ns ? -1 : a->ns > b->ns;
}

static bool same_kind(const struct flow *a, const struct flow *b)
{
    return a->length == b->length && a->lane->distance == b->lane->distance &&
           strcmp(a->lane->transport, b->lane->transport) == 0;
}

static bool is_slow_beside(uint64_t ns, uint64_t base)
{
    return ns > base + DELAY_MORE_NS && (double)ns > LANE_TIMES * (double)base;
}

/* Several flows that share an uplink by chance take as many times as long: a slow path is worse than that. */
static bool is_slow_path_beside(uint64_t ns, uint64_t base)
{
    return is_slow_beside(ns, base) && (double)ns > PATH_TIMES * (double)base;
}

static void mark_slow(struct flows *flows)
{
    for (size_t i = 0, end; i < flows->count; i = end) {
        for (end = i; end < flows->count && same_kind(&flows->all[i], &flows->all[end]);)
            end++;
        uint64_t base = end - i < DELAY_LINKS ? 0 : flows->all[i + (end - i) / 4].ns;
        for (size_t j = i; base && j < end; j++) {
            struct flow *flow = &flows->all[j];
            flow->base = base;
            flow->slow = is_slow_beside(flow->ns, base);
            flow->turns = flow->slow || is_slow_beside(flow->latest, base);
        }
    }
}

/* ---- Ends of lanes ---- */

struct end {
    const char *host, *interface;
    const uint8_t *boot;
    size_t *number; /* where it is wanted */
};

static int by_end(const void *left, const void *right)
{
    const struct end *a = left, *b = right;
    int hosts = strcmp(a->host, b->host);
    int boots = hosts ? hosts : memcmp(a->boot, b->boot, sizeof((struct wire_box_header *)0)->boot_id);
    return boots ? boots : strcmp(a->interface, b->interface);
}

/* Numbers the interfaces of all hosts. */
static bool number_ends(struct flows *flows)
{
    struct end *ends = calloc(WAYS * flows->count + 1, sizeof *ends);
    size_t count = 0;
    for (size_t i = 0; ends && i < flows->count; i++)
        for (int way = 0; way < WAYS; way++) {
            const struct wire_box_header *header = &flows->all[i].at[way].member->box->header;
            ends[count++] = (struct end){header->host, flows->all[i].at[way].interface, header->boot_id,
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

static size_t low_end(const struct flow *flow)
{
    return flow->at[OUT].end < flow->at[IN].end ? flow->at[OUT].end : flow->at[IN].end;
}

static size_t high_end(const struct flow *flow)
{
    return flow->at[OUT].end < flow->at[IN].end ? flow->at[IN].end : flow->at[OUT].end;
}

static int by_ends(const void *left, const void *right)
{
    const struct flow *a = *(struct flow *const *)left, *b = *(struct flow *const *)right;
    if (low_end(a) != low_end(b))
        return low_end(a) < low_end(b) ? -1 : 1;
    if (high_end(a) != high_end(b))
        return high_end(a) < high_end(b) ? -1 : 1;
    return by_kind(a, b);
}

static bool same_ends(const struct flow *a, const struct flow *b)
{
    return low_end(a) == low_end(b) && high_end(a) == high_end(b) && same_kind(a, b);
}

/* A way is slow altogether where no lane of it is quick: then an end of it is slow, and no path. */
static void mark_between(struct flow **between, size_t count)
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
        between[i]->aside =
            is_slow_path_beside(between[i]->ns, base) && quick[between[i]->at[OUT].end == low_end(between[i])];
    }
}

/*
 * Of two uplinks most flows may have drawn the slow one: then it is the usual one. Two lanes that are quick between
 * the same two interfaces say that it need not be.
 */
static bool mark_aside(struct flows *flows)
{
    struct flow **sorted = calloc(flows->count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < flows->count; i++)
        sorted[i] = &flows->all[i];
    if (sorted)
        qsort(sorted, flows->count, sizeof *sorted, by_ends);
    for (size_t i = 0, end; sorted && i < flows->count; i = end) {
        for (end = i; end < flows->count && same_ends(sorted[i], sorted[end]);)
            end++;
        mark_between(&sorted[i], end - i);
    }
    free(sorted);
    return sorted != NULL;
}

static bool gather_flows(struct scene *scene, struct flows *flows)
{
    bool fine = true;
    for (size_t i = 0; fine && i < scene->snapshot->now.count; i++) {
        const struct blackbox *box = scene->snapshot->now.boxes[i];
        for (size_t j = 0; fine && j < box->lane_count; j++)
            if (box->lanes[j].distance != WIRE_DISTANCE_HOST)
                fine = gather_lane(scene, flows, i, &box->lanes[j]);
    }
    if (flows->count)
        qsort(flows->all, flows->count, sizeof *flows->all, by_kind);
    mark_slow(flows);
    return flows->count && number_ends(flows) && mark_aside(flows);
}

/* ---- Who is to blame ---- */

/* The lanes of an interface or of a process. */
struct tally {
    size_t all[WAYS], slow[WAYS], turns[WAYS];
    const struct flow *worst;
    const struct member *first; /* of its processes, by rank among all */
    const char *interface;
};

static size_t key_of(const struct flow *flow, int way, bool process)
{
    return process ? flow->at[way].member->process : flow->at[way].end;
}

static bool counts(const struct flow *flow)
{
    return flow->base && !flow->told;
}

/* Lanes aside are slow for a process whose own they are; an interface has quick ones to the same place. */
static bool is_slow_at(const struct flow *flow, bool process)
{
    return flow->slow || (process && flow->aside);
}

static void count_flows(const struct flows *flows, bool process, struct tally *tallies)
{
    for (size_t i = 0; i < flows->count; i++)
        for (int way = 0; way < WAYS && counts(&flows->all[i]); way++) {
            const struct flow *flow = &flows->all[i];
            const struct member *member = flow->at[way].member;
            struct tally *tally = &tallies[key_of(flow, way, process)];
            tally->all[way]++;
            tally->slow[way] += is_slow_at(flow, process);
            tally->turns[way] += flow->turns;
            tally->interface = flow->at[way].interface;
            if (!tally->first || member->comm->rank < tally->first->comm->rank)
                tally->first = member;
            if (flow->slow && (!tally->worst || flow->ns > tally->worst->ns))
                tally->worst = flow;
        }
}

static size_t slow_of(const struct tally *tally)
{
    return tally->slow[OUT] + tally->slow[IN];
}

static bool is_line(size_t slow, size_t all)
{
    return slow >= 2 && (double)slow >= DELAY_LINE * (double)all;
}

static bool are_lines(const size_t slow[WAYS], const size_t all[WAYS])
{
    return is_line(slow[OUT] + slow[IN], all[OUT] + all[IN]) || is_line(slow[OUT], all[OUT]) ||
           is_line(slow[IN], all[IN]);
}

/* Nearly all lanes that it has, both ways or one. */
static bool is_slow(const struct tally *tally)
{
    return are_lines(tally->slow, tally->all);
}

/* Not so far, but its other lanes have begun to be: those that carry little remember quick segments for longer. */
static bool becomes_slow(const struct tally *tally)
{
    return slow_of(tally) && !is_slow(tally) && are_lines(tally->turns, tally->all);
}

static void set_told(struct flows *flows, size_t key, bool process)
{
    for (size_t i = 0; i < flows->count; i++) {
        struct flow *flow = &flows->all[i];
        bool of_it = key_of(flow, OUT, process) == key || key_of(flow, IN, process) == key;
        flow->told = flow->told || (of_it && is_slow_at(flow, process));
    }
}

/*
 * A process that does not come to read has slow lanes, too: it has no processor, or its engine is busy. Those are left
 * out where lanes of another process, over the same interface, are quick.
 */
static void leave_out_processes(const struct scene *scene, struct flows *flows)
{
    struct tally *of_process = calloc(scene->snapshot->now.count + 1, sizeof *of_process);
    struct tally *of_end = calloc(flows->ends + 1, sizeof *of_end);
    if (of_process && of_end) {
        count_flows(flows, true, of_process);
        count_flows(flows, false, of_end);
    }
    for (size_t i = 0; of_process && of_end && i < flows->count; i++)
        for (int way = 0; way < WAYS; way++) {
            const struct flow *flow = &flows->all[i];
            size_t process = flow->at[way].member->process;
            if (counts(flow) && is_slow_at(flow, true) && is_slow(&of_process[process]) &&
                !is_slow(&of_end[flow->at[way].end]))
                set_told(flows, process, true);
        }
    free(of_process);
    free(of_end);
}

/* ---- Findings ---- */

static const char *way_of(const struct tally *tally)
{
    bool out = is_line(tally->slow[OUT], tally->all[OUT]), in = is_line(tally->slow[IN], tally->all[IN]);
    return out == in ? "goes out of and comes into" : out ? "goes out of" : "comes into";
}

static void prove_flow(struct finding *finding, const struct flow *flow)
{
    const struct member *from = flow->at[OUT].member, *to = flow->at[IN].member;
    double bytes = (double)flow->length * 1e3; /* over ns: MB/s */
    prove(finding, "rank %d on %s to rank %d on %s: %u bytes in %s, %.1f MB/s; quick lanes %.1f MB/s", from->comm->rank,
          from->box->header.host, to->comm->rank, to->box->header.host, flow->length, word_time(flow->ns).text,
          bytes / (double)flow->ns, bytes / (double)flow->base);
}

/* How the lanes do that have nothing to do with it. */
static void prove_others(struct finding *finding, const struct flows *flows, size_t end)
{
    size_t all = 0, slow = 0;
    for (size_t i = 0; i < flows->count; i++) {
        const struct flow *flow = &flows->all[i];
        bool other = flow->base && flow->at[OUT].end != end && flow->at[IN].end != end;
        all += other;
        slow += other && flow->slow;
    }
    prove(finding, "of %zu lanes between other interfaces %zu are slow", all, slow);
}

static void report_end(struct findings *findings, struct flows *flows, const struct tally *tally, size_t end)
{
    struct finding *finding = finding_add(findings, FINDING_INTERFACE, LIKELY, tally->first);
    const struct flow *worst = tally->worst;
    say(finding, "interface %s of host %s: what %s it is slow: %u bytes take up to %s, on quick lanes elsewhere %s",
        *tally->interface ? tally->interface : "(unknown)", tally->first->box->header.host, way_of(tally),
        worst->length, word_time(worst->ns).text, word_time(worst->base).text);
    prove(finding, "%zu of %zu lanes out of it and %zu of %zu lanes into it are slow", tally->slow[OUT],
          tally->all[OUT], tally->slow[IN], tally->all[IN]);
    prove_others(finding, flows, end);
    prove_flow(finding, worst);
    set_told(flows, end, false);
}

/* Those of one cause are lanes of many ranks: the lowest of them stand for all, as they do at the next look. */
static bool is_before(const struct flow *a, const struct flow *b)
{
    int from = a->at[OUT].member->comm->rank, than = b->at[OUT].member->comm->rank;
    return from != than ? from < than : a->at[IN].member->comm->rank < b->at[IN].member->comm->rank;
}

static bool is_slow_path(const struct flow *flow)
{
    return counts(flow) && (flow->slow || flow->aside) && is_slow_path_beside(flow->ns, flow->base);
}

static bool any_becomes_slow(const struct flows *flows)
{
    struct tally *tallies = calloc(flows->ends + 1, sizeof *tallies);
    bool any = false;
    if (tallies)
        count_flows(flows, false, tallies);
    for (size_t i = 0; tallies && i < flows->ends && !any; i++)
        any = becomes_slow(&tallies[i]);
    free(tallies);
    return any;
}

static void report_paths(struct findings *findings, const struct flows *flows)
{
    const struct flow *first = NULL;
    size_t slow = 0;
    for (size_t i = 0; i < flows->count; i++)
        if (is_slow_path(&flows->all[i])) {
            slow++;
            first = !first || is_before(&flows->all[i], first) ? &flows->all[i] : first;
        }
    if (!first || any_becomes_slow(flows))
        return;
    const struct member *from = first->at[OUT].member, *to = first->at[IN].member;
    struct finding *finding = finding_add(findings, FINDING_LINK, LIKELY, from);
    finding->culprit.peer = to->comm->rank;
    say(finding, "the path from rank %d on %s to rank %d on %s is slow: %u bytes take %s, on quick lanes elsewhere %s",
        from->comm->rank, from->box->header.host, to->comm->rank, to->box->header.host, first->length,
        word_time(first->ns).text, word_time(first->base).text);
    prove(finding, "%zu of %zu lanes are slow, and no interface has most of its own among them", slow, flows->count);
    for (size_t i = 0, shown = 0; i < flows->count && shown < PATHS_SHOWN; i++)
        if (is_slow_path(&flows->all[i]) && ++shown)
            prove_flow(finding, &flows->all[i]);
}

/* The interface that most slow lanes have in common; none where two have the same ones, which is a path. */
static const struct tally *worst_end(const struct flows *flows, const struct tally *tallies)
{
    const struct tally *worst = NULL;
    bool tie = false;
    for (size_t i = 0; i < flows->ends; i++) {
        if (!is_slow(&tallies[i]))
            continue;
        size_t slow = slow_of(&tallies[i]), most = worst ? slow_of(worst) : 0;
        tie = slow == most || (slow < most && tie);
        worst = slow > most ? &tallies[i] : worst;
    }
    return tie ? NULL : worst;
}

/* Where something hangs, segments wait because of it. */
void rule_lanes(struct scene *scene, struct findings *findings)
{
    struct flows flows = {0};
    bool more = findings->count == 0 && gather_flows(scene, &flows);
    if (more)
        leave_out_processes(scene, &flows);
    while (more && findings->count < INTERFACES_MOST) {
        struct tally *tallies = calloc(flows.ends + 1, sizeof *tallies);
        if (tallies)
            count_flows(&flows, false, tallies);
        const struct tally *worst = tallies ? worst_end(&flows, tallies) : NULL;
        more = worst != NULL;
        if (more)
            report_end(findings, &flows, worst, (size_t)(worst - tallies));
        scene->steps += flows.count;
        free(tallies);
    }
    if (flows.ends)
        report_paths(findings, &flows);
    free(flows.all);
}
