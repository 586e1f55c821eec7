/* SPDX-License-Identifier: Apache-2.0 */
/* Advice about a program that the system would not start. */
#include "cli/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The interpreter of a script of that name; NULL: unknown. */
static const char *interpreter(const char *program)
{
    static const char *const known[][2] = {{".py", "python3"}, {".sh", "sh"},    {".bash", "bash"},
                                           {".pl", "perl"},    {".jl", "julia"}, {".R", "Rscript"}};
    const char *end = strrchr(program, '.');
    for (size_t i = 0; end && i < sizeof known / sizeof *known; i++)
        if (strcmp(end, known[i][0]) == 0)
            return known[i][1];
    return NULL;
}

void launch_hint(const char *program, int why, char *out, size_t room)
{
    struct stat file;
    const char *runs = interpreter(program);
    bool here = stat(program, &file) == 0, named = !strchr(program, '/');
    *out = 0;
    if (!here)
        return;
    if (S_ISDIR(file.st_mode))
        snprintf(out, room, named ? "" : ": it is a folder");
    else if (runs && (named || access(program, X_OK) != 0))
        snprintf(out, room, ": %s; write: %s %.150s", named ? "it is not in PATH" : "it is not executable", runs,
                 program);
    else if (named && access(program, X_OK) == 0)
        snprintf(out, room, ": it is not in PATH, but in this folder; write: ./%.150s", program);
    else if (access(program, X_OK) != 0)
        snprintf(out, room, ": it is not executable; write: chmod +x %.150s", program);
    else if (why == ENOENT)
        snprintf(out, room, ": the interpreter that its first line names, or its loader, is not there");
}
