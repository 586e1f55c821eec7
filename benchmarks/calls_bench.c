/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small calls of two ranks in an order that is always the same, so that their instructions can be counted:
 * instructions.py does. One rank comes first and finds the other missing, the other comes last; between the calls pipes
 * tell who is to go on. Each thing that is counted has a function of its own: first_CALL, last_CALL and wait_CALL.
 *
 * `tutti run -n RANKS -- calls-bench crowd`: what an allreduce of 8 bytes costs a rank where ranks share processors:
 * switches and processor's time, which tell more than its duration on a machine that does other things.
 */
#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM  16 /* a plan is worked out once, and pages are touched */
#define TIMES 64

static tutti_comm_t comm;
static int rank, ends[2][2];
static double in[16], out[16];

static void must(tutti_result_t result)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "calls-bench: rank %d: %s\n", rank, tutti_get_last_error(comm));
    _exit(1);
}

static void tell(void)
{
    if (write(ends[rank][1], "", 1) != 1)
        _exit(2);
}

static void await(void)
{
    char byte;
    if (read(ends[1 - rank][0], &byte, 1) != 1)
        _exit(3);
}

#define STEP(name, what)                                                                                               \
    static __attribute__((noinline)) void name(void)                                                                   \
    {                                                                                                                  \
        must(what);                                                                                                    \
        __asm__ volatile("" ::: "memory"); /* no tail call: what is counted returns here */                            \
    }
#define MEASURED(name, by_first, by_last)                                                                              \
    STEP(warm_first_##name, by_first)                                                                                  \
    STEP(warm_last_##name, by_last)                                                                                    \
    STEP(first_##name, by_first)                                                                                       \
    STEP(last_##name, by_last)                                                                                         \
    STEP(wait_##name, tutti_comm_synchronize(comm))                                                                    \
    STEP(last_wait_##name, tutti_comm_synchronize(comm))
#define BOTH(name, what) MEASURED(name, what, what)

BOTH(allreduce, tutti_allreduce(in, out, 1, TUTTI_FLOAT64, TUTTI_SUM, comm, NULL))
BOTH(reduce, tutti_reduce(in, out, 1, TUTTI_FLOAT64, TUTTI_SUM, 1, comm, NULL))
BOTH(broadcast, tutti_broadcast(in, out, 1, TUTTI_FLOAT64, 0, comm, NULL))
BOTH(allgather, tutti_allgather(in, out, 1, TUTTI_FLOAT64, comm, NULL))
BOTH(alltoall, tutti_alltoall(in, out, 1, TUTTI_FLOAT64, comm, NULL))
BOTH(barrier, tutti_barrier(comm, NULL))
MEASURED(send_recv, tutti_send(in, 1, TUTTI_FLOAT64, 1, comm, NULL), tutti_recv(out, 1, TUTTI_FLOAT64, 0, comm, NULL))
MEASURED(recv_send, tutti_recv(out, 1, TUTTI_FLOAT64, 1, comm, NULL), tutti_send(in, 1, TUTTI_FLOAT64, 0, comm, NULL))

static tutti_result_t exchange(void)
{
    must(tutti_group_start());
    must(tutti_send(in, 1, TUTTI_FLOAT64, 1 - rank, comm, NULL));
    must(tutti_recv(out, 1, TUTTI_FLOAT64, 1 - rank, comm, NULL));
    return tutti_group_end();
}
BOTH(exchange, exchange())

typedef void step(void);

static void come_first(step *call, step *wait, int times)
{
    for (int i = 0; i < times; i++) {
        call();
        tell();
        await();
        wait();
        tell();
    }
}

static void come_last(step *call, step *wait, int times)
{
    for (int i = 0; i < times; i++) {
        await();
        call();
        wait();
        tell();
        await();
    }
}

static void warm_wait(void)
{
    must(tutti_comm_synchronize(comm));
}

static void run(step *warm_first, step *warm_last, step *first, step *last, step *wait, step *last_wait)
{
    if (rank == 0) {
        come_first(warm_first, warm_wait, WARM);
        come_first(first, wait, TIMES);
    } else {
        come_last(warm_last, warm_wait, WARM);
        come_last(last, last_wait, TIMES);
    }
}
#define RUN(name) run(warm_first_##name, warm_last_##name, first_##name, last_##name, wait_##name, last_wait_##name)

static int play(tutti_unique_id_t *id)
{
    if (rank == 0)
        must(tutti_get_unique_id(id));
    if (rank == 0 ? write(ends[0][1], id, sizeof *id) != (ssize_t)sizeof *id
                  : read(ends[0][0], id, sizeof *id) != (ssize_t)sizeof *id)
        _exit(4);
    must(tutti_comm_init_rank(&comm, 2, id, rank, NULL));
    RUN(allreduce);
    RUN(reduce);
    RUN(broadcast);
    RUN(allgather);
    RUN(alltoall);
    RUN(barrier);
    RUN(send_recv);
    RUN(recv_send);
    RUN(exchange);
    must(tutti_comm_destroy(comm));
    return 0;
}

static void allreduce_many(int times)
{
    for (int i = 0; i < times; i++) {
        must(tutti_allreduce(in, out, 1, TUTTI_FLOAT64, TUTTI_SUM, comm, NULL));
        must(tutti_comm_synchronize(comm));
    }
}

static double microseconds(struct timeval time)
{
    return (double)time.tv_sec * 1e6 + (double)time.tv_usec;
}

static int crowd(void)
{
    enum { CALLS = 4000, TURNS = 5 };
    must(tutti_comm_init_from_env(&comm, NULL));
    must(tutti_comm_rank(comm, &rank));
    for (int turn = 0; turn < TURNS; turn++) {
        struct rusage before, after;
        allreduce_many(CALLS / 10);
        getrusage(RUSAGE_SELF, &before);
        allreduce_many(CALLS);
        getrusage(RUSAGE_SELF, &after);
        double busy = microseconds(after.ru_utime) + microseconds(after.ru_stime) - microseconds(before.ru_utime) -
                      microseconds(before.ru_stime);
        long switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw;
        if (rank == 0)
            printf("%.2f switches, %.2f us of a processor\n", (double)switches / CALLS, busy / CALLS);
    }
    must(tutti_comm_destroy(comm));
    return 0;
}

int main(int argc, char **argv)
{
    tutti_unique_id_t id;
    int status = 0;
    if (argc > 1)
        return strcmp(argv[1], "crowd") ? 6 : crowd();
    setenv("TUTTI_TRANSPORT", "shm", 0);
    if (pipe(ends[0]) || pipe(ends[1]))
        return 5;
    pid_t child = fork();
    rank = child == 0;
    int code = play(&id);
    if (child)
        waitpid(child, &status, 0);
    return code || status;
}
