/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mismatch shm|tcp`: two ranks in different calls, for all pairs of those below. Both must hear of it, soon and by
 * name: by the calls themselves, by the barrier that follows, or at the latest when the communicator is destroyed.
 * Several pairs of processes share the work: most of it is waiting.
 */
#include "last.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 16
#define TEAMS 6

struct way {
    const char *name; /* as sentences have it; NULL: none need say it */
    const char *what;
    size_t count;
    tutti_type_t type;
    tutti_op_t op;
    int root;
};

static const struct way ways[] = {
    {"allreduce of 16 float, sum", "allreduce", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"allreduce of 9 float, sum", "allreduce", 9, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"allreduce of 16 int32, sum", "allreduce", COUNT, TUTTI_INT32, TUTTI_SUM, 0},
    {"allreduce of 16 float, max", "allreduce", COUNT, TUTTI_FLOAT32, TUTTI_MAX, 0},
    {NULL, "allreduce", 0, TUTTI_FLOAT32, TUTTI_SUM, 0}, /* is over before others begin */
    {"reduce of 16 float, sum, root 0", "reduce", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"reduce of 16 float, sum, root 1", "reduce", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 1},
    {"broadcast of 16 float, root 0", "broadcast", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"broadcast of 16 float, root 1", "broadcast", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 1},
    {"broadcast of 50000 float, root 0", "broadcast", 50000, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"allgather of 16 float", "allgather", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"reduce_scatter of 16 float, sum", "reduce_scatter", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {NULL, "scan", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {NULL, "scan", COUNT, TUTTI_FLOAT32, TUTTI_MAX, 0}, /* rank 0 only sends, and may be in the barrier already */
    {"alltoallv of float", "allgatherv", 5, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"alltoall of 16 float", "alltoall", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"alltoallv of float", "alltoallv", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"alltoallv of float", "alltoallv", 9, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"gather of 16 float, root 0", "gather", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"gather of 16 float, root 1", "gather", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 1},
    {"scatter of 16 float, root 0", "scatter", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {"scatter of 16 float, root 1", "scatter", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 1},
    {NULL, "send", COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {NULL, "send", 50000, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {NULL, "recv", 9, TUTTI_FLOAT32, TUTTI_SUM, 0},
    {NULL, "recv", 50000, TUTTI_INT32, TUTTI_SUM, 0},
};
#define WAYS ((int)(sizeof ways / sizeof *ways))

static char in[400000], out[400000];

static bool is(const struct way *way, const char *what)
{
    return strcmp(way->what, what) == 0;
}

static tutti_result_t call(const struct way *way, int rank, tutti_comm_t comm)
{
    size_t counts[2] = {way->count, way->count}, own[2] = {COUNT, COUNT}, offsets[2] = {0, 60000 / 2};
    size_t n = way->count;
    own[1 - rank] = counts[1 - rank];
    if (is(way, "allreduce"))
        return tutti_allreduce(in, out, n, way->type, way->op, comm, NULL);
    if (is(way, "reduce"))
        return tutti_reduce(in, out, n, way->type, way->op, way->root, comm, NULL);
    if (is(way, "broadcast"))
        return tutti_broadcast(in, out, n, way->type, way->root, comm, NULL);
    if (is(way, "allgather"))
        return tutti_allgather(in, out, n, way->type, comm, NULL);
    if (is(way, "reduce_scatter"))
        return tutti_reduce_scatter(in, out, n, way->type, way->op, comm, NULL);
    if (is(way, "scan"))
        return tutti_scan(in, out, n, way->type, way->op, comm, NULL);
    if (is(way, "allgatherv"))
        return tutti_allgatherv(in, out, counts, offsets, way->type, comm, NULL);
    if (is(way, "alltoall"))
        return tutti_alltoall(in, out, n, way->type, comm, NULL);
    if (is(way, "alltoallv"))
        return tutti_alltoallv(in, own, offsets, out, own, offsets, way->type, comm, NULL);
    if (is(way, "gather"))
        return tutti_gather(in, out, n, way->type, way->root, comm, NULL);
    if (is(way, "scatter"))
        return tutti_scatter(in, out, n, way->type, way->root, comm, NULL);
    return is(way, "send") ? tutti_send(in, n, way->type, 1 - rank, comm, NULL)
                           : tutti_recv(out, n, way->type, 1 - rank, comm, NULL);
}

static bool judge(int first, int second, int rank, tutti_result_t result, const char *said)
{
    const struct way *a = &ways[first], *b = &ways[second];
    bool named = strstr(said, "rank 0") && strstr(said, "rank 1");
    if (a->name && b->name)
        named = named && strstr(said, a->name) && strstr(said, b->name);
    /* A rank that only sends is through with both calls before the other, for which there was nothing to do, is in the
     * next: the other one hears. */
    if (result == TUTTI_SUCCESS && (rank ? !a->count : !b->count))
        return true;
    if (named && (result == TUTTI_INVALID_USAGE || result == TUTTI_REMOTE_ERROR))
        return true;
    fprintf(stderr, "rank 0: %s (%d), rank 1: %s (%d): rank %d got %d, \"%s\"\n", a->name ? a->name : a->what, first,
            b->name ? b->name : b->what, second, rank, result, said);
    return false;
}

static int now[3]; /* rank, pair */

static void too_long(int number)
{
    char text[80];
    (void)number;
    int length =
        snprintf(text, sizeof text, "rank %d waits for ever: rank 0 in %d, rank 1 in %d\n", now[0], now[1], now[2]);
    ssize_t ignored = write(STDERR_FILENO, text, (size_t)length);
    (void)ignored;
    _exit(8);
}

/* A message that is sent at once may come when both have destroyed the communicator. */
static bool fit(int first, int second)
{
    bool sends = (is(&ways[first], "send") && ways[first].count == COUNT) ||
                 (is(&ways[second], "send") && ways[second].count == COUNT);
    return first == second || (sends && (!ways[first].count || !ways[second].count));
}

/* A peer may find out that calls differed after this rank's last one has ended well. Then nobody has told this rank,
 * until it destroys the communicator: that tells it. */
static bool told_at_last(int rank, tutti_comm_t world)
{
    const struct way *scan = &ways[12], *send = &ways[22];
    tutti_comm_t comm;
    char said[1200] = "";
    if (tutti_comm_duplicate(world, &comm, NULL) != TUTTI_SUCCESS)
        return false;
    tutti_result_t result = call(rank ? send : scan, rank, comm);
    if (rank == 1)
        result = last_of(result, comm, said, sizeof said);
    else if (result == TUTTI_SUCCESS && (result = tutti_barrier(comm, NULL)) == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    if (tutti_barrier(world, NULL) != TUTTI_SUCCESS || tutti_comm_synchronize(world) != TUTTI_SUCCESS)
        return false;
    if (rank == 0) {
        usleep(50000); /* what rank 1 has found comes */
        tutti_result_t ended = tutti_comm_destroy(comm);
        result = result == TUTTI_SUCCESS ? ended : result;
        snprintf(said, sizeof said, "%s", tutti_get_last_error(NULL));
    }
    if (result != TUTTI_SUCCESS)
        return true;
    fprintf(stderr, "rank %d heard of a scan against a send neither in its calls nor at the end: %s\n", rank, said);
    return false;
}

/* The pairs of this team. */
static int run(int team, int rank, const tutti_unique_id_t *id)
{
    tutti_comm_t world, comm;
    signal(SIGALRM, too_long);
    int wrong = 0, step = getenv("TUTTI_TEST_QUICK") ? 7 : 1;
    if (tutti_comm_init_rank(&world, 2, id, rank, NULL) != TUTTI_SUCCESS)
        return 2;
    for (int pair = team * step; pair < WAYS * WAYS; pair += TEAMS * step) {
        int first = pair / WAYS, second = pair % WAYS;
        char said[1200] = "";
        if (fit(first, second) ||
            (first > second && (first + second) % 3)) /* of the same two the other way round, some */
            continue;
        memcpy(now, (int[]){rank, first, second}, sizeof now);
        alarm(30); /* no call may wait for ever */
        if (tutti_comm_duplicate(world, &comm, NULL) != TUTTI_SUCCESS)
            return 3;
        tutti_result_t result = last_of(call(&ways[rank ? second : first], rank, comm), comm, said, sizeof said);
        wrong += !judge(first, second, rank, result, said);
        if (tutti_barrier(world, NULL) != TUTTI_SUCCESS || tutti_comm_synchronize(world) != TUTTI_SUCCESS)
            return 4;
    }
    alarm(30);
    wrong += !told_at_last(rank, world);
    tutti_comm_destroy(world);
    return wrong != 0;
}

static int begin(int team, int rank, const int *ends)
{
    tutti_unique_id_t id;
    if (rank == 0 &&
        (tutti_get_unique_id(&id) != TUTTI_SUCCESS || write(ends[1], &id, sizeof id) != (ssize_t)sizeof id))
        return 5;
    if (rank == 1 && read(ends[0], &id, sizeof id) != (ssize_t)sizeof id)
        return 6;
    return run(team, rank, &id);
}

int main(int argc, char **argv)
{
    int ends[TEAMS][2], wrong = 0, status;
    if (argc == 2)
        setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    for (int team = 0; team < TEAMS; team++)
        for (int rank = 0; rank < 2; rank++) {
            if (rank == 0 && pipe(ends[team]) != 0)
                return 7;
            if (fork() == 0)
                _exit(begin(team, rank, ends[team]));
        }
    while (wait(&status) > 0) {
        if (status)
            fprintf(stderr, "a rank ended with status %#x\n", status);
        wrong += status != 0;
    }
    return wrong != 0;
}
