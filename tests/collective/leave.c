/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 sends and ends at once, while a meeting point that nobody came to is still open: what it sent must arrive.
 * `tutti run -n 2 -- leave`, a few times: whether the connection stands before rank 0 ends is a matter of luck.
 */
#include "tutti/tutti.h"

#include <stdio.h>
#include <string.h>

static int failed(tutti_result_t result, const char *what)
{
    if (result != TUTTI_SUCCESS)
        fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    return result != TUTTI_SUCCESS;
}

int main(void)
{
    static const char text[] = "what was sent before the end";
    char got[sizeof text] = "";
    tutti_unique_id_t nobody_comes;
    tutti_comm_t comm;
    int rank;
    if (failed(tutti_comm_init_from_env(&comm, NULL), "init") || failed(tutti_comm_rank(comm, &rank), "rank"))
        return 1;
    if (rank == 0 && failed(tutti_get_unique_id(&nobody_comes), "unique id"))
        return 1;
    tutti_result_t moved = rank == 0 ? tutti_send(text, sizeof text, TUTTI_UINT8, 1, comm, NULL)
                                     : tutti_recv(got, sizeof got, TUTTI_UINT8, 0, comm, NULL);
    if (failed(moved, "move") || failed(tutti_comm_synchronize(comm), "synchronize"))
        return 1;
    if (rank == 1 && memcmp(got, text, sizeof text) != 0) {
        fprintf(stderr, "got \"%.*s\"\n", (int)sizeof got, got);
        return 1;
    }
    return failed(tutti_comm_destroy(comm), "destroy");
}
