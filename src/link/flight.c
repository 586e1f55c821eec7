/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that were put on a lane and are not at the peer yet. A lane that needs a source no longer says little about
 * the peer: a TCP socket takes megabytes into its buffer. So the receiver reports which segments have landed, and when
 * by its own clock, several in one message (WIRE_LANDED, or with DONE). Where sent() says the same
 * (TRANSPORT_CONFIRMS), the receiver reports nothing. The peer's clock is turned into ours by the least difference seen
 * between the arrival of a report and the time in it. The quickest report gives that difference. So a segment's time is
 * not made longer by the report's way back, behind data of ours, nor by the collecting of reports. docs/link.md.
 */
#include "link/flight.h"

#include "link/message.h"
#include "link/nics.h"
#include "link/segments.h"
#include "trace/watch.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(LINK_FLIGHTS <= WIRE_BOX_SEGMENTS, "what is under way has a record");
_Static_assert(LINK_MAX_LANES < LINK_LANDED, "a link can have the latest report about every lane");

#define BATCH       4                 /* segments told in one report, unless */
#define OVERDUE     (100 * NS_PER_US) /* the last report is older: each segment of a slow lane is news */
#define CLOCK_SPAN  NS_PER_S          /* clocks drift apart: differences older than two of these are forgotten, */
#define CLOCK_SLACK NS_PER_MS         /* and more than this they do not drift meanwhile */

/* ---- What the peer says ---- */

static struct flight *flight_at(const struct link_lane *lane, uint64_t position)
{
    return &lane->flight.at[position % LINK_FLIGHTS];
}

static void flight_record(struct link_lane *lane, const struct link_send *send, const struct put *put, uint64_t now)
{
    const struct wire_tag *tag = &send->tag;
    const struct trace_payload payload = {
        tag->comm, tag->seq, tag->to, (uint16_t)tag->slice, (uint16_t)tag->round, send->since, send->credit_since};
    trace_segment_post(lane->trace, lane->flight.next, &payload, put->length, now);
}

/* The lane is idle. Are others not, or were they not since the segment could have been put? */
static bool flight_goes_beside(const struct link_lane *lane, const struct link_send *send)
{
    const struct link_load *load = &lane->link->load;
    uint64_t idle = lane->trace->watch.free_since;
    return load->segments || (load->landed > idle && load->landed > send->since && load->landed > send->credit_since);
}

bool flight_begin(struct link_lane *lane, const struct link_send *send, const struct put *put, uint64_t now)
{
    const struct path_policy *policy = &lane->link->domain->policy;
    if (!lane->flight.at && !(lane->flight.at = malloc(LINK_FLIGHTS * sizeof *lane->flight.at)))
        return false;
    bool beside = lane->trace && !lane->view.segments && flight_goes_beside(lane, send);
    if (lane->trace)
        flight_record(lane, send, put, now);
    struct path_payload payload = nics_payload(lane->link, send->place, send->class, put->length);
    bool direct = path_is_direct(lane->view.nic, &payload), prompt = send->class == PATH_PROMPT;
    bool borrows = !direct && (payload.near || lane->view.nic->owners);
    *flight_at(lane, lane->flight.next++) = (struct flight){.posted = now,
                                                            .token = put->token,
                                                            .length = put->length,
                                                            .imm = put->imm,
                                                            .borrows = borrows,
                                                            .beside = beside,
                                                            .claims = direct && prompt};
    if (direct && prompt)
        nics_serves(lane->view.nic, now);
    lane->link->load.segments++;
    lane->view.segments++;
    lane->view.outstanding += put->length;
    nics_begin(lane, put->length, borrows);
    if (borrows) {
        trace_lane_borrow(lane->trace, lane->view.nic->owner, put->length);
        trace_count(lane->link->domain->trace, WIRE_COUNTER_BORROWED_BYTES, put->length);
    }
    policy->posted(lane->link->policy_state, &lane->view, put->length, now);
    return true;
}

