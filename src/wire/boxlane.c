/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one lane of a black box and its ring of segments, while its owner may be writing them. */
#include "wire/boxsource.h"
#include "wire/boxwatch.h"

#include <stdlib.h>
#include <string.h>

/* What begins with its stamp, if it held still for one of some readings. False: it never did. */
static bool read_still(const struct box_source *source, uint64_t at, void *out, size_t bytes)
{
    for (int i = 0; i < BOX_TRIES; i++) {
        uint64_t before, after;
        if (!box_source_read(source, at, out, bytes))
            return false;
        box_source_barrier();
        if (!box_source_read(source, at, &after, sizeof after))
            return false;
        memcpy(&before, out, sizeof before);
        if (after == before && !(after & 1))
            return true;
    }
    return false;
}

/* Earlier writers have a shorter record. */
static bool read_record(const struct blackbox *box, const struct box_source *source, uint64_t at,
                        struct wire_box_lane *out)
{
    uint64_t room = box->header.segments.offset;
    *out = (struct wire_box_lane){.stamp = 0};
    return read_still(source, at, out, room < sizeof *out ? room : sizeof *out);
}

/* False: no memory. */
static bool read_watch(struct blackbox *box, struct blackbox_lane *lane, const struct box_source *source, uint64_t at)
{
    struct wire_box_watch watch;
    if (box->header.segments.offset < WIRE_BOX_WATCH_AT + sizeof watch)
        return true;
    if (!read_still(source, at + WIRE_BOX_WATCH_AT, &watch, sizeof watch)) {
        box->torn++;
        return true;
    }
    if (!watch.windows && !watch.messages)
        return true;
    watch_check(&watch);
    lane->watch = malloc(sizeof watch);
    if (lane->watch)
        *lane->watch = watch;
    return lane->watch != NULL;
}

void blackbox_free_lane(struct blackbox_lane *lane)
{
    free(lane->segments);
    free(lane->watch);
}

static int boxlane_by_position(const void *left, const void *right)
{
    uint64_t a = ((const struct blackbox_segment *)left)->position,
             b = ((const struct blackbox_segment *)right)->position;
    return a < b ? -1 : a > b;
}

static void boxlane_decode(struct blackbox_segment *out, const struct wire_box_segment *in)
{
    *out = (struct blackbox_segment){.position = (in->stamp >> 8) - 1,
                                     .comm = in->comm,
                                     .seq = in->seq,
                                     .peer = in->peer,
                                     .length = in->length,
                                     .slice = in->slice,
                                     .round = in->round,
                                     .status = (enum wire_segment_status)(in->stamp & 0xff),
                                     .ready = in->ready,
                                     .credit = in->credit,
                                     .posted = in->posted};
    if (out->status != WIRE_SEGMENT_POSTED)
        out->completed = in->completed;
}

/* Reads the ring twice and keeps what did not change meanwhile. A segment that lands between the readings keeps all but
 * its end. */
static bool boxlane_read_ring(struct blackbox *box, struct blackbox_lane *lane, const struct box_source *source,
                              uint64_t at)
{
    const struct wire_box_section *section = &box->header.segments;
    size_t bytes = (size_t)section->bytes * section->count;
    uint8_t *first = malloc(2 * bytes);
    lane->segments = malloc(section->count * sizeof *lane->segments);
    bool fine = first && lane->segments;
    if (fine && box_source_read(source, at + section->offset, first, bytes)) {
        box_source_barrier();
        if (!box_source_read(source, at + section->offset, first + bytes, bytes))
            memset(first + bytes, 0, bytes);
        for (uint32_t i = 0; i < section->count; i++) {
            struct wire_box_segment a, b;
            memcpy(&a, first + (size_t)i * section->bytes, sizeof a);
            memcpy(&b, first + bytes + (size_t)i * section->bytes, sizeof b);
            uint64_t number = a.stamp >> 8;
            unsigned status = a.stamp & 0xff;
            if (number && number == b.stamp >> 8 && ((number - 1) & (section->count - 1)) == i &&
                status >= WIRE_SEGMENT_POSTED && status <= WIRE_SEGMENT_GIVEN_UP)
                boxlane_decode(&lane->segments[lane->segment_count++], &a);
            else if (a.stamp || b.stamp)
                box->torn++;
        }
        qsort(lane->segments, lane->segment_count, sizeof *lane->segments, boxlane_by_position);
    }
    free(first);
    return fine;
}

bool box_read_lane(struct blackbox *box, const struct box_source *source, const struct box_rate *rate, unsigned place)
{
    uint64_t at = box->header.lanes.offset + (uint64_t)place * box->header.lanes.bytes;
    struct wire_box_lane record;
    uint64_t stamp = 0;
    if (!box_source_read(source, at, &stamp, sizeof stamp) || !stamp)
        return true; /* nobody was ever here */
    if (!read_record(box, source, at, &record) || record.state < WIRE_LANE_UP || record.state > WIRE_LANE_CLOSED) {
        box->torn++;
        return true;
    }
    struct blackbox_lane *lane = &box->lanes[box->lane_count++];
    *lane = (struct blackbox_lane){.place = place,
                                   .peer_host = record.peer_host,
                                   .peer_pid = record.peer_pid,
                                   .index = record.index,
                                   .device = record.device,
                                   .rate = record.rate,
                                   .port = record.port,
                                   .roles = record.roles,
                                   .source = record.source,
                                   .distance = record.distance,
                                   .trip = record.trip,
                                   .segment = record.segment,
                                   .window = record.window,
                                   .window_bytes = record.window_bytes,
                                   .own = record.own,
                                   .owner = record.owner,
                                   .borrowed = record.borrowed,
                                   .state = (enum wire_lane_state)record.state,
                                   .queue = record.queue,
                                   .peer_queue = record.peer_queue,
                                   .opened = box_rate_ns(rate, record.opened)};
    memcpy(lane->address, record.address, sizeof lane->address);
    memcpy(lane->peer_address, record.peer_address, sizeof lane->peer_address);
    box_copy_text(lane->interface, sizeof lane->interface, record.interface.text, sizeof record.interface.text);
    box_copy_text(lane->transport, sizeof lane->transport, record.transport.text, sizeof record.transport.text);
    return read_watch(box, lane, source, at) && boxlane_read_ring(box, lane, source, at);
}
