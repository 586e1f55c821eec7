/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports that an agent passes on, and the answer to each. The reports stay bytes: report_read takes them apart one by
 * one. Bytes of a bundle may be as hostile as those of a report.
 */
#ifndef TUTTI_REPORT_BUNDLE_H
#define TUTTI_REPORT_BUNDLE_H

#include "report/report.h"
#include "wire/verdicts.h"

#define BUNDLE_REPORTS  1024u
#define BUNDLE_BYTES    (REPORT_BYTES + (1u << 20))
#define BUNDLE_HOPS     8u  /* agents that pass a report on, one after another */
#define BUNDLE_ADDRESS  64u /* an address without its port */
#define BUNDLE_SENTENCE 256u
#define ANSWERS_BYTES   (BUNDLE_REPORTS * (BUNDLE_SENTENCE + 16u) + VERDICTS_MOST * (VERDICTS_TEXT + 64u))

/* One report. Its texts belong to the bundle. */
struct relayed {
    const uint8_t *bytes;
    size_t size;
    char from[BUNDLE_ADDRESS];
    char via[BUNDLE_HOPS][WIRE_BOX_NAME];
    size_t hops;
};

struct bundle {
    struct relayed *reports;
    size_t count;
    char complaint[BUNDLE_SENTENCE];
    void *message; /* the memory that has the reports' bytes */
};

struct bundle_answer {
    unsigned status; /* HTTP status */
    char sentence[BUNDLE_SENTENCE];
};

/* The caller frees the bytes; NULL: no memory. */
uint8_t *bundle_write(const struct bundle *bundle, size_t *size);
/* TUTTI_INVALID_USAGE after error_note. The caller frees *out by bundle_free. */
tutti_result_t bundle_read(const void *bytes, size_t size, struct bundle *out);
void bundle_free(struct bundle *bundle);

/* With them go verdicts for all hosts. */
uint8_t *answers_write(const struct bundle_answer *answers, size_t count, const struct verdict_list *verdicts,
                       size_t *size);
/* Reads exactly `count` answers; TUTTI_INVALID_USAGE after error_note if there are fewer or more. */
tutti_result_t answers_read(const void *bytes, size_t size, struct bundle_answer *answers, size_t count,
                            struct verdict_list *verdicts);

#endif
