/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `unanswered shm|tcp`: three ranks, each of which receives what nobody sends and then destroys the communicator. No
 * two of them wait for each other, and none has left: all must hear of it all the same, and soon. A rank whose send is
 * only queued behind one of these waits is not blamed.
 */
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS   3
#define LATE_US 1500000 /* far more than the time after which ranks ask one another */

static int ends[2];

static int complain(int rank, const char *what, tutti_comm_t comm)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, tutti_get_last_error(comm));
    return 1;
}

static int receive_in_vain(int rank, tutti_comm_t parent)
{
    tutti_comm_t comm;
    int one = 1, sum = 0, never = 0;
    char said[1200];
    if (tutti_comm_duplicate(parent, &comm, NULL) != TUTTI_SUCCESS)
        return complain(rank, "duplicate", NULL);
    /* a rank that comes late to its call hears it there already */
    tutti_result_t result = tutti_recv(&never, 1, TUTTI_INT32, (rank + RANKS - 1) % RANKS, comm, NULL);
    snprintf(said, sizeof said, "%s", result == TUTTI_SUCCESS ? "" : tutti_get_last_error(comm));
    tutti_result_t end = tutti_comm_destroy(comm);
    if ((result == TUTTI_SUCCESS && end == TUTTI_SUCCESS) || never)
        return complain(rank, "what was never sent has come", NULL);
    if (result == TUTTI_SUCCESS)
        snprintf(said, sizeof said, "%s", tutti_get_last_error(NULL));
    /* a rank that comes to destroy late may hear before that the three wait in a circle */
    if (!strstr(said, "without the call that rank") && !strstr(said, "none of them can go on"))
        return complain(rank, "another reason", NULL);
    if (tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, parent, NULL) != TUTTI_SUCCESS ||
        tutti_comm_synchronize(parent) != TUTTI_SUCCESS)
        return complain(rank, "the parent", parent);
    return sum == RANKS ? 0 : complain(rank, "a wrong sum", NULL);
}

/* Rank 0's send to rank 2 comes behind its receive from rank 1, who is late; it waits for both in the end of the
 * communicator. */
static int send_behind(int rank, tutti_comm_t parent)
{
    tutti_comm_t comm;
    int value = 7, got = 0;
    tutti_result_t result = tutti_comm_duplicate(parent, &comm, NULL);
    if (rank == 0 && result == TUTTI_SUCCESS)
        result = tutti_recv(&got, 1, TUTTI_INT32, 1, comm, NULL);
    if (rank == 0 && result == TUTTI_SUCCESS)
        result = tutti_send(&value, 1, TUTTI_INT32, 2, comm, NULL);
    if (rank == 1)
        usleep(LATE_US);
    if (rank == 1 && result == TUTTI_SUCCESS)
        result = tutti_send(&value, 1, TUTTI_INT32, 0, comm, NULL);
    if (rank == 2 && result == TUTTI_SUCCESS)
        result = tutti_recv(&got, 1, TUTTI_INT32, 0, comm, NULL);
    if (result != TUTTI_SUCCESS || tutti_comm_destroy(comm) != TUTTI_SUCCESS)
        return complain(rank, "a send behind a receive", NULL);
    return got == (rank == 1 ? 0 : value) ? 0 : complain(rank, "wrong data", NULL);
}

static int run(int rank)
{
    tutti_unique_id_t id;
    tutti_comm_t comm;
    alarm(60); /* far more than it may take */
    for (int i = 0; rank == 0 && i < RANKS; i++)
        if ((i == 0 && tutti_get_unique_id(&id) != TUTTI_SUCCESS) ||
            write(ends[1], &id, sizeof id) != (ssize_t)sizeof id)
            return complain(rank, "id", NULL);
    if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id ||
        tutti_comm_init_rank(&comm, RANKS, &id, rank, NULL) != TUTTI_SUCCESS)
        return complain(rank, "init", NULL);
    int wrong = receive_in_vain(rank, comm) + send_behind(rank, comm);
    return tutti_comm_destroy(comm) == TUTTI_SUCCESS ? wrong : complain(rank, "destroy", NULL);
}

int main(int argc, char **argv)
{
    pid_t pid[RANKS];
    int wrong = 0, status;
    if (argc == 2)
        setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    if (pipe(ends) != 0)
        return 1;
    for (int rank = 0; rank < RANKS; rank++)
        if ((pid[rank] = fork()) == 0)
            _exit(run(rank));
    for (int rank = 0; rank < RANKS; rank++)
        wrong += waitpid(pid[rank], &status, 0) != pid[rank] || status != 0;
    printf("%s\n", wrong ? "wrong" : "right");
    return wrong != 0;
}
