/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers of a block, and its threads. */
#include "cuda/kernels/threads/threads.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct barrier {
    pthread_cond_t changed;
    uint32_t count;
    uint64_t generation, here; /* here: bits of the threads that have come */
    bool any, answer;
} barriers[16];

__thread struct cuda_index cuda_thread_index;
struct cuda_index cuda_block_size;

static bool meet(uint32_t id, uint32_t threads, bool waits, bool yes)
{
    struct barrier *b = &barriers[id];
    uint64_t me = (uint64_t)1 << cuda_thread_index.x;
    pthread_mutex_lock(&lock);
    if (b->here & me || b->count >= threads)
        abort();
    b->here |= me;
    b->any |= yes;
    uint64_t generation = b->generation;
    if (++b->count == threads) {
        b->answer = b->any;
        b->count = 0;
        b->here = 0;
        b->any = false;
        b->generation++;
        pthread_cond_broadcast(&b->changed);
    }
    while (waits && b->generation == generation)
        pthread_cond_wait(&b->changed, &lock);
    bool answer = b->answer;
    pthread_mutex_unlock(&lock);
    return answer;
}

void threads_meet(uint32_t id, uint32_t threads, bool waits)
{
    meet(id, threads, waits, false);
}

bool threads_any(uint32_t id, uint32_t threads, bool yes)
{
    return meet(id, threads, true, yes);
}

struct threads_thread {
    pthread_t handle;
    threads_kernel *kernel;
    const void *params;
    unsigned index;
    struct cuda_index grid, block;
};

static void *run(void *argument)
{
    const struct threads_thread *t = argument;
    cuda_thread_index = (struct cuda_index){t->index, 0, 0};
    cuda_grid = t->grid;
    cuda_block_index = t->block;
    t->kernel(t->params);
    return NULL;
}

void threads_run(threads_kernel *kernel, const void *params, unsigned threads, struct cuda_index grid,
                 struct cuda_index block)
{
    struct threads_thread all[THREADS_MOST];
    for (int i = 0; i < 16; i++)
        barriers[i] = (struct barrier){.changed = PTHREAD_COND_INITIALIZER};
    cuda_block_size = (struct cuda_index){threads, 1, 1};
    for (unsigned i = 0; i < threads; i++) {
        all[i] = (struct threads_thread){.kernel = kernel, .params = params, .index = i, .grid = grid, .block = block};
        if (pthread_create(&all[i].handle, NULL, run, &all[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i].handle, NULL);
}
