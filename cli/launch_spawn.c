/* SPDX-License-Identifier: Apache-2.0 */
/* One rank: its environment, processor, pipes and exec. */
#include "cli/launch.h"
#include "cli/launch_parts.h"

#include "base/affinity.h"
#include "base/random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT_TRIES 64

static void put_address(const struct net_address *at, char out[NET_TEXT])
{
    if (at->any.sa_family == AF_INET)
        inet_ntop(AF_INET, &at->v4.sin_addr, out, NET_TEXT);
    else
        inet_ntop(AF_INET6, &at->v6.sin6_addr, out, NET_TEXT);
}

/* Holds the port at which PyTorch's rank 0 listens on all addresses: it must be free on each of them. */
static bool hold_master_port(struct launch_meeting *meeting)
{
    int *held = &meeting->held[MEETING_PORTS];
    struct net_address at = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT}};
    if (net_reserve(&at, held) != TUTTI_SUCCESS) {
        at = (struct net_address){.v4 = {.sin_family = AF_INET}};
        if (net_reserve(&at, held) != TUTTI_SUCCESS)
            return false;
    }
    meeting->port = net_port(&at);
    return true;
}

void meeting_close(struct launch_meeting *meeting)
{
    for (int i = 0; i <= MEETING_PORTS; i++) {
        if (meeting->held[i] >= 0)
            close(meeting->held[i]);
        meeting->held[i] = -1;
    }
}

/* Holds a port alone: a port that another launcher holds is not free, though ranks could take it over. */
static bool hold_port(const struct net_address *at, int *out)
{
    int fd = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return false;
    if (bind(fd, &at->any, net_size(at)) != 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
        close(fd);
        return false;
    }
    *out = fd;
    return true;
}

static bool hold_from(struct launch_meeting *meeting, const struct net_address *first)
{
    for (int i = 0; i < MEETING_PORTS; i++) {
        struct net_address at = *first;
        net_set_port(&at, (uint16_t)(net_port(first) + i));
        if (!hold_port(&at, &meeting->held[i])) {
            meeting_close(meeting);
            return false;
        }
    }
    return true;
}

/* Finds free ports in a row. A port that the system chose has neighbours that clients get, so it comes last. */
static bool hold_meeting_ports(struct launch_meeting *meeting, struct net_address *first)
{
    uint16_t drawn;
    for (int i = 0; i < PORT_TRIES; i++) {
        if (random_bytes(&drawn, sizeof drawn) != TUTTI_SUCCESS)
            return false;
        net_set_port(first, (uint16_t)(NET_PORT_FIRST + drawn % (NET_PORT_COUNT - MEETING_PORTS)));
        if (hold_from(meeting, first))
            return true;
    }
    net_set_port(first, 0);
    return net_reserve(first, &meeting->held[0]) == TUTTI_SUCCESS;
}

/* Bound sockets that do not listen hold the ports: no other process gets them by chance, and the rank that sets
 * SO_REUSEADDR can still listen there. */
