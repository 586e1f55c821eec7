/* SPDX-License-Identifier: Apache-2.0 */
/* Some ranks send and receive, then all ranks reduce, several times: collectives are counted alike on all. `tutti run
 * -n 3 -- some`. */
#include "tutti/tutti.h"

#include <stdint.h>
#include <stdio.h>

#define ROUNDS 5

static int failed(tutti_result_t result, const char *what)
{
    if (result != TUTTI_SUCCESS)
        fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    return result != TUTTI_SUCCESS;
}

/* From rank 0 to rank 1; the others do nothing. */
static tutti_result_t pass(tutti_comm_t comm, int rank, int32_t *word)
{
    if (rank == 0)
        return tutti_send(word, 1, TUTTI_INT32, 1, comm, NULL);
    return rank == 1 ? tutti_recv(word, 1, TUTTI_INT32, 0, comm, NULL) : TUTTI_SUCCESS;
}

int main(void)
{
    tutti_comm_t comm;
    int rank, count;
    if (failed(tutti_comm_init_from_env(&comm, NULL), "init") || failed(tutti_comm_rank(comm, &rank), "rank") ||
        failed(tutti_comm_count(comm, &count), "count"))
        return 1;
    for (int32_t round = 0; round < ROUNDS; round++) {
        int32_t word = rank == 0 ? round : -1, sum = 0, one = 1;
        if (failed(pass(comm, rank, &word), "pass") ||
            failed(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, NULL), "allreduce") ||
            failed(tutti_comm_synchronize(comm), "synchronize"))
            return 1;
        if (sum != count || word != (rank <= 1 ? round : -1)) {
            fprintf(stderr, "rank %d, round %d: sum %d, word %d\n", rank, (int)round, (int)sum, (int)word);
            return 1;
        }
    }
    return failed(tutti_comm_destroy(comm), "destroy");
}
