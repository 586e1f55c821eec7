/* SPDX-License-Identifier: Apache-2.0 */
/* A lane of a given rate: what goes through occupies it, and the next must wait until it has left. */
#include "base/clock.h"
#include "base/parse.h"
#include "transport/pass/pass.h"

#include <string.h>

/* "100M/25M": of lane 0 and of all others. */
static bool throttle_parse(const char *text, struct pass_setting *out)
{
    char one[32];
    for (out->rates = 0; out->rates < PASS_RATES; text++) {
        size_t length = strcspn(text, "/");
        if (length >= sizeof one)
            return false;
        memcpy(one, text, length);
        one[length] = 0;
        if (!parse_size(one, &out->rate[out->rates++]))
            return false;
        text += length;
        if (!*text)
            return true;
    }
    return false;
}

static bool throttle_may_go(struct pass_lane *lane, size_t length, uint64_t now)
{
    const struct pass_setting *setting = &((struct pass_transport *)lane->base.lane.transport)->table->setting;
    int64_t rate = setting->rate[lane->index < setting->rates ? lane->index : setting->rates - 1];
    if (now < lane->free_at)
        return false;
    if (rate > 0)
        lane->free_at = now + (uint64_t)((double)length * NS_PER_S / (double)rate);
    return true;
}

const struct pass_gate pass_throttle = {"throttle", throttle_parse, throttle_may_go};
