/* SPDX-License-Identifier: Apache-2.0 */
/* tutti tune: times of all algorithms on this machine, and the rules that follow from them. */
#ifndef TUTTI_CLI_TUNE_H
#define TUTTI_CLI_TUNE_H

#include "algorithm/choice.h"
#include "schedule/schedule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TUNE_SIZES = 32, TUNE_RANKS = 16 };

struct tune_options {
    int ranks[TUNE_RANKS]; /* ascending */
    int rank_counts;
    bool transports[CHOICE_CLASS_COUNT];
    bool quick;
    const char *output;
};

extern const char *const tune_transports[CHOICE_CLASS_COUNT];

/* The sizes at which times are taken. Returns how many. */
int tune_sizes(const struct tune_options *options, int64_t sizes[TUNE_SIZES]);

/* One sweep over the sizes by processes of this program, with settings "NAME=VALUE". us[k] is the time at sizes[k], 0
 * where there is none. False, and a sentence on stderr, if the measurement failed. */
bool tune_sweep(const struct tune_options *options, const char *collective, int ranks, char *const *settings, int count,
                double us[TUNE_SIZES]);

/* Times of the algorithms of one collective, transport and number of ranks. */
struct tune_case {
    enum coll coll;
    enum choice_class transport;
    int min_ranks, ranks, max_ranks; /* measured with `ranks`, to be used for this range */
    const struct algorithm *algorithms[16];
    double us[16][TUNE_SIZES];
    int count;
};

/* Appends the rules of a case to `rules`, which has room for TUNE_SIZES more, and says what was chosen. Returns how
 * many. */
int tune_rules(const struct tune_case *measured, const int64_t *sizes, int size_count, struct choice_rule *rules);

#endif
