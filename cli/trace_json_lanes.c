/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a box as JSON: what `tutti trace --lanes` tells in words. null: not known, or no limit. */
#include "cli/trace.h"
#include "cli/trace_lanes.h"
#include "cli/trace_values.h"
#include "cli/trace_watch.h"

#include "wire/distance.h"

#include <stdlib.h>

static json_t *known_json(uint64_t value)
{
    return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *name_json(const char *name)
{
    return name && *name ? view_text_json(name) : json_null();
}

/* {"network": nanoseconds, ...} */
static json_t *time_of_causes(const uint64_t *time)
{
    json_t *out = json_object();
    for (int cause = 0; cause < WINDOW_CAUSES; cause++)
        json_object_set_new(out, window_cause_name((enum window_cause)cause), json_integer((json_int_t)time[cause]));
    return out;
}

/* A pause has no segments. */
static json_t *windows_json(const struct blackbox *box, size_t lane, uint32_t segments)
{
    struct lane_window *windows;
    size_t count = lane_windows(box, lane, segments, &windows);
    json_t *out = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(out, json_pack("{s:o, s:o, s:I, s:i, s:s, s:b}", "begin_ns",
                                             view_time_json(box, windows[i].begin), "end_ns",
                                             view_time_json(box, windows[i].end), "bytes", (json_int_t)windows[i].bytes,
                                             "segments", (int)windows[i].segments, "cause",
                                             window_cause_name(windows[i].cause), "slow", windows[i].slow));
    free(windows);
    return out;
}

static json_t *bandwidth_json(const struct view_lane_sum *sum)
{
    if (!sum->windows)
        return json_null();
    return json_pack("{s:f, s:f, s:f}", "last_gbs", sum->last / 1e9, "all_gbs",
                     sum->busy ? (double)sum->bytes / (double)sum->busy : 0, "best_gbs", sum->best / 1e9);
}

static json_t *limit_json(const struct blackbox_lane *lane)
{
    return json_pack("{s:o, s:o}", "segments", known_json(lane->window), "bytes", known_json(lane->window_bytes));
}

static json_t *lane_json(const struct blackbox *box, size_t index, uint32_t segments)
{
    const struct blackbox_lane *lane = &box->lanes[index];
    struct view_lane_sum sum = view_lane_sum(box, index, segments);
    size_t under_way = 0;
    for (size_t i = 0; i < lane->segment_count; i++)
        under_way += lane->segments[i].status == WIRE_SEGMENT_POSTED;
    json_t *out = json_pack("{s:i, s:o, s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "lane", (int)lane->index, "transport",
                            view_text_json(lane->transport), "peer_pid", (int)lane->peer_pid, "peer_host",
                            view_hex_json(lane->peer_host), "device", (int)lane->device, "interface",
                            name_json(lane->interface), "port", known_json(lane->port), "rate_mbits",
                            known_json(lane->rate), "source_port", known_json(lane->source), "distance",
                            name_json(lane->distance ? wire_distance_name(lane->distance) : NULL));
    json_t *more = json_pack("{s:o, s:s, s:b, s:o, s:I, s:I, s:o, s:o, s:o}", "limit", limit_json(lane), "state",
                             view_lane_state(lane), "backup", view_lane_is_backup(lane), "opened_ns",
                             view_time_json(box, lane->opened), "segments", (json_int_t)lane->segment_count,
                             "under_way", (json_int_t)under_way, "bandwidth", bandwidth_json(&sum), "time_ns",
                             time_of_causes(sum.time), "windows", windows_json(box, index, segments));
    json_object_update(out, more);
    json_decref(more);
    json_object_update_new(out, json_pack("{s:b, s:I, s:o}", "own", lane->own, "borrowed_bytes",
                                          (json_int_t)lane->borrowed, "borrowed_from", known_json(lane->owner)));
    json_object_set_new(out, "round_trip_ns", known_json(lane->trip));
    json_object_set_new(out, "segment_bytes", known_json(lane->segment));
    json_object_update_new(out, json_pack("{s:o, s:o, s:o, s:o, s:o}", "queue_pair", known_json(lane->queue),
                                          "peer_queue_pair", known_json(lane->peer_queue), "address",
                                          view_address_json(lane->address), "peer_address",
                                          view_address_json(lane->peer_address), "watch", view_watch_json(box, lane)));
    return out;
}

json_t *view_lanes_json(const struct blackbox *box, uint32_t segments)
{
    json_t *out = json_array();
    for (size_t i = 0; i < box->lane_count; i++)
        json_array_append_new(out, lane_json(box, i, segments));
    return out;
}
