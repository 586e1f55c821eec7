/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_rest RANKS HOSTS FROM TO: communicators that are suspended and resumed, while an allocation of the last rank's
 * GPU fails: its number FROM, then the next, and so on. Each rank hears of it, ends its communicator, and nothing of
 * the library runs on.
 */
#include "tutti/tutti.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS    8
#define PATIENCE 200 /* times 20 ms, until threads have ended */
#define ROUNDS   3

struct meeting {
    tutti_unique_id_t id;
    _Atomic int made;
};

/* Threads of the library. */
static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof name, file))
            count += strncmp(name, "tutti-", 6) == 0;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return count;
}

static tutti_result_t rest_and_wake(tutti_comm_t comm)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < ROUNDS && result == TUTTI_SUCCESS; i++) {
        result = tutti_comm_suspend(comm);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_resume(comm);
        if (result == TUTTI_SUCCESS)
            result = tutti_barrier(comm, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(comm);
    }
    return result;
}

/* 0: nothing failed, 1: something did, and nothing is left; 2: something is. */
static int run_rank(struct meeting *meeting, int ranks, int rank)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t comm = NULL;
    config.device = rank;
    while (!meeting->made)
        usleep(1000);
    tutti_result_t result = tutti_comm_init_rank(&comm, ranks, &meeting->id, rank, &config);
    if (result == TUTTI_SUCCESS)
        result = rest_and_wake(comm);
    if (result != TUTTI_SUCCESS && comm)
        tutti_comm_abort(comm);
    if (comm)
        tutti_comm_destroy(comm);
    int left = count_threads();
    for (int i = 0; left && i < PATIENCE; i++, left = count_threads())
        usleep(20000);
    if (left)
        fprintf(stderr, "rank %d has %d threads left after \"%s\"\n", rank, left, tutti_get_last_error(NULL));
    return left ? 2 : result != TUTTI_SUCCESS;
}

static void set_up(int ranks, int hosts, int rank, int fault)
{
    char text[40];
    snprintf(text, sizeof text, "host%d", rank * hosts / ranks);
    setenv("TUTTI_HOSTID", text, 1);
    snprintf(text, sizeof text, "cuMemAlloc_v2:%d", fault);
    if (rank == ranks - 1)
        setenv("TUTTI_EMULATED_FAULT", text, 1);
}

/* Ranks in which something failed; -1: one of them crashed, or something is left there. */
static int run_job(struct meeting *meeting, int ranks, int hosts, int fault)
{
    pid_t pid[RANKS];
    int failed = 0, wrong = 0;
    meeting->made = 0;
    for (int rank = 0; rank < ranks; rank++)
        if ((pid[rank] = fork()) == 0) {
            set_up(ranks, hosts, rank, fault);
            if (rank == 0)
                meeting->made = tutti_get_unique_id(&meeting->id) == TUTTI_SUCCESS;
            _exit(run_rank(meeting, ranks, rank));
        }
    for (int rank = 0; rank < ranks; rank++) {
        int status;
        waitpid(pid[rank], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
            fprintf(stderr, "allocation %d: rank %d ended with status %x\n", fault, rank, (unsigned)status);
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) > 1;
        failed += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }
    return wrong ? -1 : failed;
}

int main(int argc, char **argv)
{
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int right = 0, wrong = 0;
    if (argc < 5 || meeting == MAP_FAILED || atoi(argv[1]) > RANKS)
        return 2;
    setenv("TUTTI_DEBUG", "none", 1);
    for (int fault = atoi(argv[3]); fault <= atoi(argv[4]); fault++) {
        int failed = run_job(meeting, atoi(argv[1]), atoi(argv[2]), fault);
        wrong += failed < 0;
        right += failed == atoi(argv[1]);
    }
    printf("%d allocations failed for all ranks, %d wrong\n", right, wrong);
    return wrong || !right;
}
