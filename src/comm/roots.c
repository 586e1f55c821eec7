/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting points of new communicators, served by the engine's thread until all ranks have joined. */
#include "bootstrap/env.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "comm/comm.h"
#include "engine/engine_life.h"
#include "wire/bootstrap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTLE_MS 2000
#define HEAR_MS   200 /* for a root to hear why a rank of this process has given up, and to say so */

struct root {
    struct list node;
    struct engine *engine;
    struct bootstrap_root *service;
    tutti_unique_id_t id; /* of those who meet there */
    bool fresh;           /* the id says that somebody listens: a rank that is late knows what a refusal means */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list roots = {&roots, &roots};
static _Atomic pid_t owner; /* of the roots; 0: there were none */

/* In a forked child: what it inherited is its parent's. */
static void roots_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    fork_forget(&roots);
}

__attribute__((constructor)) static void roots_watch_forks(void)
{
    fork_reset_by(roots_forget);
}

typedef tutti_result_t open_fn(void *context, struct poller *poller, struct bootstrap_root **out);

static void root_free(struct root *root)
{
    lock_take(&root->engine->lock);
    bootstrap_root_close(root->service);
    lock_release(&root->engine->lock);
    engine_release(root->engine);
    free(root);
}

struct fresh {
    tutti_unique_id_t *id;
    int opener; /* rank of the communicator that grows; -1: none does */
};

static tutti_result_t open_fresh(void *context, struct poller *poller, struct bootstrap_root **out)
{
    const struct fresh *fresh = context;
    tutti_result_t result = bootstrap_root_open(poller, NULL, fresh->id, out);
    if (result == TUTTI_SUCCESS && fresh->opener >= 0)
        boot_id_set_opener(fresh->id, fresh->opener);
    return result;
}

static tutti_result_t open_with(open_fn *open, void *context, const tutti_unique_id_t *id)
{
    struct root *root = calloc(1, sizeof *root);
    if (!root)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a meeting point");
    tutti_result_t result = engine_acquire(&root->engine);
    if (result != TUTTI_SUCCESS) {
        free(root);
        return result;
    }
    lock_take(&root->engine->lock);
    result = open(context, root->engine->poller, &root->service);
    lock_release(&root->engine->lock);
    if (result != TUTTI_SUCCESS || !root->service) {
        root_free(root);
        return result;
    }
    root->id = *id;
    root->fresh = open == open_fresh;
    pthread_mutex_lock(&lock);
    owner = getpid();
    list_push(&roots, &root->node);
    pthread_mutex_unlock(&lock);
    return TUTTI_SUCCESS;
}

static tutti_result_t open_env(void *context, struct poller *poller, struct bootstrap_root **out)
{
    return env_root_open(context, poller, out);
}

tutti_result_t roots_open(tutti_unique_id_t *id, int opener)
{
    return open_with(open_fresh, &(struct fresh){id, opener}, id);
}

tutti_result_t roots_open_env(struct env_identity *identity)
{
    if (identity->root_here)
        return open_with(open_env, identity, &identity->id);
    env_identity_release(identity); /* without an engine: one that serves nothing would come and go */
    return TUTTI_SUCCESS;
}

static bool is_of(const struct root *root, const tutti_unique_id_t *id)
{
    return root->fresh && memcmp(&root->id, id, sizeof *id) == 0;
}

/* Takes out those that have done their work, that of `unwanted` if it is not NULL, or all; frees them. */
static void comm_roots_sweep(bool all, const tutti_unique_id_t *unwanted)
{
    struct list done;
    list_init(&done);
    pthread_mutex_lock(&lock);
    list_each_safe(node, &roots)
    {
        struct root *root = list_entry(node, struct root, node);
        if (!all && !bootstrap_root_done(root->service) && !(unwanted && is_of(root, unwanted)))
            continue;
        list_remove(&root->node);
        list_push(&done, &root->node);
    }
    pthread_mutex_unlock(&lock);
    while (!list_empty(&done))
        root_free(list_entry(list_pop(&done), struct root, node));
}

void roots_sweep(void)
{
    comm_roots_sweep(false, NULL);
}

static bool is_unheard(const tutti_unique_id_t *id)
{
    bool unheard = false;
    pthread_mutex_lock(&lock);
    list_each(node, &roots)
    {
        const struct root *root = list_entry(node, struct root, node);
        unheard |= is_of(root, id) && !bootstrap_root_answered(root->service);
    }
    pthread_mutex_unlock(&lock);
    return unheard;
}

void roots_give_up(const tutti_unique_id_t *id)
{
    uint64_t deadline = clock_deadline_ms(HEAR_MS);
    while (is_unheard(id) && !clock_passed(deadline))
        usleep(200);
    comm_roots_sweep(false, id);
}

void roots_refuse(const tutti_unique_id_t *id, const struct roots_refusal *refusal)
{
    pthread_mutex_lock(&lock);
    list_each(node, &roots)
    {
        const struct root *root = list_entry(node, struct root, node);
        if (!is_of(root, id))
            continue;
        lock_take(&root->engine->lock);
        bootstrap_root_refuse(root->service, refusal->how, refusal->rank, refusal->nranks, refusal->members);
        lock_release(&root->engine->lock);
    }
    pthread_mutex_unlock(&lock);
}

static bool any_hangs(void)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    list_each(node, &roots)
    {
        const struct bootstrap_root *service = list_entry(node, struct root, node)->service;
        any |= bootstrap_root_answered(service) && !bootstrap_root_done(service);
    }
    pthread_mutex_unlock(&lock);
    return any;
}

void roots_settle(void)
{
    uint64_t deadline = clock_deadline_ms(SETTLE_MS);
    while (any_hangs() && !clock_passed(deadline))
        usleep(200);
    comm_roots_sweep(false, NULL);
}

/*
 * A meeting point that nobody came to would keep the engine from its goodbye to the peers. Not in a forked child, which
 * has no engine's thread.
 */
__attribute__((destructor)) static void close_at_exit(void)
{
    if (owner == getpid())
        comm_roots_sweep(true, NULL);
}
