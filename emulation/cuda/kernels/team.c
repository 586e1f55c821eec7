/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads. */
#include "cuda/kernels/team.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define NUMBERS (KERNEL_BLOCKS_OVER / sizeof(uint32_t)) /* the words of a window come first */

static unsigned char *zeroed(uint64_t bytes)
{
    void *at =
        bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : NULL;
    return at == MAP_FAILED ? NULL : at;
}

bool team_init(struct thread_team *team, int n)
{
    *team = (struct thread_team){.n = n};
    for (int p = 0; p < n; p++) {
        team->window[p] = zeroed(kernel_window_bytes(n));
        team->bulk[p] = zeroed(kernel_bulk_bytes(n));
        if (!team->window[p] || (n > 1 && !team->bulk[p])) {
            team_free(team);
            return false;
        }
    }
    return true;
}

void team_free(struct thread_team *team)
{
    for (int p = 0; p < team->n; p++) {
        if (team->window[p])
            munmap(team->window[p], kernel_window_bytes(team->n));
        if (team->bulk[p])
            munmap(team->bulk[p], kernel_bulk_bytes(team->n));
    }
    *team = (struct thread_team){0};
}

void team_count_from(struct thread_team *team, uint32_t number)
{
    for (int p = 0; p < team->n; p++)
        for (size_t i = 0; i < NUMBERS; i++)
            ((uint32_t *)team->window[p])[i] = number;
}

struct kernel_team team_of(struct thread_team *team, int rank)
{
    struct kernel_team out = {.rank = rank,
                              .nranks = team->n,
                              .abort = &team->abort,
                              .ticket = rank ? 0 : ++team->tickets,
                              .times = team->times};
    for (int p = 0; p < team->n; p++) {
        out.window[p] = team->window[p];
        out.bulk[p] = team->bulk[p];
    }
    return out;
}

struct team_block {
    const struct team_job *job;
    int rank;
    unsigned index;
    pthread_t thread;
};

static void *run_block(void *arg)
{
    const struct team_block *block = arg;
    const struct cuda_index grid = block->job->grid[block->rank];
    const struct cuda_index at = {block->index % grid.x, block->index / grid.x, 0};
    const struct cuda_kernel *own = block->job->own[block->rank];
    cuda_kernel_run_block(own ? own : block->job->kernel, &block->job->params[block->rank], grid, at);
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    if (pthread_create(thread, NULL, run, arg) != 0)
        abort();
}

static void run_job(const struct team_job *job, int rank)
{
    const unsigned blocks = job->grid[rank].x * job->grid[rank].y;
    struct team_block each[blocks];
    for (unsigned i = 0; i < blocks; i++) {
        each[i] = (struct team_block){job, rank, i, 0};
        if (job->each_block_its_thread)
            start(&each[i].thread, run_block, &each[i]);
        else
            run_block(&each[i]);
    }
    for (unsigned i = 0; job->each_block_its_thread && i < blocks; i++)
        pthread_join(each[i].thread, NULL);
}

struct rank {
    const struct team_job *jobs;
    size_t count;
    int rank;
    pthread_t thread;
};

static void *run_rank(void *arg)
{
    const struct rank *rank = arg;
    for (size_t i = 0; i < rank->count; i++)
        if (!rank->jobs[i].joined[rank->rank])
            run_job(&rank->jobs[i], rank->rank);
    return NULL;
}

static bool is_told(const struct kernel_team *team)
{
    const uint64_t *times = team->times + 2 * (team->ticket % KERNEL_TIMES);
    return team->abort[KERNEL_OVER] == team->ticket && times[0] && times[0] <= times[1];
}

void team_run(const struct team_job *jobs, size_t count, int first, int end)
{
    struct rank ranks[KERNEL_RANKS];
    for (int p = first; p < end; p++) {
        ranks[p] = (struct rank){jobs, count, p, 0};
        start(&ranks[p].thread, run_rank, &ranks[p]);
    }
    for (int p = first; p < end; p++)
        pthread_join(ranks[p].thread, NULL);
    if (count && first == 0 && !is_told(&jobs[count - 1].params[0].reduce.team)) /* of any kernel: it comes first */
        abort();
}
