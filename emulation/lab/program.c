/* SPDX-License-Identifier: Apache-2.0 */
/* Programs read a memory file and write to another, so neither side can block the other. */
#include "lab/program.h"
#include "base/error.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A caller that is killed while a program makes namespaces must not leave the program to go on behind the back of the
 * next `down`. */
static void become(const char *program, int in, int out, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execlp(program, program, "-batch", "-", (char *)NULL);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

/* The exit status in wait(2)'s form, -1 if the program could not be started. */
static int spawn(const char *program, int in, int out)
{
    int status;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(program, in, out, parent);
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* The line of the batch that "Command failed -:LINE" speaks of. */
static void refused_line(const struct text *batch, const char *said, char *out, size_t size)
{
    const char *mark = strstr(said, "Command failed -:"), *line = batch->data;
    out[0] = 0;
    if (!mark)
        return;
    for (long n = strtol(mark + 17, NULL, 10); n > 1 && line; n--)
        if ((line = strchr(line, '\n')))
            line++;
    if (line)
        snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
}

static tutti_result_t explain(const char *program, int status, const struct text *batch, int out, const char *where)
{
    char said[400] = "", line[200];
    ssize_t count = pread(out, said, sizeof said - 1, 0);
    said[count > 0 ? count : 0] = 0;
    for (char *p = said; *p; p++)
        if (*p == '\n')
            *p = p[1] ? ';' : 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return error_note(TUTTI_SYSTEM_ERROR, "running %s: %s; it is a program of iproute2, which must be installed",
                          program, said);
    if (WIFSIGNALED(status))
        return error_note(TUTTI_SYSTEM_ERROR, "%s on %s was ended by signal %d", program, where, WTERMSIG(status));
    refused_line(batch, said, line, sizeof line);
    return error_note(TUTTI_SYSTEM_ERROR, "\"%s %s\" on %s: %s", program, line, where, said);
}

tutti_result_t program_batch(const char *program, const struct text *batch, const char *where)
{
    tutti_result_t result = text_ok(batch);
    if (result != TUTTI_SUCCESS || batch->length == 0)
        return result;
    int in = memfd_create("lab-batch", MFD_CLOEXEC), out = memfd_create("lab-output", MFD_CLOEXEC);
    if (in < 0 || out < 0) {
        result = error_note(TUTTI_SYSTEM_ERROR, "making a memory file for %s: %s", program, strerror(errno));
    } else if ((result = text_write(batch, in, "a memory file")) == TUTTI_SUCCESS && lseek(in, 0, SEEK_SET) == 0) {
        int status = spawn(program, in, out);
        if (status == -1)
            result = error_note(TUTTI_SYSTEM_ERROR, "starting %s: %s", program, strerror(errno));
        else if (status != 0)
            result = explain(program, status, batch, out, where);
    }
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return result;
}
