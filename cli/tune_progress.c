/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this machine can be measured, and how far a measurement has come. */
#include "cli/tune.h"
#include "cli/cli.h"
#include "cli/noise.h"

#include "base/clock.h"

#include <stdio.h>

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
