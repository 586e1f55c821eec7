/* SPDX-License-Identifier: Apache-2.0 */
/* The latest calls of all ranks of a communicator, and the events of their lanes, for the page's timeline. Times are
 * seconds before and after the text was made, by the master's clock, as far as it is known. */
#include "master/state.h"

#include <inttypes.h>

#define CALLS_MOST  16384 /* calls of all ranks */
#define CALLS_LEAST 8     /* calls of each rank */

struct clock {
    uint64_t day;   /* the time of the text */
    int64_t offset; /* turns a time of the box into one of ours */
};

/* null: unknown so far */
static void write_time(FILE *out, const struct clock *clocks, uint64_t then)
{
    if (then)
        fprintf(out, ",%.6f", ((double)then + (double)clocks->offset - (double)clocks->day) / 1e9);
    else
        fputs(",null", out);
}

/* [collective, number, state, begin, end, bytes, since when it waits, for whom, round, rounds, slice, slices] */
static void write_call(FILE *out, const struct blackbox_op *op, const struct clock *clocks)
{
    fprintf(out, "[%d,%" PRIu64 ",\"%s\"", op->collective, op->seq, phrase_state(op));
    write_time(out, clocks, op->begin);
    write_time(out, clocks, op->state == WIRE_OP_DONE ? op->end ? op->end : op->begin : 0);
    fprintf(out, ",%" PRIu64, op->bytes);
    write_time(out, clocks, op->wait_since);
    fprintf(out, ",%d,%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", op->wait_peer, op->wait_round, op->rounds,
            op->wait_slice, op->slices);
}

/* [what, when, lane, rank of the peer, value] */
static void write_events(FILE *out, const struct blackbox *box, const struct clock *clocks)
{
    const char *between = "";
    for (size_t i = 0; i < box->event_count; i++) {
        const struct blackbox_event *event = &box->events[i];
        fprintf(out, "%s[\"%s\"", between, blackbox_event_row(event->kind)->name);
        write_time(out, clocks, event->time);
        fprintf(out, ",%d,%d,%" PRIu64 "]", event->lane, event->peer_rank, event->value1);
        between = ",";
    }
}

static void write_member(FILE *out, const struct blackbox *box, const struct blackbox_comm *comm, size_t most,
                         const struct clock *clocks)
{
    size_t first = comm->op_count > most ? comm->op_count - most : 0;
    fprintf(out, "{\"rank\":%d,\"process\":%" PRIu32 ",\"host\":", comm->rank, box->header.pid);
    answer_text(out, box->header.host);
    fputs(",\"calls\":[", out);
    for (size_t i = first; i < comm->op_count; i++) {
        fputs(i > first ? "," : "", out);
        write_call(out, &comm->ops[i], clocks);
    }
    fputs("],\"events\":[", out);
    write_events(out, box, clocks);
    fputs("]}", out);
}

static size_t count_members(const struct look *look, uint64_t id)
{
    size_t count = 0;
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < look->boxes[i]->comm_count; j++)
            count += look->boxes[i]->comms[j].id == id;
    return count;
}

static void write_members(FILE *out, const struct job_look *look, const void *comm)
{
    uint64_t id = *(const uint64_t *)comm;
    size_t count = count_members(&look->look, id), most = CALLS_MOST / (count + 1);
    const char *between = "";
    struct clock clocks = {.day = master_day()};
    fprintf(out, "{\"version\":1,\"time\":%.6f,\"members\":[", (double)clocks.day / 1e9);
    for (size_t i = 0; i < look->look.count; i++)
        for (size_t j = 0; j < look->look.boxes[i]->comm_count; j++) {
            const struct blackbox *box = look->look.boxes[i];
            if (box->comms[j].id != id)
                continue;
            clocks.offset = box->realtime_offset + look->clocks[i];
            fputs(between, out);
            write_member(out, box, &box->comms[j], most < CALLS_LEAST ? CALLS_LEAST : most, &clocks);
            between = ",";
        }
    fputs("]}", out);
}

char *calls_page(struct master *master, uint64_t comm)
{
    return answer_now(master, write_members, &comm);
}
