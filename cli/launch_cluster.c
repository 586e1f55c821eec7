/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of a job of several hosts: starts a launcher on each by ssh or another command, and speaks with it. */
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/launch_parts.h"
#include "cli/launcher.h"
#include "cli/launch_words.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIPE_ROOM = 65536 };

extern char **environ;

static const struct host *host_of(const struct launcher *launcher, int which)
{
    return &launcher->job->cluster->hosts->all[which];
}

static void fail(struct launcher *launcher, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void fail(struct launcher *launcher, int code, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    launcher_fail(launcher, code, text);
}

/* ---- our words ---- */

static void put_word(FILE *out, const char *name, const char *word)
{
    char *line = words_line(word);
    if (line)
        fprintf(out, "%s %s\n", name, line);
    free(line);
}

/* Passes our settings and NCCL's on without being asked. */
static void put_environment(FILE *out, const struct launch *job)
{
    for (char **one = environ; *one; one++)
        if (strncmp(*one, "TUTTI_", 6) == 0 || strncmp(*one, "NCCL_", 5) == 0)
            put_word(out, "set", *one);
    for (int i = 0; i < job->sets; i++)
        put_word(out, "set", job->set[i]);
}

static void put_job(FILE *out, const struct launcher *launcher, int which)
{
    const struct launch *job = launcher->job;
    const struct hosts *hosts = job->cluster->hosts;
    const struct host *host = &hosts->all[which], *last = &hosts->all[hosts->count - 1];
    char *folder = getcwd(NULL, 0);
    fprintf(out, "host %s\nranks %d %d %d\n", host->name, host->first, host->ranks, last->first + last->ranks);
    if (folder)
        put_word(out, "folder", folder);
    free(folder);
    put_environment(out, job);
    for (char **word = job->argv; *word; word++)
        put_word(out, "arg", *word);
    if (job->bind)
        fputs("bind\n", out);
    if (which == 0)
        fputs("meet\n", out);
}

static void tell_job(struct launcher *launcher, int which)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct child *child = &launcher->children[which];
    if (out) {
        put_job(out, launcher, which);
        if (fclose(out) != 0)
            length = 0;
    }
    if (length >= PIPE_ROOM / 2 && child->orders >= 0)
        fcntl(child->orders, F_SETPIPE_SZ, (int)length + PIPE_ROOM);
    if (length)
        cluster_order(child, text, length);
    if (!length || child->orders < 0)
        fail(launcher, EXIT_FAILED, "host %s: cannot tell it the job, of %zu bytes: %s", host_of(launcher, which)->name,
             length, strerror(errno));
    free(text);
}

/* A host may start when it knows the meeting of the ranks. */
static void tell_meeting(struct launcher *launcher, int which)
{
    const struct launch_meeting *meeting = &launcher->meeting;
    struct child *child = &launcher->children[which];
    char text[2 * NET_TEXT + 80];
    if (child->state != ANSWERED || !launcher->met || launcher->stopping)
        return;
    int length = snprintf(text, sizeof text, "at %s %s %s %d\ngo\n", meeting->id, meeting->nonce, meeting->address,
                          meeting->port);
    cluster_order(child, text, (size_t)length);
    child->state = RUNNING;
}

/* ---- the answers ---- */

static void take_meeting(struct launcher *launcher, const char *text)
{
    struct launch_meeting *meeting = &launcher->meeting;
    if (launcher->met ||
        sscanf(text, "%63s %32s %63s %d", meeting->id, meeting->nonce, meeting->address, &meeting->port) != 4)
        return;
    launcher->met = true;
    for (int i = 0; i < launcher->job->size; i++)
        tell_meeting(launcher, i);
}

static bool pass_output(const struct launcher *launcher, int which, bool is_error, const char *text, size_t length)
{
    const struct host *host = host_of(launcher, which);
    char number[16], tag[24] = "", *end;
    snprintf(number, sizeof number, "%.*s", length < sizeof number ? (int)length : (int)sizeof number - 1, text);
    long rank = strtol(number, &end, 10);
    if (end == number || *end != ' ' || rank < host->first || rank >= host->first + host->ranks)
        return true;
    size_t skip = (size_t)(end + 1 - number);
    if (launcher->job->tag)
        snprintf(tag, sizeof tag, "[%ld] ", rank);
    return output_line(tag, is_error, text + skip, length - skip);
}

static void take_failure(struct launcher *launcher, const char *text)
{
    char *end;
    long code = strtol(text, &end, 10);
    launcher_fail(launcher, code > 0 && code < 256 ? (int)code : EXIT_FAILED, *end == ' ' ? end + 1 : end);
}

static void take_end(struct launcher *launcher, int which, const char *code)
{
    launcher->children[which].state = DONE;
    if (strcmp(code, "0") != 0)
        fail(launcher, EXIT_FAILED, "host %s: ended with code %.10s", host_of(launcher, which)->name, code);
}

static void take_short(struct launcher *launcher, int which, const char *line)
{
    if (strncmp(line, "M ", 2) == 0 && which == 0)
        take_meeting(launcher, line + 2);
    else if (strncmp(line, "F ", 2) == 0)
        take_failure(launcher, line + 2);
    else if (strncmp(line, "D ", 2) == 0)
        take_end(launcher, which, line + 2);
}

