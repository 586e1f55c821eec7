/* SPDX-License-Identifier: Apache-2.0 */
/* One poll loop over the hosts' output and a signalfd; children that must go are asked first and forced two seconds
 * later. */
#include "lab/everywhere.h"
#include "base/clock.h"
#include "base/error.h"
#include "lab/inside.h"
#include "wiring/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS   2000
#define LINE_BYTES 65536

struct everywhere_stream {
    const char *host;
    int to;
    struct text line;
};

/* Streams 2i and 2i+1 and polled[2i], polled[2i+1] are output and errors of host i; the last of polled is the signalfd.
 */
struct everywhere_run {
    int hosts, running;
    int code;
    uint64_t force_at; /* 0: nobody has been asked to go */
    pid_t *pids;       /* 0: ended */
    struct everywhere_stream *streams;
    struct pollfd *polled;
};

static void put_line(struct everywhere_stream *stream, const char *data, size_t length)
{
    struct text whole = {0};
    text_add(&whole, "%s: ", stream->host);
    text_append(&whole, data, length);
    text_append(&whole, "\n", 1);
    text_write(&whole, stream->to, "output");
    text_free(&whole);
}

/* Puts out whole lines; at the end, or when a line grows too long, what there is. */
static void put_lines(struct everywhere_stream *stream, bool rest)
{
    size_t done = 0;
    struct text *line = &stream->line;
    while (done < line->length) {
        char *start = line->data + done, *end = memchr(start, '\n', line->length - done);
        size_t length = end ? (size_t)(end - start) : line->length - done;
        if (!end && !rest && length < LINE_BYTES)
            break;
        put_line(stream, start, length);
        done += length + (end != NULL);
    }
    if (done) {
        memmove(line->data, line->data + done, line->length - done);
        line->length -= done;
    }
}

static void take_output(struct everywhere_run *run, int i)
{
    char data[16384];
    ssize_t count = read(run->polled[i].fd, data, sizeof data);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count > 0)
        text_append(&run->streams[i].line, data, (size_t)count);
    put_lines(&run->streams[i], count <= 0);
    if (count <= 0) {
        close(run->polled[i].fd);
        run->polled[i].fd = -1;
    }
}

static void signal_all(struct everywhere_run *run, int signal)
{
    for (int i = 0; i < run->hosts; i++)
        if (run->pids[i] > 0)
            kill(-run->pids[i], signal);
}

static void give_up(struct everywhere_run *run, int code)
{
    if (run->code == 0)
        run->code = code;
    if (run->force_at == 0) {
        run->force_at = clock_deadline_ms(GRACE_MS);
        signal_all(run, SIGTERM);
    }
}

static void reap(struct everywhere_run *run)
{
    int status;
    for (int i = 0; i < run->hosts; i++) {
        if (run->pids[i] <= 0 || waitpid(run->pids[i], &status, WNOHANG) != run->pids[i])
            continue;
        run->pids[i] = 0;
        run->running--;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code)
            give_up(run, code);
    }
}

static void take_signal(struct everywhere_run *run)
{
    struct signalfd_siginfo info;
    if (read(run->polled[2 * run->hosts].fd, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD)
        give_up(run, 128 + (int)info.ssi_signo);
    reap(run);
}

/* What is in the pipes when the last command has ended; grandchildren may hold them open for ever. */
static void drain(struct everywhere_run *run)
{
    for (int i = 0; i < 2 * run->hosts; i++)
        for (int turn = 0; turn < 64 && run->polled[i].fd >= 0 && poll(&run->polled[i], 1, 0) == 1; turn++)
            take_output(run, i);
    for (int i = 0; i < 2 * run->hosts; i++)
        put_lines(&run->streams[i], true);
}

static void attend(struct everywhere_run *run)
{
    while (run->running > 0) {
        int wait = run->force_at ? clock_left_ms(run->force_at) : -1;
        if (poll(run->polled, (nfds_t)(2 * run->hosts + 1), wait) < 0 && errno != EINTR)
            give_up(run, INSIDE_FAILED);
        for (int i = 0; i < 2 * run->hosts; i++)
            if (run->polled[i].fd >= 0 && run->polled[i].revents)
                take_output(run, i);
        if (run->polled[2 * run->hosts].revents)
            take_signal(run);
        if (run->force_at && clock_passed(run->force_at)) {
            signal_all(run, SIGKILL);
            run->force_at = clock_deadline_ms(GRACE_MS);
        }
    }
    drain(run);
}

static void become(const struct lab_topology *topology, int host, int out, int err, const sigset_t *mask,
                   char *const *argv)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, mask, NULL);
    int code = inside_become(topology, topology_node(topology, LAB_HOST, host), argv);
    dprintf(STDERR_FILENO, "tutti-lab: %s\n", error_last());
    _exit(code);
}

