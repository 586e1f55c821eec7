/* SPDX-License-Identifier: Apache-2.0 */
/*
 * farewell TRANSPORT [SEED]: in many small runs one rank gives the communicator up amid traffic and ends by _exit() at
 * once. The others must say that it did, and must not blame the process that is gone.
 */
#include "family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOGETHER 4
#define MOST     100000

/* The rank that gives up has messages under way both ways: what it has not read makes the system reset its connections.
 */
static tutti_result_t one_round(const struct family *family, uint64_t round, tutti_comm_t comm)
{
    static int in[MOST], out[MOST * FAMILY_MOST];
    size_t count = data_hash(family->seed, round) % 3 ? 1 + round % 1000 : MOST;
    tutti_result_t result = round % 2 ? tutti_allgather(in, out, count, TUTTI_INT32, comm, NULL)
                                      : tutti_allreduce(in, out, count, TUTTI_INT32, TUTTI_SUM, comm, NULL);
    return result == TUTTI_SUCCESS && round % 3 == 0 ? tutti_comm_synchronize(comm) : result;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_result_t result = family_wait_joined(family) ? TUTTI_SUCCESS : TUTTI_IN_PROGRESS;
    uint64_t last = family->seed % 2 ? 0 : 3 + data_hash(family->seed, 1) % 20; /* 0: he has met nobody */
    for (uint64_t round = 0; result == TUTTI_SUCCESS && (rank != family->victim || round < last); round++)
        result = one_round(family, round, comm);
    if (rank == family->victim) {
        tutti_comm_abort(comm);
        atomic_store(&family->report[rank].ended, true);
        _exit(0);
    }
    family_end(family, rank, comm, result);
    tutti_comm_destroy(comm);
}

static bool names(const char *sentence, int rank)
{
    char name[40];
    snprintf(name, sizeof name, "aborted by rank %d", rank);
    return strstr(sentence, name) != NULL;
}

static bool end(struct family *family)
{
    bool right = family_wait(family, 60);
    for (int rank = 0; rank < family->count; rank++) {
        const struct family_report *report = &family->report[rank];
        if (rank == family->victim || (report->result == TUTTI_REMOTE_ERROR && names(report->sentence, family->victim)))
            continue;
        fprintf(stderr, "seed %llu: rank %d gave up; rank %d of %d says %s: %s\n", (unsigned long long)family->seed,
                family->victim, rank, family->count, tutti_get_error_string(report->result), report->sentence);
        right = false;
    }
    family_free(family);
    return right;
}

static int run(int first, uint64_t all)
{
    uint64_t seed = all + (uint64_t)first;
    struct family *family[TOGETHER];
    int wrong = 0;
    for (int i = 0; i < TOGETHER; i++)
        family[i] = family_start(3, (int)((seed + (uint64_t)i) % 3), 0, seed + (uint64_t)i, work);
    for (int i = 0; i < TOGETHER; i++)
        wrong += !end(family[i]);
    return wrong;
}

int main(int argc, char **argv)
{
    return family_many(argc, argv, TOGETHER, run, "the reason was lost");
}
