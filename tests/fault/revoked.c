/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked: rank 0 receives from two others into one piece of tutti_mem_alloc() memory, in two communicators, over RDMA.
 * It aborts the one while data is under way: from then on that half is its own again, and nothing is written there. All
 * that goes into the other half is right, though the key that its sender was told has ended.
 */
#include "family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIVES, ABORTED, STAYS, RANKS, AFTERWARDS = 4 };
#define MINE  0xa5
#define GUARD 60 /* seconds */

static int rounds = 10;
static size_t half_bytes = 16 << 20;

static unsigned char byte_of(int round, int number, size_t place)
{
    return (unsigned char)((size_t)(round * 31 + number * 7) + place * 13 + place / 4099);
}

static bool is_right(const unsigned char *half, int round, int number)
{
    for (size_t i = 0; i < half_bytes; i++)
        if (half[i] != byte_of(round, number, i))
            return false;
    return true;
}

static tutti_result_t send(tutti_comm_t comm, unsigned char *half, int round, int number)
{
    for (size_t i = 0; i < half_bytes; i++)
        half[i] = byte_of(round, number, i);
    tutti_result_t result = tutti_send(half, half_bytes, TUTTI_UINT8, 0, comm, NULL);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
}

/* Something has landed, of what memory did not hold before. Data lands while this looks, as no program may. */
__attribute__((no_sanitize("thread"))) static bool has_begun(const unsigned char *memory, int round)
{
    const volatile unsigned char *bytes = memory;
    for (size_t i = 0; i < 1000; i++)
        if (bytes[i] != byte_of(round, 0, i))
            return false;
    return true;
}

/* Rank 0: both receives are under way when the one is given up. */
static tutti_result_t give_up_one(tutti_comm_t aborted, tutti_comm_t stays, unsigned char *memory, int round)
{
    tutti_stream_t stream[2];
    for (int i = 0; i < 2; i++)
        if (tutti_stream_create(&stream[i]) != TUTTI_SUCCESS)
            return TUTTI_SYSTEM_ERROR;
    tutti_result_t result = tutti_recv(memory, half_bytes, TUTTI_UINT8, 1, aborted, stream[0]);
    for (int i = 0; i < AFTERWARDS && result == TUTTI_SUCCESS; i++) {
        result = tutti_recv(memory + half_bytes, half_bytes, TUTTI_UINT8, 1, stays, stream[1]);
        if (i == 0 && result == TUTTI_SUCCESS) {
            for (int ms = 0; ms < GUARD * 1000 && !has_begun(memory, round); ms++)
                family_nap(1);
            result = tutti_comm_abort(aborted);
            memset(memory, MINE, half_bytes);
        }
        if (result == TUTTI_SUCCESS)
            result = tutti_stream_synchronize(stream[1]);
        if (result == TUTTI_SUCCESS && !is_right(memory + half_bytes, round, i))
            result = TUTTI_INTERNAL_ERROR;
    }
    for (size_t i = 0; i < half_bytes && result == TUTTI_SUCCESS; i++)
        if (memory[i] != MINE)
            result = TUTTI_SYSTEM_ERROR;
    for (int i = 0; i < 2; i++)
        tutti_stream_destroy(stream[i]);
    return result;
}

static tutti_result_t play(int rank, tutti_comm_t aborted, tutti_comm_t stays, unsigned char *memory, int round)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (rank == RECEIVES)
        return give_up_one(aborted, stays, memory, round);
    if (rank == ABORTED) {
        send(aborted, memory, round, 0); /* may have been quick enough */
        return tutti_comm_abort(aborted);
    }
    for (int i = 0; i < AFTERWARDS && result == TUTTI_SUCCESS; i++)
        result = send(stays, memory, round, i);
    return result;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    void *memory;
    tutti_result_t result = tutti_mem_alloc(&memory, 2 * half_bytes);
    for (int round = 0; round < rounds && result == TUTTI_SUCCESS; round++) {
        tutti_comm_t aborted = NULL, stays = NULL;
        result = tutti_comm_split(comm, rank == STAYS ? TUTTI_SPLIT_NOCOLOR : 0, rank, &aborted, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_split(comm, rank == ABORTED ? TUTTI_SPLIT_NOCOLOR : 0, rank, &stays, NULL);
        if (result == TUTTI_SUCCESS)
            result = play(rank, aborted, stays, memory, round);
        if (aborted)
            tutti_comm_destroy(aborted);
        if (stays)
            tutti_comm_destroy(stays);
        if (result == TUTTI_SUCCESS)
            result = tutti_barrier(comm, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(comm);
        family->report[rank].rounds++;
    }
    family_end(family, rank, comm, result);
    tutti_comm_destroy(comm);
    tutti_mem_free(memory);
}

int main(void)
{
    setenv("TUTTI_DEBUG", "none", 0);
    if (getenv("TUTTI_TEST_QUICK")) { /* sanitizers look at each byte for long */
        rounds = 4;
        half_bytes = 4 << 20;
    }
    struct family *family = family_start(RANKS, -1, 0, 1, work);
    bool right = family_wait(family, GUARD);
    for (int rank = 0; rank < RANKS; rank++) {
        const struct family_report *report = &family->report[rank];
        if (report->result == TUTTI_SUCCESS && report->rounds == (uint64_t)rounds)
            continue;
        fprintf(stderr, "rank %d: result %d after %d rounds: %s\n", rank, report->result, (int)report->rounds,
                report->sentence);
        right = false;
    }
    family_free(family);
    return !right;
}
