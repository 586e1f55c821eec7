/* SPDX-License-Identifier: Apache-2.0 */
/* A program of a user of the installed library: each rank adds its number plus one. */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
    tutti_comm_t comm;
    int rank;
    if (tutti_comm_init_from_env(&comm, NULL) || tutti_comm_rank(comm, &rank))
        return fprintf(stderr, "%s\n", tutti_get_last_error(NULL)), 1;
    float mine = (float)rank + 1, sum = 0;
    if (tutti_allreduce(&mine, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) || tutti_comm_synchronize(comm))
        return fprintf(stderr, "%s\n", tutti_get_last_error(comm)), 1;
    printf("sum %g\n", (double)sum);
    return tutti_comm_destroy(comm);
}
