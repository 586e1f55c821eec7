/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics as OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/), or as Prometheus' older text,
 * which names a counter's family like its sample. Names end with their unit, in base units. Labels are bounded: names
 * of programs, ranks, slots, and words of our own tables.
 */
#include "cli/export.h"
#include "cli/trace.h"
#include "cli/trace_text.h"
#include "diagnosis/diagnosis.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a process counted ---- */

#define NANOSECONDS "_nanoseconds"

/* Counters of time are in nanoseconds, and printed in seconds, which is Prometheus' unit of time. */
static bool is_time(const char *metric)
{
    size_t length = strlen(metric);
    return length > strlen(NANOSECONDS) && strcmp(metric + length - strlen(NANOSECONDS), NANOSECONDS) == 0;
}

static void metric_name(const char *metric, char *out, size_t size)
{
    if (is_time(metric))
        snprintf(out, size, "%.*s_seconds", (int)(strlen(metric) - strlen(NANOSECONDS)), metric);
    else
        snprintf(out, size, "%s", metric);
}

static void counters(const struct export_writer *w)
{
    const char *metric = "";
    for (size_t j = 0; j < WIRE_COUNTER_COUNT; j++) {
        const struct blackbox_counter_row *row = blackbox_counter_row(j);
        char base[64], name[80];
        metric_name(row->metric, base, sizeof base);
        snprintf(name, sizeof name, "%s_total", base);
        if (strcmp(metric, row->metric) != 0)
            export_family(w, base, "counter", row->help);
        metric = row->metric;
        for (size_t i = 0; i < w->set->count; i++) {
            const struct blackbox *box = w->set->boxes[i];
            if (!w->labels[i] || j >= box->counter_count)
                continue;
            export_sample(w, name, w->labels[i], row->label);
            if (is_time(row->metric))
                fprintf(w->out, "%.9f\n", (double)box->counters[j] / 1e9);
            else
                fprintf(w->out, "%" PRIu64 "\n", box->counters[j]);
        }
    }
}

static void info(const struct export_writer *w)
{
    export_family(w, "process", "info", "Number of a process that uses tutti, and version of its library");
    for (size_t i = 0; i < w->set->count; i++) {
        const struct wire_box_header *header = &w->set->boxes[i]->header;
        if (!w->labels[i])
            continue;
        export_open(w, "process_info", w->labels[i]);
        fprintf(w->out, ",pid=\"%u\",", header->pid);
        export_label(w->out, "library", header->library);
        fputs("} 1\n", w->out);
    }
}

/* ---- what a process does now ---- */

typedef double (*gauge_fn)(const struct blackbox *box);

static double open_comms(const struct blackbox *box)
{
    double count = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        count += box->comms[i].state == WIRE_COMM_OPEN;
    return count;
}

static double failed_comms(const struct blackbox *box)
{
    double count = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        count += box->comms[i].state == WIRE_COMM_FAILED;
    return count;
}

static double unfinished(const struct blackbox *box)
{
    double count = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            count += box->comms[i].state == WIRE_COMM_OPEN && box->comms[i].ops[j].state != WIRE_OP_DONE;
    return count;
}

static double seconds(const struct blackbox *box, uint64_t since)
{
    return since && box->now > since ? (double)(box->now - since) / 1e9 : 0;
}

/* The longest time that a current operation has taken, since its call or since it has waited. */
static double longest(const struct blackbox *box, bool waiting)
{
    double most = 0;
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_op *op = box->comms[i].state == WIRE_COMM_OPEN ? blackbox_current(&box->comms[i]) : NULL;
        double age = op ? seconds(box, waiting ? op->wait_since : op->begin) : 0;
        most = age > most ? age : most;
    }
    return most;
}

static double oldest(const struct blackbox *box)
{
    return longest(box, false);
}

static double waits(const struct blackbox *box)
{
    return longest(box, true);
}

static const struct {
    const char *name, *help;
    gauge_fn value;
} gauges[] = {
    {"communicators_open", "Communicators that this process has open", open_comms},
    {"communicators_broken", "Communicators of this process that have failed and are not destroyed", failed_comms},
    {"operations_unfinished", "Collectives, sends and receives that this process has called and that are not over",
     unfinished},
    {"oldest_operation_seconds",
     "Age of the oldest operation of this process that is not over, from its call on; 0 without one", oldest},
    {"peer_wait_seconds",
     "For how long the current operation of this process has waited for another rank; 0 while it does not wait", waits},
};

static void now(const struct export_writer *w)
{
    for (size_t g = 0; g < sizeof gauges / sizeof *gauges; g++) {
        export_family(w, gauges[g].name, "gauge", gauges[g].help);
        for (size_t i = 0; i < w->set->count; i++) {
            if (!w->labels[i])
                continue;
            export_sample(w, gauges[g].name, w->labels[i], "");
            fprintf(w->out, "%.9g\n", gauges[g].value(w->set->boxes[i]));
        }
    }
}

/* ---- memory ---- */

