/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `circle shm|tcp`: three or four ranks in calls that do not fit, so that they wait for each other in a circle, no two
 * of them for one another: rank 0 makes one call, the others make another. All must hear of it within seconds, in a
 * sentence that names both calls. And calls that fit, in another order on each rank, end well, however late a rank is.
 */
#include "last.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 20
#define MOST  4

enum call { ALLREDUCE, BROADCAST, BARRIER, ALLTOALL, REDUCE, SCAN, RECEIVE, EXCHANGE };

/* As sentences have them. */
static const char *const names[] = {"allreduce", "broadcast", "barrier",        "alltoall",
                                    "reduce",    "scan",      "the receive of", "the receive of"};

struct scene {
    int nranks;
    enum call first, others; /* of rank 0, of the others */
};

static const struct scene scenes[] = {
    {3, RECEIVE, ALLREDUCE},  {4, RECEIVE, ALLREDUCE}, {4, RECEIVE, BARRIER}, {3, RECEIVE, REDUCE},
    {4, RECEIVE, SCAN},       {3, EXCHANGE, BARRIER},  {4, EXCHANGE, SCAN},   {3, EXCHANGE, ALLREDUCE},
    {3, ALLREDUCE, RECEIVE},  {4, BROADCAST, RECEIVE}, {3, BARRIER, RECEIVE}, {4, ALLTOALL, RECEIVE},
    {3, BROADCAST, EXCHANGE}, {4, BARRIER, EXCHANGE},  {3, RECEIVE, RECEIVE}, {4, RECEIVE, RECEIVE},
};
#define SCENES ((int)(sizeof scenes / sizeof *scenes))

static tutti_result_t make(enum call call, int rank, int nranks, tutti_comm_t comm)
{
    static int in[COUNT * MOST], out[COUNT * MOST];
    int before = (rank + nranks - 1) % nranks, behind = (rank + 1) % nranks;
    switch (call) {
    case ALLREDUCE:
        return tutti_allreduce(in, out, COUNT, TUTTI_INT32, TUTTI_SUM, comm, NULL);
    case BROADCAST:
        return tutti_broadcast(in, out, COUNT, TUTTI_INT32, 0, comm, NULL);
    case BARRIER:
        return tutti_barrier(comm, NULL);
    case ALLTOALL:
        return tutti_alltoall(in, out, COUNT, TUTTI_INT32, comm, NULL);
    case REDUCE:
        return tutti_reduce(in, out, COUNT, TUTTI_INT32, TUTTI_SUM, 0, comm, NULL);
    case SCAN:
        return tutti_scan(in, out, COUNT, TUTTI_INT32, TUTTI_SUM, comm, NULL);
    case RECEIVE:
        return tutti_recv(out, COUNT, TUTTI_INT32, before, comm, NULL);
    default:
        tutti_group_start();
        tutti_send(in, COUNT, TUTTI_INT32, behind, comm, NULL);
        tutti_recv(out, COUNT, TUTTI_INT32, before, comm, NULL);
        return tutti_group_end();
    }
}

/* Rank 0 waits for a message of the last rank, which is late, and the others for rank 0: no circle, as nobody keeps the
 * last rank from coming. */
static tutti_result_t fit(int rank, int nranks, tutti_comm_t comm)
{
    static char large[1 << 20];
    int other = nranks - 1;
    tutti_result_t result = TUTTI_SUCCESS;
    if (rank == other)
        sleep(4); /* longer than the time of patience */
    if (rank == 0)
        result = tutti_recv(large, sizeof large, TUTTI_UINT8, other, comm, NULL);
    if (rank == other)
        result = tutti_send(large, sizeof large, TUTTI_UINT8, 0, comm, NULL);
    for (int i = 0; i < 3 && result == TUTTI_SUCCESS; i++)
        result = make(i % 2 ? ALLREDUCE : ALLTOALL, rank, nranks, comm);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
}

/* A rank that had nothing to wait for in the call is in the barrier. */
static bool says(const char *said, enum call call)
{
    bool brief = call == BROADCAST || call == REDUCE || call == SCAN || call == EXCHANGE;
    return strstr(said, names[call]) || (brief && strstr(said, names[BARRIER]));
}

static int take_part(const struct scene *scene, int rank, int nranks, const tutti_unique_id_t *id)
{
    char said[1200] = "";
    tutti_comm_t comm;
    if (tutti_comm_init_rank(&comm, nranks, id, rank, NULL) != TUTTI_SUCCESS) {
        fprintf(stderr, "rank %d cannot join: %s\n", rank, tutti_get_last_error(NULL));
        return 1;
    }
    if (!scene) {
        tutti_result_t result = fit(rank, nranks, comm);
        if (result != TUTTI_SUCCESS)
            fprintf(stderr, "calls that fit: rank %d: %d, \"%s\"\n", rank, result, tutti_get_last_error(comm));
        return tutti_comm_destroy(comm) != TUTTI_SUCCESS || result != TUTTI_SUCCESS;
    }
    tutti_result_t result =
        last_of(make(rank ? scene->others : scene->first, rank, nranks, comm), comm, said, sizeof said);
    if ((result == TUTTI_INVALID_USAGE || result == TUTTI_REMOTE_ERROR) && says(said, scene->first) &&
        says(said, scene->others))
        return 0;
    fprintf(stderr, "rank 0: %s, others: %s: rank %d of %d got %d, \"%s\"\n", names[scene->first], names[scene->others],
            rank, nranks, result, said);
    return 1;
}

/* NULL: calls that fit. */
static int play(const struct scene *scene)
{
    int ends[2], wrong = 0, status, nranks = scene ? scene->nranks : MOST;
    pid_t pid[MOST];
    tutti_unique_id_t id;
    if (pipe(ends) != 0)
        return 1;
    for (int rank = 0; rank < nranks; rank++) {
        pid[rank] = fork();
        if (pid[rank] != 0)
            continue;
        alarm(100); /* far more than it may take */
        if (rank == 0 && tutti_get_unique_id(&id) != TUTTI_SUCCESS)
            _exit(2);
        for (int i = 1; rank == 0 && i < nranks; i++)
            if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id)
                _exit(2);
        if (rank && read(ends[0], &id, sizeof id) != (ssize_t)sizeof id)
            _exit(2);
        _exit(take_part(scene, rank, nranks, &id));
    }
    for (int rank = 0; rank < nranks; rank++)
        if (waitpid(pid[rank], &status, 0) != pid[rank] || status != 0) {
            wrong++;
            if (WIFSIGNALED(status))
                fprintf(stderr, "%s and %s: rank %d of %d waits for ever\n", scene ? names[scene->first] : "calls",
                        scene ? names[scene->others] : "calls that fit", rank, nranks);
        }
    return wrong;
}

int main(int argc, char **argv)
{
    int status, wrong = 0;
    pid_t pid[SCENES + 1];
    if (argc == 2)
        setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_TIMEOUT", "3s", 1); /* a circle lasts for this time, or 10 s: then nothing is on its way */
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    for (int i = 0; i <= SCENES; i++) { /* together: they wait most of the time */
        pid[i] = fork();
        if (pid[i] == 0)
            exit(play(i < SCENES ? &scenes[i] : NULL) != 0);
    }
    for (int i = 0; i <= SCENES; i++)
        wrong += waitpid(pid[i], &status, 0) != pid[i] || status != 0;
    printf("%d scenes, %d wrong\n", SCENES + 1, wrong);
    return wrong != 0;
}