bool meeting_open(struct launch_meeting *meeting, bool near)
{
    struct net_interface best = {.address.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    unsigned char secret[16];
    int count;
    for (int i = 0; i <= MEETING_PORTS; i++)
        meeting->held[i] = -1;
    if (!near && net_interfaces(&best, 1, &count) != TUTTI_SUCCESS)
        return false;
    put_address(&best.address, meeting->address);
    if (!hold_meeting_ports(meeting, &best.address) || !hold_master_port(meeting)) {
        meeting_close(meeting);
        return false;
    }
    net_format(&best.address, meeting->id);
    if (random_bytes(secret, sizeof secret) != TUTTI_SUCCESS) {
        meeting_close(meeting);
        return false;
    }
    for (size_t i = 0; i < sizeof secret; i++)
        snprintf(meeting->nonce + 2 * i, 3, "%02x", secret[i]);
    return true;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct launch *job, const struct launch_meeting *meeting, int rank)
{
    static const char *const names[][2] = {{"TUTTI_RANK", "RANK"},
                                           {"TUTTI_SIZE", "WORLD_SIZE"},
                                           {"TUTTI_LOCAL_RANK", "LOCAL_RANK"},
                                           {"TUTTI_LOCAL_SIZE", "LOCAL_WORLD_SIZE"}};
    const int values[] = {rank + (job->part ? job->part->first : 0), job->part ? job->part->total : job->size, rank,
                          job->size};
    for (int i = 0; i < 8; i++)
        set_number(names[i / 2][i % 2], values[i / 2]);
    setenv("TUTTI_ID", meeting->id, 1);
    setenv("TUTTI_NONCE", meeting->nonce, 1);
    setenv("MASTER_ADDR", meeting->address, 1);
    set_number("MASTER_PORT", meeting->port);
    for (int i = 0; i < job->sets; i++)
        putenv(job->set[i]);
}

bool launch_fits(int size)
{
    return size <= affinity_count(NULL);
}

/* Binds to the rank-th of the processors that we may use, modulo their number. */
static void bind_to_core(int rank)
{
    cpu_set_t allowed, one;
    int count = affinity_count(&allowed), skip = count ? rank % count : 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && skip-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static void default_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int signal_number = 1; signal_number < 32; signal_number++)
        signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Tells the keeper the group before the program runs: it may start others at once, and the launcher may be killed
 * before it runs again. */
static void become_rank(const struct launch *job, const struct launch_meeting *meeting, const struct keeper *keeper,
                        int rank, const int fds[3], int report)
{
    setpgid(0, 0);
    keeper_add(keeper, getpid());
    default_signals();
    if (job->bind)
        bind_to_core(rank);
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            dup2(fds[i], i);
    if (!job->cluster)
        set_environment(job, meeting, rank);
    execvp(job->argv[0], job->argv);
    int why = errno;
    while (write(report, &why, sizeof why) < 0 && errno == EINTR)
        ;
    _exit(127);
}

/* Returns 0 when the rank's program runs, else the errno of exec. */
static int exec_result(int report)
{
    int why = 0;
    ssize_t got;
    do
        got = read(report, &why, sizeof why);
    while (got < 0 && errno == EINTR);
    return got == sizeof why ? why : 0;
}

static pid_t spawn(const struct launch *job, const struct launch_meeting *meeting, const struct keeper *keeper,
                   int rank, const int fds[3])
{
    int report[2];
    pid_t parent = getpid();
    if (pipe2(report, O_CLOEXEC) != 0)
        return -errno;
    pid_t pid = fork();
    int why = pid < 0 ? errno : 0;
    if (pid == 0) {
        die_with(parent);
        become_rank(job, meeting, keeper, rank, fds, report[1]);
    }
    close(report[1]);
    if (pid > 0) {
        setpgid(pid, pid);
        why = exec_result(report[0]);
        if (why) {
            waitpid(pid, NULL, 0);
            keeper_forget(keeper, pid);
        }
    }
    close(report[0]);
    return why ? -why : pid;
}

pid_t launch_spawn(const struct launch *job, const struct launch_meeting *meeting, const struct keeper *keeper,
                   int rank, int stdin_fd, int *out, int *err)
{
    int o[2] = {-1, -1}, e[2] = {-1, -1};
    pid_t pid = -EMFILE;
    if (!job->tag || (pipe2(o, O_CLOEXEC) == 0 && pipe2(e, O_CLOEXEC) == 0))
        pid = spawn(job, meeting, keeper, rank, (int[]){stdin_fd, o[1], e[1]});
    for (int i = 0; i < 2; i++) {
        int *ends = i ? e : o;
        if (ends[1] >= 0)
            close(ends[1]);
        if (pid < 0 && ends[0] >= 0)
            close(ends[0]);
    }
    *out = pid < 0 ? -1 : o[0];
    *err = pid < 0 ? -1 : e[0];
    return pid;
}
