/* SPDX-License-Identifier: Apache-2.0 */
/* tutti env: the parameters in force here, or the page docs/reference/parameters.md. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/guess.h"
#include "base/param.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void range_text(const struct param_row *row, char *out, size_t room)
{
    char low[24], high[24];
    switch (row->kind) {
    case PARAM_KIND_STRING:
        snprintf(out, room, "text");
        break;
    case PARAM_KIND_CHOICE:
        snprintf(out, room, "%s", row->choices);
        break;
    case PARAM_KIND_BOOL:
        snprintf(out, room, "0, 1");
        break;
    case PARAM_KIND_SIZE:
        text_size(row->min, low, sizeof low);
        text_size(row->max, high, sizeof high);
        snprintf(out, room, "%s to %s bytes", low, high);
        break;
    case PARAM_KIND_MS:
        snprintf(out, room, "%lldms to %llds", (long long)row->min, (long long)row->max / 1000);
        break;
    default:
        snprintf(out, room, "%lld to %lld", (long long)row->min, (long long)row->max);
    }
}

static void print_row(enum param_id id)
{
    const struct param_row *row = param_row(id);
    char range[200];
    range_text(row, range, sizeof range);
    printf("%s=%s\n    %s.\n    from %s; default \"%s\"; %s", row->name, param_string(id), row->help, param_source(id),
           row->default_text, range);
    if (*row->alias)
        printf("; also %s", row->alias);
    printf("%s\n", row->same_on_all_ranks ? "; the same on all ranks" : "");
}

/* Replaces the sign between choices, which would end a cell of the table. */
static void print_cell(const char *text)
{
    printf("| ");
    for (; *text; text++)
        printf(*text == '|' ? ", " : "%c", *text);
    putchar(' ');
}

static void print_table(enum param_level level)
{
    printf("\n| Variable | Default | Range | Same on all ranks | NCCL's name | Meaning |\n|---|---|---|---|---|---|\n");
    for (int id = 0; id < PARAM_COUNT; id++) {
        const struct param_row *row = param_row((enum param_id)id);
        char range[200];
        range_text(row, range, sizeof range);
        const char *cells[] = {row->name,  row->default_text, range, row->same_on_all_ranks ? "yes" : "",
                               row->alias, row->help};
        for (int i = 0; i < 6 && row->level == level; i++)
            print_cell(cells[i]);
        if (row->level == level)
            printf("|\n");
    }
}

static void print_markdown(void)
{
    static const char *const heads[PARAM_LEVELS] = {
        [PARAM_LEVEL_USER] = "## For users\n\nMachines and jobs differ in these. `tutti env` shows them.\n",
        [PARAM_LEVEL_TUNING] =
            "## For tuning\n\nEach of these numbers was measured on some machine, and may be another one elsewhere. "
            "`tutti env` shows the\nones that are set, `tutti env --all` shows all.\n",
        [PARAM_LEVEL_THRESHOLD] =
            "## Thresholds between GPUs\n\nSizes at which one way between GPUs takes over from another. `tutti tune "
            "--gpu` measures most of them, and writes\nthem into its file (TUTTI_TUNE_FILE) without TUTTI_. A variable "
            "overrides the file, and the file overrides the\ndefault. `tutti env` shows those that a variable or the "
            "file sets, and which of the two.\n",
        [PARAM_LEVEL_TEST] = "## For tests\n\nTests and stand-ins of hardware set these.\n",
    };
    printf("# Parameters\n\n"
           "<!-- Made by `tutti env --markdown` from src/tables/params.tbl and src/tables/gpu.tbl. Do not edit. -->\n\n"
           "For people who run or tune tutti. The page answers which settings there are, and what each does. Settings "
           "are\n"
           "environment variables; a file gives some of them, too. They are read once, at the first use of the "
           "library. A\n"
           "value that is out of range is an error that names the variable. Sizes may end in K, M, G or T (powers of "
           "1024),\n"
           "times in ms, s or m (a bare number is seconds). Where NCCL has a variable for the same thing, it is used "
           "when\n"
           "ours is not set. "
           "`tutti env --all` shows the values in force.\n");
    for (int level = 0; level < PARAM_LEVELS; level++) {
        printf("\n%s", heads[level]);
        print_table((enum param_level)level);
    }
}

