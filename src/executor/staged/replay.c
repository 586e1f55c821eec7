/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of graphs, made when their kernels come. */
#include "executor/staged/replay.h"

#include "base/error.h"
#include "engine/executor.h"
#include "engine/failure.h"
#include "engine/puts.h"
#include "executor/staged/job.h"

#include <stdlib.h>
#include <string.h>

static const struct job *find_recipe(const struct staged *staged, uint32_t number)
{
    list_each(node, &staged->recipes)
    {
        const struct job *recipe = list_entry(node, struct job, node);
        if (recipe->sequence == number)
            return recipe;
    }
    return NULL;
}

static void *copy_list(const void *list, size_t bytes)
{
    void *copy = list ? malloc(bytes) : NULL;
    if (copy)
        memcpy(copy, list, bytes);
    return copy;
}

static struct job *copy_recipe(const struct staged *staged, const struct job *recipe)
{
    struct job *job = recipe ? malloc(sizeof *job) : NULL;
    if (!job)
        return NULL;
    *job = *recipe;
    job->items = copy_list(recipe->items, (size_t)recipe->count * sizeof *job->items);
    job->asked = copy_list(recipe->asked, (size_t)recipe->count * sizeof *job->asked);
    job->lengths = copy_list(recipe->lengths, job_ranks(staged, recipe) * sizeof *job->lengths);
    job->dynamic = copy_list(recipe->dynamic, sizeof *job->dynamic);
    if (!job->items == !recipe->items && !job->asked == !recipe->asked && !job->lengths == !recipe->lengths &&
        !job->dynamic == !recipe->dynamic)
        return job;
    job_free(job);
    return NULL;
}

struct job *replay_take(struct staged *staged)
{
    struct kernel_post *post = staged->post;
    uint32_t launch = __atomic_load_n(&post->asked, __ATOMIC_ACQUIRE);
    struct job *job = copy_recipe(staged, find_recipe(staged, __atomic_load_n(&post->recipe, __ATOMIC_RELAXED)));
    staged->posted = launch;
    staged->given += 2;
    if (job) {
        job->sequence = staged->given;
        job->left = __builtin_popcount(job->channels);
        list_push(staged->jobs.next, &job->node);
    } else {
        team_fail(staged->base.team, TUTTI_SYSTEM_ERROR, staged->base.team->rank, "no memory for a graph's operation");
        __atomic_store_n(&post->over, staged->given, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&post->job, staged->given, __ATOMIC_RELAXED);
    __atomic_store_n(&post->answered, launch, __ATOMIC_RELEASE);
    return job;
}

void replay_close(struct staged *staged)
{
    while (!list_empty(&staged->recipes))
        job_free(list_entry(list_pop(&staged->recipes), struct job, node));
}
