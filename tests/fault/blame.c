/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blame TRANSPORT [SEED]: in many small runs one rank is killed, and the others end in their own ways as soon as they
 * know. Each must name the killed one, and none of those who left because of it.
 */
#include "family.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOGETHER 8

static tutti_comm_t used; /* not destroyed by each: for the leak checker */

static tutti_comm_t pick(struct family *family, tutti_comm_t world)
{
    tutti_comm_t child = NULL;
    if (family->variant % 3 == 0)
        return world;
    tutti_result_t result = family->variant % 3 == 1 ? tutti_comm_duplicate(world, &child, NULL)
                                                     : tutti_comm_split(world, 0, 0, &child, NULL);
    return result == TUTTI_SUCCESS ? child : world;
}

static void leave(struct family *family, int rank, tutti_comm_t world)
{
    switch (data_hash(family->seed, (uint64_t)rank) % 4) {
    case 0:
        atomic_store(&family->report[rank].ended, true);
        _exit(0);
    case 1:
        return; /* without a word to the library */
    case 2:
        tutti_comm_abort(used);
        break;
    default:
        break;
    }
    if (used != world)
        tutti_comm_destroy(used);
    tutti_comm_destroy(world);
}

/* Ranks hear of the death in different operations: while one waits for a message another may be behind in a collective.
 */
static tutti_result_t one_round(struct family *family, int rank, uint64_t round)
{
    static int in[20000], out[20000];
    int next = (rank + 1) % family->count, last = (rank + family->count - 1) % family->count;
    size_t count = round % 3 ? 1 + round % 100 : 20000;
    tutti_result_t result;
    if (round % 4 == 3) {
        tutti_group_start();
        tutti_send(in, count, TUTTI_INT32, next, used, NULL);
        tutti_recv(out, count, TUTTI_INT32, last, used, NULL);
        result = tutti_group_end();
    } else {
        result = round % 4 == 1
                     ? tutti_broadcast(in, out, count, TUTTI_INT32, (int)(round % (uint64_t)family->count), used, NULL)
                     : tutti_allreduce(in, out, count, TUTTI_INT32, TUTTI_SUM, used, NULL);
    }
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(used) : result;
}

static void work(struct family *family, int rank, tutti_comm_t world)
{
    tutti_result_t result = TUTTI_SUCCESS;
    used = pick(family, world);
    for (uint64_t round = 0; result == TUTTI_SUCCESS; round++)
        result = one_round(family, rank, round);
    family_end(family, rank, used, result);
    leave(family, rank, world);
}

static bool names(const char *sentence, int rank)
{
    char name[32];
    snprintf(name, sizeof name, "lost rank %d: ", rank);
    return strncmp(sentence, name, strlen(name)) == 0;
}

static struct family *begin(int number, uint64_t seed)
{
    int count = 4 + number % 2, victim = (int)(data_hash(seed, 100) % (uint64_t)count);
    return family_start(count, victim, number, seed, work);
}

static bool end(struct family *family)
{
    bool right = family_wait(family, 60);
    for (int rank = 0; rank < family->count; rank++) {
        const struct family_report *report = &family->report[rank];
        if (rank == family->victim || (report->result == TUTTI_REMOTE_ERROR && names(report->sentence, family->victim)))
            continue;
        fprintf(stderr, "run %d, seed %llu, victim %d: rank %d of %d says %s: %s\n", family->variant,
                (unsigned long long)family->seed, family->victim, rank, family->count,
                tutti_get_error_string(report->result), report->sentence);
        right = false;
    }
    family_free(family);
    return right;
}

/* Several at a time: most of it is waiting for connections that are refused. */
static int run(int first, uint64_t seed)
{
    struct family *family[TOGETHER];
    int wrong = 0;
    for (int i = 0; i < TOGETHER; i++)
        family[i] = begin(first + i, seed + (uint64_t)(first + i));
    for (int i = 0; i < TOGETHER; i++) {
        wrong += !family_wait_joined(family[i]);
        family_nap((int)(data_hash(seed, (uint64_t)(first + i)) % 30));
        kill(family[i]->pid[family[i]->victim], SIGKILL);
    }
    for (int i = 0; i < TOGETHER; i++)
        wrong += !end(family[i]);
    return wrong;
}

int main(int argc, char **argv)
{
    return family_many(argc, argv, TOGETHER, run, "not all named the killed rank");
}
