/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of the page for browsers, as one JSON text: waits, calls of ranks, and times of messages. Rows are
 * arrays, as there may be ten thousands; docs/operate/master.md names their places. All who look within a moment see
 * the same text.
 */
#include "master/state.h"

#include "diagnosis/view.h"
#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STANDS_NS (NS_PER_S)          /* a rank in one step for this time waits, for the eye: earlier than a verdict */
#define FRESH_NS  (NS_PER_S * 9 / 10) /* a younger text is made again for nobody */

static void write_json(FILE *out, json_t *value)
{
    if (!value || json_dumpf(value, out, JSON_ENCODE_ANY | JSON_COMPACT) != 0)
        fputs("null", out);
    json_decref(value);
}

static void write_seconds(FILE *out, uint64_t from, uint64_t to)
{
    fprintf(out, ",%.3f", to > from ? (double)(to - from) / 1e9 : 0.0);
}

/* ---- Processes ---- */

/* The number of a member among all: members of one communicator stand in a row, in the order of communicators. */
static long number_of(const struct view *view, const struct view_member *member)
{
    size_t low = 0, high = view->comm_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (view->comms[middle].members <= member)
            low = middle;
        else
            high = middle;
    }
    return (long)low;
}

/* [process, state, rank, communicator that it waits in, rank there, process that it waits for, seconds so far, part of
 * the latest calls' time in which others waited] */
static void write_process(FILE *out, const struct view *view, size_t number, const struct blackbox *box)
{
    const struct view_process *process = &view->processes[number];
    const struct view_member *in = process->in;
    fprintf(out, "[%" PRIu32 ",\"%s\",%d,%ld,%d,%ld", box->header.pid, view_state_name(process->state),
            process->world_rank, in ? number_of(view, in) : -1, in ? in->awaited : -1,
            process->next == VIEW_NOBODY ? -1 : (long)process->next);
    write_seconds(out, in && in->op ? blackbox_since(in->op) : box->now, box->now);
    fprintf(out, ",%.3f]", process->holds_up);
}

/* Processes of one host stand in a row. */
static void write_processes(FILE *out, const struct view *view, const struct look *look)
{
    const char *host = NULL;
    for (size_t i = 0; i < look->count; i++) {
        const char *name = look->boxes[i]->header.host;
        if (!host || strcmp(host, name) != 0) {
            fputs(host ? "]},{\"name\":" : "{\"name\":", out);
            write_json(out, verdict_text(name));
            fputs(",\"processes\":[", out);
        } else {
            fputc(',', out);
        }
        host = name;
        write_process(out, view, i, look->boxes[i]);
    }
    fputs(host ? "]}" : "", out);
}

/* ---- Communicators ---- */

/* [rank, process, newest call], and in a call [.., collective, number, state, seconds so far, seconds of waiting, rank
 * waited for, round, rounds, slice, slices] */
static void write_member(FILE *out, const struct view_member *member, const struct look *look)
{
    const struct blackbox_op *op = member->op;
    uint64_t now = look->boxes[member->process]->now;
    fprintf(out, "[%d,%zu,%" PRIu64, member->comm->rank, member->process, member->newest);
    if (op) {
        fprintf(out, ",%d,%" PRIu64 ",\"%s\"", op->collective, op->seq, phrase_state(op));
        write_seconds(out, op->begin ? op->begin : now, now);
        write_seconds(out, op->wait_since ? op->wait_since : now, now);
        fprintf(out, ",%d,%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32, member->awaited, op->wait_round, op->rounds,
                op->wait_slice, op->slices);
    }
    fputc(']', out);
}

/* [from, to, seconds, messages, is slow] */
static void write_delays(FILE *out, const struct delays *delays)
{
    fprintf(out, ",\"bytes\":%" PRIu64 ",\"median\":%.9f,\"delays\":[", delays->bytes, (double)delays->median / 1e9);
    for (size_t i = 0; i < delays->count; i++) {
        const struct delay *cell = &delays->cells[i];
        fprintf(out, "%s[%d,%d,%.9f,%zu,%d]", i ? "," : "", cell->from, cell->to, (double)cell->ns / 1e9,
                cell->messages, cell->slow);
    }
    fputc(']', out);
}

static void write_comm(FILE *out, const struct view_comm *comm, const struct look *look)
{
    const struct blackbox_comm *first = comm->members->comm;
    fprintf(out, "{\"id\":\"%016" PRIx64 "\",\"ranks\":%d,\"open\":%s,\"name\":", first->id, first->nranks,
            first->state == WIRE_COMM_CLOSED ? "false" : "true");
    write_json(out, verdict_text(phrase_name(first)));
    fputs(",\"members\":[", out);
    for (size_t i = 0; i < comm->count; i++) {
        fputs(i ? "," : "", out);
        write_member(out, &comm->members[i], look);
    }
    fputc(']', out);
    write_delays(out, &comm->delays);
    fputc('}', out);
}

/* ---- All ---- */

static void write_picture(FILE *out, json_t *state, const struct view *view, const struct look *look)
{
    fprintf(out, "{\"version\":1,\"time\":%.3f,\"stands\":%.3f,\"state\":", (double)master_day() / 1e9,
            (double)STANDS_NS / 1e9);
    write_json(out, state);
    fputs(",\"collectives\":[", out);
    for (int i = 0; i < WIRE_COLLECTIVE_COUNT; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "", blackbox_collective_name(i));
    fputs("],\"hosts\":[", out);
    write_processes(out, view, look);
    fputs("],\"comms\":[", out);
    for (size_t i = 0; i < view->comm_count; i++) {
        fputs(i ? "," : "", out);
        write_comm(out, &view->comms[i], look);
    }
    fputs("]}", out);
}

static char *draw(json_t *state, const struct look *look)
{
    const struct snapshot snapshot = {.now = *look, .stuck = STANDS_NS, .watched = true};
    struct view view;
    char *text = NULL;
    size_t length = 0;
    FILE *out = view_open(&view, &snapshot) ? open_memstream(&text, &length) : NULL;
    if (!out) {
        view_close(&view);
        json_decref(state);
        return NULL;
    }
    write_picture(out, state, &view, look);
    view_close(&view);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

char *picture_page(struct master *master)
{
    struct picture *picture = &master->picture;
    struct job_look look;
    if (picture->text && clock_ns() < picture->made + FRESH_NS)
        return strdup(picture->text);
    pthread_mutex_lock(&master->lock);
    bool fine = job_look(&master->job, clock_ns(), &look);
    json_t *state = fine ? master_state(master) : NULL;
    pthread_mutex_unlock(&master->lock);
    if (!fine)
        return NULL;
    free(picture->text);
    picture->text = draw(state, &look.look);
    picture->made = clock_ns();
    job_look_free(&look);
    return picture->text ? strdup(picture->text) : NULL;
}
