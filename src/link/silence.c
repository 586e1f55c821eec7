/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: of a lane that is probed when nothing comes from it, and of a peer that somebody waits for. */
#include "link/silence.h"

#include "base/param.h"
#include "link/flight.h"
#include "link/message.h"

#define ASK_AFTER                                                                                                      \
    (100 * NS_PER_MS) /* silence after which a peer is asked whether it lives, or whether anything moves */

/* Has anything gone through the lane since the last look? */
static bool silence_moves(struct link_lane *lane, uint64_t now)
{
    uint64_t moved = lane->carrier ? lane->ops->moved(lane->carrier) : lane->signs.moved;
    bool news = moved != lane->signs.moved;
    lane->signs.moved = moved;
    lane->signs.moved_at = news ? now : lane->signs.moved_at;
    return news;
}

/* ---- A lane ---- */

bool silence_question(struct link_lane *lane)
{
    uint64_t unsent = flight_unsent(lane);
    return message_say_on(lane, WIRE_PROBE, &unsent, sizeof unsent);
}

/* Is a lane that has not answered still to be waited for? The question, or the answer, may lie behind segments on a
 * slow way: while these move, the lane lives. */
static bool silence_lane_is_slow(struct link_lane *lane, uint64_t patience, uint64_t now)
{
    return since(lane->signs.moved_at, now) <= patience || silence_moves(lane, now);
}

bool silence_matters(const struct link_lane *lane)
{
    bool says = lane->link->control == lane->index || lane->index == LINK_MESSAGE_LANE;
    return says || lane->puts || lane->view.segments;
}

/* Whether the peer's system has all is what decides: where it has, the process stands still, and no lane is to blame.
 * Where the transport finds out by itself that a lane has died, that is waited for. */
static bool silence_lane_is_dead(struct link_lane *lane)
{
    return !(lane->ops->caps & TRANSPORT_JUDGES) && silence_matters(lane) && lane->ops->owes(lane->carrier);
}

/* Questions that are answered soon are no news, and would drive others out of the black box: a lane that nobody uses is
 * asked again and again. */
bool silence_probe(struct link_lane *lane, uint64_t now)
{
    uint64_t after = (uint64_t)param_int(PARAM_PROBE_AFTER) * NS_PER_MS;
    uint64_t patience = (uint64_t)param_int(PARAM_PROBE_TIMEOUT) * NS_PER_MS;
    if (lane->signs.probed && since(lane->signs.probed, now) > patience) {
        if (silence_lane_is_slow(lane, patience, now) || !silence_lane_is_dead(lane))
            return true;
        lane_event(lane, WIRE_EVENT_PROBE, since(lane->signs.heard, now) / NS_PER_MS, 0);
        error_note(TUTTI_REMOTE_ERROR, "lane %u to process %u is silent", lane->index, lane->link->peer.pid);
        return false;
    }
    uint64_t sign = lane->signs.heard > lane->pace.taken ? lane->signs.heard : lane->pace.taken;
    if (!lane->signs.probed && since(sign, now) > after) {
        lane->signs.probed = now;
        trace_count(lane->link->domain->trace, WIRE_COUNTER_PROBES, 1);
        silence_question(lane);
        silence_moves(lane, now);
        lane->signs.moved_at = 0; /* what moves from here on counts */
    }
    return true;
}

/* ---- A peer ---- */

/* A message of the lane's own: it may be lost with the lane, or find no room. On the same lane it is not repeated, for
 * what the peer's system confirms of questions is no sign of life. */
static void silence_ask(struct link *link)
{
    struct link_lane *lane = &link->lane[link->control < 0 ? 0 : link->control];
    uint64_t on = (uint64_t)lane->epoch << 32 | (lane->index + 1u);
    if (link->control >= 0 && link->signs.asked_on != on && silence_question(lane))
        link->signs.asked_on = on;
}

/* A stopped process gives no sign of life by this for longer than its system's buffers take to fill. */
static bool silence_any_moves(struct link *link, uint64_t now)
{
    bool any = false;
    if (now < link->signs.moves_asked + ASK_AFTER)
        return false;
    link->signs.moves_asked = now;
    for (lane_set left = link->present; left; left &= left - 1)
        any |= link->lane[lane_first(left)].state == LANE_UP && silence_moves(&link->lane[lane_first(left)], now);
    return any;
}

static void silence_take_answer(struct link *link)
{
    if (link->signs.heard >= link->signs.asked)
        link->signs.asked = 0;
}

uint64_t link_silence(struct link *link, uint64_t now)
{
    if (!link->messages || link->lost)
        return 0;
    link_start(link);
    silence_take_answer(link);
    if (!link->signs.asked && now < link->signs.heard + ASK_AFTER)
        return 0;
    bool is_first = !link->signs.asked;
    link->signs.asked = is_first ? now : link->signs.asked;
    link->signs.asked_on = is_first ? 0 : link->signs.asked_on;
    silence_ask(link);
    bool moved = silence_any_moves(link, now);
    if (!moved || is_first) /* what moved before the question answers nothing */
        return now - link->signs.asked;
    link->signs.heard = now;
    return 0;
}

/* ---- This process ---- */

static void silence_put_off(uint64_t *begin, uint64_t ns, uint64_t now)
{
    if (*begin)
        *begin = *begin + ns < now ? *begin + ns : now;
}

void link_excuse(struct link_domain *domain, uint64_t ns, uint64_t now)
{
    list_each(node, &domain->links)
    {
        struct link *link = list_entry(node, struct link, node);
        silence_take_answer(link); /* which came before: not to be taken for an older sign */
        silence_put_off(&link->signs.asked, ns, now);
        silence_put_off(&link->life.down_since, ns, now);
        for (lane_set left = link->present; left; left &= left - 1) {
            struct lane_signs *signs = &link->lane[lane_first(left)].signs;
            silence_put_off(&signs->probed, ns, now);
            silence_put_off(&signs->moved_at, ns, now);
        }
    }
}
