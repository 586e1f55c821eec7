/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks that share one processor. Rank 0 waits for rank 1 and gives the processor away 40 times, which may take
 * seconds if other processes compute there. Its black box must tell when the wait was over. Rank 1 comes in the 40th
 * yield, by a function that stands in for the C library's.
 */
#include "wire/boxfile.h"
#include "wire/boxread.h"

#include "tutti/tutti.h"

#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { YIELDS = 40, CALLS = 6 }; /* fewer yields than the library makes between two looks at the clock */

static struct shared {
    tutti_unique_id_t id;
    sem_t called, come;
} * shared;

static _Thread_local bool counts;
static int yields;
static char folder[] = "/tmp/tutti-yields-XXXXXX";

EXPORT int sched_yield(void)
{
    if (counts && ++yields == YIELDS) {
        sem_post(&shared->come);
        while (sem_wait(&shared->called) != 0)
            ;
    }
    return (int)syscall(SYS_sched_yield);
}

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    exit(1);
}

static void share_a_processor(void)
{
    cpu_set_t all, one;
    int first = 0;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        exit(77);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        exit(77);
}

/* Of the newest call: it has an end, as its wait was noted. */
static bool has_end(uint64_t count)
{
    struct boxfile name = {(uint32_t)geteuid(), (uint32_t)getpid(), boxfile_start_time((uint32_t)getpid()), 0};
    struct blackbox *box;
    char base[96], path[300];
    boxfile_name(&name, base, sizeof base);
    snprintf(path, sizeof path, "%s/%s", folder, base);
    must(blackbox_read(path, &box), path);
    const struct blackbox_comm *comm = &box->comms[0];
    const struct blackbox_op *last = comm->op_count ? &comm->ops[comm->op_count - 1] : NULL;
    bool right = last && last->count == count && last->state == WIRE_OP_DONE && last->end > last->begin;
    blackbox_free(box);
    return right;
}

static int take_part(int rank)
{
    float sent[CALLS + 1] = {1}, got[CALLS + 1];
    tutti_comm_t comm;
    must(tutti_comm_init_rank(&comm, 2, &shared->id, rank, NULL), "init");
    for (size_t count = 1; count <= CALLS; count++) {
        bool last = count == CALLS;
        if (last && rank == 1)
            while (sem_wait(&shared->come) != 0)
                ;
        must(tutti_allreduce(sent, got, count, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), "allreduce");
        if (last && rank == 1)
            sem_post(&shared->called);
        counts = last && rank == 0;
        must(tutti_comm_synchronize(comm), "synchronize");
        counts = false;
    }
    bool right = rank || has_end(CALLS);
    must(tutti_comm_destroy(comm), "destroy");
    if (!right)
        fprintf(stderr, "a wait of %d yields has no end in the black box\n", yields);
    return !right;
}

int main(void)
{
    int status, first;
    setenv("TUTTI_TRANSPORT", "shm", 1);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(folder) || sem_init(&shared->called, 1, 0) || sem_init(&shared->come, 1, 0))
        return 2;
    setenv("TUTTI_TRACE_DIR", folder, 1);
    share_a_processor();
    pid_t other = fork();
    if (other == 0) {
        alarm(100);
        /* the parent makes the id */
        while (sem_wait(&shared->come) != 0)
            ;
        exit(take_part(1));
    }
    alarm(100);
    must(tutti_get_unique_id(&shared->id), "id");
    sem_post(&shared->come);
    first = take_part(0);
    waitpid(other, &status, 0);
    rmdir(folder);
    return first || status;
}
