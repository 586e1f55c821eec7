/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: where lanes die. A path that loses everything slows a job down for the second until its lanes notice. Then the
 * lanes connect again, some elsewhere, and nothing looks slow. But lanes remember when they went down. A lane counts if
 * both its processes live and share an open communicator: else the other end left. What all these lanes have in common
 * is to blame: the interface of one host, or the path between two. One process of several on its host was stopped or
 * had no processor, which is no matter of the network.
 *
 * Where ranks of two hosts wait for each other, and lanes between these hosts are down just now, the lanes know why.
 */
#include "diagnosis/flows.h"
#include "diagnosis/rules.h"
#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"
#include "wire/distance.h"

#include <stdlib.h>
#include <string.h>

/* A lane that went down, as one end remembers it; the other end remembers it, too. */
struct loss {
    const struct member *at[WAYS]; /* the host whose name sorts first comes first */
    const char *interface[WAYS];   /* "": unknown */
    uint64_t ago;
};

struct losses {
    struct loss *all;
    size_t count, room;
};

/* ---- Lanes that went down ---- */

static bool add(struct losses *losses, const struct loss *loss)
{
    if (losses->count == losses->room) {
        size_t room = losses->room ? 2 * losses->room : 64;
        struct loss *more = realloc(losses->all, room * sizeof *more);
        if (!more)
            return false;
        losses->all = more;
        losses->room = room;
    }
    losses->all[losses->count++] = *loss;
    return true;
}

static const struct blackbox_lane *lane_of(const struct blackbox *box, const struct blackbox_event *event)
{
    for (size_t i = 0; i < box->lane_count; i++) {
        const struct blackbox_lane *lane = &box->lanes[i];
        if (lane->peer_pid == event->peer_pid && lane->peer_host == event->peer_host &&
            lane->index == (uint32_t)event->lane)
            return lane;
    }
    return NULL;
}

/* Has this box the other end of a lane of that one? */
static bool has_end(const struct blackbox *there, const struct blackbox *here, const struct blackbox_lane *lane)
{
    bool found = false;
    for (size_t i = 0; there->header.pid == lane->peer_pid && i < there->lane_count && !found; i++)
        found = there->lanes[i].peer_pid == here->header.pid && there->lanes[i].index == lane->index;
    return found && there != here;
}

/* The member at the other end of a lane that remembers no segment, as of messages that fit into one of the transport.
 * The number of its process tells. NULL: none, several, or it shares no open communicator. */
static const struct member *end_by_process(const struct scene *scene, size_t process, const struct blackbox_lane *lane)
{
    const struct look *look = &scene->snapshot->now;
    size_t found = 0, there = 0;
    for (size_t i = 0; i < look->count; i++)
        if (has_end(look->boxes[i], look->boxes[process], lane))
            there = i, found++;
    for (const struct member *at = found == 1 ? scene->of_process[there] : NULL; at; at = at->sibling)
        for (const struct member *from = scene->of_process[process]; from; from = from->sibling)
            if (from->group == at->group && from->comm->state == WIRE_COMM_OPEN && at->comm->state == WIRE_COMM_OPEN)
                return at->dead ? NULL : at;
    return NULL;
}

/* The other end of a lane. Its newest segment names the communicator, which knows the ranks. NULL: it is not open at
 * both ends. */
static const struct member *other_end(const struct scene *scene, size_t process, const struct blackbox_lane *lane)
{
    struct member_group *group =
        lane->segment_count ? scene_group(scene, lane->segments[lane->segment_count - 1].comm) : NULL;
    const struct member *to = group ? scene_find(group, (int)lane->segments[lane->segment_count - 1].peer) : NULL;
    if (!to || to->dead || to->comm->state != WIRE_COMM_OPEN)
        return NULL;
    for (const struct member *from = scene->of_process[process]; from; from = from->sibling)
        if (from->group == group && from->comm->state == WIRE_COMM_OPEN)
            return to;
    return NULL;
}

static const char *interface_there(const struct blackbox *there, const struct blackbox *here, uint32_t index)
{
    for (size_t i = 0; i < there->lane_count; i++)
        if (there->lanes[i].peer_pid == here->header.pid && there->lanes[i].index == index)
            return there->lanes[i].interface;
    return "";
}

static struct loss loss_between(const struct member *here, const struct member *there, const struct blackbox_lane *lane,
                                const char *other, uint64_t ago)
{
    if (strcmp(here->box->header.host, there->box->header.host) > 0)
        return (struct loss){{there, here}, {other, lane->interface}, ago};
    return (struct loss){{here, there}, {lane->interface, other}, ago};
}

static bool gather_process(struct scene *scene, struct losses *losses, size_t process)
{
    const struct blackbox *box = scene->snapshot->now.boxes[process];
    const struct member *here = world_member(scene, process);
    scene->steps += box->event_count;
    for (size_t i = 0; here && i < box->event_count; i++) {
        const struct blackbox_event *event = &box->events[i];
        if (event->kind != WIRE_EVENT_LANE_DOWN || event->time + LOST_RECENT_NS < box->now)
            continue;
        const struct blackbox_lane *lane = lane_of(box, event);
        const struct member *there = lane ? other_end(scene, process, lane) : NULL;
        if (!there || lane->distance == WIRE_DISTANCE_HOST || same_host(box, there->box))
            continue;
        struct loss loss =
            loss_between(here, world_member(scene, there->process), lane, interface_there(there->box, box, lane->index),
                         box->now > event->time ? box->now - event->time : 0);
        if (!add(losses, &loss))
            return false;
    }
    return true;
}

