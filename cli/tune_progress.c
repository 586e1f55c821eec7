/* SPDX-License-Identifier: Apache-2.0 */
/* Judges whether this machine can be measured, and shows the progress of a measurement. */
#include "cli/tune.h"
#include "cli/cli.h"
#include "cli/noise.h"

#include "base/clock.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

bool tune_listen(const struct tune_options *options)
{
    char found[300];
    struct noise noise = noise_look();
    int most = options->rank_counts ? options->ranks[options->rank_counts - 1] : 1;
    if (!noise_is_loud(&noise, most, found, sizeof found))
        return true;
    failure("tune", "this machine is too busy to be measured: %s", found);
    if (options->force)
        failure("tune", "measuring all the same, by --force: the result may fit a busy machine alone");
    else
        failure("tune", "nothing was measured. End what else runs here (top shows it), or give --force");
    return options->force;
}

void tune_tell(struct tune_progress *progress, const char *what)
{
    double spent = (double)(clock_ns() - progress->start) / 1e9;
    printf("[%d/%d] %s", progress->done + 1, progress->all, what);
    if (progress->done)
        printf(" (about %.0f s left)", spent / progress->done * (progress->all - progress->done));
    printf("\n");
    text_flush();
    progress->done++;
}

void tune_comment(const char *command, char out[TUNE_COMMENT])
{
    char host[64] = "", when[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &parts))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    snprintf(out, TUNE_COMMENT, "%s %d.%d.%d on %s, %s", command, TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
             TUTTI_VERSION_PATCH, host, when);
}
