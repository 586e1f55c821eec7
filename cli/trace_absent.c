/* SPDX-License-Identifier: Apache-2.0 */
/* Explains the absence of a process or a communicator that the user named. */
#include "cli/trace_set.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void name_of(int64_t pid, char *out, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/comm", (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(out, (int)room, file))
        snprintf(out, room, "?");
    out[strcspn(out, "\n")] = 0;
    if (file)
        fclose(file);
}

enum loaded { LOADED, NOT_LOADED, NOT_TOLD };

/* Is one of our libraries in its memory? */
static enum loaded library_of(int64_t pid, char *name, size_t room)
{
    char path[64], *line = NULL;
    size_t size = 0;
    enum loaded loaded = NOT_LOADED;
    snprintf(path, sizeof path, "/proc/%lld/maps", (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NOT_TOLD;
    while (loaded == NOT_LOADED && getline(&line, &size, file) > 0) {
        const char *slash = strrchr(line, '/');
        if (!slash || (strncmp(slash, "/libtutti.so", 12) != 0 && strncmp(slash, "/libnccl.so.2", 13) != 0))
            continue;
        snprintf(name, room, "%.*s", (int)strcspn(slash + 1, "\n"), slash + 1);
        loaded = LOADED;
    }
    if (ferror(file))
        loaded = NOT_TOLD;
    free(line);
    fclose(file);
    return loaded;
}

static void say_process(const struct view_options *options)
{
    char name[64], library[64];
    long long pid = options->pid;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        fprintf(stderr, "tutti %s: there is no process %lld here, and no black box of one in %s\n", options->command,
                pid, options->dir);
        return;
    }
    name_of(pid, name, sizeof name);
    switch (library_of(pid, library, sizeof library)) {
    case LOADED:
        fprintf(stderr,
                "tutti %s: process %lld (%s) has loaded %s, but has no black box in %s: it has made no communicator "
                "yet, or its TUTTI_TRACE is 0 or its TUTTI_TRACE_DIR another folder (a container has its own)\n",
                options->command, pid, name, library, options->dir);
        break;
    case NOT_LOADED:
        fprintf(stderr,
                "tutti %s: process %lld (%s) does not use tutti: neither libtutti.so nor libnccl.so.2 is loaded in "
                "it, and there is no black box of it in %s\n",
                options->command, pid, name, options->dir);
        break;
    case NOT_TOLD:
        fprintf(stderr,
                "tutti %s: process %lld (%s) has no black box in %s that this user may read; ask as the process's "
                "user, or as root\n",
                options->command, pid, name, options->dir);
    }
}

void view_say_absent(const struct view_options *options)
{
    if (options->pid)
        say_process(options);
    else if (options->comm)
        fprintf(stderr, "tutti %s: no process with a black box in %s has a communicator \"%s\"\n", options->command,
                options->dir, options->comm);
}
