/* SPDX-License-Identifier: Apache-2.0 */
/* Families and samples of metrics, in one of the two texts. */
#include "cli/export.h"

#include <string.h>

/* The unit at the end of a name; NULL: none. */
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
void export_family(const struct export_writer *w, const char *name, const char *type, const char *text)
{
    bool open = w->format == EXPORT_OPENMETRICS, info = strcmp(type, "info") == 0;
    const char *suffix = open ? "" : strcmp(type, "counter") == 0 ? "_total" : info ? "_info" : "";
    fprintf(w->out, "# HELP tutti_%s%s %s\n# TYPE tutti_%s%s %s\n", name, suffix, text, name, suffix,
            info && !open ? "gauge" : type);
    if (open && unit_of(name))
        fprintf(w->out, "# UNIT tutti_%s %s\n", name, unit_of(name));
}

/* Escapes quotes and backslashes; the reader of black boxes has left no control characters. */
void export_label(FILE *out, const char *name, const char *value)
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

/* Begins a sample, with the labels of its process. */
void export_open(const struct export_writer *w, const char *name, const struct export_process *process)
{
    fprintf(w->out, "tutti_%s{", name);
    export_label(w->out, "program", process->program);
    if (process->rank >= 0)
        fprintf(w->out, ",rank=\"%d\",slot=\"%u\"", process->rank, process->slot);
    else
        fprintf(w->out, ",rank=\"\",slot=\"%u\"", process->slot);
}

/* The same with `more` labels, "" for none, up to its value. */
void export_sample(const struct export_writer *w, const char *name, const struct export_process *process,
                   const char *more)
{
    export_open(w, name, process);
    fprintf(w->out, "%s%s} ", *more ? "," : "", more);
}
