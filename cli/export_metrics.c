/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics as OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/) or as Prometheus' older text,
 * which calls a counter's family by the name of its sample. Names end with their unit, in base units. Labels are
 * bounded: names of programs, ranks, slots, and words of our own tables.
 */
#include "export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    FILE *out;
    enum export_format format;
    const struct view_set *set;
    const struct export_process **labels; /* one for each box; NULL: has no series */
};

/* ---- families and samples ---- */

/* The unit that a name ends with; NULL: none. */
static const char *unit_of(const char *name)
{
    static const char *const units[] = {"bytes", "seconds", "bytes_per_second"};
    const char *found = NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i]);
        if (length > unit && name[length - unit - 1] == '_' && strcmp(name + length - unit, units[i]) == 0)
            found = units[i];
    }
    return found;
}

/* `name` without "tutti_" and without the suffix of its samples, which `type` brings: counter, info, gauge. */
static void family(const struct writer *w, const char *name, const char *type, const char *text)
{
    bool open = w->format == EXPORT_OPENMETRICS, info = strcmp(type, "info") == 0;
    const char *suffix = open ? "" : strcmp(type, "counter") == 0 ? "_total" : info ? "_info" : "";
    fprintf(w->out, "# HELP tutti_%s%s %s\n# TYPE tutti_%s%s %s\n", name, suffix, text, name, suffix,
            info && !open ? "gauge" : type);
    if (open && unit_of(name))
        fprintf(w->out, "# UNIT tutti_%s %s\n", name, unit_of(name));
}

/* Quotes and backslashes are escaped; the reader of black boxes has left no control characters. */
static void label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\')
            putc('\\', out);
        putc(c < 127 ? c : '?', out); /* may not be UTF-8 */
    }
    putc('"', out);
}

/* The begin of a sample, with the labels of its process. */
static void open_sample(const struct writer *w, const char *name, const struct export_process *process)
{
    fprintf(w->out, "tutti_%s{", name);
    label(w->out, "program", process->program);
    if (process->rank >= 0)
        fprintf(w->out, ",rank=\"%d\",slot=\"%u\"", process->rank, process->slot);
    else
        fprintf(w->out, ",rank=\"\",slot=\"%u\"", process->slot);
}

/* The same with `more` labels, "" for none, up to its value. */
static void sample(const struct writer *w, const char *name, const struct export_process *process, const char *more)
{
    open_sample(w, name, process);
    fprintf(w->out, "%s%s} ", *more ? "," : "", more);
}

/* ---- what a process counted ---- */

#define NANOSECONDS "_nanoseconds"

/* Times are counted in nanoseconds, and told in seconds, which is Prometheus' unit of time. */
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

static void counters(const struct writer *w)
{
    const char *metric = "";
    for (size_t j = 0; j < WIRE_COUNTER_COUNT; j++) {
        const struct blackbox_counter_row *row = blackbox_counter_row(j);
        char base[64], name[80];
        metric_name(row->metric, base, sizeof base);
        snprintf(name, sizeof name, "%s_total", base);
        if (strcmp(metric, row->metric) != 0)
            family(w, base, "counter", row->help);
        metric = row->metric;
        for (size_t i = 0; i < w->set->count; i++) {
            const struct blackbox *box = w->set->boxes[i];
            if (!w->labels[i] || j >= box->counter_count)
                continue;
            sample(w, name, w->labels[i], row->label);
            if (is_time(row->metric))
                fprintf(w->out, "%.9f\n", (double)box->counters[j] / 1e9);
            else
                fprintf(w->out, "%" PRIu64 "\n", box->counters[j]);
        }
    }
}

static void info(const struct writer *w)
{
    family(w, "process", "info", "A process that uses tutti: its number, its host and its library");
    for (size_t i = 0; i < w->set->count; i++) {
        const struct wire_box_header *header = &w->set->boxes[i]->header;
        if (!w->labels[i])
            continue;
        open_sample(w, "process_info", w->labels[i]);
        fprintf(w->out, ",pid=\"%u\",", header->pid);
        label(w->out, "library", header->library);
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

/* The longest that a current operation has been at it, since its call or since it has waited. */
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
    {"communicators_open", "Communicators that are open", open_comms},
    {"communicators_broken", "Communicators that have failed and are still remembered", failed_comms},
    {"operations_unfinished", "Operations called and not over", unfinished},
    {"oldest_operation_seconds", "Since when the oldest unfinished operation has been called", oldest},
    {"peer_wait_seconds", "For how long the current operation has waited for a peer", waits},
};

static void now(const struct writer *w)
{
    for (size_t g = 0; g < sizeof gauges / sizeof *gauges; g++) {
        family(w, gauges[g].name, "gauge", gauges[g].help);
        for (size_t i = 0; i < w->set->count; i++) {
            if (!w->labels[i])
                continue;
            sample(w, gauges[g].name, w->labels[i], "");
            fprintf(w->out, "%.9g\n", gauges[g].value(w->set->boxes[i]));
        }
    }
}

/* ---- the latest operation of each collective, and memory ---- */

/* Of the host's operations with a measured end. */
static const struct blackbox_op *latest(const struct blackbox *box, int collective, int *nranks)
{
    const struct blackbox_op *found = NULL;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++) {
            const struct blackbox_op *op = &box->comms[i].ops[j];
            if (op->collective == collective && view_busbw(op, box->comms[i].nranks) > 0 &&
                (!found || op->end > found->end)) {
                found = op;
                *nranks = box->comms[i].nranks;
            }
        }
    return found;
}