static bool is_set(enum param_id id)
{
    return strcmp(param_source(id), "default") != 0;
}

static int print_named(const char *name)
{
    const char *names[PARAM_COUNT];
    for (int id = 0; id < PARAM_COUNT; id++) {
        names[id] = param_row((enum param_id)id)->name;
        if (strcasecmp(names[id], name) == 0 || strcasecmp(names[id] + strlen("TUTTI_"), name) == 0) {
            print_row((enum param_id)id);
            return EXIT_OK;
        }
    }
    char full[128];
    snprintf(full, sizeof full, "%s%s", strncmp(name, "TUTTI_", 6) == 0 ? "" : "TUTTI_", name);
    const char *near = guess_name(full, names, PARAM_COUNT);
    if (near)
        return usage_error("env", "there is no parameter \"%s\". Did you mean %s?", name, near);
    return usage_error("env", "there is no parameter \"%s\"", name);
}

/* Parameters for users, and others that were set. */
static int print_all(bool all)
{
    int shown = 0;
    for (int id = 0; id < PARAM_COUNT; id++)
        if (all || param_row((enum param_id)id)->level == PARAM_LEVEL_USER || is_set((enum param_id)id)) {
            print_row((enum param_id)id);
            shown++;
        }
    if (shown < PARAM_COUNT)
        printf("%d more parameters are for tuning, thresholds of GPUs and tests, and at their default (tutti env --all "
               "shows them).\n",
               PARAM_COUNT - shown);
    if (fflush(stdout) == EOF) /* printed before warnings */
        return failure("env", "cannot write the output: %s", strerror(errno));
    return param_check() == TUTTI_SUCCESS ? EXIT_OK : EXIT_FAILED;
}

struct env_wishes {
    bool all, markdown;
};

static const struct option_row rows[] = {
    {0, "all", NULL, "every parameter, also those for tuning, thresholds of GPUs and tests",
     TO_FLAG(struct env_wishes, all)},
    {0, "markdown", NULL, "the page docs/reference/parameters.md; does not look at the environment",
     TO_FLAG(struct env_wishes, markdown)},
};

static void offer_names(int place, char **words)
{
    (void)place, (void)words;
    for (int id = 0; id < PARAM_COUNT; id++)
        options_offer(param_row((enum param_id)id)->name, param_row((enum param_id)id)->help);
}

static const struct options options_of_env = {
    .command = "env",
    .usage = "[OPTION...] [NAME...]",
    .before = "Shows the parameters that users need and any other one that is set, or those named (TUTTI_ may be left "
              "out): value, where it comes from, default, range, NCCL's name for it, meaning. Parameters are "
              "environment variables: "
              "TUTTI_SPIN=0 before a program's name sets one. Thresholds of GPUs may also come from the file of tutti "
              "tune.",
    .after = "Exit status: 0 shown, 1 a parameter has a bad value (named on stderr) or the output cannot be written, "
             "2 wrong options or a name that no parameter has.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .words = offer_names,
};

int cmd_env(int argc, char **argv)
{
    struct env_wishes wishes = {0};
    int code = options_parse(&options_of_env, argc, argv, &wishes);
    if (code >= 0)
        return code;
    if (wishes.markdown) {
        print_markdown();
        return EXIT_OK;
    }
    if (optind == argc)
        return print_all(wishes.all);
    for (code = EXIT_OK; optind < argc && code == EXIT_OK; optind++)
        code = print_named(argv[optind]);
    return code;
}