/* The segment is under way no more. */
static void flight_end(struct link_lane *lane, uint64_t position, enum wire_segment_status status, uint64_t when)
{
    struct flight *flight = flight_at(lane, position);
    if (status == WIRE_SEGMENT_LANDED && !flight->borrows) /* else the owner's work would look like a fault */
        trace_segment_landed(lane->trace, position, flight->beside, when);
    else
        trace_segment_end(lane->trace, position, status, when);
    flight->over = true;
    lane->link->load.segments--;
    lane->view.segments--;
    lane->view.outstanding -= flight->length;
    nics_end(lane, flight->length, flight->borrows);
    while (lane->flight.first < lane->flight.next && flight_at(lane, lane->flight.first)->over)
        lane->flight.first++;
}

static void land(struct link_lane *lane, uint64_t position, uint64_t when)
{
    const struct path_policy *policy = &lane->link->domain->policy;
    const struct flight *flight = flight_at(lane, position);
    if (flight->over)
        return;
    when = when < flight->posted ? flight->posted : when;
    if (flight->borrows)
        nics_borrowed(lane, when - flight->posted);
    flight_end(lane, position, WIRE_SEGMENT_LANDED, when);
    if (when > lane->link->load.landed)
        lane->link->load.landed = when;
    lane->view.nic->landed += flight->length;
    if (flight->claims)
        nics_served(lane->view.nic, flight->length, flight->posted, when);
    policy->landed(lane->link->policy_state, &lane->view, flight->length, flight->posted, when);
}

void flight_sent(struct link_lane *lane, uint64_t token, uint64_t now)
{
    for (uint64_t i = lane->flight.first; lane->confirms && i < lane->flight.next; i++)
        if (flight_at(lane, i)->token == token && !flight_at(lane, i)->over) {
            land(lane, i, now);
            return;
        }
}

/* The latest segment with the token: the token of a segment that was read and has not landed may have been given out
 * again. */
void flight_give_up(struct link_lane *lane, uint64_t token)
{
    for (uint64_t i = lane->flight.next; i > lane->flight.first; i--)
        if (flight_at(lane, i - 1)->token == token && !flight_at(lane, i - 1)->over) {
            flight_end(lane, i - 1, WIRE_SEGMENT_GIVEN_UP, clock_ns());
            return;
        }
}

void flight_drop_all(struct link_lane *lane)
{
    while (lane->flight.first < lane->flight.next)
        flight_end(lane, lane->flight.first, WIRE_SEGMENT_LOST, clock_ns());
}

/* Segments of a lane arrive in the order in which they were put: those before have landed, too, or were given up. */
static void land_before(struct link_lane *lane, uint64_t end, uint64_t when)
{
    for (uint64_t i = lane->flight.first; i < end; i++)
        land(lane, i, when);
}

/* A report by which a segment arrived before it was put is of an earlier segment in the same slot. That one is known to
 * have landed by other ways. */
static void land_up_to(struct link_lane *lane, uint32_t imm, uint64_t when)
{
    uint64_t found = lane->flight.first;
    while (found < lane->flight.next && flight_at(lane, found)->imm != imm)
        found++;
    if (found < lane->flight.next && when + CLOCK_SLACK >= flight_at(lane, found)->posted)
        land_before(lane, found + 1, when);
}

void flight_all_landed(struct link *link, uint32_t slot)
{
    for (lane_set left = link->present; left; left &= left - 1) {
        struct link_lane *lane = &link->lane[lane_first(left)];
        uint64_t end = lane->flight.next;
        while (!lane->confirms && end > lane->flight.first && imm_slot(flight_at(lane, end - 1)->imm) != slot)
            end--;
        if (!lane->confirms && end > lane->flight.first)
            land_before(lane, end, clock_ns());
    }
}

uint64_t flight_unsent(const struct link_lane *lane)
{
    uint64_t position = lane->flight.next;
    for (uint32_t unsent = lane->puts; unsent && position > lane->flight.first;)
        unsent -= !flight_at(lane, --position)->over;
    return position;
}

void flight_answered(struct link_lane *lane, const void *body, size_t length)
{
    uint64_t end;
    if (lane->confirms || length != sizeof end)
        return;
    memcpy(&end, body, sizeof end);
    land_before(lane, end < lane->flight.next ? end : lane->flight.next, clock_ns());
}

/* The peer's time in ours. */
static uint64_t our_time(struct peer_clock *clock, uint64_t theirs, uint64_t now)
{
    int64_t difference = (int64_t)(now - theirs);
    if (!clock->since || now - clock->since > CLOCK_SPAN) {
        clock->before = clock->since && now - clock->since < 2 * CLOCK_SPAN ? clock->least : difference;
        clock->least = difference;
        clock->since = now;
    }
    if (difference < clock->least)
        clock->least = difference;
    return theirs + (uint64_t)(clock->least < clock->before ? clock->least : clock->before);
}

