/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of the lanes of a process, for the page's timeline. Agents report lanes while somebody asks here, so the
 * first answers have none. */
#include "master/state.h"
#include "wire/boxwatch.h"
#include "wire/boxwindow.h"

#include <inttypes.h>
#include <string.h>

#define LOOKED_AT_NS (5 * NS_PER_S)

/* Seconds from `day` on; null: unknown so far. */
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

/* [begin, end, bytes a second, usual, cause] */
static void write_slow(FILE *out, const struct wire_box_slow *slow, int64_t offset)
{
    fprintf(out, "[%.9f,%.9f,%.9g,%" PRIu64 ",\"%s\"]", (double)((int64_t)slow->begin + offset) / 1e9,
            (double)((int64_t)slow->end + offset) / 1e9, watch_slow_rate(slow), slow->usual,
            window_cause_name((enum window_cause)slow->cause));
}

static void write_lane(FILE *out, const struct blackbox_lane *lane, int64_t offset)
{
    fprintf(out,
            "{\"index\":%" PRIu32 ",\"peer\":%" PRIu32 ",\"up\":%s,\"rate\":%" PRIu32 ",\"window\":%" PRIu32
            ",\"transport\":",
            lane->index, lane->peer_pid, lane->state == WIRE_LANE_UP ? "true" : "false", lane->rate, lane->window);
    answer_text(out, lane->transport);
    fputs(",\"interface\":", out);
    answer_text(out, lane->interface);
    fputs(",\"segments\":[", out);
    for (size_t i = 0; i < lane->segment_count; i++) {
        fputs(i ? "," : "", out);
        write_segment(out, &lane->segments[i], offset);
    }
    fputs("],\"slow\":[", out);
    const struct wire_box_slow *slow;
    for (size_t i = 0; (slow = watch_slow(lane->watch, i)); i++) {
        fputs(i ? "," : "", out);
        write_slow(out, slow, offset);
    }
    fputs("]}", out);
}

struct lanes_process {
    const char *host;
    uint32_t pid;
};

static bool is_it(const struct blackbox *box, const struct lanes_process *process)
{
    return box->header.pid == process->pid && strcmp(box->header.host, process->host) == 0;
}

static void write_lanes(FILE *out, const struct job_look *look, const void *process)
{
    uint64_t day = master_day();
    const char *between = "";
    fprintf(out, "{\"version\":1,\"time\":%.6f,\"lanes\":[", (double)day / 1e9);
    for (size_t i = 0; i < look->look.count; i++) {
        const struct blackbox *box = look->look.boxes[i];
        for (size_t j = 0; is_it(box, process) && j < box->lane_count; j++) {
            fputs(between, out);
            write_lane(out, &box->lanes[j], box->realtime_offset + look->clocks[i] - (int64_t)day);
            between = ",";
        }
    }
    fputs("]}", out);
}

char *lanes_page(struct master *master, const char *host, uint32_t pid)
{
    struct lanes_process process = {.host = host, .pid = pid};
    pthread_mutex_lock(&master->lock);
    job_look_at_lanes(&master->job, host, clock_ns() + LOOKED_AT_NS);
    pthread_mutex_unlock(&master->lock);
    return answer_now(master, write_lanes, &process);
}
