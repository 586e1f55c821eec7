/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's loop: output of ranks, their ends, signals to pass on, and time. */
#include "cli/launch.h"
#include "cli/launch_parts.h"
#include "cli/launcher.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "base/error.h"

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
#include <time.h>
#include <unistd.h>

enum { DRAIN_MS = 2000, PAUSE_MS = 20, REMIND_MS = 10000 };

static void first_failure(struct launcher *launcher, int child, pid_t pid, int status)
{
    char text[160 + HOST_NAME], where[8 + HOST_NAME] = "";
    const struct part *part = launcher->job->part;
    const char *rest = launcher->alive ? "; stopping the others" : "";
    int rank = child + (part ? part->first : 0);
    if (part) {
        snprintf(where, sizeof where, " on %s", part->host);
        rest = part->total > 1 ? "; stopping the others" : "";
    }
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "rank %d%s (pid %d) was killed by signal %d (%s)%s", rank, where, (int)pid,
                 WTERMSIG(status), strsignal(WTERMSIG(status)), rest);
    else
        snprintf(text, sizeof text, "rank %d%s (pid %d) exited with code %d%s", rank, where, (int)pid,
                 WEXITSTATUS(status), rest);
    launcher_fail(launcher, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), text);
}

static void ended(struct launcher *launcher, int child, int status)
{
    pid_t pid = launcher->children[child].pid;
    kill(-pid, SIGKILL);
    keeper_forget(&launcher->keeper, pid);
    launcher->children[child].pid = 0;
    launcher->alive--;
    if (launcher->job->cluster)
        cluster_ended(launcher, child, status);
    else if (status != 0 && launcher->code == 0)
        first_failure(launcher, child, pid, status);
}

/* Takes every child that has ended: ranks, and their orphans that we have adopted. */
static void reap(struct launcher *launcher)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int r = 0; r < launcher->job->size; r++)
            if (launcher->children[r].pid == pid)
                ended(launcher, r, status);
}

static void pass_on(struct launcher *launcher, int signal_number)
{
    static const char again[] = "second signal: killing all ranks";
    if (signal_number == SIGTSTP) {
        launcher_signal(launcher, SIGTSTP);
        kill(getpid(), SIGSTOP);
        launcher_signal(launcher, SIGCONT);
    } else if (launcher->stopping || launcher->kill_at == 0) {
        launcher_say(launcher, again);
        launcher_signal(launcher, SIGKILL);
    } else {
        launcher_signal(launcher, signal_number);
        if (signal_number != SIGUSR1 && signal_number != SIGUSR2)
            launcher->kill_at = 0;
    }
}