void flight_hear(struct link *link, const void *reports, size_t length)
{
    uint64_t now = length >= sizeof(struct wire_landed) ? clock_ns() : 0;
    for (size_t at = 0; length - at >= sizeof(struct wire_landed); at += sizeof(struct wire_landed)) {
        struct wire_landed report;
        memcpy(&report, (const char *)reports + at, sizeof report);
        struct link_lane *lane = link_lane(link, report.lane);
        if (!lane || (int32_t)(report.number - lane->flight.heard) <= 0)
            continue;
        lane->flight.heard = report.number;
        uint64_t when = our_time(&link->reports.clock, report.when, now);
        if (lane->state == LANE_UP && lane->epoch == report.epoch)
            land_up_to(lane, report.imm, when > now ? now : when);
    }
}

void flight_timed(struct link *link, const void *body, size_t length)
{
    struct link_sample *sample = &link->out.sample;
    struct wire_timed timed;
    if (length != sizeof timed || !sample->waits)
        return;
    memcpy(&timed, body, sizeof timed);
    if (timed.sequence != sample->sequence)
        return;
    uint64_t now = clock_ns(), when = our_time(&link->reports.clock, timed.when, now);
    sample->waits = false;
    when = when > now ? now : when < sample->sent ? sample->sent : when;
    trace_watch_message(link->lane[sample->lane].trace, when - sample->sent, when);
}

/* ---- What we say to the peer ---- */

/* No later report is about this report's lane, which is still the same one: a sender may wait for this report alone. */
static bool is_latest(const struct link *link, const struct wire_landed *report)
{
    const struct link_lane *lane = &link->lane[report->lane];
    return report->number == lane->flight.latest && report->epoch == lane->epoch;
}

/* Position of the oldest report that is of use. */
static uint64_t flight_oldest(const struct link *link)
{
    return link->reports.next < link->reports.most ? 0 : link->reports.next - link->reports.most;
}

/* The place of the next report. The latest report about each lane stays among those of use: it moves on, and the oldest
 * other report goes. There is another one, for there are fewer lanes than reports. */
static struct wire_landed *flight_next_word(struct link *link)
{
    struct wire_landed *landed = link->reports.landed;
    uint64_t first = flight_oldest(link), behind = 0;
    while (link->reports.next >= link->reports.most && is_latest(link, &landed[(first + behind) % LINK_LANDED]))
        behind++;
    for (; behind; behind--)
        landed[(first + behind) % LINK_LANDED] = landed[(first + behind - 1) % LINK_LANDED];
    return &landed[link->reports.next++ % LINK_LANDED];
}

void flight_arrived(struct link_lane *lane, uint32_t imm)
{
    struct link *link = lane->link;
    if (lane->confirms)
        return;
    if (list_empty(&link->reports.telling))
        list_push(&link->domain->telling, &link->reports.telling);
    struct wire_landed *report = flight_next_word(link);
    *report = (struct wire_landed){lane->signs.heard, lane->epoch, lane->index, imm, (uint32_t)link->reports.next};
    lane->flight.latest = report->number;
    link->reports.unsaid++;
}

/* Can reports about the lane go over itself? There they stay in order, are as evenly spread as the segments, and end
 * with what they are about: none is said twice. */
static bool says_its_own(const struct link_lane *lane)
{
    return lane->state == LANE_UP && lane->carrier && lane->ops != lane->link->messages &&
           lane->ops->caps & TRANSPORT_MESSAGES;
}

/* Returns how many of the lane's own reports could not be said. */
static uint32_t say_own(struct link_lane *lane)
{
    const struct link *link = lane->link;
    struct wire_landed reports[LINK_LANDED];
    uint64_t first = flight_oldest(link);
    uint32_t count = 0;
    for (uint64_t i = first; i < link->reports.next; i++) {
        const struct wire_landed *report = &link->reports.landed[i % LINK_LANDED];
        if (report->lane == lane->index && report->epoch == lane->epoch &&
            (int32_t)(report->number - lane->flight.said) > 0)
            reports[count++] = *report;
    }
    if (!count || !message_say_on(lane, WIRE_LANDED, reports, count * sizeof *reports))
        return count;
    lane->flight.said = reports[count - 1].number;
    return 0;
}

