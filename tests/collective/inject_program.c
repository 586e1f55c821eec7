/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_program: a short life with every kind of work, under failing calls. Ends with 0 when all was right, 10 when a
 * call failed with an error and a sentence; anything else is a bug.
 */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int clean_error(tutti_comm_t comm, tutti_result_t result, const char *what)
{
    const char *sentence = tutti_get_last_error(comm);
    fprintf(stderr, "%s: %s: %s\n", what, tutti_get_error_string(result), sentence);
    int status = sentence[0] && result > TUTTI_SUCCESS && result < TUTTI_RESULT_COUNT ? 10 : 20;
    tutti_comm_destroy(comm);
    return status;
}

int main(void)
{
    static const struct job jobs[] = {
        {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 5},
        {.kind = JOB_ALLREDUCE, .type = TUTTI_FLOAT32, .count = 100001},
        {.kind = JOB_ALLTOALL, .type = TUTTI_INT64, .count = 9000},
        {.kind = JOB_EXCHANGE, .type = TUTTI_UINT8, .count = 300000},
        {.kind = JOB_ALLTOALLV, .type = TUTTI_UINT8, .count = 1000},
        {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .op = DATA_PREMUL, .count = 77},
    };
    tutti_comm_t comm = NULL;
    int rank = 0, nranks = 0;
    alarm(60);
    tutti_result_t result = tutti_comm_init_from_env(&comm, NULL);
    if (result != TUTTI_SUCCESS)
        return clean_error(NULL, result, "init");
    tutti_comm_rank(comm, &rank);
    tutti_comm_count(comm, &nranks);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct job job = jobs[i];
        job_prepare(&job, comm, rank, nranks);
        result = job_issue(&job, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(comm);
        bool right = result != TUTTI_SUCCESS || job_check(&job);
        if (result != TUTTI_SUCCESS) {
            int status = clean_error(comm, result, job_name(job.kind));
            job.made = false;
            job_free(&job);
            return status;
        }
        job_free(&job);
        if (!right)
            return 30;
    }
    return tutti_comm_destroy(comm) == TUTTI_SUCCESS ? 0 : 40;
}
