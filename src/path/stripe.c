/* SPDX-License-Identifier: Apache-2.0 */
/* Striping by expected arrival; or in turn, where that is asked for (TUTTI_STRIPE). */
#include "path/share.h"

#include "base/clock.h"
#include "base/param.h"

#define UNKNOWN 2               /* segments under way on a lane of which none has landed yet */
#define TRY     NS_PER_S        /* without news of a lane, it is tried as if it were as good as the best, */
#define RARELY  (16 * NS_PER_S) /* and after pauses that double, up to this one, while it stays slow: */
#define SLOW    4               /* times as slow as the best */
#define SCALE   1048576         /* costs are ns for this number of bytes */
#define NEAR    1.125           /* times the earliest arrival: as good, for what is known of a lane is not exact; */
#define PLANNED 1.5             /* where source ports are planned, for there an even share is worth more */
#define TURNS   1               /* of TUTTI_STRIPE: arrival|turns */

struct stripe_lane {
    uint64_t cost;   /* smoothed; 0: nothing has landed */
    uint64_t landed; /* when the latest segment did */
    uint64_t pause;  /* without news after which it is tried; 0: TRY */
    bool tried;      /* the segment under way shows what it is worth now, whatever it was before */
    struct path_share share;
};

struct stripe {
    struct stripe_lane lane[LINK_MAX_LANES];
    uint16_t turn; /* index of the lane that took the latest segment */
};

static uint64_t pause_of(const struct stripe_lane *lane)
{
    return lane->pause ? lane->pause : TRY;
}

/* Has the lane been idle until what is known of it says little? */
static bool stripe_is_stale(const struct stripe_lane *mine, const struct path_lane *lane, uint64_t now)
{
    return !lane->segments && now > mine->landed && now - mine->landed >= pause_of(mine);
}

static uint64_t cost_of(const struct stripe *stripe, const struct path_lane *lane, uint64_t best, uint64_t now)
{
    const struct stripe_lane *mine = &stripe->lane[lane->index];
    return mine->cost < best || stripe_is_stale(mine, lane, now) ? best : mine->cost;
}

/* A lane of which nothing is known is as good as the best, and tried with little. */
static uint64_t best_cost(const struct stripe *stripe, const struct path_lane *const *lanes, int count)
{
    uint64_t best = 0;
    for (int i = 0; i < count; i++) {
        uint64_t cost = stripe->lane[lanes[i]->index].cost;
        if (cost && (!best || cost < best))
            best = cost;
    }
    return best ? best : 1;
}

/* The lanes of one choice: when `length` more bytes would be at the peer, in ns times SCALE of time to come, and the
 * cost by which. */
struct choice {
    const struct path_lane *const *lanes;
    int count;
    double *time, *cost; /* of each */
};

/* How many lanes behind the one that took the latest segment. */
static int behind(const struct stripe *stripe, const struct path_lane *lane)
{
    return (lane->index - stripe->turn - 1 + LINK_MAX_LANES) % LINK_MAX_LANES;
}

/* Of two that are as good: by the interface with less under way, else in turn. Would lowest numbers win, all hosts
 * chose the same lanes at once, and leave others idle. */
static bool better(const struct stripe *stripe, const struct path_lane *lane, const struct path_lane *than)
{
    const struct path_nic *mine = lane->nic, *other = than->nic;
    uint64_t here = mine->outstanding + mine->elsewhere, there = other->outstanding + other->elsewhere;
    return mine != other && here != there ? here < there : behind(stripe, lane) < behind(stripe, than);
}

/* When the first of them is done, of all or of those with room; -1: there is none. */
static double earliest(const struct choice *choice, bool room)
{
    double first = -1;
    for (int i = 0; i < choice->count; i++)
        if (choice->time[i] >= 0 && (!room || choice->lanes[i]->room) && (first < 0 || choice->time[i] < first))
            first = choice->time[i];
    return first;
}

/* Of the lanes with room that are done by then; -1: none is. */
static int pick_by(const struct stripe *stripe, const struct choice *choice, double when)
{
    int chosen = -1;
    for (int i = 0; i < choice->count; i++)
        if (choice->time[i] >= 0 && choice->lanes[i]->room && choice->time[i] <= when &&
            (chosen < 0 || better(stripe, choice->lanes[i], choice->lanes[chosen])))
            chosen = i;
    return chosen;
}

/* When the other lanes would have carried all the rest. */
static double without(const struct choice *choice, int lane, uint64_t rest)
{
    double bytes = (double)rest, rate = 0;
    for (int i = 0; i < choice->count; i++) {
        if (i == lane)
            continue;
        bytes += (double)choice->lanes[i]->outstanding;
        rate += 1 / choice->cost[i];
    }
    return bytes / rate;
}

