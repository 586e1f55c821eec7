/* SPDX-License-Identifier: Apache-2.0 */
/* counts: two ranks move a known number of bytes and end without a word, so that their black boxes stay. */
#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL 8
#define LARGE (4 << 20)
#define TIMES 10

static void need(tutti_result_t result)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "%s\n", tutti_get_last_error(NULL));
    exit(1);
}

/* From rank 0 to rank 1. */
static void pass(tutti_comm_t comm, int rank, void *data, size_t bytes)
{
    need(rank ? tutti_recv(data, bytes, TUTTI_UINT8, 0, comm, NULL)
              : tutti_send(data, bytes, TUTTI_UINT8, 1, comm, NULL));
    need(tutti_comm_synchronize(comm));
}

int main(void)
{
    static char data[LARGE];
    tutti_comm_t comm, child;
    int rank, one = 1, sum = 0;
    need(tutti_comm_init_from_env(&comm, NULL));
    need(tutti_comm_rank(comm, &rank));
    for (int i = 0; i < TIMES; i++) {
        pass(comm, rank, data, SMALL);
        if (i == 0 && strcmp(getenv("TUTTI_TRANSPORT"), "verbs") == 0) /* whose lanes come up later than those of TCP */
            usleep(500000);
    }
    pass(comm, rank, data, LARGE);
    need(tutti_comm_duplicate(comm, &child, NULL));
    need(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, child, NULL));
    need(tutti_comm_synchronize(child));
    need(tutti_comm_destroy(child));
    need(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm,
                         NULL)); /* nobody leaves before the other is here */
    need(tutti_comm_synchronize(comm));
    need(tutti_comm_abort(comm));
    _exit(0);
}
