/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: slow interfaces and slow paths, by what the lanes between hosts took (C4 section 3.1, with lanes instead of
 * workers; flows.c). An interface is to blame if most of its lanes are slow, and if the most slow lanes share it. The
 * slow lanes that are left make a path. One process with slow lanes beside quick ones of its host is no matter of the
 * network.
 */
#include "diagnosis/lanes.h"

#include "diagnosis/flows.h"
#include "diagnosis/rules.h"
#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"
#include "wire/distance.h"

#include <stdlib.h>
#include <string.h>

#define PATHS_SHOWN     3
#define INTERFACES_MOST 8 /* more slow interfaces than this have another cause */

/* ---- The culprit ---- */

/* The lanes of an interface or of a process. */
struct lanes_tally {
    size_t all[WAYS], slow[WAYS], turns[WAYS], quick[WAYS];
    const struct lane_flow *worst;
    const struct member *first; /* lowest rank among all of its processes */
    const char *interface;
};

static size_t key_of(const struct lane_flow *flow, int way, bool process)
{
    return process ? flow->at[way].member->process : flow->at[way].end;
}

static bool counts(const struct lane_flow *flow)
{
    return flow->base && !flow->told;
}

/* For the process that owns it, a lane aside is slow; for its interface it is not, which has quick lanes to the same
 * place. */
static bool is_slow_at(const struct lane_flow *flow, bool process)
{
    return flow->slow || (process && flow->aside);
}

static void count_flows(const struct flows *flows, bool process, struct lanes_tally *tallies)
{
    for (size_t i = 0; i < flows->count; i++)
        for (int way = 0; way < WAYS && counts(&flows->all[i]); way++) {
            const struct lane_flow *flow = &flows->all[i];
            const struct member *member = flow->at[way].member;
            struct lanes_tally *tally = &tallies[key_of(flow, way, process)];
            tally->all[way]++;
            tally->slow[way] += is_slow_at(flow, process);
            tally->turns[way] += flow->turns;
            tally->quick[way] += flow->newest && !is_slow_beside(flow->newest, flow->ideal);
            tally->interface = flow->at[way].interface;
            if (!tally->first || member->comm->rank < tally->first->comm->rank)
                tally->first = member;
            if (flow->slow && (!tally->worst || flow->ns > tally->worst->ns))
                tally->worst = flow;
        }
}

static size_t slow_of(const struct lanes_tally *tally)
{
    return tally->slow[OUT] + tally->slow[IN];
}

static bool is_line(size_t slow, size_t all)
{
    return slow >= 2 && (double)slow >= DELAY_LINE * (double)all;
}

static bool are_lines(const size_t slow[WAYS], const size_t all[WAYS], const size_t quick[WAYS])
{
    return (is_line(slow[OUT] + slow[IN], all[OUT] + all[IN]) && !quick[OUT] && !quick[IN]) ||
           (is_line(slow[OUT], all[OUT]) && !quick[OUT]) || (is_line(slow[IN], all[IN]) && !quick[IN]);
}

/* Nearly all its lanes are slow, both ways or one; the others have carried nothing since. */
static bool is_slow(const struct lanes_tally *tally)
{
    return are_lines(tally->slow, tally->all, tally->quick);
}

/* Not slow so far, but its other lanes are becoming slow: lanes that carry little remember quick segments for
 * longer. */
static bool becomes_slow(const struct lanes_tally *tally)
{
    static const size_t none[WAYS] = {0};
    return slow_of(tally) && !is_slow(tally) && are_lines(tally->turns, tally->all, none);
}

static void set_told(struct flows *flows, size_t key, bool process)
{
    for (size_t i = 0; i < flows->count; i++) {
        struct lane_flow *flow = &flows->all[i];
        bool of_it = key_of(flow, OUT, process) == key || key_of(flow, IN, process) == key;
        flow->told = flow->told || (of_it && is_slow_at(flow, process));
    }
}

/*
 * Leaves out lanes that are slow because of a process: it has no processor, or its engine is busy. Another process has
 * quick lanes over the same interface.
 */
static void leave_out_processes(const struct scene *scene, struct flows *flows)
{
    struct lanes_tally *of_process = calloc(scene->snapshot->now.count + 1, sizeof *of_process);
    struct lanes_tally *of_end = calloc(flows->ends + 1, sizeof *of_end);
    if (of_process && of_end) {
        count_flows(flows, true, of_process);
        count_flows(flows, false, of_end);
    }
    for (size_t i = 0; of_process && of_end && i < flows->count; i++)
        for (int way = 0; way < WAYS; way++) {
            const struct lane_flow *flow = &flows->all[i];
            size_t process = flow->at[way].member->process;
            if (counts(flow) && is_slow_at(flow, true) && is_slow(&of_process[process]) &&
                !is_slow(&of_end[flow->at[way].end]))
                set_told(flows, process, true);
        }
    free(of_process);
    free(of_end);
}

