/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/laggards.h"

#include "diagnosis/phrase.h"

#include <string.h>

#define SHOWN      3
#define INTERFACES 16

struct laggard {
    const char *interface;
    size_t lanes, down, late; /* late: segments that are on their way for long */
    uint64_t oldest;          /* ns */
};

static struct laggard *find_interface(struct laggard *all, size_t *count, const char *interface)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(all[i].interface, interface) == 0)
            return &all[i];
    if (*count == INTERFACES)
        return NULL;
    all[*count] = (struct laggard){.interface = interface};
    return &all[(*count)++];
}

static void count_lane(struct laggard *laggard, const struct blackbox_lane *lane, uint64_t now, uint64_t stuck)
{
    laggard->lanes++;
    laggard->down += lane->state == WIRE_LANE_DOWN;
    for (size_t i = 0; i < lane->segment_count; i++) {
        const struct blackbox_segment *segment = &lane->segments[i];
        uint64_t age = segment->posted && now > segment->posted ? now - segment->posted : 0;
        if (segment->status != WIRE_SEGMENT_POSTED || age < stuck)
            continue;
        laggard->late++;
        laggard->oldest = age > laggard->oldest ? age : laggard->oldest;
    }
}

static void say_laggard(struct finding *finding, const struct laggard *laggard, const char *where, const char *name)
{
    if (laggard->down && laggard->late)
        prove(finding, "%s%s: %zu of %zu lanes are down, and %zu segments are on their way, the oldest for %s", where,
              name, laggard->down, laggard->lanes, laggard->late, phrase_time(laggard->oldest).text);
    else if (laggard->down)
        prove(finding, "%s%s: %zu of %zu lanes are down", where, name, laggard->down, laggard->lanes);
    else
        prove(finding, "%s%s: %zu segments are on their way, the oldest for %s", where, name, laggard->late,
              phrase_time(laggard->oldest).text);
}

void prove_laggards(struct finding *finding, const struct member *member, uint64_t stuck)
{
    struct laggard all[INTERFACES] = {{0}}, sum = {0};
    size_t count = 0, bad = 0;
    const struct blackbox *box = member->box;
    for (size_t i = 0; i < box->lane_count; i++) {
        struct laggard *one =
            box->lanes[i].state == WIRE_LANE_CLOSED || !*box->lanes[i].interface ? NULL
                                                                                 : find_interface(
                                                                                       all, &count,
                                                                                       box->lanes[i].interface);
        if (one)
            count_lane(one, &box->lanes[i], box->now, stuck);
    }
    for (size_t i = 0; i < count; i++) {
        bad += all[i].down || all[i].late;
        sum.lanes += all[i].lanes, sum.down += all[i].down, sum.late += all[i].late;
        sum.oldest = all[i].oldest > sum.oldest ? all[i].oldest : sum.oldest;
    }
    if (bad > 1 && bad == count) {
        say_laggard(finding, &sum, "all interfaces of host ", box->header.host);
        return;
    }
    for (size_t i = 0, shown = 0; i < count && shown < SHOWN; i++)
        if (all[i].down || all[i].late) {
            say_laggard(finding, &all[i], "interface ", all[i].interface);
            shown++;
        }
}
