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

#include "cli/hosts.h"

#include "base/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEETING_PORTS 8

/* The meeting of the ranks, as every rank of the job learns it. */
struct launch_meeting {
    char id[NET_TEXT]; /* address:port of the first communicator that ranks make by it; the k-th has port + k - 1 */
    char nonce[33];
    char address[NET_TEXT]; /* and a port, for programs of torch.distributed */
    int port;
    /* sockets that keep ports from being given to others: those of the first communicators, and torch.distributed's */
    int held[MEETING_PORTS + 1];
};

/* The ranks of one host, in a job of several. */
struct part {
    char host[HOST_NAME]; /* its name in the job */
    int first, total;     /* the first of our ranks; the number of ranks of all hosts */
    struct launch_meeting meeting;
};

/* How a launcher reaches the others. */
struct cluster {
    const struct hosts *hosts;
    char **reach;        /* the words before the host's name */
    bool ssh;            /* the words are the usual ones: localhost needs none */
    const char *program; /* the path of tutti on the hosts */
};

/* Takes a whole line without its newline, or the unfinished last one. False: the line is lost, errno says why. */
typedef bool (*launch_line_fn)(void *context, int rank, bool is_error, const char *text, size_t length);

struct launch {
    const char *command; /* name in messages: "run" */
    int size;            /* of ranks; of hosts, for a cluster */
    char **argv;
    int timeout_s;    /* 0: none */
    bool tag;         /* false: ranks write straight to our stdout and stderr */
    bool bind;        /* rank r runs on the r-th allowed processor, modulo their number */
    bool quiet;       /* say nothing on stderr about how ranks ended */
    char *const *set; /* `sets` strings NAME=VALUE for the ranks' environment */
    int sets;
    launch_line_fn line; /* gets the output; NULL: it goes to stdout and stderr with "[rank] " */
    void *context;
    const struct cluster *cluster; /* children are launchers of other hosts; NULL: they are ranks */
    const struct part *part;       /* we are a launcher of that kind, with orders on standard input; NULL: we are not */
};

/* Runs the job. Returns 0, or the first failing rank's code, which is 128 + signal if killed. 124: timeout_s has
 * passed; 126 or 127: the program cannot be started; 1: the system refused. */
int launch(const struct launch *job);

/* The launcher of one host's ranks, in a job of several hosts. (launch_part.c) */
int cmd_run_part(void);

/* Does each of `size` ranks get a processor of its own? Measurements bind then. */
bool launch_fits(int size);

/* Advice about a program that could not be started, errno being `why`: ": sentence", or nothing. */
void launch_hint(const char *program, int why, char *out, size_t room);

#endif
