/* SPDX-License-Identifier: Apache-2.0 */
/* What is drawn. Nothing here may depend on which ranks an actor plays. */
#include "soak.h"

#include <stdlib.h>
#include <string.h>

uint32_t roll(struct actor *actor, uint32_t below)
{
    return (uint32_t)(data_hash(run.seed, actor->rolls++) >> 20) % below;
}

int plan_family(struct actor *actor, bool alive)
{
    int found[FAMILIES], count = 0;
    for (int i = 0; i < FAMILIES; i++)
        if (actor->family[i].alive == alive)
            found[count++] = i;
    uint32_t which = roll(actor, FAMILIES * 4);
    return count ? found[which % (unsigned)count] : -1;
}

/* Bytes of a vector, around the numbers at which the library changes its ways. */
static size_t draw_bytes(struct actor *actor, bool tiny)
{
    static const size_t edges[] = {1 << 10,  2 << 10,  4 << 10,  8 << 10,   16 << 10,  32 << 10,
                                   48 << 10, 64 << 10, 96 << 10, 128 << 10, 256 << 10, 520 << 10};
    uint32_t how = roll(actor, 100), edge = roll(actor, 100), more = roll(actor, 1 << 20);
    if (tiny || how < 25)
        return more % 80;
    if (how < 45)
        return more % 3000;
    if (how < 60)
        return more % 100000;
    size_t most = edge < 50 ? 5 : edge < 95 ? 10 : 12;
    size_t at = edges[edge % most];
    return how < 90 ? at + 16 * (more % 5) - 32 : at / 4 * (1 + more % 7);
}

static struct job draw_job(struct actor *actor, bool tiny)
{
    static const enum job_kind kinds[] = {JOB_ALLREDUCE, JOB_ALLREDUCE, JOB_REDUCE,    JOB_REDUCE_SCATTER,
                                          JOB_BROADCAST, JOB_ALLGATHER, JOB_GATHER,    JOB_SCATTER,
                                          JOB_ALLTOALL,  JOB_ALLTOALLV, JOB_ALLTOALLV, JOB_EXCHANGE};
    struct job job = {.kind = kinds[roll(actor, sizeof kinds / sizeof *kinds)],
                      .type = (tutti_type_t)roll(actor, TUTTI_TYPE_COUNT),
                      .op = (int)roll(actor, DATA_PREMUL + 1),
                      .root = (int)roll(actor, GPUS * 3)};
    size_t bytes = draw_bytes(actor, tiny);
    job.count = bytes / data_size(job.type);
    job.in_place = job_may_be_in_place(job.kind) && roll(actor, 2);
    job.send_skew = roll(actor, 5) < 3 ? 0 : (int)roll(actor, 32);
    job.recv_skew = roll(actor, 5) < 3 ? 0 : (int)roll(actor, 32);
    return job;
}

struct task *plan_task(struct actor *actor, int family, bool captured, bool tiny)
{
    struct task *task = calloc(1, sizeof *task);
    if (!task)
        wrong(actor, "no memory", 0);
    task->job = draw_job(actor, tiny);
    task->family = family;
    task->ranks = actor->family[family];
    task->captured = captured;
    task->stream = (int)roll(actor, STREAMS);
    task->before = (int)roll(actor, 2 * STREAMS);
    task->behind = (int)roll(actor, 2 * STREAMS);
    task->device_scalar = roll(actor, 2);
    task->times = 1 + (int)(roll(actor, 20) == 0 ? roll(actor, 80) : 0);
    if (task->job.in_place || task->job.count > 3000)
        task->times = 1;
    task->with_zeros = run.without && strstr(run.without, "gaps");
    task->shifts = !strstr(run.without, "shifts") && !captured && roll(actor, 4) == 0;
    task->key = data_hash(run.seed ^ 0x5eed, actor->rolls);
    task->job.seed = task->key;
    if (task->before >= STREAMS || captured)
        task->before = task->stream;
    if (task->behind >= STREAMS || captured)
        task->behind = task->stream;
    return task;
}
