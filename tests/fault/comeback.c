/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that were lost and come back: rank 1 is stopped for longer than TUTTI_TIMEOUT, or for just that time, while
 * another communicator holds the processes' engines. What was beside stays failed; a new communicator of the same
 * processes works, again and again.
 */
#include "family.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH (1u << 20)

static int failures;
static const char *over;

static void fail_at(struct family *family, int rank, const char *what)
{
    struct family_report *report = &family->report[rank];
    if (report->result != TUTTI_SUCCESS)
        return;
    report->result = TUTTI_INTERNAL_ERROR;
    fprintf(stderr, "  rank %d, round %d: %s: %s\n", rank, (int)report->rounds, what, tutti_get_last_error(NULL));
    snprintf(report->sentence, sizeof report->sentence, "%s: %s", what, tutti_get_last_error(NULL));
}

/* A large exchange and a small sum. */
static bool works(tutti_comm_t comm, int rank, unsigned char *out, unsigned char *in)
{
    float one = 1, sum = 0;
    memset(out, 3 + rank, LENGTH);
    memset(in, 0, LENGTH);
    tutti_group_start();
    tutti_send(out, LENGTH, TUTTI_UINT8, 1 - rank, comm, NULL);
    tutti_recv(in, LENGTH, TUTTI_UINT8, 1 - rank, comm, NULL);
    return tutti_group_end() == TUTTI_SUCCESS && tutti_comm_synchronize(comm) == TUTTI_SUCCESS && in[0] == 4 - rank &&
           in[LENGTH - 1] == 4 - rank &&
           tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) == TUTTI_SUCCESS &&
           tutti_comm_synchronize(comm) == TUTTI_SUCCESS && sum == 2;
}

/* The id of a new communicator travels in the family's memory. */
static bool meet(struct family *family, int rank, int round, tutti_comm_t *comm)
{
    if (rank == 0) {
        if (tutti_get_unique_id(&family->id) != TUTTI_SUCCESS)
            return false;
        atomic_store(&family->joined, 100 + round);
    }
    while (atomic_load(&family->joined) < 100 + round)
        family_nap(1);
    return tutti_comm_init_rank(comm, 2, &family->id, rank, NULL) == TUTTI_SUCCESS;
}

/* Traffic beside, which rank 0 sees fail if the stop is long. */
static void part(struct family *family, int rank, tutti_comm_t comm, unsigned char *out, unsigned char *in, int stop_ms)
{
    if (rank == 0) {
        kill(family->pid[1], SIGSTOP);
        tutti_group_start();
        tutti_send(out, LENGTH, TUTTI_UINT8, 1, comm, NULL);
        tutti_recv(in, LENGTH, TUTTI_UINT8, 1, comm, NULL);
        tutti_group_end();
        family_nap(stop_ms);
        kill(family->pid[1], SIGCONT);
    } else {
        tutti_group_start();
        tutti_send(out, LENGTH, TUTTI_UINT8, 0, comm, NULL);
        tutti_recv(in, LENGTH, TUTTI_UINT8, 0, comm, NULL);
        tutti_group_end();
    }
    tutti_comm_synchronize(comm);
}

static void come_back(struct family *family, int rank, tutti_comm_t first)
{
    static const int stops[] = {4000, 2450, 2550};
    unsigned char *out = malloc(LENGTH), *in = malloc(LENGTH);
    tutti_comm_t kept[8] = {first};
    int count = 1;
    if (!works(first, rank, out, in))
        fail_at(family, rank, "the first communicator");
    for (int round = 0; round < family->variant && family->report[rank].result == TUTTI_SUCCESS; round++) {
        part(family, rank, kept[count - 1], out, in, stops[round % 3]);
        if (!meet(family, rank, round, &kept[count++]))
            fail_at(family, rank, "meeting again");
        else if (!works(kept[count - 1], rank, out, in))
            fail_at(family, rank, "the new communicator");
        family->report[rank].rounds++;
    }
    while (count)
        tutti_comm_destroy(kept[--count]);
    free(out);
    free(in);
}

static void judge(struct family *family, int seconds, const char *what)
{
    bool right = family_wait(family, seconds);
    for (int rank = 0; rank < family->count; rank++) {
        struct family_report *report = &family->report[rank];
        right &= report->result == TUTTI_SUCCESS;
        if (report->result != TUTTI_SUCCESS)
            fprintf(stderr, "  rank %d, round %d: %s\n", rank, (int)report->rounds, report->sentence);
    }
    failures += !right;
    printf("%s over %s: %s\n", what, over, right ? "right" : "WRONG");
    family_free(family);
}

int main(int argc, char **argv)
{
    bool quick = getenv("TUTTI_TEST_QUICK");
    if (argc < 2)
        return 2;
    over = argv[1];
    setenv("TUTTI_TRANSPORT", over, 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TIMEOUT", "2500ms", 1); /* longer than a living rank waits for a processor */
    setenv("TUTTI_PROBE_AFTER", "300ms", 1);
    setenv("TUTTI_PROBE_TIMEOUT", "300ms", 1);
    judge(family_start(2, -1, quick ? 1 : 3, 1, come_back), 60, "peers that come back");
    return failures != 0;
}
