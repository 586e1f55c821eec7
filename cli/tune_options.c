/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of tutti tune. */
#include "cli.h"
#include "tune.h"

#include "base/affinity.h"
#include "base/parse.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "Usage: tutti tune [OPTIONS]\n"
                           "Measures every algorithm of every collective on this machine and writes the\n"
                           "table by which tutti chooses. Nothing else should run meanwhile. The table is\n"
                           "used from the next start of a program on; TUTTI_TUNE_FILE names another one.\n"
                           "\n"
                           "With --gpu it measures the ways between this host's GPUs instead, and says which\n"
                           "settings make the faster one be taken at each size: lines for a shell, to be set\n"
                           "before programs start.\n"
                           "\n"
                           "  -q, --quick            few sizes, short: a first table in a minute or two\n"
                           "  -n, --np LIST          numbers of ranks, such as 2,4,8 (default: 2 and the\n"
                           "                         number of processors; with --gpu 2,4.. and all GPUs,\n"
                           "                         with --quick all)\n"
                           "      --transport NAME   shm, tcp or all (default all); not with --gpu\n"
                           "  -o, --output FILE      default ~/.config/tutti/tune.json; with --gpu a file\n"
                           "                         for a shell (default none)\n"
                           "      --gpu              ways between GPUs\n"
                           "  -e, --maxbytes N       with --gpu: largest vector (default 1G, with --quick\n"
                           "                         256M)\n"
                           "      --only LIST        with --gpu: these parameters, such as\n"
                           "                         TUTTI_COPY_FROM,TUTTI_BLOCKS\n"
                           "  -h, --help             this text\n";

enum { OPTION_TRANSPORT = 256, OPTION_GPU, OPTION_ONLY };

static const struct option long_options[] = {
    {"quick", no_argument, NULL, 'q'},
    {"np", required_argument, NULL, 'n'},
    {"transport", required_argument, NULL, OPTION_TRANSPORT},
    {"output", required_argument, NULL, 'o'},
    {"gpu", no_argument, NULL, OPTION_GPU},
    {"maxbytes", required_argument, NULL, 'e'},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static bool parse_ranks(char *text, struct tune_options *options)
{
    options->rank_counts = 0;
    for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (options->rank_counts == TUNE_RANKS || !text_int(word, 2, 1024, &options->ranks[options->rank_counts++]))
            return false;
    qsort(options->ranks, (size_t)options->rank_counts, sizeof *options->ranks, ascending);
    return options->rank_counts > 0;
}

static bool parse_transport(const char *text, struct tune_options *options)
{
    bool any = false;
    for (int i = 0; i < CHOICE_CLASS_COUNT; i++) {
        options->transports[i] = strcmp(text, "all") == 0 || strcmp(text, tune_transports[i]) == 0;
        any |= options->transports[i];
    }
    return any;
}

static void default_ranks(struct tune_options *options)
{
    int count = affinity_count(NULL), cores = count ? count : 2;
    options->ranks[0] = 2;
    options->ranks[1] = cores;
    options->rank_counts = cores > 2 ? 2 : 1;
}

/* Returns -1 to go on, or an exit code. */
static int take_option(struct tune_options *options, int option, char *text)
{
    if (option == 'n' && !parse_ranks(text, options))
        return usage_error("tune", "-n wants numbers of ranks from 2 to 1024 such as 2,4,8");
    if (option == OPTION_TRANSPORT && !parse_transport(text, options))
        return usage_error("tune", "--transport wants shm, tcp or all, got \"%s\"", text);
    if (option == 'e' && (!parse_size(text, &options->most) || options->most < 1))
        return usage_error("tune", "-e wants a size such as 64M, got \"%s\"", text);
    if (option == '?')
        return usage_error("tune", "that option is not known, or lacks its value");
    if (option == 'o')
        options->output = text;
    if (option == OPTION_ONLY)
        options->only = text;
    options->gpu |= option == OPTION_GPU;
    options->quick |= option == 'q';
    return -1;
}

static int check(const struct tune_options *options, bool transport)
{
    if (options->gpu && transport)
        return usage_error("tune", "--gpu and --transport exclude each other");
    if (!options->gpu && (options->most || options->only))
        return usage_error("tune", "-e and --only are for --gpu");
    return -1;
}

int tune_parse(int argc, char **argv, struct tune_options *options)
{
    int option, code = -1;
    bool transport = false;
    static char name[] = "tutti tune";
    argv[0] = name;
    optind = 1;
    *options = (struct tune_options){.transports = {true, true}};
    while (code < 0 && (option = getopt_long(argc, argv, "qn:o:e:h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return EXIT_OK;
        }
        transport |= option == OPTION_TRANSPORT;
        code = take_option(options, option, optarg);
    }
    if (code < 0 && optind < argc)
        return usage_error("tune", "takes no arguments, got %s", argv[optind]);
    if (code < 0)
        code = check(options, transport);
    if (!options->gpu && !options->rank_counts)
        default_ranks(options);
    return code;
}
