/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the local ranks of a job and stays with them until every process of theirs is gone.
 *
 * Each rank leads a process group. It is killed when this process dies: directly (PR_SET_PDEATHSIG), and its group by a
 * keeper process that notices. Descendants that leave the group are adopted (PR_SET_CHILD_SUBREAPER) and killed at the
 * end.
 */
#ifndef TUTTI_CLI_LAUNCH_H
#define TUTTI_CLI_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A whole line without its newline, or the unfinished last one. */
typedef void (*launch_line_fn)(void *context, int rank, bool is_error, const char *text, size_t length);

struct launch {
    const char *command; /* whose name messages carry: "run" */
    int size;
    char **argv;
    int timeout_s;    /* 0: none */
    bool tag;         /* false: ranks write straight to our stdout and stderr */
    bool bind;        /* rank r runs on the r-th of the allowed processors, modulo their number */
    bool quiet;       /* say nothing on stderr about how ranks ended */
    char *const *set; /* `sets` strings NAME=VALUE for the ranks' environment */
    int sets;
    launch_line_fn line; /* gets the output instead of stdout and stderr; NULL: they are written there with "[rank] " */
    void *context;
};

/* Runs the job. Returns 0, or the first failing rank's code: 128 + signal if killed; 124 after timeout_s; 126 or 127 if
 * the program cannot be started; 1 if the system refused. */
int launch(const struct launch *job);

/* Does each of `size` ranks get a processor of its own? Measurements bind then. */
bool launch_fits(int size);

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

/* What every rank of the job is told. */
struct meeting {
    char id[32]; /* 127.0.0.1:port */
    char nonce[33];
    int port;    /* for programs of torch.distributed */
    int held[2]; /* sockets that keep the two ports from being given to others */
};

bool meeting_open(struct meeting *meeting);
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

#endif
