/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for what a program holds: communicators, requests and the like. */
#include <pthread.h>
#include <stdlib.h>

#include "mpi/objects.h"
#include "mpi/shim.h"

static const unsigned first[KIND_COUNT] = {0x84000000, 0x88000000, 0x8d000000, 0x98000000, 0xac000000, 0xac000000};

static struct table {
    void **objects;
    int room, used; /* `used`: entries that were ever taken */
    int hint;       /* nothing before it is free */
} tables[KIND_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int place(struct table *t)
{
    for (int i = t->hint; i < t->used; i++)
        if (!t->objects[i])
            return i;
    if (t->used == t->room) {
        int room = t->room ? 2 * t->room : 64;
        void **more = room < 1 << 22 ? realloc(t->objects, room * sizeof(*more)) : NULL;
        if (!more)
            return -1;
        t->objects = more;
        t->room = room;
    }
    return t->used++;
}

int object_new(enum kind kind, void *object)
{
    struct table *t = &tables[kind == KIND_MESSAGE ? KIND_REQUEST : kind];
    pthread_mutex_lock(&lock);
    int i = place(t);
    if (i >= 0) {
        t->objects[i] = object;
        t->hint = i + 1;
    }
    pthread_mutex_unlock(&lock);
    return i < 0 ? 0 : (int)(first[kind] + i);
}

void *object_get(enum kind kind, int handle)
{
    struct table *t = &tables[kind == KIND_MESSAGE ? KIND_REQUEST : kind];
    unsigned i = (unsigned)handle - first[kind];
    pthread_mutex_lock(&lock);
    void *object = i < (unsigned)t->used ? t->objects[i] : NULL;
    pthread_mutex_unlock(&lock);
    return object;
}

void object_free(enum kind kind, int handle)
{
    struct table *t = &tables[kind == KIND_MESSAGE ? KIND_REQUEST : kind];
    unsigned i = (unsigned)handle - first[kind];
    pthread_mutex_lock(&lock);
    if (i < (unsigned)t->used) {
        t->objects[i] = NULL;
        if ((int)i < t->hint)
            t->hint = (int)i;
    }
    pthread_mutex_unlock(&lock);
}
