/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of tutti tune. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/tune.h"

#include "base/affinity.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int take_ranks(void *request, const char *text)
{
    struct tune_options *options = request;
    char copy[256], *rest = copy, *word;
    int count = 0;
    if (strlen(text) >= sizeof copy)
        return OPTION_REFUSED;
    strcpy(copy, text);
    while ((word = strsep(&rest, ",")))
        if (count == TUNE_RANKS || !text_int(word, 2, 1024, &options->ranks[count++]))
            return OPTION_REFUSED;
    qsort(options->ranks, (size_t)count, sizeof *options->ranks, ascending);
    options->rank_counts = count;
    return OPTION_TAKEN;
}

#define T struct tune_options
static const struct option_row rows[] = {
    {'q', "quick", NULL, "few sizes, short: a first table in a minute or two", TO_FLAG(T, quick)},
    {'n', "np", "LIST",
     "numbers of ranks, such as 2,4,8 (default: 2 and the number of processors; with --gpu 2,4.. and all GPUs, with "
     "--quick all)",
     TO_CALL(take_ranks, "numbers of ranks from 2 to 1024 such as 2,4,8")},
    {0, "transport", "NAME", "between the ranks, not with --gpu (default all)", .choices = "shm tcp all",
     TO_TEXT(T, transport)},
    {'o', "output", "FILE", "where the table goes (default ~/.config/tutti/tune.json)", TO_TEXT(T, output)},
    {0, "gpu", NULL, "measure the ways between GPUs", TO_FLAG(T, gpu)},
    {'e', "maxbytes", "N", "with --gpu: largest vector (default 1G, with --quick 256M)", TO_SIZE(T, most, 1)},
    {0, "force", NULL, "measure although the machine is busy; it is told anyhow", TO_FLAG(T, force)},
    {0, "only", "LIST", "with --gpu: these thresholds and settings, such as COPY_FROM,BLOCKS", TO_TEXT(T, only)},
};
#undef T

static const struct options options_of_tune = {
    .command = "tune",
    .usage = "[OPTION...]",
    .before =
        "Measures every algorithm of every collective on this machine and writes the table by which tutti "
        "chooses. Nothing else should run meanwhile. Programs read the table when they start; TUTTI_TUNE_FILE "
        "names another one.\n"
        "\n"
        "With --gpu it measures the ways between this host's GPUs instead, and writes thresholds into the same file: "
        "the sizes at which the faster way takes over. Rules for algorithms that are there stay, and so do "
        "thresholds when algorithms are measured.",
    .after = "Exit status: 0 measured and written, 1 not, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static void default_ranks(struct tune_options *options)
{
    int count = affinity_count(NULL), cores = count ? count : 2;
    options->ranks[0] = 2;
    options->ranks[1] = cores;
    options->rank_counts = cores > 2 ? 2 : 1;
}

static int check(struct tune_options *options)
{
    if (options->gpu && options->transport)
        return usage_error("tune", "--gpu and --transport exclude each other");
    if (!options->gpu && (options->most || options->only))
        return usage_error("tune", "-e and --only are for --gpu");
    bool all = !options->transport || strcmp(options->transport, "all") == 0;
    for (int i = 0; i < CHOICE_CLASS_COUNT; i++)
        options->transports[i] = all || strcmp(options->transport, tune_transports[i]) == 0;
    return -1;
}

int tune_parse(int argc, char **argv, struct tune_options *options)
{
    *options = (struct tune_options){0};
    int code = options_parse(&options_of_tune, argc, argv, options);
    if (code < 0 && optind < argc)
        return usage_error("tune", "takes no arguments, got %s", argv[optind]);
    if (code < 0)
        code = check(options);
    if (!options->gpu && !options->rank_counts)
        default_ranks(options);
    return code;
}
