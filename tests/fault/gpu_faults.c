/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_faults [FAULT]: one call of one rank's CUDA driver fails, while the communicator is made or later. Either nobody
 * notices, because there is another way, or every rank gets an error: none waits for ever, has a wrong result or leaks.
 * Needs the stand-in driver.
 */
#include "family.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS  150000 /* of each rank's block: a large reduction */
#define ROUNDS 10
#define NAP    10000 /* us: buffers are mapped between rounds, or nothing would be copied */

#define LAUNCH(n) "cuLaunchKernel:" n ",cuLaunchKernelEx:" n

static const char *only;
static bool quick;

static tutti_result_t wait_for(tutti_comm_t comm, tutti_result_t issued)
{
    return issued == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : issued;
}

static void fill(uint32_t *to, int rank, int count, size_t words, uint32_t round)
{
    for (size_t i = 0; i < (size_t)count * words; i++)
        to[i] = (uint32_t)i + (uint32_t)rank * 77 + round;
}

static bool all_equal(const uint32_t *got, int count, size_t words, uint32_t round)
{
    uint32_t n = (uint32_t)count, ranks = n * (n - 1) / 2 * 77;
    for (size_t i = 0; i < words; i++)
        if (got[i] != n * ((uint32_t)i + round) + ranks)
            return false;
    return true;
}

static bool all_there(const uint32_t *got, int rank, int count, size_t words, uint32_t round)
{
    for (int from = 0; from < count; from++)
        for (size_t i = 0; i < words; i++)
            if (got[(size_t)from * words + i] != (uint32_t)((size_t)rank * words + i) + (uint32_t)from * 77 + round)
                return false;
    return true;
}

