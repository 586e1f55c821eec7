/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The past, for the page: how many calls and bytes a rank made in each five seconds of the last hour, and the latest
 * verdicts. In memory: a master that begins anew knows nothing of before. The history (history.h) keeps verdicts for
 * longer.
 */
#ifndef TUTTI_MASTER_PAST_H
#define TUTTI_MASTER_PAST_H

#include "master/ledger.h"

#include <jansson.h>

#define PAST_SAMPLES  720
#define PAST_VERDICTS 64

struct past_sample {
    uint64_t day;        /* CLOCK_REALTIME in ns */
    double calls, bytes; /* per second, of a rank on average */
    size_t verdicts;     /* verdicts that stood */
};

struct past_verdict {
    uint64_t number, began, ended; /* ended: 0 while it stands */
    enum finding_kind kind;
    char text[200];
};

/* All 0: nothing so far. Both are rings. */
struct past {
    struct past_sample samples[PAST_SAMPLES];
    struct past_verdict verdicts[PAST_VERDICTS];
    uint64_t sample_count, verdict_count;
    struct past_sum {
        uint64_t at, calls; /* CLOCK_MONOTONIC of the look; calls so far, of all ranks */
        size_t comms;       /* of all ranks: another number means another job to compare with */
        size_t processes;   /* ranks that have calls */
        double bytes;       /* of a call, on average of the latest */
    } before;
};

/* Sums up a look. The caller holds no lock, because the sum may take a while. */
struct past_sum past_sum(const struct look *look, uint64_t at);
/* Called once a look; makes a sample from the looks of five seconds. */
void past_note(struct past *past, const struct past_sum *sum, uint64_t day, size_t verdicts);
void past_begin(struct past *past, const struct verdict *verdict);
void past_end(struct past *past, const struct verdict *verdict, uint64_t day);
/* NULL: no memory. */
json_t *past_json(const struct past *past);

#endif