/* ---- Findings ---- */

static const char *way_of(const struct lanes_tally *tally)
{
    bool out = is_line(tally->slow[OUT], tally->all[OUT]) && !tally->quick[OUT];
    bool in = is_line(tally->slow[IN], tally->all[IN]) && !tally->quick[IN];
    return out == in ? "goes out of and comes into" : out ? "goes out of" : "comes into";
}

static void prove_flow(struct finding *finding, const struct lane_flow *flow)
{
    const struct member *from = flow->at[OUT].member, *to = flow->at[IN].member;
    double bytes = (double)flow->length * 1e3; /* over ns: MB/s */
    prove(finding, "rank %d on %s to rank %d on %s: %u bytes in %s, %.1f MB/s; quick lanes %.1f MB/s", from->comm->rank,
          from->box->header.host, to->comm->rank, to->box->header.host, flow->length, phrase_time(flow->ns).text,
          bytes / (double)flow->ns, bytes / (double)flow->base);
}

/* Adds how the lanes do that do not touch this interface. */
static void prove_others(struct finding *finding, const struct flows *flows, size_t end)
{
    size_t all = 0, slow = 0;
    for (size_t i = 0; i < flows->count; i++) {
        const struct lane_flow *flow = &flows->all[i];
        bool other = flow->base && flow->at[OUT].end != end && flow->at[IN].end != end;
        all += other;
        slow += other && flow->slow;
    }
    prove(finding, "of %zu lanes between other interfaces %zu are slow", all, slow);
}

/* Bytes that the process has put by the interface of others, and the process from which it borrowed that last. */
static uint64_t borrowed_by(const struct blackbox *box, const char *interface, uint32_t *owner)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < box->lane_count; i++) {
        const struct blackbox_lane *lane = &box->lanes[i];
        if (!lane->borrowed || strcmp(lane->interface, interface) != 0)
            continue;
        bytes += lane->borrowed;
        *owner = lane->owner;
    }
    return bytes;
}

/* Adds the processes that borrow the interface: their lanes there are not judged. */
static void prove_borrowers(struct finding *finding, const struct scene *scene, const struct lanes_tally *tally)
{
    const struct blackbox *most = NULL;
    uint64_t bytes = 0;
    uint32_t owner = 0;
    size_t count = 0;
    for (size_t i = 0; i < scene->snapshot->now.count; i++) {
        const struct blackbox *box = scene->snapshot->now.boxes[i];
        uint32_t of = 0;
        uint64_t borrowed = same_host(box, tally->first->box) ? borrowed_by(box, tally->interface, &of) : 0;
        count += borrowed > 0;
        if (borrowed <= bytes)
            continue;
        most = box;
        bytes = borrowed;
        owner = of;
    }
    if (most)
        prove(finding, "not judged: %zu process%s the interface; process %u most, %.1f MB, of late from process %u",
              count, count == 1 ? " borrows" : "es borrow", most->header.pid, (double)bytes / 1e6, owner);
}

static void report_end(const struct scene *scene, struct findings *findings, struct flows *flows,
                       const struct lanes_tally *tally, size_t end)
{
    struct finding *finding = finding_add(findings, FINDING_INTERFACE, LIKELY, tally->first);
    const struct lane_flow *worst = tally->worst;
    say(finding, "interface %s of host %s: what %s it is slow: %u bytes take up to %s, on quick lanes elsewhere %s",
        *tally->interface ? tally->interface : "(unknown)", tally->first->box->header.host, way_of(tally),
        worst->length, phrase_time(worst->ns).text, phrase_time(worst->base).text);
    prove(finding, "%zu of %zu lanes out of it and %zu of %zu lanes into it are slow", tally->slow[OUT],
          tally->all[OUT], tally->slow[IN], tally->all[IN]);
    prove_others(finding, flows, end);
    prove_flow(finding, worst);
    prove_borrowers(finding, scene, tally);
    set_told(flows, end, false);
}

/* One cause slows down lanes of many ranks: the lowest ranks stand for all, also at the next look. */
static bool is_before(const struct lane_flow *a, const struct lane_flow *b)
{
    int from = a->at[OUT].member->comm->rank, than = b->at[OUT].member->comm->rank;
    return from != than ? from < than : a->at[IN].member->comm->rank < b->at[IN].member->comm->rank;
}

/*
 * Judges a path by the best time of its lanes. A segment that lost a packet in a crowded queue waits for a timer, and
 * the next one is quick; on a slow path none is. A lane that has its share of an interface beside all others there is
 * not slow.
 */
static bool is_slow_path(const struct lane_flow *flow)
{
    return counts(flow) && (flow->slow || flow->aside) && is_slow_path_beside(flow->best, flow->ideal) &&
           flow->best > flow->sharing * flow->ideal;
}

