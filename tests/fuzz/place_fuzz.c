/* SPDX-License-Identifier: Apache-2.0 */
/* Any text to the parsers of places, windows and plans of paths (TUTTI_PLACE, TUTTI_WINDOWS, TUTTI_PATHS). What they
 * take is within its bounds, and none of them takes a level or a distance twice. */
#include "path/dnlb.h"
#include "path/path.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

/* A second item of the same kind is none: each level and each distance is told at most once. */
static bool takes_twice(const char *text, bool (*takes)(const char *text))
{
    size_t length = strlen(text);
    char *twice = malloc(2 * length + 2);
    must(twice);
    memcpy(twice, text, length);
    twice[length] = ',';
    memcpy(twice + length + 1, text, length + 1);
    bool taken = takes(twice);
    free(twice);
    return taken;
}

static bool takes_place(const char *text)
{
    uint32_t place[WIRE_PLACES];
    return path_parse_place(text, place);
}

static bool takes_windows(const char *text)
{
    struct path_windows windows;
    path_parse_queues(text, &windows);
    uint64_t segments[WIRE_DISTANCES];
    path_parse_segments(text, segments);
    return path_parse_windows(text, &windows);
}

static void read_plan(const char *text)
{
    struct dnlb_plan plan;
    uint16_t first, last;
    if (!dnlb_parse(text, &plan))
        return;
    must(plan.nics >= 1 && plan.nics <= DNLB_NICS && plan.uplinks[plan.nics - 1] >= 1);
    for (unsigned i = 0; i < plan.nics; i++) {
        unsigned uplink = dnlb_uplink(plan.index[i], 2, 1, plan.uplinks[i]);
        must(plan.uplinks[i] >= 1 && plan.uplinks[i] <= DNLB_PORTS && uplink < plan.uplinks[i]);
        dnlb_share(uplink, plan.uplinks[i], &first, &last);
        must(first >= DNLB_FIRST && first <= last);
        must(dnlb_port(plan.index[i], 2, 1, plan.uplinks[i]) == first);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text);
    memcpy(text, data, size);
    text[size] = 0;
    if (takes_place(text))
        must(!takes_twice(text, takes_place));
    if (*text && takes_windows(text))
        must(!takes_twice(text, takes_windows));
    read_plan(text);
    free(text);
    return 0;
}
