/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: of a lane that is probed when nothing comes from it, and of a peer that somebody waits for. */
#include "link/internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"

#define ASK_AFTER                                                                                                      \
    (100 * NS_PER_MS) /* silence after which a peer is asked whether it lives, or whether anything moves */

void lanes_heard(struct link_lane *lane)
{
    lane->heard = lane->link->heard = clock_ns();
    if (lane->probed && since(lane->probed, lane->heard) > (uint64_t)param_int(PARAM_PROBE_TIMEOUT) * NS_PER_MS / 2)
        lanes_event(lane, WIRE_EVENT_PROBE_ANSWER, since(lane->probed, lane->heard) / NS_PER_US, 0);
    lane->probed = 0;
}

/* Has anything gone through the lane since the last look? */
static bool moves(struct link_lane *lane, uint64_t now)
{
    uint64_t moved = lane->lane ? lane->ops->moved(lane->lane) : lane->moved;
    bool news = moved != lane->moved;
    lane->moved = moved;
    lane->moved_at = news ? now : lane->moved_at;
    return news;
}

/* ---- A lane ---- */

static bool probe(struct link_lane *lane)
{
    uint64_t unsent = flight_unsent(lane);
    return message_say_on(lane, WIRE_PROBE, &unsent, sizeof unsent);
}

/* Is a lane that has not answered still to be waited for? The question, or the answer, may lie behind segments on a
 * slow way: as long as these move, the lane lives. */
static bool is_slow(struct link_lane *lane, uint64_t patience, uint64_t now)
{
    return since(lane->moved_at, now) <= patience || moves(lane, now);
}

/* Questions that are answered soon are no news, and would drive others out of the black box: a lane that nobody uses is
 * asked again and again. */
void lanes_probe(struct link_lane *lane, uint64_t now)
{
    uint64_t after = (uint64_t)param_int(PARAM_PROBE_AFTER) * NS_PER_MS;
    uint64_t patience = (uint64_t)param_int(PARAM_PROBE_TIMEOUT) * NS_PER_MS;
    if (lane->probed && since(lane->probed, now) > patience) {
        if (is_slow(lane, patience, now))
            return;
        lanes_event(lane, WIRE_EVENT_PROBE, since(lane->heard, now) / NS_PER_MS, 0);
        error_note(TUTTI_REMOTE_ERROR, "lane %u to process %u is silent", lane->index, lane->link->peer.pid);
        lanes_dead(lane, TUTTI_SYSTEM_ERROR);
    } else if (!lane->probed && since(lane->heard, now) > after) {
        lane->probed = now;
        trace_count(lane->link->domain->trace, WIRE_COUNTER_PROBES, 1);
        probe(lane);
        moves(lane, now);
        lane->moved_at = 0; /* what moves from here on counts */
    }
}

/* ---- A peer ---- */

/* A message of the lane's own: it may be lost with the lane, or find no room. On the same lane it is not repeated, for
 * what the peer's system confirms of questions is no sign of life. */
static void silence_ask(struct link *link)
{
    struct link_lane *lane = &link->lane[link->control < 0 ? 0 : link->control];
    uint64_t on = (uint64_t)lane->epoch << 32 | (lane->index + 1u);
    if (link->control >= 0 && link->asked_on != on && probe(lane))
        link->asked_on = on;
}

/* A stopped process gives no sign of life by this for longer than its system's buffers take to fill. */
static bool any_moves(struct link *link, uint64_t now)
{
    bool any = false;
    if (now < link->moves_asked + ASK_AFTER)
        return false;
    link->moves_asked = now;
    for (int i = 0; i < link->lanes; i++)
        any |= link->lane[i].state == LANE_UP && moves(&link->lane[i], now);
    return any;
}

static void take_answer(struct link *link)
{
    if (link->heard >= link->asked)
        link->asked = 0;
}

uint64_t link_silence(struct link *link, uint64_t now)
{
    if (!link->messages || link->lost)
        return 0;
    lanes_start(link);
    take_answer(link);
    if (!link->asked && now < link->heard + ASK_AFTER)
        return 0;
    bool is_first = !link->asked;
    link->asked = is_first ? now : link->asked;
    link->asked_on = is_first ? 0 : link->asked_on;
    silence_ask(link);
    bool moved = any_moves(link, now);
    if (!moved || is_first) /* what moved before the question answers nothing */
        return now - link->asked;
    link->heard = now;
    return 0;
}

/* ---- This process ---- */

static void put_off(uint64_t *begin, uint64_t ns, uint64_t now)
{
    if (*begin)
        *begin = *begin + ns < now ? *begin + ns : now;
}

void link_excuse(struct link_domain *domain, uint64_t ns, uint64_t now)
{
    list_each(node, &domain->links)
    {
        struct link *link = list_entry(node, struct link, node);
        take_answer(link); /* which came before: not to be taken for an older sign */
        put_off(&link->asked, ns, now);
        put_off(&link->down_since, ns, now);
        for (int i = 0; i < link->lanes; i++) {
            put_off(&link->lane[i].probed, ns, now);
            put_off(&link->lane[i].moved_at, ns, now);
        }
    }
}
