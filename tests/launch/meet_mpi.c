/* SPDX-License-Identifier: Apache-2.0 */
/* A rank whose program uses MPI too: before us, and again after us. */
#include "meet.h"

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, sum = 0, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int status = meet_and_report(" beside MPI");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != n * (n - 1) / 2) {
        printf("failed: MPI does not work any more\n");
        status = 1;
    }
    MPI_Finalize();
    return status;
}