/* Lanes that are down just now, whenever they went down. */
static bool gather_down(struct scene *scene, struct losses *losses, size_t process)
{
    const struct blackbox *box = scene->snapshot->now.boxes[process];
    const struct member *here = world_member(scene, process);
    scene->steps += box->lane_count;
    for (size_t i = 0; here && i < box->lane_count; i++) {
        const struct blackbox_lane *lane = &box->lanes[i];
        const struct member *there = lane->state != WIRE_LANE_DOWN ? NULL
                                     : lane->segment_count         ? other_end(scene, process, lane)
                                                                   : end_by_process(scene, process, lane);
        if (!there || lane->distance == WIRE_DISTANCE_HOST || same_host(box, there->box))
            continue;
        struct loss loss = loss_between(here, world_member(scene, there->process), lane,
                                        interface_there(there->box, box, lane->index), 0);
        for (size_t j = 0; j < box->event_count; j++)
            if (box->events[j].kind == WIRE_EVENT_LANE_DOWN && lane_of(box, &box->events[j]) == lane)
                loss.ago = box->now > box->events[j].time ? box->now - box->events[j].time : 0;
        if (!add(losses, &loss))
            return false;
    }
    return true;
}

static const char *host_at(const struct loss *loss, int end)
{
    return loss->at[end]->box->header.host;
}

/* Sorts by pair of hosts; the lowest ranks of a pair come first. */
static int by_hosts(const void *left, const void *right)
{
    const struct loss *a = left, *b = right;
    for (int end = 0; end < WAYS; end++) {
        int hosts = strcmp(host_at(a, end), host_at(b, end));
        if (hosts)
            return hosts;
    }
    for (int end = 0; end < WAYS; end++)
        if (a->at[end]->comm->rank != b->at[end]->comm->rank)
            return a->at[end]->comm->rank < b->at[end]->comm->rank ? -1 : 1;
    return 0;
}

static bool same_hosts(const struct loss *a, const struct loss *b)
{
    return strcmp(host_at(a, 0), host_at(b, 0)) == 0 && strcmp(host_at(a, 1), host_at(b, 1)) == 0;
}

/* ---- What they have in common ---- */

static bool touches(const struct loss *loss, const struct member *member, bool process)
{
    for (int end = 0; end < WAYS; end++)
        if (process ? loss->at[end]->process == member->process : same_host(loss->at[end]->box, member->box))
            return true;
    return false;
}

/* The end of the first lane that all others share, by process or only by host; NULL: none. */
static const struct member *common(const struct losses *losses, bool process)
{
    for (int end = 0; end < WAYS; end++) {
        const struct member *member = losses->all->at[end];
        size_t with = 0;
        while (with < losses->count && touches(&losses->all[with], member, process))
            with++;
        if (with == losses->count)
            return member;
    }
    return NULL;
}

static bool has_neighbour(const struct scene *scene, const struct member *member)
{
    for (size_t i = 0; i < scene->snapshot->now.count; i++) {
        const struct member *other = scene->of_process[i];
        if (other && other->process != member->process && !other->dead && same_host(other->box, member->box))
            return true;
    }
    return false;
}

/* Lanes of one process alone die where that process was stopped or had no processor. One that has not is no cause. */
static bool may_be_process(struct scene *scene, const struct member *member)
{
    const struct processor_share share = share_of(scene, member);
    return has_neighbour(scene, member) &&
           (!share.time || share_part(&share) >= SHORT_PART || member->facts->state == PROCESS_STOPPED);
}

/* ---- Findings ---- */

struct losses_tally {
    const struct loss *most; /* the first loss of the pair of hosts that has the most */
    size_t pairs, count;     /* count: of that pair */
};

static struct losses_tally count_pairs(const struct losses *losses)
{
    struct losses_tally tally = {0};
    for (size_t i = 0, end; i < losses->count; i = end) {
        for (end = i; end < losses->count && same_hosts(&losses->all[i], &losses->all[end]);)
            end++;
        tally.pairs++;
        if (end - i > tally.count) {
            tally.most = &losses->all[i];
            tally.count = end - i;
        }
    }
    return tally;
}

static void prove_pairs(struct finding *finding, const struct losses *losses)
{
    for (size_t i = 0, end; i < losses->count && finding->evidence_count < FINDING_EVIDENCE; i = end) {
        uint64_t latest = UINT64_MAX;
        for (end = i; end < losses->count && same_hosts(&losses->all[i], &losses->all[end]); end++)
            latest = losses->all[end].ago < latest ? losses->all[end].ago : latest;
        prove(finding, "lanes between %s and %s went down, as their ends tell: %zu times, the latest %s ago",
              host_at(&losses->all[i], 0), host_at(&losses->all[i], 1), end - i, phrase_time(latest).text);
    }
}

