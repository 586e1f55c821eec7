/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of the tests of tutti trace: processes with black boxes that play scenes, and the program's output. */
#ifndef TUTTI_CLI_TRACE_STAGE_H
#define TUTTI_CLI_TRACE_STAGE_H

#include "base/param.h"
#include "trace/trace.h"
#include "wire/boxfile.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STAGE_RANKS  8
#define STAGE_WORLD  0xabcdefull
#define STAGE_OUTPUT (1 << 20)

extern char stage_dir[64], stage_output[STAGE_OUTPUT];
extern const struct wire_name stage_ring;
extern pid_t stage_ranks[STAGE_RANKS];

typedef void (*stage_scene)(struct trace *trace, struct trace_comm *world, int rank);

int stage_make_dir(void **state);
void stage_kill(int rank);
int stage_remove_dir(void **state);
void stage_play(int n, stage_scene scene);
struct trace_op *stage_call(struct trace_comm *comm, uint64_t seq);
void stage_wait(struct trace_comm *comm, uint64_t seq, int peer);
void stage_calls(struct trace_comm *comm, uint64_t from, uint64_t to);
/* Runs `tutti COMMAND ARGUMENTS` and keeps what it prints in stage_output. Its exit status. */
int stage_command(int (*command)(int argc, char **argv), const char *arguments);
/* The same with `tutti trace`. */
int stage_run(const char *arguments);

#define assert_shows(text)                                                                                             \
    do {                                                                                                               \
        if (!strstr(stage_output, text))                                                                               \
            fail_msg("\"%s\" is not in:\n%s", text, stage_output);                                                     \
    } while (0)
#define assert_hides(text)                                                                                             \
    do {                                                                                                               \
        if (strstr(stage_output, text))                                                                                \
            fail_msg("\"%s\" is in:\n%s", text, stage_output);                                                         \
    } while (0)

#endif
