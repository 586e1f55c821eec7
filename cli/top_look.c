/* SPDX-License-Identifier: Apache-2.0 */
/* Two looks at the black boxes, and what lies between them: rates of each process. */
#include "cli/top.h"

#include "base/clock.h"
#include "cli/trace_text.h"
#include "diagnosis/phrase.h"

#include <stdlib.h>
#include <string.h>

bool top_look(const struct view_options *options, const struct top_look *before, struct top_look *out)
{
    *out = (struct top_look){0};
    if (!view_load(options, &out->set))
        return false;
    out->at = clock_ns();
    out->clock = time(NULL);
    out->facts = process_facts_read(out->set.boxes, out->set.count);
    const struct snapshot snapshot = {.now = {out->set.boxes, out->facts, out->set.count},
                                      .before = {before->set.boxes, before->facts, before->set.count},
                                      .stuck = options->stuck};
    out->findings = diagnosis_find(&snapshot);
    if (before->at)
        findings_confirm(&out->findings, &before->findings);
    return true;
}

void top_forget(struct top_look *look)
{
    findings_free(&look->findings);
    free(look->facts);
    view_unload(&look->set);
    *look = (struct top_look){0};
}

/* ---- rates ---- */

static const struct blackbox *same_process(const struct view_set *set, const struct blackbox *box)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->boxes[i]->path, box->path) == 0 &&
            set->boxes[i]->header.opened.ticks == box->header.opened.ticks)
            return set->boxes[i];
    return NULL;
}

static uint64_t counted(const struct blackbox *box, enum wire_counter counter)
{
    return (size_t)counter < box->counter_count ? box->counters[counter] : 0;
}

static uint64_t bytes_moved(const struct blackbox *box)
{
    return counted(box, WIRE_COUNTER_SENT_SHM) + counted(box, WIRE_COUNTER_SENT_TCP) +
           counted(box, WIRE_COUNTER_SHARED_BYTES);
}

/* Bytes over time of the operations that have ended since the look before, as far as they are remembered. */
static double bus_bandwidth(const struct blackbox *box, uint64_t since)
{
    double bytes = 0, time = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++) {
            const struct blackbox_op *op = &box->comms[i].ops[j];
            double rate = op->end > since ? view_busbw(op, box->comms[i].nranks) : 0;
            bytes += rate * (double)view_duration(op, 0);
            time += rate > 0 ? (double)view_duration(op, 0) : 0;
        }
    return time > 0 ? bytes / time : 0;
}

static void measure(struct top_row *row, const struct top_look *before, const struct top_look *now)
{
    const struct blackbox *box = row->box, *old = same_process(&before->set, box);
    double seconds = (double)(now->at - before->at) / 1e9;
    if (!old || !box->alive || seconds <= 0)
        return;
    row->measured = true;
    row->operations = (double)(counted(box, WIRE_COUNTER_OPERATIONS) - counted(old, WIRE_COUNTER_OPERATIONS)) / seconds;
    row->moved = (double)(bytes_moved(box) - bytes_moved(old)) / seconds;
    row->bus = bus_bandwidth(box, before->at);
}

/* Takes the operation that has waited longest, of several unfinished ones in as many communicators. */
static void find_current(struct top_row *row)
{
    for (size_t i = 0; i < row->box->comm_count; i++) {
        const struct blackbox_comm *comm = &row->box->comms[i];
        const struct blackbox_op *op = comm->state == WIRE_COMM_CLOSED ? NULL : blackbox_current(comm);
        if (!op)
            continue;
        uint64_t since = op->state == WIRE_OP_RUNNING ? op->wait_since : 0;
        uint64_t waits = since && row->box->now > since ? row->box->now - since : 0;
        if (row->op && waits <= row->waits)
            continue;
        row->comm = comm;
        row->op = op;
        row->waits = waits;
    }
}

/* ---- order and filter ---- */

static const char *const orders[TOP_ORDERS] = {"rank", "operations", "bandwidth", "wait", "pid"};

const char *top_order_name(enum top_order order)
{
    return orders[order];
}

static enum top_order order_now; /* qsort passes nothing on */

static double weight(const struct top_row *row)
{
    switch (order_now) {
    case TOP_OPERATIONS:
        return row->operations;
    case TOP_BANDWIDTH:
        return row->bus;
    case TOP_WAIT:
        return (double)row->waits;
    default:
        return 0;
    }
}

/* Sorts by the greatest first; then by communicator and rank, and the dead last. */
static int compare(const void *left, const void *right)
{
    const struct top_row *a = left, *b = right;
    if (weight(a) != weight(b))
        return weight(a) > weight(b) ? -1 : 1;
    if (order_now != TOP_PID && a->world && b->world) {
        if (a->world->id != b->world->id)
            return a->world->id < b->world->id ? -1 : 1;
        if (a->world->rank != b->world->rank)
            return a->world->rank < b->world->rank ? -1 : 1;
    }
    if (order_now != TOP_PID && !a->world != !b->world)
        return a->world ? -1 : 1;
    return a->box->header.pid < b->box->header.pid ? -1 : a->box->header.pid > b->box->header.pid;
}

/* Searches the words of the row: program, rank, process, communicators, current operation. */
static bool wanted(const struct top_row *row, const char *filter)
{
    char text[400];
    snprintf(text, sizeof text, "%s rank %d pid %u %s %s %s", row->program, row->world ? row->world->rank : -1,
             row->box->header.pid, row->world ? row->world->name : "", row->op ? phrase_call(row->op).text : "idle",
             view_box_state(row->box));
    bool found = !*filter || strcasestr(text, filter);
    for (size_t i = 0; i < row->box->comm_count && !found; i++)
        found = strcasestr(row->box->comms[i].name, filter) != NULL;
    return found;
}

struct top_row *top_rows(const struct top_look *before, const struct top_look *now, const struct top_view *view,
                         size_t *count)
{
    struct top_row *rows = now->set.count ? calloc(now->set.count, sizeof *rows) : NULL;
    *count = 0;
    for (size_t i = 0; rows && i < now->set.count; i++) {
        struct top_row *row = &rows[*count];
        *row = (struct top_row){.box = now->set.boxes[i], .world = view_world(now->set.boxes[i])};
        view_program(row->box, row->program, sizeof row->program);
        find_current(row);
        measure(row, before, now);
        *count += wanted(row, view->filter);
    }
    order_now = view->order;
    if (rows)
        qsort(rows, *count, sizeof *rows, compare);
    return rows;
}
