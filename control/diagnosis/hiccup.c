/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: interfaces that carried slowly for a while, and are as quick as usual again. Lanes remember it for an hour,
 * each at the end that sends. A note, no verdict: the job is not slow now. Where it is, interfaces that are still slow
 * are evidence. Per interface the time is told that was worst.
 */
#include "diagnosis/flows.h"
#include "diagnosis/phrase.h"
#include "diagnosis/rules.h"
#include "diagnosis/thresholds.h"
#include "wire/boxwatch.h"
#include "wire/boxwindow.h"
#include "wire/distance.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A lane of this interface of this host, by whichever process. One that has only borrowed the interface, or has carried
 * nothing, was not slow then, and tells nothing. */
static bool is_of(const struct blackbox *box, const struct blackbox_lane *lane, const struct blackbox *first,
                  const char *interface)
{
    return lane->watch && lane->watch->windows && !lane->borrowed && lane->distance != WIRE_DISTANCE_HOST &&
           strcmp(lane->interface, interface) == 0 && same_host(box, first);
}

static bool overlap(const struct wire_box_slow *a, const struct wire_box_slow *b)
{
    return a->begin < b->end && b->begin < a->end;
}

static bool is_of_late(const struct blackbox *box, const struct wire_box_slow *slow)
{
    return slow->end <= box->now && slow->end >= slow->begin && box->now - slow->end < HICCUP_RECENT_NS;
}

/* The time of this lane that took the longest; NULL: there was none in the last hour. */
static const struct wire_box_slow *longest_of(const struct blackbox *box, const struct blackbox_lane *lane)
{
    const struct wire_box_slow *found = NULL, *slow;
    for (size_t i = 0; (slow = watch_slow(lane->watch, i)); i++)
        if (is_of_late(box, slow) && (!found || slow->ns > found->ns))
            found = slow;
    return found;
}

struct hiccup {
    const struct wire_box_slow *slow;
    const struct blackbox *box;
    const struct blackbox_lane *lane;
    size_t lanes, at_once; /* of the interface; and of these, slow at the same time */
    size_t elsewhere;      /* lanes by other interfaces of the host that were slow at that time */
};

static bool was_slow_then(const struct hiccup *hiccup, const struct blackbox_lane *lane)
{
    const struct wire_box_slow *slow;
    for (size_t i = 0; (slow = watch_slow(lane->watch, i)); i++)
        if (overlap(slow, hiccup->slow))
            return true;
    return false;
}

/* Of all processes of a host, whose clock is one. */
static struct hiccup worst_of(struct scene *scene, const struct blackbox *first, const char *interface)
{
    const struct look *look = &scene->snapshot->now;
    struct hiccup worst = {0};
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < look->boxes[i]->lane_count; j++) {
            const struct blackbox_lane *lane = &look->boxes[i]->lanes[j];
            const struct wire_box_slow *slow =
                is_of(look->boxes[i], lane, first, interface) ? longest_of(look->boxes[i], lane) : NULL;
            if (slow && (!worst.slow || slow->ns > worst.slow->ns))
                worst = (struct hiccup){.slow = slow, .box = look->boxes[i], .lane = lane};
        }
    for (size_t i = 0; worst.slow && i < look->count; i++)
        for (size_t j = 0; j < look->boxes[i]->lane_count; j++) {
            const struct blackbox_lane *lane = &look->boxes[i]->lanes[j];
            bool same = is_of(look->boxes[i], lane, first, interface);
            bool other =
                !same && lane->watch && lane->distance != WIRE_DISTANCE_HOST && same_host(look->boxes[i], first);
            worst.lanes += same;
            worst.at_once += same && was_slow_then(&worst, lane);
            worst.elsewhere += other && was_slow_then(&worst, lane);
            scene->steps++;
        }
    return worst;
}

/* "12:03:04" of the local day */
static void time_of_day(const struct blackbox *box, uint64_t when, char out[16])
{
    time_t seconds = (time_t)(((int64_t)when + box->realtime_offset) / (int64_t)NS_PER_S);
    struct tm day;
    if (!localtime_r(&seconds, &day) || !strftime(out, 16, "%H:%M:%S", &day))
        snprintf(out, 16, "?");
}

