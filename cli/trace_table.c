/* SPDX-License-Identifier: Apache-2.0 */
/* The listing for people: a block for each process, a table for each communicator, the verdict at the end. */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/trace_text.h"

#include "base/error.h"
#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LAST_OPS    5
#define LAST_EVENTS 5

static size_t ranks_text(const char *what, uint32_t ranks, char *out, size_t size)
{
    size_t used = ranks ? (size_t)snprintf(out, size, "%s%s", *what == ' ' ? "," : "", what) : 0;
    for (int rank = 0; rank < 32 && used < size; rank++)
        if (ranks >> rank & 1)
            used += (size_t)snprintf(out + used, size - used, " %d", rank);
    return used < size ? used : size - 1;
}

static void waiting_text(const struct blackbox *box, const struct blackbox_op *op, char *out, size_t size)
{
    *out = 0;
    if (op->device && op->collective == WIRE_GROUP) {
        size_t used = ranks_text("sends to", op->sends_to, out, size);
        ranks_text(used ? " receives from" : "receives from", op->recvs_from, out + used, size - used);
    }
    if (op->state != WIRE_OP_RUNNING || !op->wait_since)
        return;
    uint64_t since = box->now > op->wait_since ? box->now - op->wait_since : 0;
    if (op->wait_peer < 0)
        snprintf(out, size, "waits for no peer, %s", phrase_time(since).text);
    else
        snprintf(out, size, "waits for rank %d, %s", op->wait_peer, phrase_time(since).text);
}

/* "2/6 s1": the second of 6 rounds, of slice 1. The number of rounds may be unknown. "step 2/3": of a collective
 * between hosts. */
static void stage_text(const struct blackbox_op *op, char *out, size_t size)
{
    if (op->step) {
        snprintf(out, size, "step %u/%u", op->step >> 8 & 255, op->step & 255);
        return;
    }
    if (op->state != WIRE_OP_RUNNING || !op->wait_since) {
        snprintf(out, size, "%s", op->rounds ? phrase_number(op->rounds).text : "-");
        return;
    }
    int used = snprintf(out, size, "%" PRIu32, op->wait_round + 1);
    if (op->rounds)
        used += snprintf(out + used, size - (size_t)used, "/%" PRIu32, op->rounds);
    if (op->slices > 1 || op->wait_slice)
        snprintf(out + used, size - (size_t)used, " s%" PRIu32, op->wait_slice);
}

/* Writes "<181ms" where kernels have not told the end: only the time at which it was seen is known. */
static struct phrase time_text(const struct blackbox *box, const struct blackbox_op *op)
{
    struct phrase word = phrase_time(view_duration(op, box->now)), less;
    if (op->captured)
        snprintf(word.text, sizeof word.text, "-");
    else if (op->state == WIRE_OP_DONE && !op->end)
        snprintf(word.text, sizeof word.text, "at once");
    if (!op->device || op->gpu_end || op->captured || op->state != WIRE_OP_DONE)
        return word;
    snprintf(less.text, sizeof less.text, "<%.40s", word.text);
    return less;
}

static const char *op_heading = "    %8s %-14s %12s %-8s %-6s %5s %-14s %-10s %-8s %10s %9s%s%s\n";

static void print_op(FILE *out, const struct blackbox *box, const struct blackbox_comm *comm,
                     const struct blackbox_op *op)
{
    char stage[48], waiting[80], bandwidth[24] = "-", root[16] = "-";
    double busbw = view_busbw(op, comm->nranks);
    stage_text(op, stage, sizeof stage);
    waiting_text(box, op, waiting, sizeof waiting);
    if (busbw > 0)
        snprintf(bandwidth, sizeof bandwidth, busbw < 0.01 ? "%.5f" : "%.2f", busbw);
    if (op->root >= 0)
        snprintf(root, sizeof root, "%d", op->root);
    if (op->state == WIRE_OP_DONE && op->result)
        snprintf(waiting, sizeof waiting, "%s", error_name((tutti_result_t)op->result));
    fprintf(out, op_heading, phrase_number(op->seq).text, blackbox_collective_name(op->collective),
            phrase_number(op->count).text, blackbox_type_name(op->type), blackbox_op_name(op->op), root,
            *op->algorithm ? op->algorithm : "-", stage, phrase_state(op), time_text(box, op).text, bandwidth,
            *waiting ? "  " : "", waiting);
}

static void print_value(FILE *out, const char *name, uint64_t value)
{
    if (*name)
        fprintf(out, " %s %" PRIu64, name, value);
}

void view_event_line(FILE *out, const struct blackbox *box, const struct blackbox_event *event)
{
    const struct blackbox_event_row *row = blackbox_event_row(event->kind);
    fprintf(out, "    %s pid %u %s", view_day(box, event->time).text, box->header.pid, row->name);
    if (event->peer_rank >= 0)
        fprintf(out, " rank %d", event->peer_rank);
    if (event->peer_pid)
        fprintf(out, " peer %u", event->peer_pid);
    if (event->lane >= 0)
        fprintf(out, " lane %d", event->lane);
    if (event->comm)
        fprintf(out, " communicator %016" PRIx64, event->comm);
    print_value(out, row->value1, event->value1);
    print_value(out, row->value2, event->value2);
    fputc('\n', out);
}

