/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of a process: made at the first use, ended at the last, and what each does with what links tell. */
#include "engine/engine_life.h"

#include "base/backoff.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/standard.h"
#include "engine/calls.h"
#include "engine/engine_thread.h"
#include "engine/failure.h"
#include "engine/news.h"
#include "engine/ports.h"
#include "engine/shared_news.h"
#include "engine/memos.h"
#include "engine/windows.h"
#include "path/path.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAVE_MS 200

static pthread_mutex_t global_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pooled {
    struct engine *engine;
    int references;
} pool[ENGINE_MOST]; /* the first is the one that has the black box */

/* In a forked child: what it inherited is its parent's. */
static void engine_life_forget(void)
{
    pthread_mutex_init(&global_lock, NULL);
    memset(pool, 0, sizeof pool);
}

__attribute__((constructor)) static void engine_life_watch_forks(void)
{
    fork_reset_by(engine_life_forget);
}

/* ---- What links tell ---- */

static void peer_lost(void *context, struct link *link)
{
    struct engine *engine = context;
    const struct wire_process *peer = link_peer(link);
    enum wire_cause how = link_has_left(link) ? WIRE_CAUSE_LEFT : WIRE_CAUSE_LOST;
    list_each(node, &engine->teams)
    {
        struct team *team = list_entry(node, struct team, node);
        for (int rank = 0; rank < team->nranks; rank++) {
            const struct roster_row *theirs = team_row(team, rank);
            if (!wire_same_process(theirs->uuid, peer->uuid) ||
                roster_session(team_row(team, team->rank), theirs) != link_session(link))
                continue;
            team_is_gone(team, rank, how);
            if (team->shared)
                shared_gone(team, rank, how);
            team_tell_news(team);
        }
    }
}

static void comm_aborted(void *context, uint64_t comm, const struct wire_abort *abort)
{
    failure_heard(context, comm, abort);
}

/* The news may have come before the peer had this team. */
static void tell_again(const struct team *team, struct link *link)
{
    if (!atomic_load(&team->failed))
        return;
    struct wire_abort news = team_news(team);
    link_abort(link, team->id, &news);
}

/* A rank of the peer waits for one of this process; or the other way round, and the peer's waits, too. */
static void peer_called(void *context, struct link *link, const struct wire_message *said, const void *body,
                        size_t length)
{
    struct engine *engine = context;
    bool answers = said->kind == WIRE_BLOCKED;
    uint32_t from = answers ? said->tag.to : said->tag.from, to = answers ? said->tag.from : said->tag.to;
    if (length != (answers ? sizeof(struct wire_blocked) : sizeof(struct wire_begun)))
        return;
    list_each(node, &engine->teams)
    {
        struct team *team = list_entry(node, struct team, node);
        if (team->id == said->tag.comm && (uint32_t)team->rank == to && from < (uint32_t)team->nranks &&
            wire_same_process(team_row(team, from)->uuid, link_peer(link)->uuid)) {
            if (said->kind != WIRE_ASK)
                calls_hear(team, said, body);
            if (!answers)
                tell_again(team, link);
        }
    }
    if (!answers)
        calls_closed(engine, link, said);
}

static void memory_shared(void *context, struct link *link, uint64_t key, int fd)
{
    struct engine *engine = context;
    struct shared_fd *shared = malloc(sizeof *shared);
    (void)link;
    if (!shared) {
        close(fd);
        return;
    }
    *shared = (struct shared_fd){.key = key, .fd = fd >= 0 ? fd : SHARED_NO_ROOM};
    list_push(&engine->shared, &shared->node);
}

/* ---- Life ---- */

static void engine_free(struct engine *engine)
{
    atomic_store(&engine->stop, true);
    if (engine->thread.runs)
        poller_wake(engine->poller);
    thread_end(&engine->thread);
    link_domain_close(engine->links);
    for (int i = 0; i < ENGINE_CLOSED; i++)
        calls_drop(&engine->closed[i]);
    while (!list_empty(&engine->shared)) {
        struct shared_fd *shared = list_entry(list_pop(&engine->shared), struct shared_fd, node);
        close(shared->fd);
        free(shared);
    }
    poller_close(engine->poller);
    engine_remove_beds(engine);
    if (engine->index == 0)
        trace_close(engine->trace, false);
    pthread_mutex_destroy(&engine->reports.lock);
    pthread_mutex_destroy(&engine->hearing);
    free(engine);
}

static tutti_result_t engine_new(int index, struct engine **out)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for the engine");
    const struct link_owner owner = {.context = engine,
                                     .lost = peer_lost,
                                     .aborted = comm_aborted,
                                     .shared = memory_shared,
                                     .called = peer_called,
                                     .near = ports_near,
                                     .on_memo = memos_heard,
                                     .on_window = windows_heard};
    list_init(&engine->teams);
    list_init(&engine->shared);
    list_init(&engine->asleep);
    list_init(&engine->beds);
    pthread_mutex_init(&engine->reports.lock, NULL);
    pthread_mutex_init(&engine->hearing, NULL);
    atomic_store(&engine->tick_wanted, UINT64_MAX);
    engine->nap_us = ENGINE_NAP_US;
    engine->index = index;
    tutti_result_t result = poller_open(&engine->poller);
    if (result == TUTTI_SUCCESS) {
        engine->trace = index ? pool[0].engine->trace : trace_open();
        result = link_domain_open(&owner, engine->poller, engine->trace, &path_stripe, &engine->links);
    }
    if (result == TUTTI_SUCCESS)
        result = thread_start(&engine->thread, "tutti-engine", engine_thread_main, engine);
    if (result == TUTTI_SUCCESS)
        *out = engine;
    else
        engine_free(engine);
    return result;
}

tutti_result_t engine_acquire_more(int index, struct engine **out)
{
    tutti_result_t result = TUTTI_SUCCESS;
    struct pooled *pooled = &pool[index];
    standard_hold();
    pthread_mutex_lock(&global_lock);
    if (!pooled->engine)
        result = engine_new(index, &pooled->engine);
    if (result == TUTTI_SUCCESS) {
        pooled->references++;
        *out = pooled->engine;
    }
    pthread_mutex_unlock(&global_lock);
    return result;
}

/* A program may end without destroying its communicators. Other threads may be at work still: nothing is freed. */
static void leave_at_exit(struct engine *engine)
{
    uint64_t deadline = clock_deadline_ms(LEAVE_MS);
    unsigned turn = 0;
    while (!lock_try(&engine->lock))
        if (clock_passed(deadline))
            return;
        else
            backoff(&turn);
    failure_flood(engine);
    link_domain_leave(engine->links);
    lock_release(&engine->lock);
}

/* Not in a forked child: the peers are its parent's. */
__attribute__((destructor)) static void leave_all_at_exit(void)
{
    for (int i = 0; i < ENGINE_MOST; i++)
        if (pool[i].engine && link_domain_self(pool[i].engine->links)->pid == (uint32_t)getpid())
            leave_at_exit(pool[i].engine);
}

tutti_result_t engine_acquire(struct engine **out)
{
    return engine_acquire_more(0, out);
}

void engine_release(struct engine *engine)
{
    pthread_mutex_lock(&global_lock);
    if (engine && --pool[engine->index].references == 0) {
        pool[engine->index].engine = NULL;
        engine_free(engine);
    }
    pthread_mutex_unlock(&global_lock);
}
