/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faulty_gpu FAULT RANK AT: a job as faulty's, in memory of GPUs, each rank with one of its own: neighbours in pairs,
 * all. From step AT on, RANK's GPU does what FAULT says. `never`: what was issued before does not end, so that nothing
 * after that begins. `memory`: the program has no more of it. `late`: before each step the GPU is busy for 30 ms, as
 * with a kernel of the program's. `between`: the program stays between the two calls of a step. Other faults are the
 * driver's, TUTTI_EMULATED_FAULT. A rank that hears of a failure says so and stays, as a program that is caught in its
 * error handling.
 */
#include "../collective/gpu.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT   50000
#define STEP_US 3000
#define LATE_US 30000

struct job {
    tutti_comm_t world, pair;
    const struct cuda_driver *cu;
    CUstream stream;
    int rank, culprit, at;
    const char *fault;
    float *in, *out;
};

static bool is(const struct job *job, const char *fault, int step)
{
    return job->rank == job->culprit && step == job->at && strcmp(job->fault, fault) == 0;
}

/* As a kernel of the program's that waits for ever. */
static void never_end(struct job *job)
{
    void *word = NULL;
    CUdeviceptr address = 0;
    if (job->cu->MemHostAlloc(&word, 64, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS &&
        job->cu->MemHostGetDevicePointer(&address, word, 0) == CUDA_SUCCESS) {
        memset(word, 0, 64);
        job->cu->StreamWaitValue32(job->stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ);
    }
}

/* A batch in memory of the GPU's, as a program's allocator asks for it. */
static tutti_result_t take_batch(struct job *job, int step)
{
    void *batch = NULL;
    tutti_result_t result = tutti_device_mem_alloc(&batch, is(job, "memory", step) ? (size_t)1 << 50 : 4096);
    return result ? result : tutti_device_mem_free(batch);
}

static tutti_result_t all(struct job *job, size_t count, tutti_comm_t comm)
{
    return tutti_allreduce(job->in, job->out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, (tutti_stream_t)job->stream);
}

static void be_busy(void *argument)
{
    usleep(LATE_US);
}

static tutti_result_t step(struct job *job, int number)
{
    tutti_result_t result = take_batch(job, number);
    usleep(STEP_US);
    if (is(job, "never", number))
        never_end(job);
    if (job->rank == job->culprit && number >= job->at && strcmp(job->fault, "late") == 0)
        job->cu->LaunchHostFunc(job->stream, be_busy, NULL);
    if (!result)
        result = all(job, 200, job->pair);
    while (is(job, "between", number))
        pause();
    if (!result)
        result = all(job, COUNT, job->world);
    return result ? result : tutti_comm_synchronize(job->world);
}

static tutti_result_t start(struct job *job)
{
    tutti_config_t config = gpu_config();
    tutti_result_t result = tutti_comm_init_from_env(&job->world, &config);
    if (!result)
        result = tutti_comm_split(job->world, job->rank / 2, job->rank, &job->pair, &config);
    if (!result)
        result = tutti_device_mem_alloc((void **)&job->in, COUNT * sizeof(float));
    if (!result)
        result = tutti_device_mem_alloc((void **)&job->out, COUNT * sizeof(float));
    if (!result)
        result = cuda_driver(&job->cu);
    if (!result && job->cu->StreamCreateWithPriority(&job->stream, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
        result = TUTTI_DEVICE_ERROR;
    return result;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("TUTTI_RANK");
    struct job job = {.fault = argc > 1 ? argv[1] : "none",
                      .culprit = argc > 2 ? atoi(argv[2]) : -1,
                      .at = argc > 3 ? atoi(argv[3]) : 0,
                      .rank = rank ? atoi(rank) : 0};
    gpu_select(job.rank);
    tutti_result_t result = start(&job);
    for (int number = 0; !result; number++) {
        if (number == job.at) {
            printf("at %d\n", number);
            fflush(stdout);
        }
        result = step(&job, number);
    }
    printf("rank %d: %s\n", job.rank, tutti_get_last_error(NULL));
    fflush(stdout);
    for (;;)
        pause();
}
