/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of processes, as a table. */
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/trace_text.h"

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

int view_show_counters(const struct view_options *options, const struct view_set *set)
{
    print_table(set);
    return VIEW_SHOWN;
}
