/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of a process: py-spy for Python, else gdb, each for a bounded time; and where its threads are in the kernel.
 */
#include "evidence/parts.h"

#include "base/clock.h"
#include "wire/boxfile.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRINTED_BYTES (256u << 10)
#define CHOSEN_BYTES  8192
#define LINES_MOST    40
#define LINE_MOST     150
#define KERNEL_MOST   8     /* threads whose place in the kernel is told */
#define STACKS_MS     10000 /* for a debugger: it may wait for a thread that does not stop */

/* ---- The kernel's side ---- */

static char state_of(const char *path)
{
    char text[1024];
    const char *after = boxfile_slurp(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    return after && after[1] == ' ' ? after[2] : '?';
}

/* Functions in "[<0>] vfs_read+0x1/0x2", one a line. */
static void say_functions(FILE *out, const char *text)
{
    int shown = 0;
    for (const char *line = text; *line && shown < 5; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *name = *line == '[' ? strchr(line, ' ') : line;
        size_t length = name ? strcspn(name + (*name == ' '), "+\n") : 0;
        if (length && strncmp(name, "0", length) != 0)
            fprintf(out, "%s%.*s", shown++ ? ", " : " in ", (int)(length < 40 ? length : 40), name + (*name == ' '));
    }
}

/* Where each thread is in the kernel. Returns whether one is in state D: a debugger would wait for that one. */
static bool say_kernel(FILE *out, uint32_t pid)
{
    char path[320], text[2048];
    bool blocked = false;
    int shown = 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        if (*entry->d_name == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%.16s/stat", pid, entry->d_name);
        char state = state_of(path);
        blocked |= state == 'D';
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%.16s/stack", pid, entry->d_name);
        if (!boxfile_slurp(path, text, sizeof text)) {
            snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%.16s/wchan", pid, entry->d_name);
            boxfile_slurp(path, text, sizeof text);
        }
        if (shown++ >= KERNEL_MOST && state != 'D')
            continue;
        fprintf(out, "thread %.16s: state %c", entry->d_name, state);
        say_functions(out, text);
        fputc('\n', out);
    }
    if (tasks)
        closedir(tasks);
    return blocked;
}

/* ---- The program's side ---- */

/* Of gdb: "Thread 1 (...):" and "#0  ..."; of py-spy also frames, which are indented. */
size_t stacks_choose(const char *printed, char *out, size_t size)
{
    size_t used = 0;
    int lines = 0;
    *out = 0;
    for (const char *line = printed; *line && lines < LINES_MOST; line += strcspn(line, "\n"), line += *line == '\n') {
        char text[LINE_MOST];
        size_t length = strcspn(line, "\n");
        bool frame = length && (*line == '#' || strncmp(line, "Thread ", 7) == 0 || strncmp(line, "    ", 4) == 0);
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text - 1 ? length : sizeof text - 1), line);
        evidence_clean(text);
        if (!frame || used + strlen(text) + 2 > size)
            continue;
        used = (size_t)(stpcpy(stpcpy(out + used, text), "\n") - out);
        lines++;
    }
    return used;
}

static bool is_python(uint32_t pid)
{
    char path[64], program[256];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/exe", pid);
    ssize_t length = readlink(path, program, sizeof program - 1);
    program[length < 0 ? 0 : length] = 0;
    const char *name = strrchr(program, '/');
    return name && strstr(name, "python");
}

static bool ask(FILE *out, const char *name, char *const argv[], char *printed)
{
    char chosen[CHOSEN_BYTES];
    bool fine = child_run(argv, STACKS_MS, printed, PRINTED_BYTES);
    if (!stacks_choose(printed, chosen, sizeof chosen))
        return false;
    fprintf(out, "by %s%s:\n%s", name, fine ? "" : ", which did not end well", chosen);
    return true;
}

/* A debugger that was killed may leave the process stopped. */
static void let_go_on(uint32_t pid, char before)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    if (before != 'T' && before != 't' && state_of(path) == 'T')
        kill((pid_t)pid, SIGCONT);
}

static void say_program(FILE *out, uint32_t pid)
{
    char number[16], path[64], *printed = malloc(PRINTED_BYTES);
    snprintf(number, sizeof number, "%" PRIu32, pid);
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    char state = state_of(path);
    char *const spy[] = {"py-spy", "dump", "--nonblocking", "--pid", number, NULL};
    char *const gdb[] = {"gdb",
                         "-nx",
                         "-batch",
                         "-iex",
                         "set auto-load no",
                         "-iex",
                         "set debuginfod enabled off",
                         "-p",
                         number,
                         "-ex",
                         "thread apply all bt 12",
                         NULL};
    bool told = printed && is_python(pid) && ask(out, "py-spy", spy, printed);
    if (printed && !told && state != 'T' && state != 't') {
        told = ask(out, "gdb", gdb, printed);
        let_go_on(pid, state);
    }
    if (!told)
        fprintf(out, "no stack of the program: neither py-spy nor gdb is installed and may look at it%s\n",
                state == 'T' || state == 't' ? ", or it is stopped" : "");
    free(printed);
}

void stacks_add(char **text, uint32_t pid)
{
    size_t size = 0;
    char *made = NULL;
    FILE *out = open_memstream(&made, &size);
    if (!out)
        return;
    fprintf(out, "%s", *text ? *text : "");
    if (say_kernel(out, pid))
        fprintf(out, "no debugger was asked: a thread is in state D, and a debugger would wait for it\n");
    else
        say_program(out, pid);
    if (fclose(out) != 0) {
        free(made);
        return;
    }
    free(*text);
    *text = made;
}
