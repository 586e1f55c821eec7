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
    bool quick, force;     /* force: measure on a busy machine, too */
    const char *transport; /* NULL: all */
    const char *output;
    bool gpu;
    int64_t most;     /* --gpu: bytes of the largest vector; 0: not said */
    const char *only; /* --gpu: parameters; NULL: all */
};

/* Returns -1 to go on, or an exit code. (tune_options.c) */
int tune_parse(int argc, char **argv, struct tune_options *options);

extern const char *const tune_transports[CHOICE_CLASS_COUNT];

/* Says what else runs here. False: too much for a measurement, and no option forces it. (tune_progress.c) */
bool tune_listen(const struct tune_options *options);

/* Fills in the sizes at which times are taken. Returns their number. */
int tune_sizes(const struct tune_options *options, int64_t sizes[TUNE_SIZES]);

/* ---- progress (tune_progress.c) ---- */

struct tune_progress {
    int done, all;
    uint64_t start;
};

/* "tutti tune 0.1.0 on HOST, 2026-01-02T03:04:05Z", the place and time of the measurement, and room for more. */
#define TUNE_COMMENT 300
void tune_comment(const char *command, char out[TUNE_COMMENT]);

/* "[3/20] what (about 60 s left)" */
void tune_tell(struct tune_progress *progress, const char *what);

/* ---- sweeps (tune_sweep.c) ---- */

/* Runs of tutti perf, as processes of this program. */
struct tune_run {
    const char *collective;
    int processes, ranks; /* ranks: of each process */
    bool gpu;
    int64_t first, last, factor;
    int iterations, timeout_s;
    int rows; /* expected */
};

/* The least times of `rounds` runs, the first one verified, with `count` settings "NAME=VALUE". False, and a sentence
 * on stderr, if one fails. */
bool tune_least(const struct tune_run *run, char *const *settings, int count, int rounds, double *us);

/* One sweep over the sizes by processes of this program, with settings "NAME=VALUE". us[k] is the time at sizes[k], 0
 * where there is none. False, and a sentence on stderr, if the measurement failed. */
bool tune_sweep(const struct tune_options *options, const char *collective, int ranks, char *const *settings, int count,
                double us[TUNE_SIZES]);

/* Times of the algorithms of one collective, transport and number of ranks. */
struct tune_case {
    enum coll coll;
    enum choice_class transport;
    int min_ranks, ranks, max_ranks; /* measured with `ranks`, for use in this range */
    const struct algorithm *algorithms[16];
    double us[16][TUNE_SIZES];
    int count;
};

/* Appends the rules of a case to `rules`, which has room for TUNE_SIZES more, and says what was chosen. Returns their
 * number. */
int tune_rules(const struct tune_case *measured, const int64_t *sizes, int size_count, struct choice_rule *rules);

/* ---- two ways (tune_cross.c) ---- */

#define TUNE_NEVER INT64_MAX

/* A size, and the times of the first and the second way for it. */
struct tune_point {
    int64_t unit;
    double us[2];
};

/* The size from which on the second way is best taken; points may be of several cases. `now`, unless another one is
 * faster by more than noise at the sizes whose way it changes. */
int64_t tune_cross(const struct tune_point *points, int count, int64_t now);

/* ---- tutti tune --gpu (tune_gpu.c) ---- */

/* Returns the exit code. */
int tune_gpu(struct tune_options *options);

#endif