static void latest_of_all(const struct writer *w, bool rate)
{
    const char *name = rate ? "latest_operation_bus_bytes_per_second" : "latest_operation_seconds";
    family(w, name, "gauge",
           rate ? "Bus bandwidth of the latest operation with a measured end" : "Time that this operation took");
    for (size_t i = 0; i < w->set->count; i++)
        for (int collective = 0; w->labels[i] && collective < WIRE_COLLECTIVE_COUNT; collective++) {
            int nranks = 0;
            char more[64];
            const struct blackbox_op *op = latest(w->set->boxes[i], collective, &nranks);
            if (!op)
                continue;
            snprintf(more, sizeof more, "collective=\"%s\"", blackbox_collective_name(collective));
            sample(w, name, w->labels[i], more);
            fprintf(w->out, "%.9g\n", rate ? view_busbw(op, nranks) * 1e9 : (double)view_duration(op, 0) / 1e9);
        }
}

static void memory(const struct writer *w)
{
    family(w, "memory_bytes", "gauge", "Memory that open communicators on GPUs hold");
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
            sample(w, "memory_bytes", w->labels[i], more);
            fprintf(w->out, "%" PRIu64 "\n", bytes);
        }
}

/* ---- of the host ---- */

static void of_host(const struct writer *w, const struct view_options *options)
{
    static const enum finding_class classes[] = {CLASS_COMMUNICATION_HANG, CLASS_OTHER_HANG, CLASS_COMMUNICATION_SLOW,
                                                 CLASS_OTHER_SLOW};
    struct findings findings = view_findings(options, w->set);
    size_t dead = 0, unlabelled = 0;
    for (size_t i = 0; i < w->set->count; i++) {
        dead += !w->set->boxes[i]->alive;
        unlabelled += w->set->boxes[i]->alive && !w->labels[i];
    }
    family(w, "processes", "gauge", "Processes that use tutti; dead: and share a communicator with a living one");
    fprintf(w->out, "tutti_processes{state=\"alive\"} %zu\ntutti_processes{state=\"dead\"} %zu\n", w->set->count - dead,
            dead);
    family(w, "processes_left_out", "gauge",
           "Living processes without metrics of their own, because there are too many");
    fprintf(w->out, "tutti_processes_left_out %zu\n", unlabelled);
    family(w, "boxes_unreadable", "gauge", "Black boxes that are damaged or of another version");
    fprintf(w->out, "tutti_boxes_unreadable %zu\n", w->set->unreadable);
    family(w, "findings", "gauge", "What tutti diagnose would name now");
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
        size_t count = 0;
        for (size_t i = 0; i < findings.count; i++)
            count += finding_row(findings.items[i].kind)->class == classes[c];
        fprintf(w->out, "tutti_findings{class=\"%s\"} %zu\n", finding_class_name(classes[c]), count);
    }
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

/* When a process joins its world, its rank becomes known: it is another series from then on. */
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

static void forget_gone(struct exporter *exporter)
{
    size_t kept = 0;
    for (size_t i = 0; i < exporter->count; i++) {
        if (exporter->processes[i].seen)
            exporter->processes[kept++] = exporter->processes[i];
        else
            free(exporter->processes[i].path);
    }
    exporter->count = kept;
}

/* The old ones are named first, so that the new ones take what is free. */
static void name_all(struct exporter *exporter, const struct view_set *set, const struct export_process **labels)
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

bool export_write(struct exporter *exporter, enum export_format format, FILE *out)
{
    struct view_set set;
    if (!view_load(&exporter->view, &set))
        return false;
    struct writer writer = {out, format, &set, calloc(set.count + 1, sizeof *writer.labels)};
    bool fine = writer.labels;
    if (fine) {
        name_all(exporter, &set, writer.labels);
        counters(&writer);
        info(&writer);
        now(&writer);
        latest_of_all(&writer, true);
        latest_of_all(&writer, false);
        memory(&writer);
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
        free(exporter->processes[i].path);
    free(exporter->processes);
    view_free_past(&exporter->past);
    exporter->processes = NULL;
    exporter->count = 0;
}