/* Passes on noise: a line that is not the host's launcher's comes from the command that reaches it, or from a shell
 * there. */
static bool pass_noise(const struct launcher *launcher, int which, const char *text, size_t length)
{
    char tag[HOST_NAME + 8];
    snprintf(tag, sizeof tag, "[%s] ", host_of(launcher, which)->name);
    return output_line(tag, true, text, length);
}

bool cluster_line(void *context, int which, bool is_error, const char *text, size_t length)
{
    struct launcher *launcher = context;
    struct child *child = &launcher->children[which];
    char line[1024 + HOST_NAME];
    snprintf(line, sizeof line, "%.*s", length < sizeof line ? (int)length : (int)sizeof line - 1, text);
    if (is_error)
        return pass_noise(launcher, which, text, length);
    if (child->state == SILENT) {
        if (strcmp(line, PART_GREETING) != 0)
            return pass_noise(launcher, which, text, length);
        child->state = ANSWERED;
        tell_job(launcher, which);
        tell_meeting(launcher, which);
        return true;
    }
    if (length > 2 && (*text == 'O' || *text == 'E') && text[1] == ' ')
        return pass_output(launcher, which, *text == 'E', text + 2, length - 2);
    take_short(launcher, which, line);
    return true;
}

/* ---- beginning and end ---- */

static bool is_here(const struct cluster *cluster, const struct host *host)
{
    return cluster->ssh && strcmp(host->name, "localhost") == 0;
}

/* The words of the command, the host's name, and ours. This host itself needs no command. */
static char **words_for(const struct cluster *cluster, const struct host *host)
{
    size_t count = 0, used = 0;
    while (!is_here(cluster, host) && cluster->reach[count])
        count++;
    char **words = calloc(count + 5, sizeof *words);
    if (!words)
        return NULL;
    for (; used < count; used++)
        words[used] = cluster->reach[used];
    if (count)
        words[used++] = (char *)host->name;
    words[used++] = (char *)cluster->program;
    words[used++] = "run";
    words[used] = "--part";
    return words;
}

static int reach(struct launcher *launcher, int which)
{
    struct child *child = &launcher->children[which];
    struct launch job = *launcher->job;
    int ends[2], why = ENOMEM;
    job.tag = true;
    job.bind = false;
    job.argv = words_for(job.cluster, host_of(launcher, which));
    if (!job.argv || pipe2(ends, O_CLOEXEC) != 0) {
        why = errno;
        free(job.argv);
        return why;
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    pid_t pid =
        launch_spawn(&job, NULL, &launcher->keeper, which, ends[0], &child->streams[0].fd, &child->streams[1].fd);
    child->orders = ends[1];
    child->pid = pid > 0 ? pid : 0;
    launcher->alive += pid > 0;
    close(ends[0]);
    free(job.argv);
    return pid > 0 ? 0 : -pid;
}

bool cluster_start(struct launcher *launcher)
{
    for (int i = 0; i < launcher->job->size && !launcher->code; i++) {
        int why = reach(launcher, i);
        const struct cluster *cluster = launcher->job->cluster;
        if (why)
            fail(launcher, why == ENOENT ? 127 : EXIT_FAILED, "host %s: cannot run %s: %s", host_of(launcher, i)->name,
                 is_here(cluster, host_of(launcher, i)) ? cluster->program : cluster->reach[0], strerror(why));
    }
    return !launcher->code;
}

/* Reads the last words of a host, which may be the reason of its end. */
static void hear_out(struct launcher *launcher, int which, bool is_error)
{
    struct launch_stream *stream = &launcher->children[which].streams[is_error];
    struct pollfd rest = {.fd = stream->fd, .events = POLLIN};
    while (stream->fd >= 0 && poll(&rest, 1, 0) > 0 && stream_read(stream, &launcher->output, which, is_error))
        ;
}

void cluster_ended(struct launcher *launcher, int which, int status)
{
    struct child *child = &launcher->children[which];
    const struct host *host = host_of(launcher, which);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_FAILED;
    char how[64];
    for (int i = 0; i < 2; i++)
        hear_out(launcher, which, i);
    cluster_cut_off(child); /* the processes that the command started there may live */
    if (child->state == DONE)
        return;
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "exited with code %d", WEXITSTATUS(status));
    const char *rest_of_job = launcher->alive ? "; stopping the others" : "";
    const char *way = is_here(launcher->job->cluster, host) ? "tutti" : launcher->job->cluster->reach[0];
    if (child->state == SILENT)
        fail(launcher, code, "host %s: no answer: %s %s%s", host->name, way, how, rest_of_job);
    else
        fail(launcher, code, "host %s: lost: %s %s; its ranks are ended%s", host->name, way, how, rest_of_job);
}

void cluster_remind(struct launcher *launcher)
{
    for (int i = 0; i < launcher->job->size; i++)
        if (launcher->children[i].pid && launcher->children[i].state == SILENT)
            fprintf(stderr, "tutti %s: host %s has not answered yet\n", launcher->job->command,
                    host_of(launcher, i)->name);
}
