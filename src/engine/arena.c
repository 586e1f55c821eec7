/* SPDX-License-Identifier: Apache-2.0 */
/* Making, mapping and sleeping on an arena. */
#include "engine/arena.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/param.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARENA_MAGIC  0x41545554u
#define ARENA_BUDGET (64u << 20)
#define SLOT_MOST    (512u << 10)
#define SLOT_LEAST   (4u << 10)

size_t arena_payload(int nranks)
{
    size_t wanted = (size_t)param_int(PARAM_SHARED_SLOT);
    if (wanted == 0) {
        wanted = ARENA_BUDGET / ((size_t)nranks * (size_t)param_int(PARAM_SHARED_SLOTS));
        wanted = wanted > SLOT_MOST ? SLOT_MOST : wanted < SLOT_LEAST ? SLOT_LEAST : wanted;
    }
    return wanted / CACHE_LINE * CACHE_LINE;
}

/* A mapping of this process, shared by its ranks: it is paid for once, and a word has one address for all of them. */
struct arena_mapping {
    struct list node;
    dev_t device;
    ino_t inode;
    void *memory;
    size_t size;
    int users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list mappings = {&mappings, &mappings};

/* In a forked child: what it inherited is its parent's. */
static void arena_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    fork_forget(&mappings);
}

__attribute__((constructor)) static void arena_watch_forks(void)
{
    fork_reset_by(arena_forget);
}

static void layout(struct arena *arena, int nranks, uint32_t slots, size_t slot_size)
{
    size_t head = sizeof(struct arena_head), ranks = (size_t)nranks * sizeof(struct arena_rank);
    size_t before = (head + ranks + 4095) / 4096 * 4096;
    arena->nranks = nranks;
    arena->slot_count = slots;
    arena->slot_size = slot_size;
    arena->size = before + (size_t)nranks * slots * slot_size;
    arena->head = arena->memory;
    arena->ranks = (struct arena_rank *)(void *)((unsigned char *)arena->memory + head);
    arena->slots = (unsigned char *)arena->memory + before;
}

tutti_result_t arena_create(int nranks, int *fd)
{
    struct arena arena = {0};
    uint32_t slots = 2; /* the largest power of two that is allowed */
    while (slots * 2 <= param_int(PARAM_SHARED_SLOTS))
        slots *= 2;
    size_t slot_size = sizeof(struct slot) + arena_payload(nranks);
    layout(&arena, nranks, slots, slot_size);
    int memory;
    tutti_result_t result = memory_make(arena.size, &memory);
    if (result != TUTTI_SUCCESS)
        return result;
    struct arena_head head = {.magic = ARENA_MAGIC, .nranks = (uint32_t)nranks, .slots = slots, .slot_size = slot_size};
    head.finished = UINT32_MAX;
    if (pwrite(memory, &head, sizeof head, 0) != (ssize_t)sizeof head) {
        close(memory);
        return error_set(TUTTI_SYSTEM_ERROR, "cannot write to shared memory: %s", strerror(errno));
    }
    *fd = memory;
    return TUTTI_SUCCESS;
}

static bool plausible(const struct arena_head *head, int nranks)
{
    bool slots = head->slots >= 2 && head->slots <= 64 && !(head->slots & (head->slots - 1));
    return head->magic == ARENA_MAGIC && head->nranks == (uint32_t)nranks && slots &&
           head->slot_size > sizeof(struct slot) && head->slot_size <= (32u << 20) && head->slot_size % CACHE_LINE == 0;
}

/* The mapping of a file that another rank of this process has mapped, or a new one. Under the lock. */
static tutti_result_t mapping_get(int fd, const struct stat *file, size_t size, struct arena_mapping **out)
{
    list_each(node, &mappings)
    {
        struct arena_mapping *mapping = list_entry(node, struct arena_mapping, node);
        if (mapping->device != file->st_dev || mapping->inode != file->st_ino || mapping->size != size)
            continue;
        mapping->users++;
        *out = mapping;
        return TUTTI_SUCCESS;
    }
    struct arena_mapping *mapping = malloc(sizeof *mapping);
    void *memory = mapping ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(mapping);
        return error_set(TUTTI_SYSTEM_ERROR, "cannot map %zu bytes of shared memory: %s", size, strerror(errno));
    }
    *mapping = (struct arena_mapping){
        .device = file->st_dev, .inode = file->st_ino, .memory = memory, .size = size, .users = 1};
    list_push(&mappings, &mapping->node);
    *out = mapping;
    return TUTTI_SUCCESS;
}

