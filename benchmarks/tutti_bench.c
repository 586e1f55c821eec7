/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison program for tutti: run it under tutti run, mpirun or torchrun. */
#include "bench.h"

#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>

static tutti_comm_t comm;

static void must(tutti_result_t result)
{
    if (__builtin_expect(result == TUTTI_SUCCESS, 1))
        return;
    fprintf(stderr, "tutti_bench: %s: %s\n", tutti_get_error_string(result), tutti_get_last_error(comm));
    exit(1);
}

static void finish(tutti_result_t issued)
{
    must(issued);
    must(tutti_comm_synchronize(comm));
}

static void barrier(void)
{
    finish(tutti_barrier(comm, NULL));
}

static double maximum(double value)
{
    finish(tutti_allreduce(&value, &value, 1, TUTTI_FLOAT64, TUTTI_MAX, comm, NULL));
    return value;
}

static void allreduce(const float *send, float *recv, size_t count)
{
    finish(tutti_allreduce(send, recv, count, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL));
}

static void allgather(const float *send, float *recv, size_t part)
{
    finish(tutti_allgather(send, recv, part, TUTTI_FLOAT32, comm, NULL));
}

static void reduce_scatter(const float *send, float *recv, size_t part)
{
    finish(tutti_reduce_scatter(send, recv, part, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL));
}

static void alltoall(const float *send, float *recv, size_t part)
{
    finish(tutti_alltoall(send, recv, part, TUTTI_FLOAT32, comm, NULL));
}

static void pingpong(const float *send, float *recv, size_t count, int peer)
{
    if (peer & 1) {
        must(tutti_send(send, count, TUTTI_FLOAT32, peer, comm, NULL));
        finish(tutti_recv(recv, count, TUTTI_FLOAT32, peer, comm, NULL));
    } else {
        must(tutti_recv(recv, count, TUTTI_FLOAT32, peer, comm, NULL));
        finish(tutti_send(send, count, TUTTI_FLOAT32, peer, comm, NULL));
    }
}

static void exchange(const float *send, float *recv, size_t count, int right, int left)
{
    must(tutti_group_start());
    must(tutti_send(send, count, TUTTI_FLOAT32, right, comm, NULL));
    must(tutti_recv(recv, count, TUTTI_FLOAT32, left, comm, NULL));
    finish(tutti_group_end());
}

int main(int argc, char **argv)
{
    struct bench_library library = {
        .name = getenv("BENCH_NAME") ? getenv("BENCH_NAME") : "tutti",
        .barrier = barrier,
        .maximum = maximum,
        .allreduce = allreduce,
        .allgather = allgather,
        .reduce_scatter = reduce_scatter,
        .alltoall = alltoall,
        .pingpong = pingpong,
        .exchange = exchange,
    };
    must(tutti_comm_init_from_env(&comm, NULL));
    must(tutti_comm_rank(comm, &library.rank));
    must(tutti_comm_count(comm, &library.size));
    int code = bench_main(argc, argv, &library);
    must(tutti_comm_destroy(comm));
    return code;
}
