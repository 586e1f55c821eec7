/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine and its thread. The thread is in one of three modes: WORKING while operations are unattended, NAPPING
 * (short timed sleeps) while callers attend to theirs, so that it wakes for none of their events, and DEEP, asleep on
 * the poller, otherwise.
 */
#include "engine/engine.h"

#include "base/backoff.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/param.h"
#include "base/standard.h"
#include "engine/shared.h"
#include "engine/team.h"
#include "path/path.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define VISITS 16 /* teams that are seen to before links are */

enum engine_mode { ENGINE_WORKING, ENGINE_NAPPING, ENGINE_DEEP };

#define LEAVE_MS     200
#define NAPS         50 /* without activity before deep sleep */
#define FIRST_NAP_US 50 /* what was just issued and is still unattended then, is so for long */

static pthread_mutex_t global_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pooled {
    struct engine *engine;
    int references;
} pool[ENGINE_MOST]; /* the first is the one that has the black box */

/* In a forked child: what it inherited is its parent's. */
static void forget(void)
{
    pthread_mutex_init(&global_lock, NULL);
    memset(pool, 0, sizeof pool);
}

__attribute__((constructor)) static void watch_forks(void)
{
    fork_reset_by(forget);
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
            const struct wire_process *theirs = &team->process[rank];
            if (!wire_same_process(theirs->uuid, peer->uuid) ||
                wire_session(&team->process[team->rank], theirs) != link_session(link))
                continue;
            atomic_store(&team->gone[rank], how);
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
            wire_same_process(team->process[from].uuid, link_peer(link)->uuid)) {
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

int engine_take_shared(struct engine *engine, uint64_t key)
{
    list_each(node, &engine->shared)
    {
        struct shared_fd *shared = list_entry(node, struct shared_fd, node);
        if (shared->key != key)
            continue;
        int fd = shared->fd;
        list_remove(&shared->node);
        free(shared);
        return fd;
    }
    return SHARED_NOT_YET;
}

/* Where one thread sleeps: on the poller, and on a descriptor of its own for what others have taken from the poller
 * meanwhile. */
struct bed {
    struct list node;
    int fd;
    bool told;
};

/* NULL for want of a descriptor or memory: then nobody can wake it. */
static struct bed *lie_down(struct engine *engine)
{
    struct list *node = list_pop(&engine->beds);
    struct bed *bed = node ? list_entry(node, struct bed, node) : calloc(1, sizeof *bed);
    if (bed && !node && (bed->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        free(bed);
        return NULL;
    }
    if (bed)
        list_push(&engine->asleep, &bed->node);
    return bed;
}

static void get_up(struct engine *engine, struct bed *bed)
{
    uint64_t count;
    if (!bed)
        return;
    if (bed->told && read(bed->fd, &count, sizeof count) < 0)
        count = 0;
    bed->told = false;
    list_remove(&bed->node);
    list_push(&engine->beds, &bed->node);
}

static void remove_beds(struct engine *engine)
{
    struct list *node;
    while ((node = list_pop(&engine->beds))) {
        struct bed *bed = list_entry(node, struct bed, node);
        close(bed->fd);
        free(bed);
    }
}

/* What is taken here wakes nobody who sleeps on the poller: each is told once. If all were woken by one descriptor,
 * those who have seen the news would wake for the others' sake, again and again until these got a processor. */
static void tell_sleepers(struct engine *engine)
{
    uint64_t one = 1;
    list_each(node, &engine->asleep)
    {
        struct bed *bed = list_entry(node, struct bed, node);
        if (!bed->told)
            bed->told = write(bed->fd, &one, sizeof one) == sizeof one;
    }
}

/* News taken here will not wake callers that sleep on the poller: they are told. */
static int take_news(struct engine *engine)
{
    int done = link_poll(engine->links);
    if (done && engine->sleeping)
        tell_sleepers(engine);
    failure_flood(engine);
    return done;
}

/* Also what was to wake the engine's thread. */
static int take_events(struct engine *engine)
{
    int done = poller_wait(engine->poller, 0);
    if (done)
        tell_sleepers(engine);
    return done;
}

static void tick(struct engine *engine, uint64_t now)
{
    engine_attend(engine, now);
    engine->tick_wanted = link_tick(engine->links, now);
}

static void look_everywhere(struct engine *engine)
{
    take_events(engine);
    take_news(engine);
    tick(engine, clock_ns());
}

void engine_introduce(struct engine *engine, struct wire_process *out)
{
    lock_take(&engine->lock);
    look_everywhere(engine); /* what was lost meanwhile is to be known */
    *out = *link_domain_self(engine->links);
    lock_release(&engine->lock);
}

int engine_poll(struct engine *engine)
{
    int done = take_news(engine);
    if (done)
        return done;
    if (++engine->idle_polls % 64 == 0) {
        uint64_t now = clock_ns();
        if (now >= engine->tick_at) {
            done += take_events(engine);
            tick(engine, now);
            engine->tick_at = now + NS_PER_MS;
        }
    }
    return done;
}

void engine_met(struct engine *engine)
{
    if (link_met(engine->links) && engine->sleeping)
        poller_wake(engine->poller);
}

/*
 * Under the lock, which is let go of meanwhile. `caller`: somebody waits for an operation, and is to be woken when
 * another thread takes its news. `team`: its team, or NULL; what another rank of this process has done for it is found
 * by one more look.
 */
static void sleep_on_poller(struct engine *engine, struct team *team, int timeout_ms, bool caller)
{
    struct bed *bed = lie_down(engine);
    engine->armed++;
    engine->sleeping += caller;
    bool quiet = link_arm(engine->links) && take_news(engine) == 0 && !(team && team_may_move(team));
    lock_release(&engine->lock);
    struct pollfd ready[2] = {{.fd = poller_fd(engine->poller), .events = POLLIN},
                              {.fd = bed ? bed->fd : -1, .events = POLLIN}};
    if (quiet)
        poll(ready, 2, bed ? timeout_ms : 1);
    lock_take(&engine->lock);
    engine->sleeping -= caller;
    get_up(engine, bed);
    if (--engine->armed == 0)
        link_disarm(engine->links);
    look_everywhere(engine);
    if (engine->armed && !link_arm(engine->links)) /* the bell rang once, and others still sleep */
        tell_sleepers(engine);
}

/* If nobody has the lock: else a moment, for who has it may have been switched from. */
static void try_to_sleep(struct engine *engine, struct team *team, int timeout_ms, bool caller)
{
    if (!lock_try(&engine->lock)) {
        usleep(BACKOFF_US);
        return;
    }
    sleep_on_poller(engine, team, timeout_ms, caller);
    lock_release(&engine->lock);
}

void engine_sleep(struct engine *engine, struct team *team, int timeout_ms)
{
    try_to_sleep(engine, team, timeout_ms, true);
}

/* ---- The thread ---- */

void engine_notice(struct engine *engine)
{
    atomic_thread_fence(
        memory_order_seq_cst); /* either we see it asleep, or it sees what was issued before it sleeps */
    if (atomic_load_explicit(&engine->mode, memory_order_seq_cst) != ENGINE_DEEP)
        return;
    uint32_t deep = ENGINE_DEEP;
    if (atomic_compare_exchange_strong(&engine->mode, &deep, ENGINE_WORKING)) {
        trace_count(engine->trace, WIRE_COUNTER_WAKEUPS, 1);
        poller_wake(engine->poller);
    }
}

static bool is_unattended(struct team *team)
{
    return atomic_load(&team->completed) != atomic_load(&team->issued) && !atomic_load(&team->attended);
}

/* Operations that no caller waits for. Under the lock. */
static bool unattended(struct engine *engine)
{
    list_each(node, &engine->teams)
    {
        if (is_unattended(list_entry(node, struct team, node)))
            return true;
    }
    return false;
}

/* Visits some teams that have such operations, by turns; who visits parts. Under the lock. */
static int visit(struct engine *engine, struct team *visited[VISITS])
{
    int count = 0;
    list_each(node, &engine->teams)
    {
        struct team *team = list_entry(node, struct team, node);
        if (count == VISITS || !is_unattended(team))
            continue;
        atomic_fetch_add(&team->visitors, 1);
        visited[count++] = team;
    }
    for (int i = 0; i < count; i++) {
        list_remove(&visited[i]->node);
        list_push(&engine->teams, &visited[i]->node);
    }
    return count;
}

/* What takes time is done without the lock. Returns whether anything moved. */
static bool serve(struct team *const visited[VISITS], int count)
{
    bool moved = false;
    for (int i = 0; i < count; i++) {
        moved |= team_progress(visited[i]) != TEAM_STILL;
        team_note_wait(visited[i], clock_ns());
        team_part(visited[i]);
    }
    return moved;
}

void engine_assist(struct engine *engine)
{
    struct team *visited[VISITS];
    if (atomic_load_explicit(&engine->team_count, memory_order_relaxed) < 2 || !lock_try(&engine->lock))
        return;
    int count = visit(engine, visited);
    lock_release(&engine->lock);
    serve(visited, count);
}

/*
 * Direct operations are not on the poller: whoever sleeps looks again soon, and when that was in vain, twice as late.
 * Where many processes share a processor their looks would leave none to those who are waited for.
 */
static int pause_after(const struct engine *engine, int pause_ms)
{
    int longest = (int)(engine->nap_us / ENGINE_NAP_US);
    return 2 * pause_ms < longest ? 2 * pause_ms : longest;
}

/* Runs what nobody waits for until nothing is left. */
static void work(struct engine *engine)
{
    uint64_t patience = (uint64_t)param_int(PARAM_SPIN) * NS_PER_US, give_up = clock_ns() + patience;
    int pause_ms = 1;
    atomic_store(&engine->mode, ENGINE_WORKING);
    while (!atomic_load(&engine->stop)) {
        struct team *visited[VISITS];
        int count = 0;
        bool moved = false, locked = lock_try(&engine->lock);
        if (locked) {
            moved = engine_poll(engine) > 0;
            count = visit(engine, visited);
            lock_release(&engine->lock);
        }
        if (locked && !count)
            return;
        moved |= serve(visited, count);
        if (moved) {
            give_up = clock_ns() + patience;
            pause_ms = 1;
        } else if (clock_ns() < give_up) {
            sched_yield();
        } else {
            try_to_sleep(engine, NULL, pause_ms, false);
            pause_ms = pause_after(engine, pause_ms);
        }
    }
}

/* Looks at everything; is anything left to do? Under the lock. */
static bool look(struct engine *engine)
{
    look_everywhere(engine);
    return unattended(engine);
}

/* Callers come and go, and do the work themselves. */
static void nap(struct engine *engine)
{
    uint32_t seen = atomic_load(&engine->activity);
    unsigned quiet = 0, enough = NAPS * ENGINE_NAP_US / engine->nap_us + 1, nap_us = FIRST_NAP_US;
    atomic_store(&engine->mode, ENGINE_NAPPING);
    while (!atomic_load(&engine->stop) && quiet < enough) {
        usleep(nap_us);
        nap_us = engine->nap_us;
        uint32_t activity = atomic_load(&engine->activity);
        bool busy = atomic_load(&engine->attending) > 0 || activity != seen;
        quiet = busy ? 0 : quiet + 1;
        seen = activity;
        if (!lock_try(&engine->lock))
            continue;
        bool any = look(engine);
        lock_release(&engine->lock);
        if (any && !busy)
            return;
    }
}

static int deep_timeout(struct engine *engine)
{
    uint64_t now = clock_ns(), wanted = engine->tick_wanted;
    if (wanted == UINT64_MAX)
        return -1;
    return wanted <= now ? 1 : (int)((wanted - now) / NS_PER_MS) + 1;
}

/* Looks after the mode is seen by those who enqueue. Others may take a wake-up and not pass it on as long as this is
 * not armed: then the mode has changed. */
static void deep(struct engine *engine)
{
    atomic_store(&engine->mode, ENGINE_DEEP);
    lock_take(&engine->lock);
    if (!look(engine) && atomic_load(&engine->mode) == ENGINE_DEEP && !atomic_load(&engine->stop))
        sleep_on_poller(engine, NULL, deep_timeout(engine), false);
    lock_release(&engine->lock);
    atomic_store(&engine->mode, ENGINE_WORKING);
}

static void *thread_main(void *argument)
{
    struct engine *engine = argument;
    while (!atomic_load(&engine->stop)) {
        uint32_t before = atomic_load(&engine->activity);
        deep(engine);
        if (atomic_load(&engine->attending) ||
            atomic_load(&engine->activity) != before) /* it may only not be waited for yet */
            nap(engine);
        work(engine);
    }
    return NULL;
}

/* ---- Life ---- */

static void engine_free(struct engine *engine)
{
    atomic_store(&engine->stop, true);
    if (engine->thread.runs)
        poller_wake(engine->poller);
    thread_end(&engine->thread);
    link_domain_close(engine->links);
    for (int i = 0; i < ENGINE_CLOSED; i++) {
        free(engine->closed[i].sent);
        free(engine->closed[i].received);
        free(engine->closed[i].failure);
    }
    while (!list_empty(&engine->shared)) {
        struct shared_fd *shared = list_entry(list_pop(&engine->shared), struct shared_fd, node);
        close(shared->fd);
        free(shared);
    }
    poller_close(engine->poller);
    remove_beds(engine);
    if (engine->index == 0)
        trace_close(engine->trace, false);
    pthread_mutex_destroy(&engine->reports.lock);
    free(engine);
}

static tutti_result_t engine_new(int index, struct engine **out)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for the engine");
    const struct link_owner owner = {engine, peer_lost, comm_aborted, memory_shared, peer_called, words_heard};
    list_init(&engine->teams);
    list_init(&engine->shared);
    list_init(&engine->asleep);
    list_init(&engine->beds);
    pthread_mutex_init(&engine->reports.lock, NULL);
    atomic_store(&engine->tick_wanted, UINT64_MAX);
    engine->nap_us = ENGINE_NAP_US;
    engine->index = index;
    tutti_result_t result = poller_open(&engine->poller);
    if (result == TUTTI_SUCCESS) {
        engine->trace = index ? pool[0].engine->trace : trace_open();
        result = link_domain_open(&owner, engine->poller, engine->trace, &path_stripe, &engine->links);
    }
    if (result == TUTTI_SUCCESS)
        result = thread_start(&engine->thread, "tutti-engine", thread_main, engine);
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