static tutti_result_t start(struct everywhere_run *run, const struct lab_topology *topology, int host,
                            const sigset_t *mask, char *const *argv)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    pid_t pid = -1;
    if (pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0)
        become(topology, host, out[1], err[1], mask, argv);
    int code = errno;
    run->polled[2 * host].fd = out[0];
    run->polled[2 * host + 1].fd = err[0];
    for (int i = 0; i < 2; i++) {
        struct everywhere_stream *stream = &run->streams[2 * host + i];
        *stream = (struct everywhere_stream){topology->nodes[host].name, i ? STDERR_FILENO : STDOUT_FILENO, {0}};
    }
    if (out[1] >= 0)
        close(out[1]);
    if (err[1] >= 0)
        close(err[1]);
    if (pid < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "starting a command on h%d: %s", host, strerror(code));
    setpgid(pid, pid);
    run->pids[host] = pid;
    run->running++;
    return TUTTI_SUCCESS;
}

static bool allocate(struct everywhere_run *run, int hosts)
{
    *run = (struct everywhere_run){.hosts = hosts};
    run->pids = calloc((size_t)hosts + 1, sizeof *run->pids);
    run->streams = calloc(2 * (size_t)hosts + 1, sizeof *run->streams);
    run->polled = calloc(2 * (size_t)hosts + 1, sizeof *run->polled);
    for (int i = 0; run->polled && i <= 2 * hosts; i++)
        run->polled[i] = (struct pollfd){-1, POLLIN, 0};
    return run->pids && run->streams && run->polled;
}

static void release(struct everywhere_run *run)
{
    for (int i = 0; run->polled && i <= 2 * run->hosts; i++)
        if (run->polled[i].fd >= 0)
            close(run->polled[i].fd);
    for (int i = 0; run->streams && i < 2 * run->hosts; i++)
        text_free(&run->streams[i].line);
    free(run->pids);
    free(run->streams);
    free(run->polled);
}

static void hold_signals(sigset_t *held, sigset_t *before)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigemptyset(held);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(held, signals[i]);
    sigprocmask(SIG_BLOCK, held, before);
}

int everywhere_run(const struct lab_topology *topology, char *const *argv)
{
    struct everywhere_run run;
    sigset_t held, before;
    hold_signals(&held, &before);
    if (!allocate(&run, topology->spec.hosts)) {
        error_note(TUTTI_SYSTEM_ERROR, "out of memory for %d hosts", topology->spec.hosts);
        run.code = INSIDE_FAILED;
    } else if ((run.polled[2 * run.hosts].fd = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK)) < 0) {
        error_note(TUTTI_SYSTEM_ERROR, "opening a signalfd: %s", strerror(errno));
        run.code = INSIDE_FAILED;
    } else {
        for (int i = 0; i < run.hosts && run.code == 0; i++)
            if (start(&run, topology, i, &before, argv) != TUTTI_SUCCESS)
                give_up(&run, INSIDE_FAILED);
        attend(&run);
    }
    int code = run.code;
    release(&run);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}
