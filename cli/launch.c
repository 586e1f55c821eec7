/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's loop: output of ranks, their ends, signals to pass on, and time. */
#include "launch.h"
#include "cli.h"

#include "base/clock.h"

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

enum { GRACE_MS = 5000, DRAIN_MS = 2000, PAUSE_MS = 20 };

struct rank {
    pid_t pid; /* 0: ended */
    struct stream streams[2];
};

struct crew {
    const struct launch *job;
    struct rank *ranks;
    struct pollfd *polls;
    int alive, signals; /* ranks that run; signalfd */
    int relay_fd;       /* writes to rank 0's stdin what comes from our terminal; -1: none */
    int code;           /* of the first rank that failed */
    bool stopping, broken;
    uint64_t kill_at; /* when stopping turns into killing; UINT64_MAX: not set */
    uint64_t stop_at; /* the job's time is over */
    struct keeper keeper;
    struct meeting meeting;
};

static void signal_all(const struct crew *crew, int signal_number)
{
    for (int r = 0; r < crew->job->size; r++)
        if (crew->ranks[r].pid)
            kill(-crew->ranks[r].pid, signal_number);
}

static void stop(struct crew *crew)
{
    if (crew->stopping)
        return;
    crew->stopping = true;
    crew->kill_at = clock_deadline_ms(GRACE_MS);
    signal_all(crew, SIGTERM);
    signal_all(crew, SIGCONT);
}

static void say(const struct crew *crew, const char *text)
{
    if (!crew->job->quiet)
        fprintf(stderr, "tutti %s: %s\n", crew->job->command, text);
}

static void first_failure(struct crew *crew, int rank, pid_t pid, int status)
{
    char text[160];
    const char *rest = crew->alive ? "; stopping the others" : "";
    if (WIFSIGNALED(status)) {
        crew->code = 128 + WTERMSIG(status);
        snprintf(text, sizeof text, "rank %d (pid %d) was killed by signal %d (%s)%s", rank, (int)pid, WTERMSIG(status),
                 strsignal(WTERMSIG(status)), rest);
    } else {
        crew->code = WEXITSTATUS(status);
        snprintf(text, sizeof text, "rank %d (pid %d) exited with code %d%s", rank, (int)pid, crew->code, rest);
    }
    say(crew, text);
    stop(crew);
}

static void ended(struct crew *crew, int rank, int status)
{
    pid_t pid = crew->ranks[rank].pid;
    kill(-pid, SIGKILL);
    keeper_forget(&crew->keeper, pid);
    crew->ranks[rank].pid = 0;
    crew->alive--;
    if (status != 0 && crew->code == 0)
        first_failure(crew, rank, pid, status);
}

/* Takes every child that has ended: ranks, and orphans of theirs that we have adopted. */
static void reap(struct crew *crew)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int r = 0; r < crew->job->size; r++)
            if (crew->ranks[r].pid == pid)
                ended(crew, r, status);
}

static void pass_on(struct crew *crew, int signal_number)
{
    static const char again[] = "second signal: killing all ranks";
    if (signal_number == SIGTSTP) {
        signal_all(crew, SIGTSTP);
        kill(getpid(), SIGSTOP);
        signal_all(crew, SIGCONT);
    } else if (crew->stopping || crew->kill_at == 0) {
        say(crew, again);
        signal_all(crew, SIGKILL);
    } else {
        signal_all(crew, signal_number);
        if (signal_number != SIGUSR1 && signal_number != SIGUSR2)
            crew->kill_at = 0;
    }
}