/* The lane behind the one that took the latest segment, also if that means to wait for it. */
static int pick_turn(const struct stripe *stripe, const struct path_lane *const *lanes, int count)
{
    int next = 0, least = LINK_MAX_LANES;
    for (int i = 0; i < count; i++) {
        int here = behind(stripe, lanes[i]);
        if (here < least) {
            least = here;
            next = i;
        }
    }
    return next;
}

/* A lane that is done with the segment first, or nearly. While those are full another one may take it that is done
 * before the payload is. */
static int pick_of(const struct stripe *stripe, const struct path_lane *const *lanes, int count,
                   const struct path_payload *payload, size_t length, uint64_t now)
{
    double time[LINK_MAX_LANES], cost[LINK_MAX_LANES];
    struct choice choice = {lanes, count, time, cost};
    if (count == 1)
        return 0;
    if (param_int(PARAM_STRIPE) == TURNS)
        return pick_turn(stripe, lanes, count);
    uint64_t best = best_cost(stripe, lanes, count);
    for (int i = 0; i < count; i++) {
        bool tried = !stripe->lane[lanes[i]->index].cost && lanes[i]->segments >= UNKNOWN;
        choice.cost[i] = (double)cost_of(stripe, lanes[i], best, now);
        choice.time[i] = tried ? -1 : (double)(lanes[i]->outstanding + length) * choice.cost[i];
    }
    double near = *param_string(PARAM_PATHS) ? PLANNED : NEAR;
    int first = pick_by(stripe, &choice, near * earliest(&choice, false));
    int open = first < 0 ? pick_by(stripe, &choice, near * earliest(&choice, true)) : first;
    if (open < 0 || first == open || choice.time[open] <= without(&choice, open, payload->left - length))
        return open;
    return -1;
}

static int pick(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                size_t length, uint64_t now)
{
    const struct path_lane *fit[LINK_MAX_LANES];
    int fits = path_borrow(lanes, count, payload, length, fit);
    int chosen = fits ? pick_of(state, fit, fits, payload, length, now) : -1, position = chosen;
    while (chosen >= 0 && lanes[position] != fit[chosen]) /* in the same order */
        position++;
    return position;
}

static void posted(void *state, const struct path_lane *lane, size_t length, uint64_t now)
{
    struct stripe *stripe = state;
    struct stripe_lane *mine = &stripe->lane[lane->index];
    (void)length;
    mine->tried |= lane->segments == 1 && mine->cost && now > mine->landed && now - mine->landed >= pause_of(mine);
    path_share_posted(&mine->share, lane, now);
    stripe->turn = lane->index;
}

/* What it was is forgotten, unless it still is. */
static void judge_trial(struct stripe *stripe, struct stripe_lane *mine, uint64_t cost)
{
    uint64_t best = 0, longer = 2 * pause_of(mine);
    for (int i = 0; i < LINK_MAX_LANES; i++) {
        uint64_t here = &stripe->lane[i] == mine ? cost : stripe->lane[i].cost;
        best = here && (!best || here < best) ? here : best;
    }
    mine->pause = cost <= SLOW * best ? TRY : longer < RARELY ? longer : RARELY;
    mine->cost = cost < mine->cost ? cost : mine->cost;
}

/* A lane serves one segment after the other: this one since it was put, or since the one before had landed. */
static void landed(void *state, const struct path_lane *lane, size_t length, uint64_t posted, uint64_t when)
{
    struct stripe_lane *mine = &((struct stripe *)state)->lane[lane->index];
    uint64_t since = posted > mine->landed ? posted : mine->landed, time = when > since ? when - since : 0;
    uint64_t cost = (uint64_t)((double)time * SCALE / (double)length) + 1;
    if (mine->tried)
        judge_trial(state, mine, cost);
    mine->tried = false;
    mine->cost = mine->cost ? mine->cost - mine->cost / 8 + cost / 8 + 1 : cost;
    mine->landed = when;
    path_share_landed(&mine->share, lane, length, posted, when);
}

static void up(void *state, const struct path_lane *lane)
{
    struct stripe_lane *mine = &((struct stripe *)state)->lane[lane->index];
    *mine = (struct stripe_lane){0};
    path_share_begin(&mine->share, lane);
}

static struct path_window window(void *state, const struct path_lane *lane, const struct path_payload *payload,
                                 uint64_t now)
{
    uint64_t us;
    enum path_origin origin;
    if (!payload)
        return path_window_of(lane, &us, &origin);
    return path_share_window(&((const struct stripe *)state)->lane[lane->index].share, payload);
}

const struct path_policy path_stripe = {.name = "stripe",
                                        .state_bytes = sizeof(struct stripe),
                                        .open = path_settings,
                                        .lanes = path_lanes_and_backups,
                                        .window = window,
                                        .pick = pick,
                                        .posted = posted,
                                        .landed = landed,
                                        .up = up,
                                        .segment = path_cut,
                                        .source = path_lane_source,
                                        .steered = path_leased_port};
