/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that were put on a lane and are not at the peer yet. When a lane needs a source no longer says little of
 * when the peer has it: a TCP socket takes megabytes into its buffer. So the receiver says which segments have landed,
 * and when by its clock, some in one message (WIRE_LANDED, or with DONE); where sent() says the same
 * (TRANSPORT_CONFIRMS) it keeps silent. The other clock is turned into ours by the least difference seen between a
 * word's arrival and what it says: that of the word that was quickest. So neither the words' way back, behind data of
 * ours, nor their collecting makes a segment's time longer. docs/link.md.
 */
#include "link/internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(LINK_FLIGHTS <= WIRE_BOX_SEGMENTS, "what is under way has a record");

#define BATCH       4                 /* segments told in one word, unless */
#define OVERDUE     (100 * NS_PER_US) /* the last word was so long ago: of a lane that is slow each segment is news */
#define CLOCK_SPAN  NS_PER_S          /* clocks drift apart: differences older than two of these are forgotten, */
#define CLOCK_SLACK NS_PER_MS         /* and more than this they do not drift meanwhile */

/* ---- What the peer says ---- */

static struct flight *flight_at(const struct link_lane *lane, uint64_t position)
{
    return &lane->flights[position % LINK_FLIGHTS];
}

static void record(struct link_lane *lane, const struct link_send *send, const struct put *put, uint64_t now)
{
    const struct wire_tag *tag = &send->tag;
    const struct trace_payload payload = {
        tag->comm, tag->seq, tag->to, (uint16_t)tag->slice, (uint16_t)tag->round, send->since, send->credit_since};
    trace_segment_post(lane->trace, lane->next_flight, &payload, put->length, now);
}

bool flight_begin(struct link_lane *lane, const struct link_send *send, const struct put *put, uint64_t now)
{
    const struct path_policy *policy = &lane->link->domain->policy;
    if (!lane->flights && !(lane->flights = malloc(LINK_FLIGHTS * sizeof *lane->flights)))
        return false;
    if (lane->trace)
        record(lane, send, put, now);
    *flight_at(lane, lane->next_flight++) = (struct flight){now, put->token, put->length, put->imm, false};
    lane->view.segments++;
    lane->view.outstanding += put->length;
    lane->view.nic->outstanding += put->length;
    policy->posted(lane->link->policy_state, &lane->view, put->length, now);
    return true;
}

/* It is under way no more. */
static void end(struct link_lane *lane, uint64_t position, enum wire_segment_status status, uint64_t when)
{
    struct flight *flight = flight_at(lane, position);
    trace_segment_end(lane->trace, position, status, when);
    flight->over = true;
    lane->view.segments--;
    lane->view.outstanding -= flight->length;
    lane->view.nic->outstanding -= flight->length;
    while (lane->first_flight < lane->next_flight && flight_at(lane, lane->first_flight)->over)
        lane->first_flight++;
}

static void land(struct link_lane *lane, uint64_t position, uint64_t when)
{
    const struct path_policy *policy = &lane->link->domain->policy;
    const struct flight *flight = flight_at(lane, position);
    if (flight->over)
        return;
    when = when < flight->posted ? flight->posted : when;
    end(lane, position, WIRE_SEGMENT_LANDED, when);
    lane->view.nic->landed += flight->length;
    policy->landed(lane->link->policy_state, &lane->view, flight->length, flight->posted, when);
}

void flight_sent(struct link_lane *lane, uint64_t token, uint64_t now)
{
    for (uint64_t i = lane->first_flight; lane->confirms && i < lane->next_flight; i++)
        if (flight_at(lane, i)->token == token && !flight_at(lane, i)->over) {
            land(lane, i, now);
            return;
        }
}

/* The latest one: of a segment that was read and has not landed the token may have been given out again. */
void flight_give_up(struct link_lane *lane, uint64_t token)
{
    for (uint64_t i = lane->next_flight; i > lane->first_flight; i--)
        if (flight_at(lane, i - 1)->token == token && !flight_at(lane, i - 1)->over) {
            end(lane, i - 1, WIRE_SEGMENT_GIVEN_UP, clock_ns());
            return;
        }
}

void flight_drop_all(struct link_lane *lane)
{
    while (lane->first_flight < lane->next_flight)
        end(lane, lane->first_flight, WIRE_SEGMENT_LOST, clock_ns());
}

/* Segments of a lane arrive in the order in which they were put: those before have landed, too, or were given up. */
static void land_before(struct link_lane *lane, uint64_t end, uint64_t when)
{
    for (uint64_t i = lane->first_flight; i < end; i++)
        land(lane, i, when);
}

/* A word that says when a segment arrived before it was put is of an earlier one in the same slot, known to have landed
 * by other ways. */
