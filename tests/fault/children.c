/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forked children of ranks. A rank that is killed is missed at once, whatever child of it lives. What a child does with
 * its parent's communicator is refused and harms nobody. A child can make communicators of its own, and children may
 * come at any time.
 */
#include "family.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures, life[2]; /* a pipe that the test holds open while the child of a killed rank is to live */
static bool copied;           /* this process is the child of one that had threads */

/* The leak checker asks here at exit. In a forked child the stacks of the parent's threads are gone, and with them what
 * only they knew. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return copied;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool sums(tutti_comm_t comm, int ranks)
{
    float one = 1, sum = 0;
    return tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) == TUTTI_SUCCESS &&
           tutti_comm_synchronize(comm) == TUTTI_SUCCESS && sum == (float)ranks;
}

static void fail(struct family *family, int rank, const char *what)
{
    struct family_report *report = &family->report[rank];
    if (report->result != TUTTI_SUCCESS)
        return;
    report->result = TUTTI_INTERNAL_ERROR;
    snprintf(report->sentence, sizeof report->sentence, "%s: %s", what, tutti_get_last_error(NULL));
}

/* Rank 1 is killed; its child, which was forked in the middle of traffic, lives on. */
static void miss_at_once(struct family *family, int rank, tutti_comm_t comm)
{
    if (!sums(comm, family->count))
        fail(family, rank, "before the fork");
    if (rank == family->victim) {
        if (fork() == 0) {
            char byte;
            close(life[1]);
            _exit((int)read(life[0], &byte, 1));
        }
        sums(comm, family->count);
        kill(getpid(), SIGKILL);
    }
    sums(comm, family->count);
    double begin = now();
    if (sums(comm, family->count))
        fail(family, rank, "an operation without the victim went well");
    if (now() - begin > 20)
        fail(family, rank, "the victim was missed late");
    tutti_comm_destroy(comm);
}

static int refused(tutti_result_t result)
{
    return result == TUTTI_INVALID_USAGE && strstr(tutti_get_last_error(NULL), "forked") ? 0 : 1;
}

/* Everything that a child might call. Returns how much was not refused. */
static int touch(tutti_comm_t comm, void *memory)
{
    tutti_result_t state;
    tutti_comm_t child;
    float one = 1, sum;
    int count, wrong = 0;
    wrong += refused(tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL));
    wrong += refused(tutti_send(&one, 1, TUTTI_FLOAT32, 0, comm, NULL));
    wrong += refused(tutti_comm_synchronize(comm));
    wrong += refused(tutti_comm_get_async_error(comm, &state));
    wrong += refused(tutti_comm_count(comm, &count));
    wrong += refused(tutti_comm_duplicate(comm, &child, NULL));
    wrong += refused(tutti_comm_abort(comm));
    wrong += refused(tutti_comm_finalize(comm));
    wrong += refused(tutti_comm_destroy(comm));
    wrong += tutti_mem_free(memory) != TUTTI_INVALID_ARGUMENT;
    return wrong;
}

/* Alone in the world. */
static int begin_anew(void)
{
    tutti_unique_id_t id;
    tutti_comm_t comm;
    if (tutti_get_unique_id(&id) != TUTTI_SUCCESS || tutti_comm_init_rank(&comm, 1, &id, 0, NULL) != TUTTI_SUCCESS)
        return 1;
    return !sums(comm, 1) || tutti_comm_destroy(comm) != TUTTI_SUCCESS;
}

static void fork_often(struct family *family, int rank, tutti_comm_t comm)
{
    void *memory;
    size_t length = 4u << 20;
    unsigned char *out = malloc(length), *in = malloc(length);
    int peer = (rank + 1) % family->count, from = (rank + family->count - 1) % family->count;
    if (tutti_mem_alloc(&memory, 4096) != TUTTI_SUCCESS)
        fail(family, rank, "memory");
    for (int round = 0; round < family->variant; round++) {
        int status = 0;
        memset(out, rank + round, length);
        tutti_group_start();
        tutti_send(out, length, TUTTI_UINT8, peer, comm, NULL);
        tutti_recv(in, length, TUTTI_UINT8, from, comm, NULL);
        tutti_group_end(); /* under way, and the engine's thread runs */
        pid_t child = fork();
        if (child == 0) {
            copied = true;
            alarm(30);
            int wrong = touch(comm, memory);
            exit(wrong ? wrong : round % 4 == rank ? 100 * begin_anew() : 0); /* handlers of exit() run, too */
        }
        if (tutti_comm_synchronize(comm) != TUTTI_SUCCESS || in[0] != (unsigned char)(from + round) ||
            in[length - 1] != in[0])
            fail(family, rank, "traffic beside a fork");
        if (waitpid(child, &status, 0) != child || status != 0) {
            fail(family, rank, "a child");
            snprintf(family->report[rank].sentence, 64, "a child ended with status %#x", (unsigned)status);
        }
        if (!sums(comm, family->count))
            fail(family, rank, "after a child");
    }
    tutti_mem_free(memory);
    tutti_comm_destroy(comm);
    free(out);
    free(in);
}

static void judge(struct family *family, int seconds, const char *what)
{
    bool right = family_wait(family, seconds);
    for (int rank = 0; rank < family->count; rank++) {
        struct family_report *report = &family->report[rank];
        right &= report->result == TUTTI_SUCCESS;
        if (report->result != TUTTI_SUCCESS)
            fprintf(stderr, "  rank %d: %s\n", rank, report->sentence);
    }
    failures += !right;
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    family_free(family);
}

int main(int argc, char **argv)
{
    bool quick = getenv("TUTTI_TEST_QUICK");
    if (argc < 2)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    if (pipe(life) != 0)
        return 2;
    judge(family_start(3, 1, 0, 1, miss_at_once), 60, "a killed rank whose child lives");
    close(life[0]);
    close(life[1]);
    judge(family_start(3, -1, quick ? 6 : 24, 1, fork_often), 120, "children of ranks at work");
    return failures != 0;
}
