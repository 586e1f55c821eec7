/* SPDX-License-Identifier: Apache-2.0 */
/* One launcher: its children, how they end, and children that are launchers of other hosts. */
#ifndef TUTTI_CLI_LAUNCHER_H
#define TUTTI_CLI_LAUNCHER_H

#include "cli/launch_parts.h"

#include <poll.h>

/* One of a launcher's processes: a rank, or the launcher of a host. */
struct child {
    pid_t pid; /* 0: ended */
    struct launch_stream streams[2];
    /* of a host's launcher: its standard input, and the state of its start */
    int orders;
    enum { SILENT, ANSWERED, RUNNING, DONE } state;
    bool killed; /* the order to kill its ranks was sent */
};

struct launcher {
    const struct launch *job;
    struct launch output; /* the job, with the reader of its children's lines */
    struct child *children;
    struct pollfd *polls;
    int alive, signals;          /* children that run; signalfd */
    int relay_fd;                /* passes our terminal's input to rank 0's stdin; -1: none */
    struct launch_stream orders; /* from the launcher of the whole job, if we have a part of it */
    int code;                    /* of the first rank that failed */
    bool stopping, broken;
    bool met;           /* a cluster's meeting is known */
    uint64_t kill_at;   /* when stopping turns into killing; UINT64_MAX: not set */
    uint64_t stop_at;   /* the end of the job's time */
    uint64_t remind_at; /* time at which a part says that it lives, or a cluster's launcher says who has not answered */
    struct keeper keeper;
    struct launch_meeting meeting;
};

/* ---- launch_end.c: how a job ends before its ranks do ---- */

enum { LAUNCH_GRACE_MS = 5000 }; /* from SIGTERM to SIGKILL */

/* Sends SIGTERM, once. */
void launcher_stop(struct launcher *launcher);
/* Prints a sentence on stderr, unless the launcher is quiet. */
void launcher_say(const struct launcher *launcher, const char *text);
/* The first failure decides the status, and ends the job. */
void launcher_fail(struct launcher *launcher, int code, const char *sentence);
void launcher_signal(const struct launcher *launcher, int signal_number);

/* A part tells its ranks' lines and failures to the launcher of the whole job. */
bool part_line(void *context, int rank, bool is_error, const char *text, size_t length);
void part_failed(int code, const char *sentence);
/* The launcher of the whole job orders its part. A host that takes no order is cut off, and ends its ranks then. */
void cluster_order(struct child *child, const char *text, size_t length);
void cluster_cut_off(struct child *child);
void cluster_signal(struct child *child, int signal_number);

/* ---- launch_cluster.c: children that are launchers of other hosts ---- */

bool cluster_start(struct launcher *launcher);
bool cluster_line(void *launcher, int host, bool is_error, const char *text, size_t length);
void cluster_ended(struct launcher *launcher, int host, int status);
void cluster_remind(struct launcher *launcher);

#endif
