/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU executors of this process: asked, and visited, by one another. */
#include "executor/gpu/here.h"

#include "executor/gpu/gpu.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone = PTHREAD_COND_INITIALIZER; /* visitors */
static struct list gpus = {&gpus, &gpus};

void here_join(struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    list_push(&gpus, &gpu->near);
    pthread_mutex_unlock(&lock);
}

void here_leave(struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    list_remove(&gpu->near);
    while (gpu->visitors)
        pthread_cond_wait(&gone, &lock);
    pthread_mutex_unlock(&lock);
}

bool here_any(bool (*says)(struct gpu *gpu, const void *argument), const void *argument)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    list_each(node, &gpus) any |= says(list_entry(node, struct gpu, near), argument);
    pthread_mutex_unlock(&lock);
    return any;
}

struct gpu *here_visit(bool (*says)(const struct gpu *gpu, const void *argument), const void *argument)
{
    struct gpu *found = NULL;
    pthread_mutex_lock(&lock);
    list_each(node, &gpus)
    {
        struct gpu *other = list_entry(node, struct gpu, near);
        found = !found && says(other, argument) ? other : found;
    }
    if (found)
        found->visitors++;
    pthread_mutex_unlock(&lock);
    return found;
}

bool here_are_all(const struct gpu *gpu)
{
    bool all = true;
    for (int rank = 0; rank < gpu->nranks; rank++)
        all = all && gpu->here[rank];
    return all;
}

struct here_member {
    uint64_t team;
    int rank;
};

static bool is_member(const struct gpu *gpu, const void *argument)
{
    const struct here_member *member = argument;
    return gpu->rank == member->rank && gpu->base.team->id == member->team;
}

struct gpu *here_visit_rank(const struct gpu *gpu, int rank)
{
    struct here_member member = {gpu->base.team->id, rank};
    return here_visit(is_member, &member);
}

void here_go(struct gpu *visited)
{
    pthread_mutex_lock(&lock);
    if (!--visited->visitors)
        pthread_cond_broadcast(&gone);
    pthread_mutex_unlock(&lock);
}
