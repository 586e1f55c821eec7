/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank of many does to join, to meet and to leave does not grow with their number: counted in descriptors, which
 * each link costs two of. `tutti run -n 48 -- many LINKS`: more links than this for one rank are too many. Then each
 * talks to each, and all its lanes together hold no more shared memory than TUTTI_SHM_MEMORY says.
 */
#include "box.h"
#include "tutti/tutti.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(tutti_result_t result, const char *what)
{
    if (result != TUTTI_SUCCESS)
        fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    return result != TUTTI_SUCCESS;
}

/* Open descriptors whose target begins with `kind`. */
static int descriptors(const char *kind)
{
    int count = 0;
    struct dirent *entry;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return -1;
    while ((entry = readdir(folder))) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0)
            count += strncmp(target, kind, strlen(kind)) == 0;
    }
    closedir(folder);
    return count;
}

/* Blocks of a length for which each lane would like a wide window. */
static int meets_all(tutti_comm_t comm, int size)
{
    enum { BLOCK = 256 << 10, MOST = 20 << 20 }; /* 16 MiB by default, and the least of each lane beyond them */
    char *in = calloc((size_t)size, BLOCK), *out = calloc((size_t)size, BLOCK);
    int bad = !in || !out || failed(tutti_alltoall(in, out, BLOCK, TUTTI_INT8, comm, NULL), "alltoall") ||
              failed(tutti_comm_synchronize(comm), "synchronize");
    uint64_t taken = box_counter(WIRE_COUNTER_LINK_MEMORY_TAKEN),
             held = taken - box_counter(WIRE_COUNTER_LINK_MEMORY_RETURNED);
    const char *over = getenv("TUTTI_TRANSPORT");
    if (!bad && over && strcmp(over, "shm") == 0 && (!taken || held > MOST)) {
        fprintf(stderr, "lanes to %d peers hold %llu bytes of shared memory, expected at most %d\n", size - 1,
                (unsigned long long)held, (int)MOST);
        bad = 1;
    }
    free(in);
    free(out);
    return bad;
}

int main(int argc, char **argv)
{
    int rank, links = argc > 1 ? atoi(argv[1]) : 0, before = descriptors("socket:");
    float one = 1, sum = 0;
    int size = 0;
    tutti_comm_t comm;
    if (failed(tutti_comm_init_from_env(&comm, NULL), "init") || failed(tutti_comm_rank(comm, &rank), "rank") ||
        failed(tutti_comm_count(comm, &size), "count"))
        return 1;
    if (failed(tutti_barrier(comm, NULL), "barrier") ||
        failed(tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), "sum") ||
        failed(tutti_comm_synchronize(comm), "synchronize"))
        return 1;
    int sockets = descriptors("socket:") - before, few = links + 4; /* the transports' and the meeting point's own */
    if (before < 0 || sum != (float)size || sockets > few) {
        fprintf(stderr, "rank %d of %d: sum %g, %d sockets, expected at most %d\n", rank, size, (double)sum, sockets,
                few);
        return 1;
    }
    if (meets_all(comm, size))
        return 1;
    return failed(tutti_comm_destroy(comm), "destroy");
}
