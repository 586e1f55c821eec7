/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank gives a communicator up when its last operation is done, as some programs end. What it has finished must end
 * well on the others, however late they are; what comes behind it fails. `tutti run -n 3 -- behind`
 */
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE 300000

static int rank, nranks, wrong;
static int in[LARGE], out[LARGE];

static void expect(bool right, int round, const char *what, tutti_comm_t comm)
{
    if (right)
        return;
    wrong++;
    fprintf(stderr, "rank %d, round %d: %s: %s\n", rank, round, what, tutti_get_last_error(comm));
}

/* One that gives up, and one that is late: with a call, or with waiting. */
static void play(int round, tutti_comm_t comm)
{
    static const size_t counts[] = {1, 1000, LARGE};
    bool quits = rank == round % nranks, late = rank == (round / nranks + 1) % nranks;
    size_t count = counts[round / 2 % 3];
    tutti_result_t result = tutti_allreduce(in, out, count, TUTTI_INT32, TUTTI_SUM, comm, NULL), state = TUTTI_SUCCESS;
    if (late && round / 2 % 2)
        usleep(3000);
    if (result == TUTTI_SUCCESS && round % 2)
        result = tutti_broadcast(out, out, count, TUTTI_INT32, round % nranks, comm, NULL);
    if (late)
        usleep(3000);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    expect(result == TUTTI_SUCCESS, round, "an operation that the quitter had finished", comm);
    for (size_t i = 0; i < count && !wrong; i += 1 + count / 50)
        expect(out[i] == nranks * (nranks + 1) / 2, round, "wrong data", comm);
    if (quits)
        tutti_comm_abort(comm);
    while (state == TUTTI_SUCCESS)
        if (tutti_comm_get_async_error(comm, &state) != TUTTI_SUCCESS)
            break;
    expect(tutti_allreduce(in, out, 1, TUTTI_INT32, TUTTI_SUM, comm, NULL) == TUTTI_REMOTE_ERROR, round,
           "a call behind the end", comm);
    expect(strstr(tutti_get_last_error(comm), "aborted by rank") != NULL, round, "the reason", comm);
}

int main(void)
{
    int rounds = getenv("TUTTI_TEST_QUICK") ? 30 : 150;
    tutti_comm_t world, comm;
    if (tutti_comm_init_from_env(&world, NULL) != TUTTI_SUCCESS)
        return 1;
    tutti_comm_rank(world, &rank);
    tutti_comm_count(world, &nranks);
    for (int i = 0; i < LARGE; i++)
        in[i] = rank + 1;
    for (int round = 0; round < rounds && !wrong; round++) {
        if (tutti_comm_duplicate(world, &comm, NULL) != TUTTI_SUCCESS)
            return 1;
        play(round, comm);
        tutti_comm_destroy(comm);
    }
    tutti_comm_destroy(world);
    return wrong != 0;
}
