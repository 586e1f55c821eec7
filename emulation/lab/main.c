/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-lab: the command line. */
#include "lab/commands.h"
#include "base/error.h"
#include "base/parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct main_option_row {
    const char *name, *short_name, *value, *help;
} options[] = {
    {"--name", "-n", "NAME", "Which lab; needed only when several are up. With up: instead of the file's name"},
    {"--dry-run", NULL, NULL, "up: show what would be done, change nothing (needs no root)"},
    {"--replace", NULL, NULL, "up: end the lab of that name that is up, and the processes in it, first"},
    {"--all", NULL, NULL, "down: every lab of yours"},
    {"--at", NULL, "END",
     "link down: which end is switched off: leaf (default; all notice and route around it), spine or host"},
    {"--silent", NULL, NULL, "link down: both ends stay up, and nothing gets through"},
    {"--json", NULL, NULL, "counters, hosts: for programs"},
    {"--for", NULL, "SECONDS", "counters, draw: measure for this time, instead of since up or the last --zero"},
    {"--zero", NULL, NULL, "counters: count from now on"},
    {"--interval", NULL, "SECONDS", "watch: the time between two tables"},
    {"--count", NULL, "N", "watch: end after N tables"},
    {"--output", "-o", "FILE", "draw: write to FILE instead of standard output"},
};
#define OPTION_COUNT ((int)(sizeof options / sizeof *options))

static void print_help(void)
{
    printf("usage: tutti-lab COMMAND ...\n\n"
           "A Clos network of Linux routers on this machine: every host, leaf and spine is a network namespace.\n"
           "Needs root. See examples/*.yaml for files.\n\nCommands:\n");
    for (const struct command *command = commands; command->name; command++)
        printf("  %-20s %s\n", command->usage, command->help);
    printf("\nOptions:\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s%s%s%s%s", options[i].short_name ? options[i].short_name : "",
                 options[i].short_name ? ", " : "", options[i].name, options[i].value ? " " : "",
                 options[i].value ? options[i].value : "");
        printf("  %-20s %s\n", left, options[i].help);
    }
    printf(
        "\nExit codes: 0, 1 (failed), 2 (usage); run and exec-all: the command's, 125 (tutti-lab failed), 126 and 127\n"
        "(the command cannot be run, is not found), 128 + N (ended by signal N).\n");
}

static int usage(const struct command *command, const char *complaint, const char *what)
{
    fprintf(stderr, "tutti-lab: %s%s\n", complaint, what);
    if (command)
        fprintf(stderr, "usage: tutti-lab %s%s%s\n", command->usage, *command->options ? "   options: " : "",
                command->options);
    else
        fprintf(stderr, "\"tutti-lab --help\" lists commands and options\n");
    return EXIT_USAGE;
}

static const struct main_option_row *find_option(const char *word)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(word, options[i].name) == 0 || (options[i].short_name && strcmp(word, options[i].short_name) == 0))
            return &options[i];
    return NULL;
}

static bool takes(const struct command *command, const char *option)
{
    size_t length = strlen(option);
    for (const char *at = strstr(command->options, option); at; at = strstr(at + 1, option))
        if (at[length] == ' ' || at[length] == 0)
            return true;
    return false;
}

static bool set_flag(struct command_line *line, const char *name)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {{"--dry-run", &line->dry_run}, {"--all", &line->all},   {"--silent", &line->silent},
                 {"--replace", &line->replace}, {"--json", &line->json}, {"--zero", &line->zero}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(name, flags[i].name) == 0)
            *flags[i].flag = true;
    return true;
}

static bool set_number(struct command_line *line, const char *name, const char *value)
{
    char *end;
    int64_t count;
    if (strcmp(name, "--count") == 0) {
        bool good = parse_int(value, &count) && count > 0 && count < 1000000000;
        line->count = good ? (int)count : 0;
        return good;
    }
    line->seconds = strtod(value, &end);
    return end != value && *end == 0 && isfinite(line->seconds) && line->seconds >= 0.01 && line->seconds <= 1e6;
}

static bool set_option(struct command_line *line, const struct main_option_row *option, const char *value)
{
    if (!option->value)
        return set_flag(line, option->name);
    if (strcmp(option->name, "--name") == 0)
        line->name = value;
    else if (strcmp(option->name, "--output") == 0)
        line->output = value;
    else if (strcmp(option->name, "--at") == 0)
        line->at = value;
    else
        return set_number(line, option->name, value);
    return true;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Sorts the words after the command's name. 0, or the exit code of a usage error that has been printed. */
static int parse(const struct command *command, int count, char **words, struct command_line *line)
{
    for (int i = 0; i < count; i++) {
        char *word = words[i];
        const struct main_option_row *option = find_option(word);
        if (strcmp(word, "--") == 0) {
            line->program = words + i + 1;
            break;
        }
        if (command->program && line->word_count == command->max_words && word[0] != '-') {
            line->program = words + i;
            break;
        }
        if (asks_for_help(word)) {
            line->help = true;
            return 0;
        }
        if (word[0] != '-' || !word[1]) {
            line->words[line->word_count++] = word;
        } else if (!option || !takes(command, option->name)) {
            return usage(command, "unknown option ", word);
        } else if (option->value && ++i >= count) {
            return usage(command, "a value is missing after ", word);
        } else if (!set_option(line, option, words[i])) {
            return usage(command, "no number that makes sense: ", words[i]);
        }
    }
    if (line->word_count < command->min_words)
        return usage(command, "something is missing after ", command->name);
    if (line->word_count > command->max_words)
        return usage(command, "one word too many: ", line->words[command->max_words]);
    if (command->program && (!line->program || !line->program[0]))
        return usage(command, "write the command to run after ", command->name);
    if (!command->program && line->program)
        return usage(command, "no command can be run by ", command->name);
    return 0;
}

static int run(const struct command *command, int count, char **words)
{
    struct command_line line = {.words = calloc((size_t)count + 1, sizeof(char *))};
    if (!line.words) {
        fprintf(stderr, "tutti-lab: out of memory\n");
        return EXIT_FAILURE;
    }
    int code = parse(command, count, words, &line);
    if (code == 0 && line.help) {
        print_help();
    } else if (code == 0 && geteuid() != 0 && !line.dry_run) {
        fprintf(stderr,
                "tutti-lab: %s makes and enters network namespaces, which needs root: try \"sudo tutti-lab %s ...\"\n",
                command->name, command->name);
        code = command->program ? 125 : EXIT_FAILURE;
    } else if (code == 0) {
        code = command->run(&line);
    }
    free(line.words);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage(NULL, "which command?", "");
    if (asks_for_help(argv[1]) || strcmp(argv[1], "help") == 0) {
        print_help();
        return EXIT_SUCCESS;
    }
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(argv[1], command->name) == 0)
            return run(command, argc - 2, argv + 2);
    return usage(NULL, "unknown command ", argv[1]);
}