/* Shows the last few operations, and every unfinished one. */
static void print_ops(FILE *out, const struct blackbox *box, const struct blackbox_comm *comm, bool all)
{
    if (!comm->op_count)
        return;
    fprintf(out, op_heading, "SEQ", "COLLECTIVE", "COUNT", "TYPE", "OP", "ROOT", "ALGORITHM", "ROUND", "STATE", "TIME",
            "BUS GB/s", "  ", "WAITS");
    size_t hidden = 0;
    for (size_t i = 0; i < comm->op_count; i++) {
        bool old = comm->ops[i].state == WIRE_OP_DONE && i + LAST_OPS < comm->op_count;
        bool many = comm->ops[i].state == WIRE_OP_ENQUEUED && i + LAST_OPS < comm->op_count;
        if (all || (!old && !many))
            print_op(out, box, comm, &comm->ops[i]);
        else
            hidden++;
    }
    if (hidden)
        fprintf(out, "    (%zu more: --all-ops)\n", hidden);
}

static void print_comm(FILE *out, const struct blackbox *box, const struct blackbox_comm *comm, bool all)
{
    fprintf(out, "  %s: rank %d of %d, %s, id %016" PRIx64 "\n", *comm->name ? comm->name : "(no name)", comm->rank,
            comm->nranks, view_comm_state(box, comm), comm->id);
    if (comm->state == WIRE_COMM_FAILED || comm->state == WIRE_COMM_ABORTED) {
        fprintf(out, "    %s: %s", error_name((tutti_result_t)comm->result), comm->sentence);
        if (comm->culprit >= 0)
            fprintf(out, " (rank %d)", comm->culprit);
        fputc('\n', out);
    }
    view_memory_line(out, comm);
    print_ops(out, box, comm, all);
    if (comm->captured)
        fprintf(out, "    %" PRIu64 " calls went into graphs, whose launches are not seen\n", comm->captured);
    if (comm->unrecorded)
        fprintf(out, "    %" PRIu64 " operations up to #%" PRIu64 " are not recorded: too many were unfinished\n",
                comm->unrecorded, comm->newest_unrecorded);
}

static void print_box(FILE *out, const struct blackbox *box, bool all)
{
    fprintf(out, "process %u (%s) on %s: %s\n", box->header.pid, view_box_state(box), box->header.host,
            box->header.command);
    if (!box->alive)
        fprintf(out, "  last sign of life %s; %s\n", view_day(box, box->now).text, box->path);
    for (size_t i = 0; i < box->comm_count; i++)
        if (all || box->comms[i].state != WIRE_COMM_CLOSED)
            print_comm(out, box, &box->comms[i], all);
    size_t first = all || box->event_count < LAST_EVENTS ? 0 : box->event_count - LAST_EVENTS;
    if (box->event_count)
        fprintf(out, "  events\n");
    for (size_t i = first; i < box->event_count; i++)
        view_event_line(out, box, &box->events[i]);
    if (box->torn)
        fprintf(out, "  %zu records were being written, or are damaged\n", box->torn);
}

static void print_verdicts(FILE *out, const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        fprintf(out, "%s: %s\n", verdict_word(&findings->items[i]), findings->items[i].sentence);
    if (findings->left_out)
        fprintf(out, "(%zu more)\n", findings->left_out);
}

void view_table(FILE *out, const struct view_options *options, const struct view_set *set)
{
    if (!set->count)
        fprintf(out, "no black box%s\n",
                options->file_count ? ""
                : set->hidden       ? " of a living process here"
                                    : " of this user's processes here");
    for (size_t i = 0; i < set->count; i++)
        print_box(out, set->boxes[i], options->all_ops);
    struct findings findings = view_findings(options, set);
    print_verdicts(out, &findings);
    findings_free(&findings);
}

/* ---- In short ---- */

/* The ranks of a communicator that are here, for one line of the summary. */
static void print_group(FILE *out, const struct trace_member *members, size_t count)
{
    const struct blackbox_comm *comm = members->comm;
    size_t living = 0, running = 0, failed = 0;
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        const struct blackbox_comm *mine = members[i].comm;
        uint64_t calls = mine->unrecorded + (mine->op_count ? mine->ops[mine->op_count - 1].position + 1 : 0);
        living += members[i].box->alive;
        running += blackbox_current(mine) != NULL;
        failed += mine->state == WIRE_COMM_FAILED || mine->state == WIRE_COMM_ABORTED;
        least = calls < least ? calls : least;
        most = calls > most ? calls : most;
    }
    fprintf(out,
            "%s: %zu of %d ranks here, %zu alive, %zu in a call, %zu failed; calls %" PRIu64 " to %" PRIu64
            "; id %016" PRIx64 "\n",
            phrase_name(comm), count, comm->nranks, living, running, failed, least, most, comm->id);
}

bool view_summary(FILE *out, const struct view_options *options, const struct view_set *set)
{
    size_t count;
    struct findings findings = view_findings(options, set);
    struct trace_member *members = view_members(set, &count);
    bool wrong = findings_faults(&findings) > 0;
    print_verdicts(out, &findings);
    for (size_t at = 0, ranks; at < count; at += ranks) {
        ranks = view_group(members, count, at);
        print_group(out, members + at, ranks);
    }
    fprintf(out, "%zu process%s%s\n", set->count, set->count == 1 ? "" : "es",
            findings.count ? "" : ", nothing stands still");
    free(members);
    findings_free(&findings);
    return wrong;
}
