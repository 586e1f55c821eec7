/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of tutti-lab. */
#ifndef LAB_COMMANDS_H
#define LAB_COMMANDS_H

#include <stdbool.h>

/* What stands on the command line. Words that are no options are in `words`, up to the first "--" or to as many as the
 * subcommand has; then, where it runs one, the command. */
struct command_line {
    const char *name;   /* --name, NULL if absent */
    const char *output; /* --output */
    const char *at;     /* --at */
    bool json, dry_run, all, zero, silent, replace, help;
    double seconds; /* --for, --interval; 0 if absent */
    int count;      /* --count; 0 if absent */
    int word_count;
    char **words;
    char **program; /* NULL-terminated; NULL if there was none */
};

struct command {
    const char *name, *usage, *help;
    int min_words, max_words;
    bool program;        /* wants a command */
    const char *options; /* the options it takes, "--name --json" */
    int (*run)(const struct command_line *line);
};

extern const struct command commands[]; /* ends with a name of NULL */

#define EXIT_USAGE 2

#endif