static void take_signals(struct crew *crew)
{
    struct signalfd_siginfo info;
    while (read(crew->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            pass_on(crew, (int)info.ssi_signo);
    reap(crew);
}

static void take_time(struct crew *crew)
{
    if (crew->stopping && clock_passed(crew->kill_at)) {
        signal_all(crew, SIGKILL);
        crew->kill_at = clock_deadline_ms(GRACE_MS);
    }
    if (crew->stop_at && !crew->stopping && clock_passed(crew->stop_at)) {
        char text[80];
        snprintf(text, sizeof text, "not done after %d s; stopping all ranks", crew->job->timeout_s);
        say(crew, text);
        crew->code = 124;
        stop(crew);
    }
}

static void relay_stdin(struct crew *crew)
{
    char text[4096];
    ssize_t got = read(STDIN_FILENO, text, sizeof text);
    if (got > 0 && write(crew->relay_fd, text, (size_t)got) >= 0)
        return;
    close(crew->relay_fd);
    crew->relay_fd = -1;
}

static int open_streams(const struct crew *crew)
{
    int open = 0;
    for (int i = 0; i < 2 * crew->job->size; i++)
        open += crew->ranks[i / 2].streams[i % 2].fd >= 0;
    return open;
}

static struct pollfd *add_poll(struct crew *crew, nfds_t *count, int fd)
{
    crew->polls[*count] = (struct pollfd){.fd = fd, .events = POLLIN};
    return &crew->polls[(*count)++];
}

/* Of open descriptors alone: the system refuses more entries than a process may have descriptors, whatever is in them. */
static bool take_events(struct crew *crew, int wait_ms)
{
    nfds_t count = 0;
    const struct pollfd *signals = add_poll(crew, &count, crew->signals);
    const struct pollfd *input = crew->relay_fd >= 0 ? add_poll(crew, &count, STDIN_FILENO) : NULL, *next = crew->polls + count;
    for (int i = 0; i < 2 * crew->job->size; i++)
        if (crew->ranks[i / 2].streams[i % 2].fd >= 0)
            add_poll(crew, &count, crew->ranks[i / 2].streams[i % 2].fd);
    if (poll(crew->polls, count, wait_ms) < 0)
        return errno == EINTR;
    for (int i = 0; i < 2 * crew->job->size; i++) {
        struct stream *stream = &crew->ranks[i / 2].streams[i % 2];
        if (stream->fd >= 0 && next++->revents && !stream_read(stream, crew->job, i / 2, i % 2))
            return false;
    }
    if (input && input->revents)
        relay_stdin(crew);
    if (signals->revents)
        take_signals(crew);
    return true;
}

static int next_wait(const struct crew *crew)
{
    int wait = 60000;
    if (crew->stopping)
        wait = clock_left_ms(crew->kill_at);
    else if (crew->stop_at && clock_left_ms(crew->stop_at) < wait)
        wait = clock_left_ms(crew->stop_at);
    return wait;
}

/* Kills descendants that left their group and were adopted by us. True when there are none. */
static bool kill_strays(const struct crew *crew)
{
    char path[64];
    int pid, found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (!children)
        return errno != EMFILE && errno != ENFILE; /* a kernel without the list */
    while (fscanf(children, "%d", &pid) == 1)
        if (pid != crew->keeper.pid) {
            kill(pid, SIGKILL);
            found++;
        }
    fclose(children);
    return found == 0;
}

/* Output can no more be taken, or passed on: ranks that run are killed, and only the ends of processes are awaited. */
static void give_up(struct crew *crew)
{
    if (crew->alive)
        crew->code = failure(crew->job->command, "cannot go on: %s; killing all ranks", strerror(errno));
    crew->broken = crew->stopping = true;
    crew->kill_at = clock_deadline_ms(GRACE_MS);
    signal_all(crew, SIGKILL);
    for (int i = 0; i < 2 * crew->job->size; i++)
        stream_close(&crew->ranks[i / 2].streams[i % 2]);
}

static void look(struct crew *crew, int wait_ms)
{
    if (crew->broken) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * (long)NS_PER_MS}, NULL);
        take_signals(crew);
    } else if (!take_events(crew, wait_ms)) {
        give_up(crew);
    }
}

static void watch(struct crew *crew)
{
    while (crew->alive > 0) {
        look(crew, next_wait(crew));
        take_time(crew);
    }
    uint64_t drained = clock_deadline_ms(DRAIN_MS);
    while (!clock_passed(drained) && (!kill_strays(crew) || open_streams(crew)))
        look(crew, PAUSE_MS);
}