static void take_signals(struct launcher *launcher)
{
    struct signalfd_siginfo info;
    while (read(launcher->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            pass_on(launcher, (int)info.ssi_signo);
    reap(launcher);
}

static void take_time(struct launcher *launcher)
{
    if (clock_passed(launcher->remind_at)) {
        launcher->remind_at = clock_deadline_ms(REMIND_MS);
        if (launcher->job->cluster)
            cluster_remind(launcher);
        else
            output_line("P", false, "", 0);
    }
    if (launcher->stopping && clock_passed(launcher->kill_at)) {
        launcher_signal(launcher, SIGKILL);
        launcher->kill_at = clock_deadline_ms(LAUNCH_GRACE_MS);
    }
    if (launcher->stop_at && !launcher->stopping && clock_passed(launcher->stop_at)) {
        char text[80];
        snprintf(text, sizeof text, "not done after %d s; stopping all ranks", launcher->job->timeout_s);
        launcher_say(launcher, text);
        launcher->code = 124;
        launcher_stop(launcher);
    }
}

static void relay_stdin(struct launcher *launcher)
{
    char text[4096];
    ssize_t got = read(STDIN_FILENO, text, sizeof text);
    if (got > 0 && write(launcher->relay_fd, text, (size_t)got) >= 0)
        return;
    close(launcher->relay_fd);
    launcher->relay_fd = -1;
}

/* Obeys a line of the launcher of the whole job. */
static bool take_order(void *launcher, int rank, bool is_error, const char *text, size_t length)
{
    char order[16] = "";
    int number;
    (void)rank, (void)is_error;
    snprintf(order, sizeof order, "%.*s", length < sizeof order ? (int)length : 0, text);
    if (strncmp(order, "S ", 2) == 0 && text_int(order + 2, 1, 31, &number))
        launcher_signal(launcher, number);
    return true;
}

/* Takes orders. Their end means that the launcher of the whole job is gone: nobody else ends our ranks then. */
static void take_orders(struct launcher *launcher)
{
    const struct launch reader = {.line = take_order, .context = launcher};
    if (stream_read(&launcher->orders, &reader, 0, false) && launcher->orders.fd >= 0)
        return;
    stream_close(&launcher->orders);
    if (launcher->alive && !launcher->code)
        launcher->code = EXIT_FAILED;
    launcher->stopping = true;
    launcher->kill_at = clock_deadline_ms(LAUNCH_GRACE_MS);
    launcher_signal(launcher, SIGKILL);
}

static int open_streams(const struct launcher *launcher)
{
    int open = 0;
    for (int i = 0; i < 2 * launcher->job->size; i++)
        open += launcher->children[i / 2].streams[i % 2].fd >= 0;
    return open;
}

static struct pollfd *add_poll(struct launcher *launcher, nfds_t *count, int fd)
{
    launcher->polls[*count] = (struct pollfd){.fd = fd, .events = POLLIN};
    return &launcher->polls[(*count)++];
}

/* Polls open descriptors only: the system refuses more entries than a process may have descriptors, whatever is in
 * them. */
static bool take_events(struct launcher *launcher, int wait_ms)
{
    nfds_t count = 0;
    const struct pollfd *signals = add_poll(launcher, &count, launcher->signals);
    const struct pollfd *input = launcher->relay_fd >= 0 ? add_poll(launcher, &count, STDIN_FILENO) : NULL;
    const struct pollfd *orders = launcher->orders.fd >= 0 ? add_poll(launcher, &count, launcher->orders.fd) : NULL;
    const struct pollfd *next = launcher->polls + count;
    for (int i = 0; i < 2 * launcher->job->size; i++)
        if (launcher->children[i / 2].streams[i % 2].fd >= 0)
            add_poll(launcher, &count, launcher->children[i / 2].streams[i % 2].fd);
    if (poll(launcher->polls, count, wait_ms) < 0)
        return errno == EINTR;
    for (int i = 0; i < 2 * launcher->job->size; i++) {
        struct launch_stream *stream = &launcher->children[i / 2].streams[i % 2];
        if (stream->fd >= 0 && next++->revents && !stream_read(stream, &launcher->output, i / 2, i % 2))
            return false;
    }
    if (input && input->revents)
        relay_stdin(launcher);
    if (orders && orders->revents)
        take_orders(launcher);
    if (signals->revents)
        take_signals(launcher);
    return true;
}

static int next_wait(const struct launcher *launcher)
{
    int wait = 60000;
    if (launcher->stopping)
        wait = clock_left_ms(launcher->kill_at);
    else if (launcher->stop_at && clock_left_ms(launcher->stop_at) < wait)
        wait = clock_left_ms(launcher->stop_at);
    if (launcher->remind_at != UINT64_MAX && clock_left_ms(launcher->remind_at) < wait)
        wait = clock_left_ms(launcher->remind_at);
    return wait;
}

/* Kills descendants that left their group and were adopted by us. True when there are none. */
static bool kill_strays(const struct launcher *launcher)
{
    char path[64];
    int pid, found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (!children)
        return errno != EMFILE && errno != ENFILE; /* a kernel without the list */
    while (fscanf(children, "%d", &pid) == 1)
        if (pid != launcher->keeper.pid) {
            kill(pid, SIGKILL);
            found++;
        }
    fclose(children);
    return found == 0;
}

/* Gives up when output cannot be taken or passed on: running ranks are killed, and the launcher waits for the ends of
 * processes. */
static void give_up(struct launcher *launcher)
{
    if (launcher->alive)
        launcher->code = failure(launcher->job->command, "cannot go on: %s; killing all ranks", strerror(errno));
    launcher->broken = launcher->stopping = true;
    launcher->kill_at = clock_deadline_ms(LAUNCH_GRACE_MS);
    launcher_signal(launcher, SIGKILL);
    for (int i = 0; i < 2 * launcher->job->size; i++)
        stream_close(&launcher->children[i / 2].streams[i % 2]);
}

static void look(struct launcher *launcher, int wait_ms)
{
    if (launcher->broken) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * (long)NS_PER_MS}, NULL);
        take_signals(launcher);
    } else if (!take_events(launcher, wait_ms)) {
        give_up(launcher);
    }
}

static void watch(struct launcher *launcher)
{
    while (launcher->alive > 0) {
        look(launcher, next_wait(launcher));
        take_time(launcher);
    }
    uint64_t drained = clock_deadline_ms(DRAIN_MS);
    while (!clock_passed(drained) && (!kill_strays(launcher) || open_streams(launcher)))
        look(launcher, PAUSE_MS);
}

/* The input of rank 0: our own stdin, or a pipe that we feed when stdin is our terminal, which a background group
 * cannot read. */
static int stdin_of_rank0(struct launcher *launcher)
{
    int ends[2];
    if (!isatty(STDIN_FILENO))
        return dup(STDIN_FILENO);
    if (tcgetpgrp(STDIN_FILENO) != getpgrp() || pipe2(ends, O_CLOEXEC) != 0)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    launcher->relay_fd = ends[1];
    return ends[0];
}

