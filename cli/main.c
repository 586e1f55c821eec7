/* SPDX-License-Identifier: Apache-2.0 */
/* The tutti program: finds the command, here or as a program tutti-COMMAND, and runs it. */
#include "cli/cli.h"

#include "base/guess.h"
#include "base/standard.h"
#include "tutti/tutti.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

struct main_command {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: a program of its own, if it was built */
    const char *summary;
    const char *needs; /* what the build of that program needs; NULL: the command is in this one, or in none */
};

static const struct main_command commands[] = {
    {"run", cmd_run, "Start N ranks of a program on this host"},
    {"perf", cmd_perf, "Measure and verify a collective"},
    {"tune", cmd_tune, "Measure this machine and write its choice table"},
    {"topo", cmd_topo, "Show processors, memory, network interfaces and GPUs"},
    {"doctor", cmd_doctor, "Say what is wrong on this machine, and what mends it"},
    {"env", cmd_env, "Show the parameters: value, source, default, range"},
    {"schedule", cmd_schedule, "Print, check, price and draw the schedule of a collective"},
    {"simulate", NULL, "Say how long a collective takes on a network that a file describes", "libyaml"},
    {"hostfile", NULL, "Sort a list of hosts so that neighbours are near", "libyaml"},
    {"trace", cmd_trace, "Read the black boxes of running and dead processes"},
    {"top", cmd_top, "Watch what all processes do, on a screen"},
    {"diagnose", cmd_diagnose, "Name the culprit of a hang or a slow job"},
    {"agent", NULL, "Tell the master of a job about this host", "libcurl and libprotobuf-c"},
    {"master", NULL, "Listen to agents, name who is to blame, act on it",
     "libcurl, libmicrohttpd, libprotobuf-c and sqlite3"},
    {"pathmaster", NULL, "Give source ports to the RDMA lanes of all jobs of a network",
     "libmicrohttpd, libprotobuf-c, libyaml and sqlite3"},
    {"pathagent", NULL, "Ask the path master for the processes of this host", "libcurl and libprotobuf-c"},
    {"export", cmd_export, "Serve metrics of all processes for Prometheus"},
    {"version", cmd_version, "Print the version"},
    {"help", cmd_help, "Explain a command"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static bool is_there(const struct main_command *command)
{
    return command->run || command->needs;
}

static const struct main_command *find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (is_there(&commands[i]) && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void list_commands(FILE *out)
{
    fprintf(out, "Usage: tutti COMMAND [ARGUMENTS]\n\nCommands:\n");
    for (int i = 0; i < COMMANDS; i++)
        if (is_there(&commands[i]))
            fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\nA program tutti-COMMAND beside this one or in PATH adds a command.\n"
                 "tutti help COMMAND explains one. Exit status: 0, 1 failure, 2 wrong usage.\n");
}

/* Runs tutti-NAME from this program's folder, then from PATH. Returns only if there is none. */
static void exec_external(const char *name, char **argv)
{
    char path[PATH_MAX + NAME_MAX], *slash;
    if (strchr(name, '/') || strlen(name) > NAME_MAX - sizeof "tutti-")
        return;
    if (program_path(path, PATH_MAX) && (slash = strrchr(path, '/'))) {
        snprintf(slash + 1, NAME_MAX, "tutti-%s", name);
        execv(path, argv);
    }
    snprintf(path, NAME_MAX, "tutti-%s", name);
    execvp(path, argv);
}

static int unknown(const char *name)
{
    const char *names[COMMANDS];
    size_t count = 0;
    for (int i = 0; i < COMMANDS; i++)
        if (is_there(&commands[i]))
            names[count++] = commands[i].name;
    const char *near = guess_name(name, names, count);
    if (near)
        fprintf(stderr, "tutti: there is no command \"%s\". Did you mean \"%s\"?\n", name, near);
    else
        fprintf(stderr, "tutti: there is no command \"%s\". See: tutti help\n", name);
    return EXIT_USAGE;
}

static int dispatch(int argc, char **argv)
{
    const struct main_command *command = find(argv[0]);
    if (command && command->run)
        return command->run(argc, argv);
    exec_external(argv[0], argv);
    if (command)
        return failure(argv[0], "it is not beside this program or in PATH: it is built where there are %s",
                       command->needs);
    return unknown(argv[0]);
}

static int cmd_help(int argc, char **argv)
{
    char option[] = "--help";
    if (argc < 2) {
        list_commands(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0) {
        printf("Usage: tutti help [COMMAND]\nExplains COMMAND, or lists the commands.\n");
        return EXIT_OK;
    }
    return dispatch(2, (char *[]){argv[1], option, NULL});
}

/* Completes words in shells: prints what may follow these words, of which the last one may be empty. */
static int complete(int count, char **words)
{
    static char option[] = "--complete";
    const char *begun = count ? words[count - 1] : "";
    if (count < 2 || (count == 2 && strcmp(words[0], "help") == 0)) {
        for (int i = 0; i < COMMANDS; i++)
            if (is_there(&commands[i]) && strncmp(commands[i].name, begun, strlen(begun)) == 0)
                printf("%s\t%s\n", commands[i].name, commands[i].summary);
        return EXIT_OK;
    }
    const struct main_command *command = find(words[0]);
    if (!command || command->run == cmd_help || command->run == cmd_version)
        return EXIT_OK; /* programs of others may not know the option */
    char **all = calloc((size_t)count + 2, sizeof *all);
    if (!all)
        return failure("help", "no memory for %d words", count);
    all[0] = words[0];
    all[1] = option;
    memcpy(all + 2, words + 1, (size_t)(count - 1) * sizeof *all);
    int code = dispatch(count + 1, all);
    free(all);
    return code;
}

static int cmd_version(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("Usage: tutti version\nPrints the version of this program.\n");
        return EXIT_OK;
    }
    if (argc > 1)
        return usage_error("version", "takes no arguments, got %s", argv[1]);
    printf("tutti %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    standard_hold();
    if (argc < 2) {
        list_commands(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    int code;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        code = cmd_help(1, argv);
    else if (strcmp(name, "--version") == 0)
        code = cmd_version(1, argv);
    else if (strcmp(name, "--complete") == 0)
        code = complete(argc - 2, argv + 2);
    else
        code = dispatch(argc - 1, argv + 1);
    const char *lost = text_lost();
    if (lost && code != EXIT_FAILED) /* else the command has said so, or something graver */
        return failure(name, "cannot write the output: %s", lost);
    return code;
}