static void report(struct findings *findings, const struct losses *losses)
{
    const struct losses_tally tally = count_pairs(losses);
    const struct member *host = tally.pairs > 1 ? common(losses, false) : NULL;
    const struct member *from = tally.most->at[0], *to = tally.most->at[1];
    struct finding *finding =
        finding_add(findings, host ? FINDING_INTERFACE : FINDING_LINK, LIKELY, host ? host : from);
    if (host) {
        const char *interface = losses->all->interface[same_host(losses->all->at[1]->box, host->box)];
        say(finding, "interface %s of host %s: lanes over it die, to each of %zu other hosts",
            *interface ? interface : "(unknown)", host->box->header.host, tally.pairs);
    } else {
        finding->culprit.peer = to->comm->rank;
        say(finding,
            "the path from rank %d on %s to rank %d on %s loses what goes into it: lanes between these hosts die",
            from->comm->rank, from->box->header.host, to->comm->rank, to->box->header.host);
    }
    finding->settled = true;
    say(finding, "; in the last %s %zu ends of lanes went down whose processes live", phrase_time(LOST_RECENT_NS).text,
        losses->count);
    prove_pairs(finding, losses);
}

/* ---- Ranks that wait for each other ---- */

/* A rank whose data does not go out names nobody for whom it waits: it is `still`. */
static bool is_of_messages(const struct finding *finding)
{
    return finding->kind == FINDING_UNREAD || finding->kind == FINDING_CIRCLE || finding->kind == FINDING_AHEAD ||
           finding->kind == FINDING_STILL;
}

/* Is the finding about a host of these lanes? A circle has no culprit. */
static bool is_at(const struct losses *losses, const struct finding *finding)
{
    for (size_t i = 0; i < losses->count; i++)
        for (int end = 0; end < WAYS; end++)
            if (!finding->culprit.process || strcmp(host_at(&losses->all[i], end), finding->culprit.host) == 0)
                return true;
    return false;
}

static void report_cut(struct findings *findings, const struct losses *losses)
{
    const struct losses_tally tally = count_pairs(losses);
    const struct member *host = tally.pairs > 1 ? common(losses, false) : NULL;
    const struct member *from = tally.most->at[0], *to = tally.most->at[1];
    struct finding first = {0};
    size_t kept = 0, victims = 0;
    for (size_t i = 0; i < findings->count; i++) {
        bool effect = is_of_messages(&findings->items[i]) && is_at(losses, &findings->items[i]);
        first = effect && !victims ? findings->items[i] : first;
        victims += effect ? findings->items[i].victims : 0;
        if (!effect)
            findings->items[kept++] = findings->items[i];
    }
    if (kept == findings->count)
        return;
    findings->count = kept;
    struct finding *finding = finding_add(findings, FINDING_CUT, LIKELY, host ? host : from);
    finding->victims = victims;
    if (host) {
        int end = same_host(losses->all->at[1]->box, host->box);
        say(finding, "interface %s of host %s: nothing comes through, to or from %zu other hosts",
            *losses->all->interface[end] ? losses->all->interface[end] : "(unknown)", host->box->header.host,
            tally.pairs);
    } else {
        finding->culprit.peer = to->comm->rank;
        say(finding, "nothing comes through between rank %d on %s and rank %d on %s", from->comm->rank,
            from->box->header.host, to->comm->rank, to->box->header.host);
    }
    say(finding, "; %zu ends of lanes are down whose processes live", losses->count);
    prove_pairs(finding, losses);
    prove(finding, "%.*s", FINDING_LINE - 1, first.sentence);
}

void rule_cut(struct scene *scene, struct findings *findings)
{
    struct losses losses = {0};
    bool more = false;
    for (size_t i = 0; i < findings->count; i++)
        more = more || is_of_messages(&findings->items[i]);
    for (size_t i = 0; more && i < scene->snapshot->now.count; i++)
        more = !scene->snapshot->now.boxes[i]->alive || gather_down(scene, &losses, i);
    if (more && losses.count >= LOST_LANES) {
        qsort(losses.all, losses.count, sizeof *losses.all, by_hosts);
        const struct member *process = common(&losses, true);
        if (!process || !may_be_process(scene, process))
            report_cut(findings, &losses);
    }
    free(losses.all);
}

/* Lanes die because of a hang or a slow interface, where one was found. */
void rule_losses(struct scene *scene, struct findings *findings)
{
    struct losses losses = {0};
    bool more = findings->count == 0;
    for (size_t i = 0; more && i < scene->snapshot->now.count; i++)
        more = !scene->snapshot->now.boxes[i]->alive || gather_process(scene, &losses, i);
    if (more && losses.count >= LOST_LANES) {
        qsort(losses.all, losses.count, sizeof *losses.all, by_hosts);
        const struct member *process = common(&losses, true);
        if (!process || !has_neighbour(scene, process))
            report(findings, &losses);
    }
    free(losses.all);
}
