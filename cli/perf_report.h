/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `tutti perf`, as text or JSON. */
#ifndef TUTTI_CLI_PERF_REPORT_H
#define TUTTI_CLI_PERF_REPORT_H

#include "cli/perf.h"

struct measure {
    bool done; /* false: not applicable */
    double us, algorithm_gbs, bus_gbs;
    int64_t wrong; /* -1: not checked */
};

struct perf_report *report_open(const struct perf *perf);
void report_row(struct perf_report *report, const struct perf_shape *shape, const struct measure results[2]);
/* Returns the exit code. */
int report_close(struct perf_report *report);

#endif
