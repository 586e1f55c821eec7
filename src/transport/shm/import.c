/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table under one mutex: an operation on long vectors looks once for each peer. */
#include "transport/shm/import.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 256u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list buckets[BUCKETS]; /* all zero: empty, and not linked yet */
static uint64_t bytes;

/* In a forked child: what it inherited is its parent's. */
static void shm_import_forget(void)
{
    pthread_mutex_init(&mutex, NULL);
    memset(buckets, 0, sizeof buckets);
    bytes = 0;
}

__attribute__((constructor)) static void shm_import_watch_forks(void)
{
    fork_reset_by(shm_import_forget);
}

/* uuids are random: any of their bytes spread. */
static struct list *bucket(const struct region_pair *who, uint32_t id)
{
    struct list *head = &buckets[(who->owner[0] + id) % BUCKETS];
    if (!head->next)
        list_init(head);
    return head;
}

struct shm_import *import_add(const struct region_pair *who, uint32_t id, uint64_t size, int fd)
{
    void *base = NULL;
    struct shm_import *import = calloc(1, sizeof *import);
    bool fine = import && size && size <= SIZE_MAX / 2 && memory_trust(fd, (size_t)size) &&
                memory_map(fd, (size_t)size, &base) == TUTTI_SUCCESS;
    if (fd >= 0)
        close(fd);
    if (!fine) {
        free(import);
        return NULL;
    }
    *import = (struct shm_import){.who = *who, .id = id, .base = base, .size = size, .holders = 1};
    list_init(&import->of_peer);
    pthread_mutex_lock(&mutex);
    list_push(bucket(who, id), &import->node);
    bytes += size;
    pthread_mutex_unlock(&mutex);
    return import;
}

void import_release(struct shm_import *import)
{
    pthread_mutex_lock(&mutex);
    bool last = --import->holders == 0;
    if (last)
        bytes -= import->size;
    pthread_mutex_unlock(&mutex);
    if (!last)
        return;
    memory_unmap(import->base, (size_t)import->size);
    free(import);
}

void import_drop(struct shm_import *import)
{
    list_remove(&import->of_peer);
    pthread_mutex_lock(&mutex);
    list_remove(&import->node);
    pthread_mutex_unlock(&mutex);
    import_release(import);
}

struct shm_import *import_hold(const struct region_pair *who, uint32_t id)
{
    struct shm_import *found = NULL;
    pthread_mutex_lock(&mutex);
    list_each(node, bucket(who, id))
    {
        struct shm_import *import = list_entry(node, struct shm_import, node);
        if (import->id != id || memcmp(&import->who, who, sizeof *who) != 0)
            continue;
        import->holders++;
        found = import;
        break;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

uint64_t import_bytes(void)
{
    pthread_mutex_lock(&mutex);
    uint64_t now = bytes;
    pthread_mutex_unlock(&mutex);
    return now;
}
