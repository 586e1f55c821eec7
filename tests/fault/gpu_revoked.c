/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_revoked: rank 1's kernel has read half of what it reduces, where it lies. Then rank 0, which is done with its own
 * half, aborts and has other data there. Rank 1 must not take these for the contribution: it is told of rank 0. Read
 * because peers have mapped the buffers, and because all have registered them. Needs the stand-in driver.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 2
#define WORDS ((size_t)64 << 10) /* of a block: many pages */
#define BYTES (RANKS * WORDS * sizeof(uint32_t))
#define NAPS  4 /* rounds: the first one has the peer map the buffer */

static struct family *held_by;
static char *gate; /* a page that rank 1's kernel comes to */

static void hold(int signal)
{
    (void)signal;
    atomic_store(&held_by->report[1].rounds, 1);
    while (!atomic_load(&held_by->stop))
        usleep(1000);
    mprotect(gate, 4096, PROT_READ | PROT_WRITE);
}

static void put(uint32_t *in, int rank)
{
    for (size_t i = 0; i < RANKS * WORDS; i++)
        in[i] = (uint32_t)i + (uint32_t)rank;
}

static bool is_right(const uint32_t *out, int rank)
{
    for (size_t i = 0; i < WORDS; i++)
        if (out[i] != 2 * ((uint32_t)rank * WORDS + (uint32_t)i) + 1)
            return false;
    return true;
}

static void leave(struct family *family, tutti_comm_t comm, uint32_t *in)
{
    while (!atomic_load(&family->report[1].rounds))
        family_nap(1);
    family_nap(200); /* in which all that does not wait for rank 1 is done */
    OK(tutti_comm_abort(comm));
    memset(in, 0x55, BYTES);
    atomic_store(&family->stop, true);
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    void *found[2], *handle;
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], BYTES));
    uint32_t *in = found[0], *out = found[1];
    put(in, rank);
    if (family->variant)
        OK(tutti_comm_register_symmetric(comm, in, BYTES, &handle));
    for (int i = 0; i < NAPS; i++) {
        OK(tutti_reduce_scatter(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
        OK(tutti_comm_synchronize(comm));
        require(is_right(out, rank), "sums");
        if (!family->variant)
            await_mapped(RANKS * (RANKS - 1)); /* by both, whose log is one */
    }
    held_by = family;
    gate = (char *)(in + WORDS) + WORDS / 2 * sizeof *in; /* of its own part */
    if (rank == 1)
        require(mprotect(gate, 4096, PROT_NONE) == 0, "a page that nobody reads");
    OK(tutti_reduce_scatter(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    if (rank == 0) {
        leave(family, comm, in);
        family_end(family, 0, comm, TUTTI_SUCCESS);
        return;
    }
    tutti_result_t result = tutti_comm_synchronize(comm);
    family->report[1].wrong = result == TUTTI_SUCCESS && !is_right(out, rank);
    family_end(family, 1, comm, result);
    OK(tutti_comm_abort(comm));
}

static bool try_one(int variant)
{
    struct family *family = family_start(RANKS, -1, variant, 1, work);
    bool ended = family_wait(family, 60);
    const struct family_report *report = &family->report[1];
    bool right = ended && atomic_load(&report->rounds) && !report->wrong && report->result == TUTTI_REMOTE_ERROR &&
                 strstr(report->sentence, "rank 0");
    if (!right)
        printf("FAILED: %s: %s \"%s\"%s%s\n", variant ? "registered" : "mapped", tutti_get_error_string(report->result),
               report->sentence, report->wrong ? " WRONG" : "", ended ? "" : ", and no end");
    family_free(family);
    return right;
}

int main(void)
{
    static const char *const settings[][2] = {{"TUTTI_TEST_GPU", "1"},        {"TUTTI_TRACE", "0"},
                                              {"TUTTI_COPY_FROM", "1"},       {"TUTTI_READ_FROM", "1"},
                                              {"TUTTI_INVITE_FROM", "1"},     {"TUTTI_BULK_FROM", "1"},
                                              {"TUTTI_REDUCE_LINES_TO", "0"}, {"TUTTI_REDUCE_LINES_FROM", "0"},
                                              {"TUTTI_SYMMETRIC_FROM", "1"}};
    signal(SIGSEGV, hold);
    log_open("info");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        setenv(settings[i][0], settings[i][1], 1);
    bool mapped = try_one(0), registered = try_one(1);
    return mapped && registered ? 0 : 1;
}
