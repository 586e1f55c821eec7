/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the ranks of a job and stays with them until every process of theirs is gone.
 *
 * On several hosts the launcher's children are not ranks but launchers, one a host, each with the ranks of its host
 * (its part). Both launchers speak in lines over the standard input and output of the part.
 *
 * Each rank leads a process group. It is killed when this process dies: directly (PR_SET_PDEATHSIG), and its group by a
 * keeper process that notices. Descendants that leave the group are adopted (PR_SET_CHILD_SUBREAPER) and killed at the
 * end.
 */
#ifndef TUTTI_CLI_LAUNCH_H
#define TUTTI_CLI_LAUNCH_H

#include "hosts.h"

#include "base/net.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEETING_PORTS 8

/* Where ranks meet; what every rank of the job is told. */
struct meeting {
    char id[NET_TEXT]; /* address:port of the first communicator that ranks make by it; the k-th has port + k - 1 */
    char nonce[33];
    char address[NET_TEXT]; /* and a port, for programs of torch.distributed */
    int port;
    /* sockets that keep ports from being given to others: those of the first communicators, and torch.distributed's */
    int held[MEETING_PORTS + 1];
};

/* The ranks of one host, in a job of several. */
struct part {
    char host[HOST_NAME]; /* as the job calls it */
    int first, total;     /* the first of our ranks, and the number of all hosts' */
    struct meeting meeting;
};

/* How a launcher reaches the others. */
struct cluster {
    const struct hosts *hosts;
    char **reach;        /* the words before the host's name */
    bool ssh;            /* they are the usual ones: localhost needs none */
    const char *program; /* the path of tutti on the hosts */
};

/* A whole line without its newline, or the unfinished last one. False: the line is lost, errno says why. */
typedef bool (*launch_line_fn)(void *context, int rank, bool is_error, const char *text, size_t length);

struct launch {
    const char *command; /* whose name messages carry: "run" */
    int size;            /* of ranks; of hosts, for a cluster */
    char **argv;
    int timeout_s;    /* 0: none */
    bool tag;         /* false: ranks write straight to our stdout and stderr */
    bool bind;        /* rank r runs on the r-th of the allowed processors, modulo their number */
    bool quiet;       /* say nothing on stderr about how ranks ended */
    char *const *set; /* `sets` strings NAME=VALUE for the ranks' environment */
    int sets;
    launch_line_fn line; /* gets the output instead of stdout and stderr; NULL: they are written there with "[rank] " */
    void *context;
    const struct cluster *cluster; /* children are launchers of other hosts; NULL: they are ranks */
    const struct part *part; /* we are such a launcher, and are told what to do on standard input; NULL: we are not */
};

/* Runs the job. Returns 0, or the first failing rank's code: 128 + signal if killed; 124 after timeout_s; 126 or 127 if
 * the program cannot be started; 1 if the system refused. */
int launch(const struct launch *job);

/* Does each of `size` ranks get a processor of its own? Measurements bind then. */
bool launch_fits(int size);

/* What to do about a program that could not be started, errno being `why`: ": sentence", or nothing. */
void launch_hint(const char *program, int why, char *out, size_t room);

/* ---- parts ---- */

struct stream {
    int fd; /* -1: closed */
    char *text;
    size_t used, room;
};

/* Reads what is there and hands on whole lines; at the end of file the rest, and closes. False: no
 * memory, or our own output is closed; errno says which. */
bool stream_read(struct stream *stream, const struct launch *job, int rank, bool is_error);
void stream_close(struct stream *stream);

/* A line with its tag, whole among others' lines. */
bool output_line(const char *tag, bool is_error, const char *text, size_t length);

/* near: all ranks are on this host. False: error_last() says why not. */
bool meeting_open(struct meeting *meeting, bool near);
void meeting_close(struct meeting *meeting);

struct keeper {
    pid_t pid;
    int fd;
};

bool keeper_start(struct keeper *keeper);
void keeper_add(const struct keeper *keeper, pid_t group);
void keeper_forget(const struct keeper *keeper, pid_t group);
void keeper_stop(struct keeper *keeper);

/* Forks and executes one rank, whose group the keeper keeps then. out and err get the read ends of its output (-1 when
 * not tagged). Returns its pid, or -errno. */
pid_t launch_spawn(const struct launch *job, const struct meeting *meeting, const struct keeper *keeper, int rank,
                   int stdin_fd, int *out, int *err);

/* One of a launcher's processes: a rank, or the launcher of a host. */
struct child {
    pid_t pid; /* 0: ended */
    struct stream streams[2];
    /* of a host's launcher: its standard input, and how far we came with it */
    int orders;
    enum { SILENT, ANSWERED, RUNNING, DONE } state;
    bool killed; /* was told to kill its ranks */
};

struct launcher {
    const struct launch *job;
    struct launch output; /* the job, with the reader of its children's lines */
    struct child *children;
    struct pollfd *polls;
    int alive, signals;   /* children that run; signalfd */
    int relay_fd;         /* writes to rank 0's stdin what comes from our terminal; -1: none */
    struct stream orders; /* from the launcher of the whole job, when we have a part of it */
    int code;             /* of the first rank that failed */
    bool stopping, broken;
    bool met;           /* a cluster's meeting is known */
    uint64_t kill_at;   /* when stopping turns into killing; UINT64_MAX: not set */
    uint64_t stop_at;   /* the job's time is over */
    uint64_t remind_at; /* a part says that it lives; a cluster's launcher says who has not answered */
    struct keeper keeper;
    struct meeting meeting;
};

/* The first failure decides the status, and ends the job. */
void launcher_fail(struct launcher *launcher, int code, const char *sentence);
void launcher_signal(const struct launcher *launcher, int signal_number);

/* The part's side. */
int cmd_run_part(void);
bool part_line(void *context, int rank, bool is_error, const char *text, size_t length);
void part_failed(int code, const char *sentence);
bool part_order(void *launcher, int rank, bool is_error, const char *text, size_t length);

/* The cluster's side. */
bool cluster_start(struct launcher *launcher);
bool cluster_line(void *launcher, int host, bool is_error, const char *text, size_t length);
void cluster_signal(struct child *child, int signal_number);
void cluster_ended(struct launcher *launcher, int host, int status);
void cluster_remind(struct launcher *launcher);

#endif
