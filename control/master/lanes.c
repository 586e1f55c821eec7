/* SPDX-License-Identifier: Apache-2.0 */
/* What the lanes of a process did, segment by segment: for the page's timeline. Agents tell of lanes while somebody
 * asks here, so the first answers have none. */
#include "master/state.h"

#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOKED_AT_NS (5 * NS_PER_S)

static void write_text(FILE *out, const char *text)
{
    json_t *value = verdict_text(text);
    if (!value || json_dumpf(value, out, JSON_ENCODE_ANY) != 0)
        fputs("null", out);
    json_decref(value);
}

/* Seconds from `day` on; null: not so far. */
static void write_time(FILE *out, int64_t offset, uint64_t then)
{
    if (then)
        fprintf(out, ",%.9f", (double)((int64_t)then + offset) / 1e9);
    else
        fputs(",null", out);
}

/* [communicator, number, rank of the peer, round, slice, bytes, status, ready, peer's leave, put, landed] */
static void write_segment(FILE *out, const struct blackbox_segment *segment, int64_t offset)
{
    fprintf(out, "[\"%016" PRIx64 "\",%" PRIu32 ",%" PRIu32 ",%u,%u,%" PRIu32 ",%d", segment->comm, segment->seq,
            segment->peer, segment->round, segment->slice, segment->length, segment->status);
    write_time(out, offset, segment->ready);
    write_time(out, offset, segment->credit);
    write_time(out, offset, segment->posted);
    write_time(out, offset, segment->completed);
    fputc(']', out);
}

static void write_lane(FILE *out, const struct blackbox_lane *lane, int64_t offset)
{
    fprintf(out,
            "{\"index\":%" PRIu32 ",\"peer\":%" PRIu32 ",\"up\":%s,\"rate\":%" PRIu32 ",\"window\":%" PRIu32
            ",\"transport\":",
            lane->index, lane->peer_pid, lane->state == WIRE_LANE_UP ? "true" : "false", lane->rate, lane->window);
    write_text(out, lane->transport);
    fputs(",\"interface\":", out);
    write_text(out, lane->interface);
    fputs(",\"segments\":[", out);
    for (size_t i = 0; i < lane->segment_count; i++) {
        fputs(i ? "," : "", out);
        write_segment(out, &lane->segments[i], offset);
    }
    fputs("]}", out);
}

static bool is_it(const struct blackbox *box, const char *host, uint32_t pid)
{
    return box->header.pid == pid && strcmp(box->header.host, host) == 0;
}

static void write_lanes(FILE *out, const struct job_look *look, const char *host, uint32_t pid)
{
    uint64_t day = master_day();
    const char *between = "";
    fprintf(out, "{\"version\":1,\"time\":%.6f,\"lanes\":[", (double)day / 1e9);
    for (size_t i = 0; i < look->look.count; i++) {
        const struct blackbox *box = look->look.boxes[i];
        for (size_t j = 0; is_it(box, host, pid) && j < box->lane_count; j++) {
            fputs(between, out);
            write_lane(out, &box->lanes[j], box->realtime_offset + look->clocks[i] - (int64_t)day);
            between = ",";
        }
    }
    fputs("]}", out);
}

char *lanes_page(struct master *master, const char *host, uint32_t pid)
{
    struct job_look look;
    char *text = NULL;
    size_t length = 0;
    pthread_mutex_lock(&master->lock);
    job_look_at_lanes(&master->job, host, clock_ns() + LOOKED_AT_NS);
    bool fine = job_look(&master->job, clock_ns(), &look);
    pthread_mutex_unlock(&master->lock);
    FILE *out = fine ? open_memstream(&text, &length) : NULL;
    if (out)
        write_lanes(out, &look, host, pid);
    bool whole = out && fclose(out) == 0;
    if (fine)
        job_look_free(&look);
    if (whole)
        return text;
    free(text);
    return NULL;
}