static tutti_result_t one_round(struct family *family, int rank, tutti_comm_t comm, uint32_t *send, uint32_t *recv,
                                uint32_t round)
{
    size_t words = round % 3 == 0 ? 100 : WORDS;
    int count = family->count;
    fill(send, rank, count, words, round);
    tutti_result_t result = wait_for(comm, tutti_allreduce(send, recv, words, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    if (result == TUTTI_SUCCESS)
        family->report[rank].wrong |= !all_equal(recv, count, words, round);
    if (result == TUTTI_SUCCESS)
        result = wait_for(comm, tutti_alltoall(send, recv, words, TUTTI_UINT32, comm, NULL));
    if (result == TUTTI_SUCCESS)
        family->report[rank].wrong |= !all_there(recv, rank, count, words, round);
    return result;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    size_t bytes = (size_t)family->count * WORDS * sizeof(uint32_t);
    void *send = NULL, *recv = NULL;
    tutti_result_t result = tutti_device_mem_alloc(&send, bytes);
    if (result == TUTTI_SUCCESS)
        result = tutti_device_mem_alloc(&recv, bytes);
    for (uint32_t round = 0; round < ROUNDS && result == TUTTI_SUCCESS; round++) {
        result = one_round(family, rank, comm, send, recv, round);
        usleep(NAP);
    }
    family_end(family, rank, comm, result);
    if (result != TUTTI_SUCCESS)
        tutti_comm_abort(comm);
    tutti_comm_destroy(comm);
    tutti_device_mem_free(send);
    tutti_device_mem_free(recv);
}

static bool judge(struct family *family, const char *way)
{
    bool right = family_wait(family, 40);
    int failed = 0;
    for (int rank = 0; rank < family->count; rank++) {
        failed += family->report[rank].result != TUTTI_SUCCESS;
        right &= family->report[rank].ended || family->report[rank].result != TUTTI_SUCCESS;
        right &= !family->report[rank].wrong;
    }
    right &= failed == 0 || failed == family->count;
    printf("%s, %s: %s: %s\n", way, family->fault, right ? "right" : "FAILED", family->report[family->victim].sentence);
    for (int rank = 0; !right && rank < family->count; rank++)
        printf("  rank %d: %s \"%s\"%s\n", rank, tutti_get_error_string(family->report[rank].result),
               family->report[rank].sentence, family->report[rank].wrong ? " WRONG" : "");
    return right;
}

static int try_all(const char *way, const char *const *faults)
{
    int failures = 0;
    for (int i = 0; faults[i]; i++) {
        if (only ? strcmp(only, faults[i]) != 0 : quick && i % 2 == 0)
            continue;
        int count = quick ? 2 : 2 + i % 2;
        struct family *family = family_start_with(count, i / 2 % count, faults[i], 0, 1, work);
        failures += !judge(family, way);
        family_free(family);
    }
    return failures;
}

int main(int argc, char **argv)
{
    static const char *const kernels[] = {"cuModuleLoadData:1",
                                          "cuMemHostRegister:1",
                                          "cuMemAlloc:1",
                                          "cuMemAlloc:2",
                                          "cuMemAlloc:4",
                                          "cuIpcGetMemHandle:1",
                                          "cuIpcGetMemHandle:2",
                                          "cuIpcOpenMemHandle:1",
                                          "cuIpcOpenMemHandle:2",
                                          "cuStreamWriteValue32:1",
                                          "cuLaunchKernel:2,cuLaunchKernelEx:2",
                                          "cuLaunchKernel:5,cuLaunchKernelEx:5",
                                          "cuLaunchKernel:4:launch:sticky,cuLaunchKernelEx:4:launch:sticky",
                                          NULL};
    static const char *const copies[] = {"cuStreamCreateWithPriority:4",
                                         "cuMemcpyDtoDAsync:3",
                                         "cuStreamBatchMemOp:1",
                                         "cuStreamBatchMemOp:4",
                                         "cuStreamWaitValue32:2",
                                         "cuStreamWriteValue32:2",
                                         "cuIpcGetMemHandle:2",
                                         "cuEventRecord:1",
                                         "cuStreamWaitEvent:2",
                                         "cuMemcpyDtoDAsync:6:sticky",
                                         "cuIpcOpenMemHandle:3",
                                         "cuIpcOpenMemHandle:4",
                                         NULL};
    static const char *const couriers[] = {"cuMemHostAlloc:1",
                                           "cuMemHostAlloc:2",
                                           "cuMemHostAlloc:3",
                                           "cuMemHostGetDevicePointer:2",
                                           "cuEventCreate:3",
                                           LAUNCH("1"),
                                           LAUNCH("3"),
                                           LAUNCH("2:sticky"),
                                           "cuStreamIsCapturing:6:sticky",
                                           "cuEventQuery:1:sticky",
                                           "cuEventQuery:3:sticky",
                                           NULL};
    static const char *const staged[] = {
        "cuMemHostAlloc:1",       "cuMemHostAlloc:2",      "cuMemcpyAsync:2",        "cuEventSynchronize:4",
        "cuStreamWriteValue32:2", "cuStreamWaitValue32:3", "cuMemcpyAsync:5:sticky", NULL};
    static const char *const channels[] = {"cuMemHostAlloc:2",
                                           "cuStreamCreateWithPriority:4",
                                           "cuEventCreate:17",
                                           "cuMemcpyAsync:3",
                                           "cuStreamWaitEvent:2",
                                           "cuStreamWaitEvent:5",
                                           "cuEventRecord:5",
                                           "cuEventSynchronize:3",
                                           "cuStreamWriteValue32:2",
                                           "cuMemcpyAsync:7:sticky",
                                           NULL};
    quick = getenv("TUTTI_TEST_QUICK") != NULL;
    only = argc > 1 ? argv[1] : NULL;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TIMEOUT", "4s", 1);
    setenv("TUTTI_INIT_TIMEOUT", "10s", 1);
    setenv("TUTTI_TRACE", "0", 1);
    setenv("TUTTI_COPY_FROM", "0", 1);
    int failures = try_all("kernels", kernels);
    setenv("TUTTI_COPY_PROCESSES", "1", 1);
    setenv("TUTTI_COPY_FROM", "1K", 1);
    setenv("TUTTI_COPY_STAGE", "64K", 1);
    failures += try_all("copies", copies);
    setenv("TUTTI_CTA_POLICY", "zero", 1);
    failures += try_all("copies in pieces", copies);
    unsetenv("TUTTI_CTA_POLICY");
    setenv("TUTTI_SHM_DISABLE", "1", 1);
    failures += try_all("staged", couriers);
    setenv("TUTTI_STAGE_KERNEL", "0", 1);
    failures += try_all("staged, by streams", staged);
    setenv("TUTTI_STAGE_THREADS", "3", 1);
    setenv("TUTTI_STAGE_SLICE", "64K", 1);
    failures += try_all("staged by three threads, by streams", channels);
    unsetenv("TUTTI_STAGE_KERNEL");
    failures += try_all("staged by three threads", couriers);
    return failures != 0;
}