static void memory(const struct export_writer *w)
{
    export_family(w, "memory_bytes", "gauge",
                  "Memory that open communicators of this process on GPUs hold: on the GPU, or pinned on the host");
    for (size_t i = 0; i < w->set->count; i++)
        for (size_t m = 0; w->labels[i] && m < WIRE_MEMORY_COUNT; m++) {
            const struct blackbox *box = w->set->boxes[i];
            const struct blackbox_memory_row *row = blackbox_memory_row(m);
            uint64_t bytes = 0;
            char more[96];
            for (size_t c = 0; c < box->comm_count; c++)
                bytes += box->comms[c].state == WIRE_COMM_OPEN ? box->comms[c].memory[m] : 0;
            if (!bytes)
                continue;
            snprintf(more, sizeof more, "where=\"%s\",purpose=\"%s\"", row->where, row->name);
            export_sample(w, "memory_bytes", w->labels[i], more);
            fprintf(w->out, "%" PRIu64 "\n", bytes);
        }
}

/* ---- the processes that hold up the others ---- */

static void holds_up(const struct export_writer *w, const struct view_options *options)
{
    const struct snapshot snapshot = {.now = {w->set->boxes, NULL, w->set->count}, .stuck = options->stuck};
    double *shares = diagnosis_holds_up(&snapshot);
    if (!shares)
        return;
    export_family(
        w, "holds_up_ratio", "gauge",
        "Part of the time in which the other ranks waited for this one, because it came last. Looked at are the "
        "latest collectives that all ranks of a communicator on this host remember. Near 0 for all ranks of a healthy "
        "job; the slow rank of a slow job has the highest");
    for (size_t i = 0; i < w->set->count; i++)
        if (w->labels[i]) {
            export_sample(w, "holds_up_ratio", w->labels[i], "");
            fprintf(w->out, "%.6f\n", shares[i]);
        }
    free(shares);
}

/* ---- of the host ---- */

static void build(const struct export_writer *w)
{
    export_family(w, "build", "info",
                  "Version of this tutti export; tutti_process_info has that of each process's library");
    fprintf(w->out, "tutti_build_info{version=\"%d.%d.%d\"} 1\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
            TUTTI_VERSION_PATCH);
}

static const struct export_process *culprit_of(const struct export_writer *w, const struct finding *finding)
{
    for (size_t i = 0; finding->culprit.pid && i < w->set->count; i++) {
        const struct wire_box_header *header = &w->set->boxes[i]->header;
        if (w->labels[i] && header->pid == finding->culprit.pid && strcmp(header->host, finding->culprit.host) == 0)
            return w->labels[i];
    }
    return NULL;
}

static bool is_told(const struct findings *findings, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        const struct finding *a = &findings->items[i], *b = &findings->items[at];
        if (a->kind == b->kind && a->culprit.pid == b->culprit.pid && a->culprit.world_rank == b->culprit.world_rank)
            return true;
    }
    return false;
}

/* Writes one of several findings of one kind about one culprit. */
static void each_finding(const struct export_writer *w, const struct findings *findings)
{
    export_family(
        w, "finding", "gauge",
        "1 for each thing that tutti diagnose would name now, with the process that is to blame: kind stopped, "
        "dead, behind, slow and so on. No program: its process is not on this host, or there is no single one");
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        const struct export_process *process = culprit_of(w, finding);
        const struct export_process nobody = {.rank = finding->culprit.world_rank};
        char more[96];
        if (finding_is_note(finding->kind) || is_told(findings, i))
            continue;
        snprintf(more, sizeof more, "class=\"%s\",kind=\"%s\"", finding_class_name(finding_row(finding->kind)->class),
                 finding_row(finding->kind)->name);
        export_sample(w, "finding", process ? process : &nobody, more);
        fprintf(w->out, "1\n");
    }
}

static void of_host(const struct export_writer *w, const struct view_options *options)
{
    static const enum finding_class classes[] = {CLASS_COMMUNICATION_HANG, CLASS_OTHER_HANG, CLASS_COMMUNICATION_SLOW,
                                                 CLASS_OTHER_SLOW};
    struct findings findings = view_findings(options, w->set);
    size_t dead = 0, unlabelled = 0;
    for (size_t i = 0; i < w->set->count; i++) {
        dead += !w->set->boxes[i]->alive;
        unlabelled += w->set->boxes[i]->alive && !w->labels[i];
    }
    export_family(
        w, "processes", "gauge",
        "Processes of this host that use tutti; the dead ones count while they share a communicator with a living one");
    fprintf(w->out, "tutti_processes{state=\"alive\"} %zu\ntutti_processes{state=\"dead\"} %zu\n", w->set->count - dead,
            dead);
    export_family(w, "processes_left_out", "gauge",
                  "Living processes without metrics of their own, because there are too many");
    fprintf(w->out, "tutti_processes_left_out %zu\n", unlabelled);
    export_family(w, "boxes_unreadable", "gauge", "Black boxes that are damaged or of another version");
    fprintf(w->out, "tutti_boxes_unreadable %zu\n", w->set->unreadable);
    export_family(w, "findings", "gauge",
                  "How many hangs and slow parts tutti diagnose would name now on this host; tutti_finding names who "
                  "is to blame");
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
        size_t count = 0;
        for (size_t i = 0; i < findings.count; i++)
            count += finding_row(findings.items[i].kind)->class == classes[c];
        fprintf(w->out, "tutti_findings{class=\"%s\"} %zu\n", finding_class_name(classes[c]), count);
    }
    each_finding(w, &findings);
    findings_free(&findings);
}