/* Is any report that is not said about a lane over which it cannot go? */
static bool others_unsaid(const struct link *link)
{
    uint32_t most = link->reports.most, count = link->reports.unsaid < most ? link->reports.unsaid : most;
    for (uint32_t i = 0; i < count; i++)
        if (!says_its_own(&link->lane[link->reports.landed[(link->reports.next - count + i) % LINK_LANDED].lane]))
            return true;
    return false;
}

/* The latest reports, about every lane one of them, oldest first, said or not: what was said before may be on its way
 * still, behind much data on a slow lane. Returns bytes. */
static size_t flight_gather(const struct link *link, struct wire_landed *reports)
{
    uint32_t count = (uint32_t)(link->reports.next - flight_oldest(link));
    for (uint32_t i = 0; i < count; i++)
        reports[i] = link->reports.landed[(link->reports.next - count + i) % LINK_LANDED];
    return count * sizeof *reports;
}

static bool flight_is_quicker(const struct link_lane *lane, const struct link_lane *than)
{
    if (lane->pace.suspect != than->pace.suspect)
        return than->pace.suspect;
    return lane->view.outstanding < than->view.outstanding;
}

/* The lane with the fewest bytes of ours to carry first; one that stands still only where all do. */
static struct link_lane *quickest(struct link *link)
{
    struct link_lane *best = NULL;
    for (lane_set left = link->present; left; left &= left - 1) {
        struct link_lane *lane = &link->lane[lane_first(left)];
        bool right = lane->ops == link->messages || lane->index == link->control;
        if (lane->state == LANE_UP && right && (!best || flight_is_quicker(lane, best)))
            best = lane;
    }
    return best;
}

/* Says the reports that do not go over their own lanes. Returns how many of them could not be said. Without a lane for
 * messages there is nobody to tell: DONE will. */
static uint32_t say_others(struct link *link, uint32_t unsaid)
{
    struct wire_landed reports[LINK_LANDED];
    size_t size = flight_gather(link, reports);
    struct link_lane *lane = quickest(link);
    return !lane || message_say_on(lane, WIRE_LANDED, reports, size) ? 0 : unsaid;
}

static void flight_say(struct link *link, uint64_t now)
{
    uint32_t unsaid = link->reports.unsaid, left = 0;
    bool others = others_unsaid(link);
    link->reports.said = now;
    link->reports.unsaid = 0;
    for (lane_set of = link->present >> LINK_DATA_LANE; of && !link->lost; of &= of - 1)
        if (says_its_own(&link->lane[LINK_DATA_LANE + lane_first(of)]))
            left += say_own(&link->lane[LINK_DATA_LANE + lane_first(of)]);
    if (others && !link->lost)
        left += say_others(link, unsaid);
    if (!left || link->lost)
        return;
    link->reports.unsaid += left < unsaid ? left : unsaid; /* with the next one */
    if (list_empty(&link->reports.telling))
        list_push(&link->domain->telling, &link->reports.telling);
}

void flight_tell(struct link_domain *domain, bool all)
{
    uint64_t now = clock_ns();
    struct list turn, *node; /* saying may lose links: what is on a list may go at any time */
    list_init(&turn);
    while ((node = list_pop(&domain->telling)))
        list_push(&turn, node);
    while ((node = list_pop(&turn))) {
        struct link *link = list_entry(node, struct link, reports.telling);
        if (all || link->reports.unsaid >= BATCH || now - link->reports.said >= OVERDUE)
            flight_say(link, now);
        else
            list_push(&domain->telling, node);
    }
}

void flight_tell_again(struct link *link)
{
    if (link->lost || !link->reports.next)
        return;
    link->reports.unsaid = BATCH;
    if (list_empty(&link->reports.telling))
        list_push(&link->domain->telling, &link->reports.telling);
}

void flight_done(struct link *link, uint32_t slot)
{
    struct wire_message head = {.kind = WIRE_DONE, .slot = (uint16_t)slot};
    struct wire_landed reports[LINK_LANDED];
    size_t size = flight_gather(link, reports);
    link->reports.unsaid = 0;
    list_remove(&link->reports.telling);
    message_send(link, &head, reports, size);
}
