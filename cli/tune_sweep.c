/* SPDX-License-Identifier: Apache-2.0 */
/* One sweep of a measurement: processes of tutti perf, whose rows are read as they come. */
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/tune.h"

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

/* Reads " size count type redop root time ..." of rank 0; everything else on stderr is kept as a reason. */
static bool take_line(void *context, int rank, bool is_error, const char *text, size_t length)
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
    return true;
}

/* The words of the command; `numbers` keeps made ones. */
static void words(const struct tune_run *run, char *program, char numbers[6][24], bool verify, char **argv)
{
    const int64_t values[6] = {run->first, run->last, run->factor, run->iterations, run->ranks, verify};
    for (int i = 0; i < 6; i++)
        snprintf(numbers[i], 24, "%lld", (long long)values[i]);
    char *const common[] = {program,    "perf",     (char *)run->collective,
                            "-b",       numbers[0], "-e",
                            numbers[1], "-f",       numbers[2],
                            "-n",       numbers[3], "-g",
                            numbers[4], "-c",       numbers[5],
                            "-a",       "3"};
    char *const host[] = {"-z", "1", "-w", "3"}, *const gpu[] = {"--gpu"};
    size_t count = sizeof common / sizeof *common, more = run->gpu ? 1 : 4;
    memcpy(argv, common, sizeof common);
    memcpy(argv + count, run->gpu ? gpu : host, more * sizeof *argv);
    argv[count + more] = NULL;
}

static bool run_once(const struct tune_run *run, char *const *settings, int count, bool verify, double *us,
                     char complaint[300])
{
    char program[PATH_MAX], numbers[6][24], *argv[24];
    struct rows rows = {.us = us, .room = run->rows};
    if (!program_path(program, sizeof program))
        return false;
    words(run, program, numbers, verify, argv);
    struct launch job = {.command = "tune",
                         .size = run->processes,
                         .argv = argv,
                         .timeout_s = run->timeout_s,
                         .tag = true,
                         .bind = !run->gpu && launch_fits(run->processes),
                         .quiet = true,
                         .set = settings,
                         .sets = count,
                         .line = take_line,
                         .context = &rows};
    int code = launch(&job);
    if (code == 128 + SIGINT || code == 128 + SIGTERM) /* meant for all of us */
        raise(code - 128);
    const char *said = *rows.complaint ? rows.complaint : code == 124 ? "it did not end in time" : "no reason given";
    snprintf(complaint, 300, "%s", said);
    return code == 0 && rows.count == rows.room;
}

bool tune_least(const struct tune_run *run, char *const *settings, int count, int rounds, double *us)
{
    double again[TUNE_SIZES];
    char complaint[300] = "";
    bool good = true;
    for (int round = 0; good && round < rounds; round++) {
        good = run_once(run, settings, count, round == 0, again, complaint);
        for (int k = 0; good && k < run->rows; k++)
            us[k] = round && us[k] < again[k] ? us[k] : again[k];
    }
    if (!good)
        failure("tune", "%s of %d ranks with %s failed: %s", run->collective, run->processes * run->ranks,
                count ? settings[count - 1] : "no settings", complaint);
    return good;
}

bool tune_sweep(const struct tune_options *options, const char *collective, int ranks, char *const *settings, int count,
                double us[TUNE_SIZES])
{
    int64_t sizes[TUNE_SIZES];
    int all = tune_sizes(options, sizes), small = 0;
    while (small < all && sizes[small] <= SMALL)
        small++;
    memset(us, 0, TUNE_SIZES * sizeof *us);
    struct tune_run run = {.collective = collective,
                           .processes = ranks,
                           .ranks = 1,
                           .first = sizes[0],
                           .last = sizes[small - 1],
                           .factor = sizes[1] / sizes[0],
                           .iterations = options->quick ? 50 : 200,
                           .timeout_s = SWEEP_TIMEOUT_S,
                           .rows = small};
    if (!tune_least(&run, settings, count, 1, us))
        return false;
    run.first = sizes[small];
    run.last = sizes[all - 1];
    run.iterations = options->quick ? 5 : 15;
    run.rows = all - small;
    return tune_least(&run, settings, count, 1, us + small);
}
