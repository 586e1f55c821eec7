/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_grow TRANSPORT: an elastic group of three processes, which two join between steps; then one of each kind is
 * killed, one after the other. Each step has the members that it should have, and their sum. With TUTTI_TEST_GPU=1
 * members have GPUs of the stand-in driver.
 */
#include "../collective/gpu.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OLD = 3, MORE = 2, ALL = OLD + MORE, GIVES = 1, COUNT = 50000, STEPS = 3 };

static struct job {
    tutti_unique_id_t id, join;
    _Atomic bool made, open;
} * job;
static int me;

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "member %d: %s: %s\n", me, what, tutti_get_last_error(NULL));
    exit(1);
}

static void await(const _Atomic bool *word)
{
    while (!*word)
        usleep(100);
}

/* The value of member i is 10^i. */
static void take_steps(tutti_elastic_t elastic, int members, double sum)
{
    static void *memory;
    tutti_elastic_step_t step = {.size = sizeof step};
    if (!memory)
        must(gpu_wanted() ? tutti_device_mem_alloc(&memory, 2 * COUNT * sizeof(double))
                          : tutti_mem_alloc(&memory, 2 * COUNT * sizeof(double)),
             "memory");
    double *in = memory, *out = in + COUNT;
    for (int i = 0; i < COUNT; i++) {
        in[i] = 1;
        for (int power = 0; power < me; power++)
            in[i] *= 10;
    }
    for (int n = 0; n < STEPS; n++) {
        must(tutti_elastic_allreduce(elastic, in, out, COUNT, TUTTI_FLOAT64, TUTTI_SUM, &step), "a step");
        for (int i = 0; i < COUNT; i++)
            if (step.members != members || out[i] != sum) {
                fprintf(stderr, "member %d: %d members and %g, want %d and %g\n", me, step.members, out[i], members,
                        sum);
                exit(1);
            }
    }
}

static tutti_elastic_t begin(const tutti_elastic_config_t *config)
{
    tutti_elastic_t elastic;
    tutti_unique_id_t id;
    tutti_comm_t comm;
    tutti_config_t where = gpu_config();
    if (me == 0) {
        must(tutti_get_unique_id(&job->id), "an id");
        job->made = true;
    }
    await(&job->made);
    must(tutti_comm_init_rank(&comm, OLD, &job->id, me, &where), "a communicator");
    must(tutti_elastic_init(&elastic, comm, config), "a group");
    must(tutti_comm_destroy(comm), "its end"); /* the group has its own */
    take_steps(elastic, OLD, 111);
    if (me == GIVES) {
        must(tutti_elastic_get_unique_id(elastic, &id), "a meeting point");
        job->join = id;
        job->open = true;
    }
    must(tutti_elastic_grow(elastic, MORE, me == GIVES ? &id : NULL), "to grow");
    return elastic;
}

static tutti_elastic_t join(const tutti_elastic_config_t *config)
{
    tutti_elastic_t elastic;
    await(&job->open);
    must(tutti_elastic_join(&elastic, ALL, &job->join, me, config), "to join");
    return elastic;
}

static void member(void)
{
    tutti_elastic_config_t config = TUTTI_ELASTIC_CONFIG_INITIALIZER;
    config.timeout_ms = 60000;
    config.device = gpu_config().device;
    if (gpu_wanted())
        gpu_select(me);
    tutti_elastic_t elastic = me < OLD ? begin(&config) : join(&config);
    take_steps(elastic, ALL, 11111);
    if (me == 0)
        raise(SIGKILL);
    take_steps(elastic, ALL - 1, 11110);
    if (me == OLD)
        raise(SIGKILL);
    take_steps(elastic, ALL - 2, 10110);
    must(tutti_elastic_end(elastic), "the end");
    exit(0);
}

int main(int argc, char **argv)
{
    pid_t pid[ALL];
    int wrong = 0, status;
    setenv("TUTTI_TRANSPORT", argc > 1 ? argv[1] : "shm", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (me = 0; me < ALL; me++)
        if ((pid[me] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            member();
        }
    for (int i = 0; i < ALL; i++) {
        bool dies = i == 0 || i == OLD;
        waitpid(pid[i], &status, 0);
        wrong += dies ? !WIFSIGNALED(status) : status != 0;
    }
    return wrong != 0;
}
