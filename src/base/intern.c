/* SPDX-License-Identifier: Apache-2.0 */
/* A table of chains that grows with what is in it. */
#include "base/intern.h"

#include "base/fork.h"
#include "base/random.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INTERN_LEAST 256
#define INTERN_HEAD  64 /* bytes by which things are found */

struct interned {
    struct interned *next;
    uint64_t hash;
    uint32_t holders, generation; /* of the process that made it */
    size_t size;
    uint64_t bytes[];
};

static pthread_mutex_t intern_lock = PTHREAD_MUTEX_INITIALIZER;
static struct interned **intern_chain;
static size_t intern_chains, intern_count, intern_bytes;

static void intern_forget(void)
{
    pthread_mutex_init(&intern_lock, NULL);
    intern_chain = NULL;
    intern_chains = intern_count = intern_bytes = 0;
}

__attribute__((constructor)) static void intern_watch_forks(void)
{
    fork_reset_by(intern_forget);
}

static struct interned *interned_of(const void *bytes)
{
    return (struct interned *)((char *)(uintptr_t)bytes - offsetof(struct interned, bytes));
}

/* Without memory for more chains those that there are grow longer. */
static void intern_grow(void)
{
    size_t chains = intern_chains ? 2 * intern_chains : INTERN_LEAST;
    struct interned **chain = calloc(chains, sizeof *chain);
    if (!chain)
        return;
    for (size_t i = 0; i < intern_chains; i++)
        for (struct interned *at = intern_chain[i], *next; at; at = next) {
            struct interned **to = &chain[at->hash % chains];
            next = at->next;
            at->next = *to;
            *to = at;
        }
    free(intern_chain);
    intern_chain = chain;
    intern_chains = chains;
}

static struct interned *intern_find(uint64_t hash, const void *bytes, size_t size)
{
    struct interned *at = intern_chains ? intern_chain[hash % intern_chains] : NULL;
    while (at && (at->hash != hash || at->size != size || memcmp(at->bytes, bytes, size) != 0))
        at = at->next;
    return at;
}

static struct interned *intern_add(uint64_t hash, const void *bytes, size_t size)
{
    if (intern_count >= intern_chains)
        intern_grow();
    struct interned *made = intern_chains ? malloc(sizeof *made + size) : NULL;
    if (!made)
        return NULL;
    struct interned **chain = &intern_chain[hash % intern_chains];
    *made = (struct interned){.next = *chain, .hash = hash, .generation = fork_generation, .size = size};
    memcpy(made->bytes, bytes, size);
    *chain = made;
    intern_count++;
    intern_bytes += sizeof *made + size;
    return made;
}

const void *intern(const void *bytes, size_t size)
{
    uint64_t hash = hash_bytes(size, bytes, size < INTERN_HEAD ? size : INTERN_HEAD);
    pthread_mutex_lock(&intern_lock);
    struct interned *found = intern_find(hash, bytes, size);
    if (!found)
        found = intern_add(hash, bytes, size);
    if (found)
        found->holders++;
    pthread_mutex_unlock(&intern_lock);
    return found ? found->bytes : NULL;
}

const void *intern_again(const void *interned)
{
    pthread_mutex_lock(&intern_lock);
    interned_of(interned)->holders++;
    pthread_mutex_unlock(&intern_lock);
    return interned;
}

static void intern_remove(struct interned *gone)
{
    struct interned **at = &intern_chain[gone->hash % intern_chains];
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    intern_count--;
    intern_bytes -= sizeof *gone + gone->size;
    free(gone);
    if (intern_count)
        return;
    free(intern_chain);
    intern_chain = NULL;
    intern_chains = 0;
}

void intern_release(const void *interned)
{
    struct interned *held = interned ? interned_of(interned) : NULL;
    if (!held || held->generation != fork_generation)
        return;
    pthread_mutex_lock(&intern_lock);
    if (--held->holders == 0)
        intern_remove(held);
    pthread_mutex_unlock(&intern_lock);
}

size_t intern_share(const void *interned)
{
    const struct interned *held = interned_of(interned);
    pthread_mutex_lock(&intern_lock);
    size_t share = (sizeof *held + held->size) / held->holders;
    pthread_mutex_unlock(&intern_lock);
    return share;
}

size_t intern_memory(void)
{
    pthread_mutex_lock(&intern_lock);
    size_t bytes = intern_bytes + intern_chains * sizeof *intern_chain;
    pthread_mutex_unlock(&intern_lock);
    return bytes;
}