static void cannot_start(struct launcher *launcher, int rank, int why)
{
    char text[768], hint[256] = "", where[8 + HOST_NAME] = "";
    const char *program = launcher->job->argv[0];
    const struct part *part = launcher->job->part;
    bool unfit = why == ENOENT || why == EACCES || why == ENOEXEC || why == ENOTDIR;
    if (part)
        snprintf(where, sizeof where, " on %s", part->host);
    if (unfit)
        launch_hint(program, why, hint, sizeof hint);
    if (unfit)
        snprintf(text, sizeof text, "cannot run %.150s%s: %s%s", program, where, strerror(why), hint);
    else
        snprintf(text, sizeof text, "cannot start rank %d of %.150s%s: %s", rank + (part ? part->first : 0), program,
                 where, strerror(why));
    launcher_fail(launcher, why == ENOENT ? 127 : unfit ? 126 : EXIT_FAILED, text);
}

static void start_ranks(struct launcher *launcher)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int first = launcher->job->part ? dup(nothing) : stdin_of_rank0(launcher);
    for (int r = 0; r < launcher->job->size && !launcher->code; r++) {
        struct child *child = &launcher->children[r];
        pid_t pid = launch_spawn(launcher->job, &launcher->meeting, &launcher->keeper, r, r ? nothing : first,
                                 &child->streams[0].fd, &child->streams[1].fd);
        if (pid < 0) {
            cannot_start(launcher, r, -pid);
            break;
        }
        child->pid = pid;
        launcher->alive++;
    }
    if (nothing >= 0)
        close(nothing);
    if (first >= 0)
        close(first);
}

/* The first host of a cluster settles the meeting. */
static bool settle_meeting(struct launcher *launcher)
{
    if (launcher->job->part)
        launcher->meeting = launcher->job->part->meeting;
    return launcher->job->part || launcher->job->cluster || meeting_open(&launcher->meeting, true);
}

/* Chooses the readers of the children's lines and of ours. */
static void settle_readers(struct launcher *launcher)
{
    launcher->output = *launcher->job;
    launcher->remind_at = clock_deadline_ms(REMIND_MS);
    if (launcher->job->cluster) {
        launcher->output.line = cluster_line;
        launcher->output.context = launcher;
    } else if (launcher->job->part) {
        launcher->orders.fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    } else {
        launcher->remind_at = UINT64_MAX;
    }
}

static bool launcher_open(struct launcher *launcher, sigset_t *before)
{
    static const int passed[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2};
    size_t size = (size_t)launcher->job->size;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaddset(&set, passed[i]);
    sigprocmask(SIG_BLOCK, &set, before);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    launcher->children = calloc(size, sizeof *launcher->children);
    launcher->polls = calloc(3 + 2 * size, sizeof *launcher->polls);
    if (!launcher->children || !launcher->polls)
        return false;
    for (size_t i = 0; i < size; i++)
        launcher->children[i] = (struct child){.streams = {{.fd = -1}, {.fd = -1}}, .orders = -1};
    launcher->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return launcher->signals >= 0 && keeper_start(&launcher->keeper) && settle_meeting(launcher);
}

/* Drops signals that came after all ranks had ended: they were meant for the ranks. */
static void drop_pending(void)
{
    const struct timespec now = {0};
    sigset_t all;
    sigfillset(&all);
    while (sigtimedwait(&all, NULL, &now) > 0)
        ;
}

static void launcher_close(struct launcher *launcher, const sigset_t *before)
{
    for (int i = 0; launcher->children && i < 2 * launcher->job->size; i++) {
        stream_close(&launcher->children[i / 2].streams[i % 2]);
        if (i % 2 && launcher->children[i / 2].orders >= 0)
            close(launcher->children[i / 2].orders);
    }
    stream_close(&launcher->orders);
    if (launcher->relay_fd >= 0)
        close(launcher->relay_fd);
    if (launcher->signals >= 0)
        close(launcher->signals);
    if (launcher->keeper.pid > 0)
        keeper_stop(&launcher->keeper);
    meeting_close(&launcher->meeting);
    free(launcher->children);
    free(launcher->polls);
    signal(SIGPIPE, SIG_DFL);
    drop_pending();
    sigprocmask(SIG_SETMASK, before, NULL);
}

int launch(const struct launch *job)
{
    struct launcher launcher = {
        .job = job, .signals = -1, .relay_fd = -1, .orders.fd = -1, .kill_at = UINT64_MAX, .meeting.held = {-1, -1}};
    sigset_t before;
    if (launcher_open(&launcher, &before)) {
        launcher.stop_at = job->timeout_s ? clock_deadline_ms((uint64_t)job->timeout_s * 1000) : 0;
        settle_readers(&launcher);
        if (!job->cluster)
            start_ranks(&launcher);
        else if (!cluster_start(&launcher))
            launcher_stop(&launcher);
        watch(&launcher);
    } else {
        launcher.code = failure(job->command, "cannot prepare %d ranks: %s", job->size,
                                *error_last() ? error_last() : strerror(errno));
    }
    launcher_close(&launcher, &before);
    return launcher.code;
}