static void hiccup_report(struct findings *findings, const struct member *member, const struct hiccup *hiccup)
{
    const struct wire_box_slow *slow = hiccup->slow;
    struct finding *finding = finding_add(findings, FINDING_HICCUP, LIKELY, member);
    char day[16];
    time_of_day(hiccup->box, slow->begin, day);
    say(finding, "interface %s of host %s: what goes out of it was slow for %s, from %s on, %s ago",
        *hiccup->lane->interface ? hiccup->lane->interface : "(unknown)", hiccup->box->header.host,
        phrase_time(slow->end - slow->begin).text, day, phrase_time(hiccup->box->now - slow->end).text);
    prove(finding, "process %u, lane %u: %.1f MB/s in %u windows, usual %.1f MB/s, %s", hiccup->box->header.pid,
          hiccup->lane->index, watch_slow_rate(slow) / 1e6, slow->windows, (double)slow->usual / 1e6,
          window_cause_name((enum window_cause)slow->cause));
    prove(finding, "%zu of its %zu lanes were slow at that time; of lanes by other interfaces of the host, %zu",
          hiccup->at_once, hiccup->lanes, hiccup->elsewhere);
}

/* The verdict that the job is slow; NULL: it is not, or a rule knows more. */
static struct finding *slowed_in(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind == FINDING_SLOWED)
            return &findings->items[i];
    return NULL;
}

static bool lasts(const struct hiccup *hiccup)
{
    return hiccup->box->now - hiccup->slow->end < SLOWED_NS;
}

static void prove_slow_now(struct finding *finding, const struct hiccup *hiccup)
{
    char day[16];
    time_of_day(hiccup->box, hiccup->slow->begin, day);
    prove(finding,
          "interface %s of host %s: what goes out of it is slow since %s, by %zu of its %zu lanes: %.1f MB/s, usual "
          "%.1f MB/s, %s",
          *hiccup->lane->interface ? hiccup->lane->interface : "(unknown)", hiccup->box->header.host, day,
          hiccup->at_once, hiccup->lanes, watch_slow_rate(hiccup->slow) / 1e6, (double)hiccup->slow->usual / 1e6,
          window_cause_name((enum window_cause)hiccup->slow->cause));
}

/* Was this interface of this host looked at before? */
static bool is_known(const struct look *look, size_t process, size_t lane)
{
    const char *interface = look->boxes[process]->lanes[lane].interface;
    for (size_t i = 0; i <= process; i++)
        for (size_t j = 0; j < look->boxes[i]->lane_count && (i < process || j < lane); j++)
            if (is_of(look->boxes[i], &look->boxes[i]->lanes[j], look->boxes[process], interface) &&
                look->boxes[i]->lanes[j].watch->slows)
                return true;
    return false;
}

void rule_hiccups(struct scene *scene, struct findings *findings)
{
    const struct look *look = &scene->snapshot->now;
    size_t told = 0;
    for (size_t i = 0; i < look->count && told < HICCUPS_MOST; i++) {
        const struct member *member = world_member(scene, i);
        for (size_t j = 0; member && j < look->boxes[i]->lane_count && told < HICCUPS_MOST; j++) {
            const struct blackbox_lane *lane = &look->boxes[i]->lanes[j];
            scene->steps++;
            if (!lane->watch || !lane->watch->slows || lane->distance == WIRE_DISTANCE_HOST || is_known(look, i, j))
                continue;
            struct hiccup worst = worst_of(scene, look->boxes[i], lane->interface);
            if (!worst.slow || 2 * worst.at_once <= worst.lanes) /* some of its paths, or processes */
                continue;
            if (slowed_in(findings) && lasts(&worst))
                prove_slow_now(slowed_in(findings), &worst);
            else
                hiccup_report(findings, member, &worst);
            told++;
        }
    }
}