/* The last user takes it down. Under the lock. */
static void mapping_put(struct arena_mapping *mapping)
{
    if (--mapping->users)
        return;
    munmap(mapping->memory, mapping->size);
    list_remove(&mapping->node);
    free(mapping);
}

tutti_result_t arena_map(struct arena *arena, int fd, int nranks)
{
    struct arena_head head;
    struct stat status;
    memset(arena, 0, sizeof *arena);
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || fstat(fd, &status) < 0 || !plausible(&head, nranks))
        return error_set(TUTTI_REMOTE_ERROR,
                         "the shared memory from rank 0 is not what this version expects; use one build on all ranks");
    layout(arena, nranks, head.slots, head.slot_size);
    if ((uint64_t)status.st_size < arena->size)
        return error_set(TUTTI_REMOTE_ERROR, "the shared memory from rank 0 is too short; use one build on all ranks");
    pthread_mutex_lock(&lock);
    tutti_result_t result = mapping_get(fd, &status, arena->size, &arena->mapping);
    pthread_mutex_unlock(&lock);
    if (result != TUTTI_SUCCESS)
        return result;
    arena->memory = arena->mapping->memory;
    layout(arena, nranks, head.slots, head.slot_size);
    return TUTTI_SUCCESS;
}

void arena_unmap(struct arena *arena)
{
    pthread_mutex_lock(&lock);
    if (arena->mapping)
        mapping_put(arena->mapping);
    pthread_mutex_unlock(&lock);
    arena->mapping = NULL;
    arena->memory = NULL;
}

#define ARENA_HOPS 4 /* ranks that wait for each other, looked at before this one looks at its own news */

static void arena_say(_Atomic int32_t *hint, int32_t value)
{
    if (atomic_load_explicit(hint, memory_order_relaxed) != value) /* lines that many read are not written in vain */
        atomic_store_explicit(hint, value, memory_order_relaxed);
}

void arena_say_running(struct arena *arena, int me, int awaited)
{
    int place = sched_getcpu() % ARENA_PROCESSORS;
    if (place < 0)
        return;
    arena_say(&arena->ranks[me].processor, place + 1);
    arena_say(&arena->ranks[me].awaited, awaited + 1);
    arena_say(&arena->head->running[place], me + 1);
}

static bool runs(const struct arena *arena, int peer)
{
    int32_t place = atomic_load_explicit(&arena->ranks[peer].processor, memory_order_relaxed);
    return place > 0 && place <= ARENA_PROCESSORS &&
           atomic_load_explicit(&arena->head->running[place - 1], memory_order_relaxed) == peer + 1;
}

bool arena_is_running(const struct arena *arena, int me, int peer)
{
    for (int hop = 0; hop < ARENA_HOPS; hop++) {
        if (!runs(arena, peer))
            return false;
        int next = atomic_load_explicit(&arena->ranks[peer].awaited, memory_order_relaxed) - 1;
        if (next < 0 || next >= arena->nranks || next == me)
            return true;
        peer = next;
    }
    return false;
}

/* Waking everybody for each store would wake n ranks n times; most would find that they wait for another. */
void arena_wake(struct arena *arena, int me)
{
    for (int rank = 0; rank < arena->nranks; rank++) {
        _Atomic uint32_t *word = &arena->ranks[rank].sleeping;
        uint32_t whom = atomic_load_explicit(word, memory_order_relaxed);
        if (whom == 0 || (me >= 0 && (rank == me || (whom != 1 && whom != (uint32_t)me + 2))))
            continue;
        if (atomic_exchange(word, 0))
            futex_wake_all(word);
    }
}

void arena_sleep(struct arena *arena, int me, int peer, bool (*ready)(void *context), void *context,
                 uint64_t timeout_us)
{
    _Atomic uint32_t *word = &arena->ranks[me].sleeping;
    uint32_t whom = peer < 0 ? 1 : (uint32_t)peer + 2;
    atomic_store(word, whom);
    atomic_fetch_add(&arena->head->sleepers, 1);
    atomic_thread_fence(memory_order_seq_cst); /* either we see the news, or its bringer sees us */
    if (!ready(context))
        futex_wait(word, whom, timeout_us);
    atomic_fetch_sub(&arena->head->sleepers, 1);
    atomic_store(word, 0);
}
