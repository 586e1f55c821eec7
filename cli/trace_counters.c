/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes counted: a table, or the text that Prometheus scrapes. */
#include "trace.h"

#include <inttypes.h>
#include <string.h>

static void print_table(const struct view_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct blackbox *box = set->boxes[i];
        printf("process %u (%s): %s\n", box->header.pid, view_box_state(box), box->header.command);
        for (size_t j = 0; j < box->counter_count && j < WIRE_COUNTER_COUNT; j++) {
            const struct blackbox_counter_row *row = blackbox_counter_row(j);
            char name[64];
            snprintf(name, sizeof name, "%s %s", row->metric, row->label);
            printf("  %-36s %20" PRIu64 "  %s\n", name, box->counters[j], row->help);
        }
    }
}

static void print_value(const struct blackbox *box, size_t counter)
{
    const struct blackbox_counter_row *row = blackbox_counter_row(counter);
    const char *separator = *row->label ? "," : "";
    printf("tutti_%s_total{pid=\"%u\"%s%s} %" PRIu64 "\n", row->metric, box->header.pid, separator, row->label,
           box->counters[counter]);
}

/* Help and type once for each metric, whose rows stand together in the table. */
static void print_prometheus(const struct view_set *set)
{
    const char *metric = "";
    for (size_t j = 0; j < WIRE_COUNTER_COUNT; j++) {
        const struct blackbox_counter_row *row = blackbox_counter_row(j);
        if (strcmp(metric, row->metric) != 0) {
            printf("# HELP tutti_%s_total %s\n# TYPE tutti_%s_total counter\n", row->metric, row->help, row->metric);
            metric = row->metric;
        }
        for (size_t i = 0; i < set->count; i++)
            if (j < set->boxes[i]->counter_count)
                print_value(set->boxes[i], j);
    }
    printf("# HELP tutti_process_up 1 while the process lives\n# TYPE tutti_process_up gauge\n");
    for (size_t i = 0; i < set->count; i++)
        printf("tutti_process_up{pid=\"%u\"} %d\n", set->boxes[i]->header.pid, set->boxes[i]->alive);
}

int view_show_counters(const struct view_options *options, const struct view_set *set)
{
    if (options->prometheus)
        print_prometheus(set);
    else
        print_table(set);
    return fflush(stdout) == 0 ? 0 : 1;
}
