/* SPDX-License-Identifier: Apache-2.0 */
/* One sweep of a measurement: tutti perf in processes of our own, whose rows are read as they come. */
#include "cli.h"
#include "launch.h"
#include "tune.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tune_transports[CHOICE_CLASS_COUNT] = {[CHOICE_SHM] = "shm", [CHOICE_TCP] = "tcp"};

enum { SMALL = 65536, SWEEP_TIMEOUT_S = 300 };

struct rows {
    double *us;
    int count, room;
    char complaint[300];
};

int tune_sizes(const struct tune_options *options, int64_t sizes[TUNE_SIZES])
{
    int64_t step = options->quick ? 16 : 4, most = options->quick ? 4 << 20 : 64 << 20;
    int count = 0;
    for (int64_t size = 16; size <= most && count < TUNE_SIZES; size *= step)
        sizes[count++] = size;
    return count;
}

/* "  size count type redop root time ..." of rank 0; everything else on stderr is kept as a reason. */
static void take_line(void *context, int rank, bool is_error, const char *text, size_t length)
{
    struct rows *rows = context;
    char line[256];
    long long size;
    double us;
    snprintf(line, sizeof line, "%.*s", (int)length, text);
    if (is_error && !*rows->complaint)
        snprintf(rows->complaint, sizeof rows->complaint, "%s", line);
    if (!is_error && rank == 0 && sscanf(line, " %lld %*d %*s %*s %*d %lf", &size, &us) == 2 &&
        rows->count < rows->room)
        rows->us[rows->count++] = size > 0 ? us : 0;
}

static bool run(const char *collective, int ranks, char *const *settings, int count, int64_t first, int64_t last,
                int64_t factor, int iterations, struct rows *rows)
{
    char program[PATH_MAX], from[24], to[24], by[24], times[24];
    snprintf(from, sizeof from, "%lld", (long long)first);
    snprintf(to, sizeof to, "%lld", (long long)last);
    snprintf(by, sizeof by, "%lld", (long long)factor);
    snprintf(times, sizeof times, "%d", iterations);
    if (!program_path(program, sizeof program))
        return false;
    char *argv[] = {
        program, "perf", (char *)collective, "-b", from, "-e", to, "-f", by, "-n", times, "-w", "3", "-z", "1", "-a",
        "3",     NULL};
    struct launch job = {.command = "tune",
                         .size = ranks,
                         .argv = argv,
                         .timeout_s = SWEEP_TIMEOUT_S,
                         .tag = true,
                         .bind = launch_fits(ranks),
                         .quiet = true,
                         .set = settings,
                         .sets = count,
                         .line = take_line,
                         .context = rows};
    int code = launch(&job);
    if (code == 128 + SIGINT || code == 128 + SIGTERM) /* meant for all of us */
        raise(code - 128);
    return code == 0;
}

bool tune_sweep(const struct tune_options *options, const char *collective, int ranks, char *const *settings, int count,
                double us[TUNE_SIZES])
{
    int64_t sizes[TUNE_SIZES];
    int all = tune_sizes(options, sizes), small = 0;
    int64_t factor = sizes[1] / sizes[0];
    while (small < all && sizes[small] <= SMALL)
        small++;
    memset(us, 0, TUNE_SIZES * sizeof *us);
    struct rows rows = {.us = us, .room = small};
    bool good =
        run(collective, ranks, settings, count, sizes[0], sizes[small - 1], factor, options->quick ? 50 : 200, &rows);
    rows.us = us + small;
    rows.count = 0;
    rows.room = all - small;
    good = good && run(collective, ranks, settings, count, sizes[small], sizes[all - 1], factor,
                       options->quick ? 5 : 15, &rows);
    if (!good)
        failure("tune", "%s of %d ranks with %s failed: %s", collective, ranks, count ? settings[0] : "no settings",
                *rows.complaint ? rows.complaint : "no reason given");
    return good;
}
