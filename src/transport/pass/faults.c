/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that stall and end at random: what their owner must get over. */
#include "base/random.h"
#include "transport/pass/pass.h"

#include <inttypes.h>
#include <stdio.h>

/* "5/1000/7": nothing goes at 5 % of the looks, one thing of 1000 ends its lane, seed 7. */
static bool faults_parse(const char *text, struct pass_setting *out)
{
    int end = 0;
    return sscanf(text, "%" SCNd64 "/%" SCNd64 "/%" SCNu64 "%n", &out->hold, &out->end, &out->seed, &end) == 3 &&
           !text[end] && out->hold >= 0 && out->hold < 100 && out->end >= 0;
}

static uint64_t faults_draw(struct pass_transport *pass, uint64_t below)
{
    pass->random += 0x9e3779b97f4a7c15u;
    return mix64(pass->random) % below;
}

static bool faults_may_go(struct pass_lane *lane, size_t length, uint64_t now)
{
    struct pass_transport *pass = (struct pass_transport *)lane->base.lane.transport;
    const struct pass_setting *setting = &pass->table->setting;
    if ((int64_t)faults_draw(pass, 100) < setting->hold)
        return false;
    if (!setting->end || faults_draw(pass, (uint64_t)setting->end))
        return true;
    carrier_fail(&lane->base, TUTTI_SYSTEM_ERROR, "lane %u ends by TUTTI_PASS", lane->index);
    return false;
}

const struct pass_gate pass_faults = {"faults", faults_parse, faults_may_go};
