/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Far exchanges are small: `tutti run -n 4 -- far` has a host for each rank, and two racks. Where ranks say their racks
 * collectives go by far-doubling and far-halving, else by doubling and halving; also the rings of longer ones. All
 * results are checked.
 */
#include "box.h"
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 4

static int rank;

static void fail(const char *what, const char *more)
{
    fprintf(stderr, "far: rank %d: %s: %s\n", rank, what, more);
    exit(1);
}

static void must(tutti_result_t result, const char *what, tutti_comm_t comm)
{
    if (result != TUTTI_SUCCESS)
        fail(what, tutti_get_last_error(comm));
}

static void expect(tutti_comm_t comm, enum job_kind kind, size_t count, const char *algorithm)
{
    struct job job = {.kind = kind, .type = TUTTI_INT32, .op = TUTTI_SUM, .count = count, .seed = 7 + count};
    char ran[17] = "";
    job_prepare(&job, comm, rank, RANKS);
    must(job_issue(&job, NULL), job_name(kind), comm);
    must(tutti_comm_synchronize(comm), job_name(kind), comm);
    if (!job_check(&job))
        fail(job_name(kind), "the result is wrong");
    job_free(&job);
    if (!box_algorithm(ran) || strcmp(ran, algorithm) != 0)
        fail(job_name(kind), ran);
}

int main(int argc, char **argv)
{
    const char *text = getenv("TUTTI_RANK");
    bool told = argc > 1 && strcmp(argv[1], "racks") == 0;
    char word[32];
    tutti_comm_t comm;
    rank = text ? atoi(text) : 0;
    snprintf(word, sizeof word, "host%d", rank);
    setenv("TUTTI_HOSTID", word, 1);
    snprintf(word, sizeof word, "zone=z,rack=%d", rank % 2);
    if (told)
        setenv("TUTTI_PLACE", word, 1);
    must(tutti_comm_init_from_env(&comm, NULL), "init", NULL);
    expect(comm, JOB_ALLGATHER, 100, told ? "far-doubling" : "doubling");
    expect(comm, JOB_REDUCE_SCATTER, 100, told ? "far-halving" : "halving");
    expect(comm, JOB_ALLREDUCE, 10000, told ? "far-halving" : "halving");
    expect(comm, JOB_ALLREDUCE, 1000000, "ring");
    must(tutti_comm_destroy(comm), "destroy", NULL);
    return 0;
}