/* What rank 0 reads: our own stdin, or a pipe that we feed when stdin is our terminal, which a background group cannot
 * read. */
static int stdin_of_rank0(struct crew *crew)
{
    int ends[2];
    if (!isatty(STDIN_FILENO))
        return dup(STDIN_FILENO);
    if (tcgetpgrp(STDIN_FILENO) != getpgrp() || pipe2(ends, O_CLOEXEC) != 0)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    crew->relay_fd = ends[1];
    return ends[0];
}

static int cannot_start(const struct crew *crew, int rank, int why)
{
    const char *program = crew->job->argv[0];
    if (why == ENOENT || why == EACCES || why == ENOEXEC || why == ENOTDIR)
        failure(crew->job->command, "cannot run %s: %s", program, strerror(why));
    else
        return failure(crew->job->command, "cannot start rank %d of %s: %s", rank, program, strerror(why));
    return why == ENOENT ? 127 : 126;
}

static void start_ranks(struct crew *crew)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), first = stdin_of_rank0(crew);
    for (int r = 0; r < crew->job->size && !crew->code; r++) {
        struct rank *rank = &crew->ranks[r];
        pid_t pid = launch_spawn(crew->job, &crew->meeting, &crew->keeper, r, r ? nothing : first, &rank->streams[0].fd,
                                 &rank->streams[1].fd);
        if (pid < 0) {
            crew->code = cannot_start(crew, r, -pid);
            stop(crew);
            break;
        }
        rank->pid = pid;
        crew->alive++;
    }
    if (nothing >= 0)
        close(nothing);
    if (first >= 0)
        close(first);
}

static bool crew_open(struct crew *crew, sigset_t *before)
{
    static const int passed[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2};
    size_t size = (size_t)crew->job->size;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaddset(&set, passed[i]);
    sigprocmask(SIG_BLOCK, &set, before);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    crew->ranks = calloc(size, sizeof *crew->ranks);
    crew->polls = calloc(2 + 2 * size, sizeof *crew->polls);
    if (!crew->ranks || !crew->polls)
        return false;
    for (size_t i = 0; i < 2 * size; i++)
        crew->ranks[i / 2].streams[i % 2].fd = -1;
    crew->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return crew->signals >= 0 && keeper_start(&crew->keeper) && meeting_open(&crew->meeting);
}

/* Signals that came when all ranks had ended were meant for them. */
static void drop_pending(void)
{
    const struct timespec now = {0};
    sigset_t all;
    sigfillset(&all);
    while (sigtimedwait(&all, NULL, &now) > 0)
        ;
}

static void crew_close(struct crew *crew, const sigset_t *before)
{
    for (int i = 0; crew->ranks && i < 2 * crew->job->size; i++)
        stream_close(&crew->ranks[i / 2].streams[i % 2]);
    if (crew->relay_fd >= 0)
        close(crew->relay_fd);
    if (crew->signals >= 0)
        close(crew->signals);
    if (crew->keeper.pid > 0)
        keeper_stop(&crew->keeper);
    meeting_close(&crew->meeting);
    free(crew->ranks);
    free(crew->polls);
    signal(SIGPIPE, SIG_DFL);
    drop_pending();
    sigprocmask(SIG_SETMASK, before, NULL);
}

int launch(const struct launch *job)
{
    struct crew crew = {.job = job, .signals = -1, .relay_fd = -1, .kill_at = UINT64_MAX, .meeting.held = {-1, -1}};
    sigset_t before;
    if (crew_open(&crew, &before)) {
        crew.stop_at = job->timeout_s ? clock_deadline_ms((uint64_t)job->timeout_s * 1000) : 0;
        start_ranks(&crew);
        watch(&crew);
    } else {
        crew.code = failure(job->command, "cannot prepare %d ranks: %s", job->size, strerror(errno));
    }
    crew_close(&crew, &before);
    return crew.code;
}