/* ---- which process is which ---- */

static bool slot_taken(const struct exporter *exporter, const struct export_process *mine, unsigned slot)
{
    for (size_t i = 0; i < exporter->count; i++) {
        const struct export_process *other = &exporter->processes[i];
        if (other != mine && other->rank == mine->rank && other->slot == slot &&
            strcmp(other->program, mine->program) == 0)
            return true;
    }
    return false;
}

/* A process that joins its world gets a rank, and is another series from then on. */
static void name_process(struct exporter *exporter, struct export_process *process, const struct blackbox *box)
{
    char program[sizeof process->program];
    const struct blackbox_comm *world = view_world(box);
    int rank = world ? world->rank : -1;
    view_program(box, program, sizeof program);
    process->seen = true;
    if (*process->program && process->rank == rank && strcmp(program, process->program) == 0)
        return;
    memcpy(process->program, program, sizeof program);
    process->rank = rank;
    for (process->slot = 0; slot_taken(exporter, process, process->slot);)
        process->slot++;
}

static struct export_process *known(struct exporter *exporter, const char *path)
{
    for (size_t i = 0; i < exporter->count; i++)
        if (strcmp(exporter->processes[i].path, path) == 0)
            return &exporter->processes[i];
    return NULL;
}

static struct export_process *enter(struct exporter *exporter, const char *path)
{
    if (!exporter->processes)
        exporter->processes = calloc(EXPORT_MOST, sizeof *exporter->processes);
    char *copy = exporter->processes && exporter->count < EXPORT_MOST ? strdup(path) : NULL;
    if (!copy)
        return NULL;
    exporter->processes[exporter->count] = (struct export_process){.path = copy, .rank = -1};
    return &exporter->processes[exporter->count++];
}

static void forget(struct export_process *process)
{
    free(process->path);
    export_forget(&process->operations);
}

static void forget_gone(struct exporter *exporter)
{
    size_t kept = 0;
    for (size_t i = 0; i < exporter->count; i++) {
        if (exporter->processes[i].seen)
            exporter->processes[kept++] = exporter->processes[i];
        else
            forget(&exporter->processes[i]);
    }
    exporter->count = kept;
}

/* Names the known processes first, so that new ones take the free numbers. */
static void name_all(struct exporter *exporter, const struct view_set *set, struct export_process **labels)
{
    for (size_t i = 0; i < exporter->count; i++)
        exporter->processes[i].seen = false;
    for (size_t i = 0; i < set->count; i++) {
        struct export_process *process = set->boxes[i]->alive ? known(exporter, set->boxes[i]->path) : NULL;
        if (process)
            process->seen = true;
    }
    forget_gone(exporter);
    for (size_t i = 0; i < set->count; i++) {
        const struct blackbox *box = set->boxes[i];
        struct export_process *process = box->alive ? known(exporter, box->path) : NULL;
        if (box->alive && !process)
            process = enter(exporter, box->path);
        if (process)
            name_process(exporter, process, box);
        labels[i] = process;
    }
}

bool export_look(struct exporter *exporter)
{
    struct view_set set;
    if (!view_load(&exporter->view, &set))
        return false;
    struct export_writer writer = {.set = &set, .labels = calloc(set.count + 1, sizeof *writer.labels)};
    if (writer.labels) {
        name_all(exporter, &set, writer.labels);
        export_note(&writer);
    }
    free(writer.labels);
    view_unload(&set);
    return writer.labels != NULL;
}

bool export_write(struct exporter *exporter, enum export_format format, FILE *out)
{
    struct view_set set;
    if (!view_load(&exporter->view, &set))
        return false;
    struct export_writer writer = {out, format, &set, calloc(set.count + 1, sizeof *writer.labels)};
    bool fine = writer.labels;
    if (fine) {
        name_all(exporter, &set, writer.labels);
        export_note(&writer);
        build(&writer);
        counters(&writer);
        info(&writer);
        now(&writer);
        export_operations(&writer);
        memory(&writer);
        export_lanes(&writer);
        holds_up(&writer, &exporter->view);
        of_host(&writer, &exporter->view);
        if (format == EXPORT_OPENMETRICS)
            fputs("# EOF\n", out);
    } else {
        fprintf(stderr, "tutti export: no memory\n");
    }
    free(writer.labels);
    view_unload(&set);
    return fine;
}

void export_end(struct exporter *exporter)
{
    for (size_t i = 0; i < exporter->count; i++)
        forget(&exporter->processes[i]);
    free(exporter->processes);
    view_free_past(&exporter->past);
    exporter->processes = NULL;
    exporter->count = 0;
}
