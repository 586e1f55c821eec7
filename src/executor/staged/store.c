/* SPDX-License-Identifier: Apache-2.0 */
/* One thread, in a stream of its own. The thread calls the driver: no courier runs where nobody has called anything. */
#include "executor/staged/store.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/team.h"

#include <stdio.h>
#include <string.h>

static struct staged_store *store_of(struct window_store *as)
{
    return container_of(as, struct staged_store, as);
}

static void store_take_move(struct window_store *as, struct window_move *move)
{
    struct staged_store *store = store_of(as);
    pthread_mutex_lock(&store->lock);
    list_push(&store->asked, &move->node);
    pthread_cond_signal(&store->news);
    pthread_mutex_unlock(&store->lock);
}

static struct window_move *store_next_over(struct window_store *as)
{
    struct staged_store *store = store_of(as);
    pthread_mutex_lock(&store->lock);
    struct list *node = list_pop(&store->over);
    pthread_mutex_unlock(&store->lock);
    return node ? list_entry(node, struct window_move, node) : NULL;
}

static void store_forget_moves(struct window_store *as)
{
    struct staged_store *store = store_of(as);
    pthread_mutex_lock(&store->lock);
    store->stops++;
    while (list_pop(&store->asked) || list_pop(&store->over))
        continue;
    while (store->busy)
        pthread_cond_wait(&store->quiet, &store->lock);
    pthread_mutex_unlock(&store->lock);
}

static tutti_result_t copy_one(const struct staged_store *store, const struct window_move *move)
{
    CUdeviceptr host = (CUdeviceptr)(uintptr_t)move->host, device = move->device;
    return cuda_check(
        store->cu->MemcpyAsync(move->out ? host : device, move->out ? device : host, move->bytes, store->stream),
        move->out ? "reading a window" : "storing to a window");
}

/* All of a list, which stays as it is. */
static void copy_all(const struct staged_store *store, struct list *moves)
{
    tutti_result_t result = TUTTI_SUCCESS;
    list_each(node, moves)
    {
        if (result == TUTTI_SUCCESS)
            result = copy_one(store, list_entry(node, struct window_move, node));
    }
    tutti_result_t ended = cuda_check(store->cu->StreamSynchronize(store->stream), "moving what windows hold");
    result = result == TUTTI_SUCCESS ? ended : result;
    list_each(node, moves)
    {
        struct window_move *move = list_entry(node, struct window_move, node);
        move->result = result;
        if (result != TUTTI_SUCCESS)
            snprintf(move->sentence, sizeof move->sentence, "%s", error_last());
    }
}

/* Under the lock. False: there was nothing to do, or nobody waits for it. */
static bool store_work_off(struct staged_store *store)
{
    struct list mine;
    unsigned stops = store->stops;
    list_init(&mine);
    for (struct list *node; (node = list_pop(&store->asked));)
        list_push(&mine, node);
    store->busy = !list_empty(&mine);
    if (!store->busy)
        return false;
    pthread_mutex_unlock(&store->lock);
    copy_all(store, &mine);
    pthread_mutex_lock(&store->lock);
    for (struct list *node; (node = list_pop(&mine));)
        if (stops == store->stops)
            list_push(&store->over, node);
    store->busy = false;
    pthread_cond_broadcast(&store->quiet);
    return stops == store->stops;
}

static void *store_work(void *argument)
{
    struct staged_store *store = argument;
    cuda_enter(store->device);
    pthread_mutex_lock(&store->lock);
    while (!store->ends) {
        if (store_work_off(store)) {
            pthread_mutex_unlock(&store->lock);
            windows_moved(store->team);
            pthread_mutex_lock(&store->lock);
        } else if (list_empty(&store->asked)) {
            pthread_cond_wait(&store->news, &store->lock);
        }
    }
    pthread_mutex_unlock(&store->lock);
    cuda_leave();
    return NULL;
}

tutti_result_t store_open(struct staged_store *store, struct team *team, struct cuda_device *device, char *slots,
                          size_t piece)
{
    *store = (struct staged_store){.as = {.piece = piece,
                                          .free = STORE_SLOTS,
                                          .move = store_take_move,
                                          .moved = store_next_over,
                                          .stop = store_forget_moves},
                                   .device = device,
                                   .team = team};
    for (int i = 0; i < STORE_SLOTS; i++)
        store->as.slots[i] = slots + (size_t)i * piece;
    list_init(&store->as.starving);
    list_init(&store->asked);
    list_init(&store->over);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->news, NULL);
    pthread_cond_init(&store->quiet, NULL);
    tutti_result_t result = cuda_driver(&store->cu);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(store->cu->StreamCreateWithPriority(&store->stream, CU_STREAM_NON_BLOCKING, 0),
                            "making a stream");
    if (result == TUTTI_SUCCESS && !windows_keep_in(team, &store->as))
        result = error_set(TUTTI_SYSTEM_ERROR, "no memory for windows of %d ranks", team->nranks);
    return result == TUTTI_SUCCESS ? thread_start(&store->thread, "tutti-store", store_work, store) : result;
}

void store_close(struct staged_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->ends = true;
    pthread_cond_signal(&store->news);
    pthread_mutex_unlock(&store->lock);
    thread_end(&store->thread);
    if (store->stream)
        store->cu->StreamDestroy(store->stream);
    pthread_cond_destroy(&store->quiet);
    pthread_cond_destroy(&store->news);
    pthread_mutex_destroy(&store->lock);
}
