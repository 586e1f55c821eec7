/* SPDX-License-Identifier: Apache-2.0 */
/* Real processes with real black boxes, and tutti trace run on them. */
#include "cli/trace_stage.h"
#include "cli/cli.h"

#include <stdio.h>

const struct wire_name stage_ring = {"ring"};
char stage_dir[64], stage_output[STAGE_OUTPUT];
pid_t stage_ranks[STAGE_RANKS];

int stage_make_dir(void **state)
{
    strcpy(stage_dir, "/tmp/tutti-cli-trace-XXXXXX");
    assert_non_null(mkdtemp(stage_dir));
    setenv("TUTTI_TRACE_DIR", stage_dir, 1);
    param_reload();
    memset(stage_ranks, 0, sizeof stage_ranks);
    return 0;
}

void stage_kill(int rank)
{
    kill(stage_ranks[rank], SIGKILL);
    waitpid(stage_ranks[rank], NULL, 0);
    stage_ranks[rank] = 0;
}

int stage_remove_dir(void **state)
{
    char command[128];
    for (int i = 0; i < STAGE_RANKS; i++)
        if (stage_ranks[i])
            stage_kill(i);
    snprintf(command, sizeof command, "rm -r %s", stage_dir);
    return system(command);
}

/* Starts n processes, each with the communicator "world" and in the scene; returns when all have played it. They wait
 * to be killed. */
void stage_play(int n, stage_scene scene)
{
    int done[2], begin[2];
    char byte;
    assert_int_equal(pipe(done), 0);
    assert_int_equal(pipe(begin), 0);
    for (int rank = 0; rank < n; rank++) {
        stage_ranks[rank] = fork();
        if (stage_ranks[rank] == 0) {
            close(begin[1]); /* when all have, there is an end to read: they play at about the same time */
            if (read(begin[0], &byte, 1) != 0)
                _exit(1);
            struct trace *trace = trace_open();
            scene(trace, trace_comm_open(trace, STAGE_WORLD, "world", rank, n, n), rank);
            if (write(done[1], "x", 1) == 1)
                for (;;)
                    pause();
            _exit(1);
        }
    }
    close(begin[0]);
    close(begin[1]);
    for (int rank = 0; rank < n; rank++)
        assert_int_equal(read(done[0], &byte, 1), 1);
    close(done[0]);
    close(done[1]);
}

struct trace_op *stage_call(struct trace_comm *comm, uint64_t seq)
{
    struct trace_op *op = trace_op_begin(comm, seq, WIRE_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, -1, 100, 400);
    trace_op_start(op, &stage_ring, 6, 2);
    return op;
}

void stage_wait(struct trace_comm *comm, uint64_t seq, int peer)
{
    trace_op_wait(stage_call(comm, seq), 2, 1, peer);
}

void stage_calls(struct trace_comm *comm, uint64_t from, uint64_t to)
{
    for (uint64_t seq = from; seq < to; seq++)
        trace_op_end(comm, stage_call(comm, seq), TUTTI_SUCCESS);
}

int stage_command(int (*command)(int argc, char **argv), const char *arguments)
{
    char path[128], words[512], *argv[24] = {"command"};
    int argc = 1, status;
    snprintf(path, sizeof path, "%s/output", stage_dir);
    snprintf(words, sizeof words, "%s", arguments);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        close(fd);
        exit(command(argc, argv));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, stage_output, sizeof stage_output - 1);
    stage_output[got < 0 ? 0 : got] = 0;
    close(fd);
    unlink(path);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int stage_run(const char *arguments)
{
    return stage_command(cmd_trace, arguments);
}
