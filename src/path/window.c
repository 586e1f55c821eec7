/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much may be under way on a lane, by how far its peer is (DQPLB, NCCLX section 4.4): what fills the way there and
 * back, and hardly more, for the rest would lie in queues of switches. docs/path.md.
 */
#include "path/path.h"

#include "base/param.h"
#include "base/parse.h"

#include <string.h>

#define ITEM    64       /* longer than any that is right */
#define MOST_US 10000000 /* there and back */

static const uint32_t round_trips[WIRE_DISTANCES] = {
/* us */
#define DISTANCE(id, name, us, ...) [WIRE_DISTANCE_##id] = us,
#include "tables/distances.tbl"
#undef DISTANCE
};

static unsigned find_distance(const char *name)
{
    unsigned distance = 0;
    while (distance < WIRE_DISTANCES && strcmp(wire_distance_name(distance), name) != 0)
        distance++;
    return distance;
}

/* "zone=8/4M@70". The text is taken to pieces. */
static bool parse_item(char *text, struct path_windows *out)
{
    char *equal = strchr(text, '='), *at = equal ? strchr(equal, '@') : NULL, *slash = NULL;
    int64_t segments = 0, bytes = 0, us = 0;
    if (!equal)
        return false;
    *equal = 0;
    if (at)
        *at = 0;
    if ((slash = strchr(equal + 1, '/')))
        *slash = 0;
    if (at && (!parse_int(at + 1, &us) || us <= 0 || us > MOST_US))
        return false;
    unsigned distance = find_distance(text);
    if (distance == WIRE_DISTANCES || out->told[distance] || !parse_int(equal + 1, &segments) || segments < 0 ||
        segments > UINT32_MAX || (slash && (!parse_size(slash + 1, &bytes) || bytes < 0)))
        return false;
    out->told[distance] = true;
    out->window[distance] = (struct path_window){(uint32_t)segments, (uint64_t)bytes};
    out->us[distance] = (uint64_t)us;
    return true;
}

bool path_parse_windows(const char *text, struct path_windows *out)
{
    *out = (struct path_windows){0};
    while (*text) {
        char item[ITEM];
        size_t length = strcspn(text, ",");
        if (length >= sizeof item || (text[length] && !text[length + 1]))
            return false;
        memcpy(item, text, length);
        item[length] = 0;
        if (!parse_item(item, out))
            return false;
        text += length + (text[length] == ',');
    }
    return true;
}

#define LEAST_SEGMENT 4096 /* as of TUTTI_SEGMENT */

bool path_parse_segments(const char *text, uint64_t out[WIRE_DISTANCES])
{
    memset(out, 0, WIRE_DISTANCES * sizeof *out);
    while (*text) {
        char item[ITEM];
        int64_t bytes;
        size_t length = strcspn(text, ",");
        if (length >= sizeof item || (text[length] && !text[length + 1]))
            return false;
        memcpy(item, text, length);
        item[length] = 0;
        char *equal = strchr(item, '=');
        if (!equal)
            return false;
        *equal = 0;
        unsigned distance = find_distance(item);
        if (distance == WIRE_DISTANCES || out[distance] || !parse_size(equal + 1, &bytes) || bytes < LEAST_SEGMENT)
            return false;
        out[distance] = (uint64_t)bytes;
        text += length + (text[length] == ',');
    }
    return true;
}

uint64_t path_segment_of(enum wire_distance distance)
{
    uint64_t told[WIRE_DISTANCES], most = (uint64_t)param_int(PARAM_SEGMENT);
    const char *text = param_string(PARAM_SEGMENTS);
    if (!*text || !path_parse_segments(text, told) || !told[distance] || told[distance] > most)
        return most;
    return told[distance];
}

bool path_parse_queues(const char *text, struct path_windows *out)
{
    bool right = path_parse_windows(text, out);
    for (unsigned i = 0; i < WIRE_DISTANCES; i++)
        right = right && !out->window[i].bytes && !out->us[i];
    return right && !strchr(text, '/');
}

/* Rate times round trip, in whole segments, and one more: a segment counts until its last byte is there. */
static struct path_window derive(uint64_t mbits, uint64_t us, uint64_t segment)
{
    uint64_t way = mbits * us / 8;
    return (struct path_window){.bytes = way ? (way + segment - 1) / segment * segment + segment : 0};
}

struct path_window path_window_of(const struct path_lane *lane, uint64_t *us)
{
    struct path_windows told;
    bool right = path_parse_windows(param_string(PARAM_WINDOWS), &told) && told.told[lane->distance];
    *us = right ? told.us[lane->distance] : round_trips[lane->distance];
    if (right && (told.window[lane->distance].segments || told.window[lane->distance].bytes || !*us))
        return told.window[lane->distance];
    return derive(lane->nic->about.rate, *us, path_segment_of(lane->distance));
}