/* One connection of many may find its queues full again and again: a single slow one is no path. */
static void leave_out_single(struct lane_flow **between, size_t count)
{
    struct lane_flow *last = NULL;
    size_t slow = 0;
    for (size_t i = 0; i < count; i++)
        if (is_slow_path(between[i])) {
            slow++;
            last = between[i];
        }
    if (slow == 1 && count > DELAY_LINKS)
        last->told = true;
}

static bool any_becomes_slow(const struct flows *flows)
{
    struct lanes_tally *tallies = calloc(flows->ends + 1, sizeof *tallies);
    bool any = false;
    if (tallies)
        count_flows(flows, false, tallies);
    for (size_t i = 0; tallies && i < flows->ends && !any; i++)
        any = becomes_slow(&tallies[i]);
    free(tallies);
    return any;
}

/* Leaves out lanes between processes that lack processors, as all of their machine do: their segments wait for those.
 */
static void leave_out_crowded(struct scene *scene, struct flows *flows)
{
    for (size_t i = 0; i < flows->count; i++)
        for (int way = 0; way < WAYS; way++)
            flows->all[i].told = flows->all[i].told || share_lacks_all(scene, flows->all[i].at[way].member);
}

static void report_paths(struct findings *findings, struct flows *flows)
{
    const struct lane_flow *first = NULL;
    size_t slow = 0;
    if (!flows_between(flows, leave_out_single))
        return;
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
        phrase_time(first->ns).text, phrase_time(first->base).text);
    prove(finding, "%zu of %zu lanes are slow, and no interface has most of its own among them", slow, flows->count);
    for (size_t i = 0, shown = 0; i < flows->count && shown < PATHS_SHOWN; i++)
        if (is_slow_path(&flows->all[i]) && ++shown)
            prove_flow(finding, &flows->all[i]);
}

/* The interface that most slow lanes share; none where two have the same lanes, which is a path. */
static const struct lanes_tally *worst_end(const struct flows *flows, const struct lanes_tally *tallies)
{
    const struct lanes_tally *worst = NULL;
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

/* ---- What other rules ask of lanes ---- */

static bool leads_to(const struct blackbox_lane *lane, const struct member *from, const struct member *to)
{
    return lane->peer_pid == to->box->header.pid && lane->distance != WIRE_DISTANCE_HOST &&
           !same_host(from->box, to->box);
}

bool lanes_tell(const struct member *from, const struct member *to)
{
    for (size_t i = 0; i < from->box->lane_count; i++)
        if (leads_to(&from->box->lanes[i], from, to) && from->box->lanes[i].segment_count >= DELAY_MESSAGES)
            return true;
    return false;
}

size_t lanes_down(const struct member *from, const struct member *to)
{
    size_t down = 0;
    for (size_t i = 0; i < from->box->lane_count; i++)
        down += leads_to(&from->box->lanes[i], from, to) && from->box->lanes[i].state == WIRE_LANE_DOWN;
    return down;
}

uint64_t lanes_took(const struct member *from, const struct member *to, uint64_t *longest)
{
    const struct blackbox_segment *last = NULL;
    for (size_t i = 0; i < from->box->lane_count; i++) {
        const struct blackbox_lane *lane = &from->box->lanes[i];
        for (size_t j = 0; j < lane->segment_count && leads_to(lane, from, to); j++) {
            const struct blackbox_segment *segment = &lane->segments[j];
            if (segment->status != WIRE_SEGMENT_LANDED || segment->completed <= segment->posted)
                continue;
            uint64_t took = segment->completed - segment->posted;
            *longest = took > *longest && from->box->now < segment->completed + LANE_RECENT_NS ? took : *longest;
            last = !last || segment->completed > last->completed ? segment : last;
        }
    }
    return last ? last->completed - last->posted : 0;
}

/* Segments wait because of a hang, where one was found. */
void rule_lanes(struct scene *scene, struct findings *findings)
{
    struct flows flows = {0};
    bool more = findings->count == 0 && flows_gather(scene, &flows);
    if (more)
        leave_out_processes(scene, &flows);
    while (more && findings->count < INTERFACES_MOST) {
        struct lanes_tally *tallies = calloc(flows.ends + 1, sizeof *tallies);
        if (tallies)
            count_flows(&flows, false, tallies);
        const struct lanes_tally *worst = tallies ? worst_end(&flows, tallies) : NULL;
        more = worst != NULL;
        if (more)
            report_end(scene, findings, &flows, worst, (size_t)(worst - tallies));
        scene->steps += flows.count;
        free(tallies);
    }
    if (flows.ends) {
        leave_out_crowded(scene, &flows);
        report_paths(findings, &flows);
    }
    free(flows.all);
}
