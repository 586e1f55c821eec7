/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations, numbers and sizes of operations. Black boxes tell of single operations, the latest of each communicator;
 * the sums are made here, look by look. What a box forgets between two looks is not counted.
 */
#include "cli/export.h"
#include "cli/trace_text.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct {
    double seconds;
    const char *text; /* as Prometheus' own libraries write numbers: the text is a part of a series' name */
} bounds[EXPORT_TIMES] = {{1e-5, "1e-05"}, {5e-5, "5e-05"},   {2.5e-4, "0.00025"}, {1e-3, "0.001"},
                          {5e-3, "0.005"}, {2.5e-2, "0.025"}, {0.1, "0.1"},        {0.5, "0.5"},
                          {2.5, "2.5"},    {10, "10.0"},      {60, "60.0"}};

static const struct {
    uint64_t most;
    const char *name;
} sizes[] = {{4 << 10, "4KiB"},   {64 << 10, "64KiB"},   {1 << 20, "1MiB"},
             {16 << 20, "16MiB"}, {256 << 20, "256MiB"}, {UINT64_MAX, "more"}};

/* ---- Counting ---- */

static struct export_kind *kind_of(struct export_operations *all, int collective, int size)
{
    for (size_t i = 0; i < all->kind_count; i++)
        if (all->kinds[i].collective == collective && all->kinds[i].size == size)
            return &all->kinds[i];
    struct export_kind *more = realloc(all->kinds, (all->kind_count + 1) * sizeof *more);
    if (!more)
        return NULL;
    all->kinds = more;
    more[all->kind_count] = (struct export_kind){.collective = collective, .size = size};
    return &more[all->kind_count++];
}

static struct export_seen *seen_in(struct export_operations *all, const struct blackbox_comm *comm)
{
    for (size_t i = 0; i < all->seen_count; i++)
        if (all->seen[i].place == comm->place) {
            if (all->seen[i].generation != comm->generation)
                all->seen[i] = (struct export_seen){comm->place, comm->generation, 0};
            return &all->seen[i];
        }
    struct export_seen *more = realloc(all->seen, (all->seen_count + 1) * sizeof *more);
    if (!more)
        return NULL;
    all->seen = more;
    more[all->seen_count] = (struct export_seen){comm->place, comm->generation, 0};
    return &more[all->seen_count++];
}

/* An operation that was over in its call has no measured end, and took next to nothing. */
static void count(struct export_operations *all, const struct blackbox_op *op)
{
    int size = 0, time = 0;
    while (op->bytes > sizes[size].most)
        size++;
    double took = (double)view_duration(op, 0) / 1e9;
    while (time < EXPORT_TIMES && took > bounds[time].seconds)
        time++;
    struct export_kind *kind = op->collective < WIRE_COLLECTIVE_COUNT ? kind_of(all, op->collective, size) : NULL;
    if (!kind)
        return;
    kind->times[time]++;
    kind->seconds += took;
    kind->bytes += op->bytes;
}

/* Counts up to the first unfinished operation: it and later ones count when it is over. A rank with more unfinished
 * operations than its box has records shows hardly any. */
static void note(struct export_operations *all, const struct blackbox_comm *comm)
{
    struct export_seen *seen = seen_in(all, comm);
    for (size_t i = 0; seen && i < comm->op_count; i++) {
        const struct blackbox_op *op = &comm->ops[i];
        if (op->position < seen->next)
            continue;
        if (op->state != WIRE_OP_DONE)
            return;
        seen->next = op->position + 1;
        if (!op->captured && !op->result) /* launches of a graph are not seen */
            count(all, op);
    }
}

void export_note(const struct export_writer *w)
{
    for (size_t i = 0; i < w->set->count; i++)
        for (size_t j = 0; w->labels[i] && j < w->set->boxes[i]->comm_count; j++)
            note(&w->labels[i]->operations, &w->set->boxes[i]->comms[j]);
}

void export_forget(struct export_operations *operations)
{
    free(operations->kinds);
    free(operations->seen);
}

/* ---- Writing ---- */

static void write_kind(const struct export_writer *w, const struct export_process *process,
                       const struct export_kind *kind)
{
    char labels[96], more[128];
    uint64_t sum = 0;
    snprintf(labels, sizeof labels, "collective=\"%s\",size=\"%s\"", blackbox_collective_name(kind->collective),
             sizes[kind->size].name);
    for (int i = 0; i <= EXPORT_TIMES; i++) {
        sum += kind->times[i];
        snprintf(more, sizeof more, "%s,le=\"%s\"", labels, i < EXPORT_TIMES ? bounds[i].text : "+Inf");
        export_sample(w, "operation_seconds_bucket", process, more);
        fprintf(w->out, "%" PRIu64 "\n", sum);
    }
    export_sample(w, "operation_seconds_sum", process, labels);
    fprintf(w->out, "%.9f\n", kind->seconds);
    export_sample(w, "operation_seconds_count", process, labels);
    fprintf(w->out, "%" PRIu64 "\n", sum);
}

static void write_bytes(const struct export_writer *w, const struct export_process *process,
                        const struct export_kind *kind)
{
    char labels[96];
    snprintf(labels, sizeof labels, "collective=\"%s\",size=\"%s\"", blackbox_collective_name(kind->collective),
             sizes[kind->size].name);
    export_sample(w, "operation_bytes_total", process, labels);
    fprintf(w->out, "%" PRIu64 "\n", kind->bytes);
}

static void each(const struct export_writer *w,
                 void (*write)(const struct export_writer *w, const struct export_process *process,
                               const struct export_kind *kind))
{
    for (size_t i = 0; i < w->set->count; i++)
        for (size_t j = 0; w->labels[i] && j < w->labels[i]->operations.kind_count; j++)
            write(w, w->labels[i], &w->labels[i]->operations.kinds[j]);
}

void export_operations(const struct export_writer *w)
{
    export_family(
        w, "operation_seconds", "histogram",
        "Time that operations took, by collective and by the least of these sizes that holds its bytes; waiting "
        "for other ranks is in it. An operation that was over within its call counts with 0 s. Counted are those "
        "that tutti export has seen: a black box remembers the latest 256 of each communicator, and is looked at "
        "once a second while somebody scrapes; tutti_operations_total counts all");
    each(w, write_kind);
    export_family(
        w, "operation_bytes", "counter",
        "Bytes of the same operations, as the call's size says: of an allreduce those of its vector, whatever "
        "is sent for it");
    each(w, write_bytes);
}
