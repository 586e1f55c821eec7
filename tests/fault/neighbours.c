/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators beside one that is given up: rank 0 aborts one in the middle of large transfers while its peer is
 * stopped, and takes its buffers back at once. All others between the same processes go on as if nothing had been.
 */
#include "family.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH     (16u << 20)
#define NEIGHBOURS 3

static int failures;

static void fail_unless(bool right, struct family *family, int rank, const char *what)
{
    if (right || family->report[rank].result != TUTTI_SUCCESS)
        return;
    family->report[rank].result = TUTTI_INTERNAL_ERROR;
    snprintf(family->report[rank].sentence, sizeof family->report[rank].sentence, "%s: %s", what,
             tutti_get_last_error(NULL));
}

static bool all_are(const unsigned char *bytes, size_t length, unsigned char value)
{
    return bytes[0] == value && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* Both ranks send `length` bytes of `value` + rank and receive the other's. */
static bool exchange(tutti_comm_t comm, int rank, unsigned char value, unsigned char *out, unsigned char *in,
                     size_t length)
{
    memset(out, value + rank, length);
    tutti_group_start();
    tutti_send(out, length, TUTTI_UINT8, 1 - rank, comm, NULL);
    tutti_recv(in, length, TUTTI_UINT8, 1 - rank, comm, NULL);
    if (tutti_group_end() != TUTTI_SUCCESS || tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
        return false;
    return all_are(in, length, (unsigned char)(value + 1 - rank));
}

/* Begins both ways on `doomed`, and gives up. Memory that the library should have let go of is then written. */
static void give_up(struct family *family, int rank, tutti_comm_t doomed, bool shared, int round)
{
    unsigned char *memory = shared ? NULL : malloc(2 * LENGTH);
    if (shared && tutti_mem_alloc((void **)&memory, 2 * LENGTH) != TUTTI_SUCCESS)
        memory = NULL;
    fail_unless(memory, family, rank, "memory");
    if (!memory)
        return;
    tutti_group_start();
    tutti_send(memory, LENGTH, TUTTI_UINT8, 1 - rank, doomed, NULL);
    tutti_recv(memory + LENGTH, LENGTH, TUTTI_UINT8, 1 - rank, doomed, NULL);
    tutti_group_end();
    if (rank == 0) {
        usleep((unsigned)(round * 1100));
        kill(family->pid[1], SIGSTOP);
        usleep(20000);
        tutti_comm_abort(doomed);
    } else {
        tutti_comm_synchronize(doomed);
    }
    memset(memory, 0xee, 2 * LENGTH);
    if (rank == 0)
        kill(family->pid[1], SIGCONT);
    usleep(5000);
    fail_unless(all_are(memory, 2 * LENGTH, 0xee), family, rank,
                "memory was written after the end of its communicator");
    if (shared)
        tutti_mem_free(memory);
    else
        free(memory);
}

static void live_beside(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t beside[NEIGHBOURS], doomed;
    unsigned char *out = malloc(LENGTH), *in = malloc(LENGTH);
    for (int i = 0; i < NEIGHBOURS; i++)
        fail_unless(tutti_comm_duplicate(comm, &beside[i], NULL) == TUTTI_SUCCESS, family, rank, "duplicate");
    for (int round = 0; round < family->variant && family->report[rank].result == TUTTI_SUCCESS; round++) {
        fail_unless(tutti_comm_duplicate(comm, &doomed, NULL) == TUTTI_SUCCESS, family, rank, "duplicate");
        fail_unless(exchange(doomed, rank, 1, out, in, 64 << 10), family, rank, "before");
        give_up(family, rank, doomed, round % 2, round);
        tutti_comm_destroy(doomed);
        for (int i = 0; i < NEIGHBOURS; i++)
            fail_unless(exchange(beside[i], rank, (unsigned char)(round + i), out, in, round % 3 ? 1000 : LENGTH),
                        family, rank, "beside");
        family->report[rank].rounds++;
    }
    for (int i = 0; i < NEIGHBOURS; i++)
        tutti_comm_destroy(beside[i]);
    tutti_comm_destroy(comm);
    free(out);
    free(in);
}

static void judge(bool right, struct family *family, const char *what)
{
    for (int rank = 0; rank < family->count; rank++) {
        struct family_report *report = &family->report[rank];
        right &= report->result == TUTTI_SUCCESS;
        if (report->result != TUTTI_SUCCESS)
            fprintf(stderr, "  rank %d, round %d: %s\n", rank, (int)report->rounds, report->sentence);
    }
    failures += !right;
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    family_free(family);
}

int main(int argc, char **argv)
{
    bool quick = getenv("TUTTI_TEST_QUICK");
    if (argc < 2)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    struct family *family = family_start(2, -1, quick ? 6 : 12, 1, live_beside);
    judge(family_wait(family, 120), family, "aborts beside others");
    return failures != 0;
}