static void land_up_to(struct link_lane *lane, uint32_t imm, uint64_t when)
{
    uint64_t found = lane->first_flight;
    while (found < lane->next_flight && flight_at(lane, found)->imm != imm)
        found++;
    if (found < lane->next_flight && when + CLOCK_SLACK >= flight_at(lane, found)->posted)
        land_before(lane, found + 1, when);
}

void flight_all_landed(struct link *link, uint32_t slot)
{
    for (int i = 0; i < link->lanes; i++) {
        struct link_lane *lane = &link->lane[i];
        uint64_t end = lane->next_flight;
        while (!lane->confirms && end > lane->first_flight && flight_at(lane, end - 1)->imm >> 16 != slot)
            end--;
        if (!lane->confirms && end > lane->first_flight)
            land_before(lane, end, clock_ns());
    }
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

void flight_hear(struct link *link, const void *words, size_t length)
{
    uint64_t now = length >= sizeof(struct wire_landed) ? clock_ns() : 0;
    for (size_t at = 0; length - at >= sizeof(struct wire_landed); at += sizeof(struct wire_landed)) {
        struct wire_landed word;
        memcpy(&word, (const char *)words + at, sizeof word);
        if ((int32_t)(word.number - link->landed_heard) <= 0)
            continue;
        link->landed_heard = word.number;
        uint64_t when = our_time(&link->clock, word.when, now);
        if (word.lane >= (unsigned)link->lanes || link->lane[word.lane].state != LANE_UP ||
            link->lane[word.lane].epoch != word.epoch)
            continue;
        land_up_to(&link->lane[word.lane], word.imm, when > now ? now : when);
    }
}

/* ---- What we say to the peer ---- */

void flight_arrived(struct link_lane *lane, uint32_t imm)
{
    struct link *link = lane->link;
    if (lane->confirms)
        return;
    if (list_empty(&link->telling))
        list_push(&link->domain->telling, &link->telling);
    struct wire_landed *word = &link->landed[link->landed_next++ % LINK_LANDED];
    *word = (struct wire_landed){lane->heard, lane->epoch, lane->index, imm, link->landed_next};
    link->landed_unsaid++;
}

/* The latest words, oldest first, said or not: what was said before may be on its way still, behind much data on a slow
 * lane. Returns bytes. */
static size_t gather(const struct link *link, struct wire_landed *words)
{
    uint32_t count = link->landed_next < LINK_LANDED ? link->landed_next : LINK_LANDED;
    for (uint32_t i = 0; i < count; i++)
        words[i] = link->landed[(link->landed_next - count + i) % LINK_LANDED];
    return count * sizeof *words;
}

/* The lane that has the least of ours to carry before. */
static struct link_lane *quickest(struct link *link)
{
    struct link_lane *best = NULL;
    for (int i = 0; i < link->lanes; i++) {
        struct link_lane *lane = &link->lane[i];
        if (lane->state == LANE_UP && lane->ops == link->messages &&
            (!best || lane->view.outstanding < best->view.outstanding))
            best = lane;
    }
    return best;
}

static void say(struct link *link, uint64_t now)
{
    struct wire_landed words[LINK_LANDED];
    size_t size = gather(link, words);
    struct link_lane *lane = quickest(link);
    uint32_t unsaid = link->landed_unsaid;
    link->landed_said = now;
    link->landed_unsaid = 0;
    if (!lane || message_say_on(lane, WIRE_LANDED, words, size) || link->lost)
        return;                    /* without a lane for messages there is nobody to tell: DONE will */
    link->landed_unsaid += unsaid; /* with the next one */
    if (list_empty(&link->telling))
        list_push(&link->domain->telling, &link->telling);
}

void flight_tell(struct link_domain *domain, bool all)
{
    uint64_t now = clock_ns();
    struct list turn, *node; /* saying may lose links: what is on a list may go at any time */
    list_init(&turn);
    while ((node = list_pop(&domain->telling)))
        list_push(&turn, node);
    while ((node = list_pop(&turn))) {
        struct link *link = list_entry(node, struct link, telling);
        if (all || link->landed_unsaid >= BATCH || now - link->landed_said >= OVERDUE)
            say(link, now);
        else
            list_push(&domain->telling, node);
    }
}

void flight_tell_again(struct link *link)
{
    if (link->lost || !link->landed_next)
        return;
    link->landed_unsaid = BATCH;
    if (list_empty(&link->telling))
        list_push(&link->domain->telling, &link->telling);
}

void flight_done(struct link *link, uint32_t slot)
{
    struct wire_message head = {.kind = WIRE_DONE, .slot = (uint16_t)slot};
    struct wire_landed words[LINK_LANDED];
    size_t size = gather(link, words);
    link->landed_unsaid = 0;
    list_remove(&link->telling);
    message_send(link, &head, words, size);
}
