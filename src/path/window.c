/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much may be under way on a lane, by how far its peer is (DQPLB, NCCLX section 4.4): what fills the way there and
 * back, and hardly more, for the rest would lie in queues of switches. docs/path.md.
 */
#include "path/path.h"

#include "base/param.h"
#include "base/parse.h"

#include <string.h>

#define ITEM     64       /* longer than any that is right */
#define MOST_US  10000000 /* there and back */
#define LEAST_US 5        /* two adapters and a switch: less is a clock's */
#define POST_US  4        /* until the next segment is posted where one has landed */
#define LEAST    65536    /* bytes of a segment that nobody has told */

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

enum wire_distance path_distance_of(const struct path_lane *lane)
{
    return lane->untold ? wire_distance_by_trip(lane->trip) : lane->distance;
}

/* us there and back: as measured, or as assumed of the distance, if that is less. A busy host measures more. 0: there
 * is nothing to go by. */
static uint64_t trip_of(const struct path_lane *lane)
{
    uint64_t assumed = wire_distance_us(path_distance_of(lane)), measured = (lane->trip + 999) / 1000;
    if (!assumed || !measured)
        return assumed;
    measured = measured > LEAST_US ? measured : LEAST_US;
    return lane->untold || measured < assumed ? measured : assumed;
}

/* A longer segment would wait in queues of the way, and a shorter one would leave the lane idle until the next one is
 * posted. Where nobody tells a place, the rate alone decides: with segments by round trips that were measured behind
 * queues, some senders would have longer ones under way than others, and more of the uplinks that they share. */
static uint64_t segment_that_fills(const struct path_lane *lane, uint64_t most)
{
    bool guessed = lane->untold && lane->trip;
    uint64_t us = guessed ? wire_distance_us(WIRE_DISTANCE_RACK) : trip_of(lane);
    uint64_t way = lane->nic->about.rate * (us + POST_US) / 8, segment = LEAST;
    while (segment < way && segment < most)
        segment *= 2;
    return us && way && segment < most ? segment : most;
}

uint64_t path_segment_of(const struct path_lane *lane)
{
    uint64_t told[WIRE_DISTANCES], most = (uint64_t)param_int(PARAM_SEGMENT);
    const char *text = param_string(PARAM_SEGMENTS);
    enum wire_distance distance = path_distance_of(lane);
    if (*text && path_parse_segments(text, told) && told[distance])
        return told[distance] < most ? told[distance] : most;
    return strcmp(param_source(PARAM_SEGMENT), "default") == 0 ? segment_that_fills(lane, most) : most;
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

struct path_window path_window_of(const struct path_lane *lane, uint64_t *us, enum path_origin *origin)
{
    struct path_windows told;
    enum wire_distance distance = path_distance_of(lane);
    bool right = path_parse_windows(param_string(PARAM_WINDOWS), &told) && told.told[distance];
    uint64_t segment = path_segment_of(lane);
    *us = right ? told.us[distance] : trip_of(lane);
    *origin = right || !lane->untold ? PATH_BY_PLACE : PATH_BY_TRIP;
    if (right && (told.window[distance].segments || told.window[distance].bytes || !*us)) {
        *origin = PATH_AS_TOLD;
        return told.window[distance];
    }
    struct path_window window = derive(lane->nic->about.rate, *us, segment);
    if (*origin == PATH_BY_PLACE || window.bytes > PATH_UNTOLD * segment)
        return window;
    *us = 0; /* the transport's queue fills the way */
    return (struct path_window){0};
}
