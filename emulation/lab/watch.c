/* SPDX-License-Identifier: Apache-2.0 */
/* One measurement, one table, one write. */
#include "watch.h"
#include "report.h"

#include <stdio.h>
#include <unistd.h>

static tutti_result_t show(struct fabric *fabric, double seconds, bool terminal)
{
    struct counters counters;
    struct text out = {0};
    tutti_result_t result = counters_measure(fabric, seconds, &counters);
    if (result != TUTTI_SUCCESS)
        return result;
    text_add(&out, "%sLab %s, the last %g s%s\n\n", terminal ? "\033[H\033[J" : "", fabric->topology.spec.name, seconds,
             terminal ? "; Ctrl-C ends" : "");
    report_table(&counters, &out);
    if (!terminal)
        text_add(&out, "\n");
    result = text_write(&out, STDOUT_FILENO, "the table");
    text_free(&out);
    counters_free(&counters);
    return result;
}

tutti_result_t watch_run(struct fabric *fabric, double seconds, int times)
{
    bool terminal = isatty(STDOUT_FILENO);
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; (times == 0 || i < times) && result == TUTTI_SUCCESS; i++)
        result = show(fabric, seconds, terminal);
    return result;
}
