/* SPDX-License-Identifier: Apache-2.0 */
/* Counters in documents of JSON: of the lab, of gnmic, and of SONiC's database. */
#ifndef PATHS_COUNTERS_JSON_H
#define PATHS_COUNTERS_JSON_H

#include "paths/counters.h"

/* Adds one port. */
tutti_result_t counters_add(const char *label, struct sent_bytes *out, const char *leaf, const char *port,
                            uint64_t bytes);

/* As counters_read(); what has no counters adds none. */
tutti_result_t counters_json(const char *label, const char *leaf, const char *text, size_t length,
                             struct sent_bytes *out);

#endif
