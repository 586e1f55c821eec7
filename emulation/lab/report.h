/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and names as tables for people and as JSON for programs. */
#ifndef LAB_REPORT_H
#define LAB_REPORT_H

#include "lab/counters.h"

void report_table(const struct counters *counters, struct text *out);
void report_json(const struct counters *counters, struct text *out);

void report_hosts(const struct lab_topology *topology, bool json, struct text *out);

#endif
