/* SPDX-License-Identifier: Apache-2.0 */
/* Shell commands, background processes and counters for the lab's tests. */
#include "lab/tests/harness.h"
#include "base/error.h"
#include "lab/netns.h"
#include "lab/state.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDLE_MS 3000 /* a sink that hears nothing for this time ends */

char harness_lab[32];
char harness_folder[64];

static int skip(const char *why)
{
    fprintf(stderr, "\n*** SKIPPED: THE LAB'S TESTS DID NOT RUN: %s ***\n\n", why);
    return 77;
}

/* In a child, so that we stay where we are. */
static bool may_make_namespaces(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS) != 0);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int harness_begin(void)
{
    const char *program = getenv("LAB_PROGRAM"), *udpflow = getenv("LAB_UDPFLOW");
    if (!program || !udpflow)
        return skip("LAB_PROGRAM and LAB_UDPFLOW are not set; run them by \"meson test --suite lab\"");
    if (geteuid() != 0)
        return skip("not root");
    if (!may_make_namespaces())
        return skip("this kernel or container allows no network namespaces");
    if (system("ip -V >/dev/null 2>&1 && tc -V >/dev/null 2>&1") != 0)
        return skip("iproute2 (ip, tc) is not installed");
    snprintf(harness_lab, sizeof harness_lab, "t%d", (int)getpid());
    snprintf(harness_folder, sizeof harness_folder, "/tmp/lab-test-XXXXXX");
    if (!mkdtemp(harness_folder))
        return skip("no folder can be made in /tmp");
    setenv("LAB", program, 1);
    setenv("UDP", udpflow, 1);
    setenv("NAME", harness_lab, 1);
    setenv("DIR", harness_folder, 1);
    return 0;
}

void harness_end(void)
{
    harness_run("$LAB down $NAME 2>/dev/null; rm -rf $DIR");
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int harness_run(const char *format, ...)
{
    char command[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return code_of(system(command));
}

int harness_read(char *out, size_t size, const char *format, ...)
{
    char command[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return -1;
    size_t used = fread(out, 1, size - 1, pipe);
    out[used] = 0;
    return code_of(pclose(pipe));
}

pid_t harness_start(const char *format, ...)
{
    char command[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

int harness_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return code_of(status);
}

int harness_up(const char *yaml)
{
    char path[128];
    snprintf(path, sizeof path, "%s/lab.yaml", harness_folder);
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fputs(yaml, file);
    fclose(file);
    return harness_run(
        "$LAB up $DIR/lab.yaml --replace --name $NAME >/dev/null 2>$DIR/up || { cat $DIR/up >&2; exit 1; }");
}

bool harness_anything_left(void)
{
    char **names;
    int count;
    if (netns_list(harness_lab, &names, &count) != TUTTI_SUCCESS)
        return true;
    netns_list_free(names, count);
    return count > 0 || state_exists(harness_lab);
}

static struct counters_side side_of(const char *link)
{
    struct lab_fabric fabric;
    struct counters counters;
    struct counters_side found = {0};
    if (fabric_open(harness_lab, &fabric) != TUTTI_SUCCESS || counters_read(&fabric, &counters) != TUTTI_SUCCESS) {
        fprintf(stderr, "reading counters: %s\n", error_last());
        exit(1);
    }
    for (int i = 0; i < fabric.topology.link_count; i++)
        if (strcmp(fabric.topology.links[i].name, link) == 0)
            found = counters.links[i].up;
    counters_free(&counters);
    fabric_close(&fabric);
    return found;
}

uint64_t harness_sent(const char *link)
{
    return side_of(link).bytes;
}

uint64_t harness_drops(const char *link)
{
    return side_of(link).drops;
}

/* The sink says when it listens, before anything is sent. */
long harness_deliver(int first, int last, int packets, int tos)
{
    char line[64] = "";
    long arrived = -1;
    char sink[512];
    snprintf(sink, sizeof sink, "$LAB run -n $NAME h2 -- $UDP sink 10.1.2.1 4791 %d %d", (last - first + 1) * packets,
             IDLE_MS);
    FILE *pipe = popen(sink, "r");
    if (!pipe || !fgets(line, sizeof line, pipe) || strcmp(line, "ready\n") != 0)
        return -1;
    int sent = harness_run("$LAB run -n $NAME h0 -- $UDP send 10.0.0.1 10.1.2.1 4791 %d %d %d 1000 %d >/dev/null",
                           first, last, packets, tos);
    if (!fgets(line, sizeof line, pipe) || sscanf(line, "%ld", &arrived) != 1 || sent != 0)
        arrived = -1;
    pclose(pipe);
    return arrived;
}
