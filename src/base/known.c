/* SPDX-License-Identifier: Apache-2.0 */
/* Known memory in a table by address, under one mutex. Ranges may overlap: a user may register a part of what the
 * library has allocated. */
#include "base/known.h"

#include "base/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct known_entry {
    struct known known;
    int descriptor; /* -1: none */
    bool refused;
    uintptr_t end; /* the highest one of all entries up to this one */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct known_entry *table; /* by base */
static size_t count, room;
static uint64_t last_id;
static struct list watchers = {&watchers, &watchers};

/* In a forked child, which may free nothing here: what is known of its memory it has to be told anew. */
static void known_forget(void)
{
    pthread_mutex_init(&mutex, NULL);
    for (size_t i = 0; i < count; i++)
        if (table[i].descriptor >= 0)
            close(table[i].descriptor);
    count = 0;
    fork_forget(&watchers);
}

__attribute__((constructor)) static void known_watch_forks(void)
{
    fork_reset_by(known_forget);
}

/* How many entries begin at or below the address. */
static size_t entries_to(uintptr_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)table[middle].known.base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void set_ends(size_t from)
{
    for (size_t i = from; i < count; i++) {
        uintptr_t end = (uintptr_t)table[i].known.base + table[i].known.size;
        table[i].end = i && table[i - 1].end > end ? table[i - 1].end : end;
    }
}

static void known_ring(void)
{
    uint64_t one = 1;
    list_each(node, &watchers)
    {
        ssize_t ignored = write(list_entry(node, struct known_watcher, node)->bell, &one, sizeof one);
        (void)ignored; /* full: it has rung */
    }
}

static bool known_make_room(void)
{
    if (count < room)
        return true;
    size_t more = room ? 2 * room : 64;
    struct known_entry *bigger = realloc(table, more * sizeof *bigger);
    if (!bigger)
        return false;
    table = bigger;
    room = more;
    return true;
}

static uint64_t known_enter(struct known known, int descriptor)
{
    uint64_t id = 0;
    pthread_mutex_lock(&mutex);
    if (known.size && known_make_room()) {
        size_t place = entries_to((uintptr_t)known.base);
        memmove(table + place + 1, table + place, (count - place) * sizeof *table);
        known.id = id = ++last_id;
        table[place] = (struct known_entry){.known = known, .descriptor = descriptor};
        count++;
        set_ends(place);
        known_ring();
    }
    pthread_mutex_unlock(&mutex);
    return id;
}

uint64_t known_add(void *base, size_t size)
{
    return known_enter((struct known){.base = base, .size = size}, -1);
}

uint64_t known_add_device(const struct known *memory, int descriptor)
{
    uint64_t id = known_enter(*memory, descriptor);
    if (!id && descriptor >= 0)
        close(descriptor);
    return id;
}

/* The place of the entry; `count` if there is none. */
static size_t known_find_id(uint64_t id)
{
    size_t place = 0;
    while (place < count && table[place].known.id != id)
        place++;
    return place;
}

void known_remove(uint64_t id)
{
    int descriptor = -1;
    pthread_mutex_lock(&mutex);
    size_t place = known_find_id(id);
    if (place < count) {
        descriptor = table[place].descriptor;
        count--;
        memmove(table + place, table + place + 1, (count - place) * sizeof *table);
        set_ends(place);
        known_ring();
    }
    pthread_mutex_unlock(&mutex);
    if (descriptor >= 0) /* last: a child that is forked meanwhile closes what the table has */
        close(descriptor);
}

bool known_find(const void *address, size_t length, struct known *out)
{
    bool found = false;
    uintptr_t begin = (uintptr_t)address, end = begin + length;
    pthread_mutex_lock(&mutex);
    for (size_t i = entries_to(begin); end >= begin && i > 0 && table[i - 1].end >= end && !found; i--) {
        const struct known *known = &table[i - 1].known;
        found = (uintptr_t)known->base + known->size >= end;
        if (found)
            *out = *known;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

bool known_refuse(uint64_t id)
{
    pthread_mutex_lock(&mutex);
    size_t place = known_find_id(id);
    bool news = place < count && !table[place].refused;
    if (news)
        table[place].refused = true;
    pthread_mutex_unlock(&mutex);
    return news;
}

bool known_is_refused(uint64_t id)
{
    pthread_mutex_lock(&mutex);
    size_t place = known_find_id(id);
    bool refused = place < count && table[place].refused;
    pthread_mutex_unlock(&mutex);
    return refused;
}

int known_descriptor(uint64_t id, bool *ordered)
{
    pthread_mutex_lock(&mutex);
    size_t place = known_find_id(id);
    int copy = place < count && table[place].descriptor >= 0 ? fcntl(table[place].descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    *ordered = copy >= 0 && table[place].known.ordered;
    pthread_mutex_unlock(&mutex);
    return copy;
}

bool known_lives(uint64_t id)
{
    pthread_mutex_lock(&mutex);
    bool lives = known_find_id(id) < count;
    pthread_mutex_unlock(&mutex);
    return lives;
}

bool known_next(uint64_t after, struct known *out)
{
    bool found = false;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < count; i++)
        if (table[i].known.id > after && (!found || table[i].known.id < out->id)) {
            *out = table[i].known;
            found = true;
        }
    pthread_mutex_unlock(&mutex);
    return found;
}

void known_watch(struct known_watcher *watcher, int bell)
{
    watcher->bell = bell;
    pthread_mutex_lock(&mutex);
    list_push(&watchers, &watcher->node);
    pthread_mutex_unlock(&mutex);
}

void known_unwatch(struct known_watcher *watcher)
{
    pthread_mutex_lock(&mutex);
    list_remove(&watcher->node);
    pthread_mutex_unlock(&mutex);
}
