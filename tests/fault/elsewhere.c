/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elsewhere TRANSPORT: after a death one rank waits in a collective that another one had finished. It waits for a third
 * rank, which has been refused a message, leaves that communicator out and waits for the first in another one. Neither
 * may wait for ever: a rank that has been told of the failure comes no more, and the others hear that.
 */
#include "family.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAITS, AHEAD, ELSEWHERE, VICTIM, RANKS };

static tutti_result_t finish(tutti_result_t issued, tutti_comm_t comm)
{
    return issued == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : issued;
}

static tutti_result_t reduce(tutti_comm_t comm)
{
    int one = 1, sum;
    return finish(tutti_reduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, WAITS, comm, NULL), comm);
}

static void await(const _Atomic uint64_t *issued)
{
    while (!atomic_load(issued))
        family_nap(1);
}

static void await_failure(tutti_comm_t comm)
{
    tutti_result_t state = TUTTI_SUCCESS;
    while (tutti_comm_get_async_error(comm, &state) == TUTTI_SUCCESS && state == TUTTI_SUCCESS)
        family_nap(1);
}

static tutti_result_t play(struct family *family, int rank, tutti_comm_t comm, tutti_comm_t other)
{
    int word = 0;
    if (rank == ELSEWHERE) {
        await_failure(comm);
        family->report[rank].went_on =
            finish(tutti_send(&word, 1, TUTTI_INT32, WAITS, comm, NULL), comm) != TUTTI_SUCCESS &&
            finish(tutti_barrier(other, NULL), other) == TUTTI_SUCCESS;
        return TUTTI_REMOTE_ERROR;
    }
    tutti_result_t result = reduce(comm);
    atomic_fetch_add(&family->report[rank].issued, 1);
    if (rank == WAITS) {
        family->report[rank].went_on = finish(tutti_barrier(other, NULL), other) == TUTTI_SUCCESS;
        return result;
    }
    if (rank == VICTIM) {
        await(&family->report[AHEAD].issued);
        raise(SIGKILL);
    }
    if (result == TUTTI_SUCCESS) /* and it is the first that misses the dead one */
        result = finish(tutti_recv(&word, 1, TUTTI_INT32, VICTIM, comm, NULL), comm);
    return result;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t other;
    if (tutti_comm_split(comm, rank % 2, rank, &other, NULL) != TUTTI_SUCCESS) /* WAITS and ELSEWHERE in one half */
        exit(5);
    family_end(family, rank, comm, play(family, rank, comm, other));
    tutti_comm_destroy(other);
    tutti_comm_destroy(comm);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    struct family *family = family_start(RANKS, VICTIM, 0, 1, work);
    bool right = family_wait(family, 60);
    for (int rank = 0; rank < VICTIM; rank++) {
        const struct family_report *report = &family->report[rank];
        if (report->result == TUTTI_REMOTE_ERROR && (rank == AHEAD || report->went_on))
            continue;
        fprintf(stderr, "rank %d: result %d, %s\n", rank, report->result,
                report->went_on ? "went on" : "did not go on");
        right = false;
    }
    family_free(family);
    return !right;
}
