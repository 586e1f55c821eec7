/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a launcher: the output of ranks, their meeting, their killer, and their start. */
#ifndef TUTTI_CLI_LAUNCH_PARTS_H
#define TUTTI_CLI_LAUNCH_PARTS_H

#include "cli/launch.h"

struct launch_stream {
    int fd; /* -1: closed */
    char *text;
    size_t used, room;
};

/* Reads what is there and hands on whole lines; at the end of file the rest, and closes. False: no memory, or our own
 * output is closed; errno says which. */
bool stream_read(struct launch_stream *stream, const struct launch *job, int rank, bool is_error);
void stream_close(struct launch_stream *stream);

/* A line with its tag, whole among others' lines. */
bool output_line(const char *tag, bool is_error, const char *text, size_t length);

/* near: all ranks are on this host. False: error_last() says why not. */
bool meeting_open(struct launch_meeting *meeting, bool near);
void meeting_close(struct launch_meeting *meeting);

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
pid_t launch_spawn(const struct launch *job, const struct launch_meeting *meeting, const struct keeper *keeper,
                   int rank, int stdin_fd, int *out, int *err);

#endif
