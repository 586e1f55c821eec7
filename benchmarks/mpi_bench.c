/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison program for MPI: mpicc -O2 mpi_bench.c bench.c. The library's name in the output comes from
 * BENCH_NAME. */
#include "bench.h"

#include <mpi.h>
#include <stdlib.h>

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static double maximum(double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

static void allreduce(const float *send, float *recv, size_t count)
{
    MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(const float *send, float *recv, size_t part)
{
    MPI_Allgather(send, (int)part, MPI_FLOAT, recv, (int)part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(const float *send, float *recv, size_t part)
{
    MPI_Reduce_scatter_block(send, recv, (int)part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(const float *send, float *recv, size_t part)
{
    MPI_Alltoall(send, (int)part, MPI_FLOAT, recv, (int)part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void pingpong(const float *send, float *recv, size_t count, int peer)
{
    if (peer & 1) {
        MPI_Send(send, (int)count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
        MPI_Recv(recv, (int)count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(recv, (int)count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(send, (int)count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
    }
}

static void exchange(const float *send, float *recv, size_t count, int right, int left)
{
    MPI_Sendrecv(send, (int)count, MPI_FLOAT, right, 0, recv, (int)count, MPI_FLOAT, left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    struct bench_library library = {
        .name = getenv("BENCH_NAME") ? getenv("BENCH_NAME") : "mpi",
        .barrier = barrier,
        .maximum = maximum,
        .allreduce = allreduce,
        .allgather = allgather,
        .reduce_scatter = reduce_scatter,
        .alltoall = alltoall,
        .pingpong = pingpong,
        .exchange = exchange,
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &library.size);
    int code = bench_main(argc, argv, &library);
    MPI_Finalize();
    return code;
}
