/* SPDX-License-Identifier: Apache-2.0 */
/* id_test: processes that share nothing but NCCL_COMM_ID each ask for the id and meet there, several times. On host
 * memory. */
#define NCCL_WITHOUT_CUDA_HEADERS 1
#include "nccl/nccl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 3
#define TIMES 3

static void require(ncclResult_t result, const char *what)
{
    if (result == ncclSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, ncclGetLastError(NULL));
    _exit(1);
}

static void meet(int rank)
{
    for (int i = 0; i < TIMES; i++) {
        ncclUniqueId id;
        ncclComm_t comm;
        int in = rank + i, out = 0;
        require(ncclGetUniqueId(&id), "id");
        require(ncclCommInitRank(&comm, RANKS, id, rank), "init");
        require(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, comm, NULL), "allreduce");
        require(ncclCommDestroy(comm), "destroy");
        if (out != RANKS * (RANKS - 1) / 2 + RANKS * i) {
            fprintf(stderr, "rank %d: %d\n", rank, out);
            _exit(1);
        }
    }
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) != 0 || getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        exit(2);
    close(fd);
    return ntohs(at.sin_port);
}

int main(void)
{
    char place[40];
    int status, failed = 0;
    snprintf(place, sizeof place, "127.0.0.1:%d", free_port());
    setenv("NCCL_COMM_ID", place, 1);
    setenv("TUTTI_NCCL_HOST", "1", 1);
    for (int rank = 0; rank < RANKS; rank++)
        if (fork() == 0) {
            meet(rank);
            exit(0);
        }
    while (wait(&status) > 0)
        failed += status != 0;
    return failed != 0;
}
