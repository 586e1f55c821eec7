/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: its links are looked at, and whoever has nothing else to do sleeps until there is news. */
#include "engine/engine.h"

#include "base/backoff.h"
#include "engine/failure.h"
#include "engine/head.h"
#include "engine/team.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POLLERS 4                 /* sleepers that a message wakes, whomever it is for */
#define LATE    (100 * NS_PER_MS) /* between looks of a process that runs: they are 50 ms apart at most */

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

/* Where one thread sleeps: on a descriptor of its own, for what others have taken from the poller meanwhile, and on the
 * poller, if few others do. */
struct bed {
    struct list node;
    struct team *team; /* whose operation it waits for; NULL: it wants all news, */
    const bool *came;  /* or, if this is set, none but what sets it */
    int fd;
    bool told;
};

/* NULL for want of a descriptor or memory: then nobody can wake it. */
static struct bed *lie_down(struct engine *engine, struct team *team, const bool *came)
{
    struct list *node = list_pop(&engine->beds);
    struct bed *bed = node ? list_entry(node, struct bed, node) : calloc(1, sizeof *bed);
    if (bed && !node && (bed->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        free(bed);
        return NULL;
    }
    if (!bed)
        return NULL;
    bed->team = team;
    bed->came = came;
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

void engine_remove_beds(struct engine *engine)
{
    struct list *node;
    while ((node = list_pop(&engine->beds))) {
        struct bed *bed = list_entry(node, struct bed, node);
        close(bed->fd);
        free(bed);
    }
}

/* One that was not told yet. */
static void tell(struct engine *engine, struct bed *bed)
{
    uint64_t one = 1;
    engine->tells++;
    bed->told = write(bed->fd, &one, sizeof one) == sizeof one;
}

static bool bed_wants(const struct bed *bed)
{
    return bed->came ? *bed->came : !bed->team || team_may_want(bed->team);
}

/* What is taken here wakes nobody who sleeps on the poller: each is told once. If all were woken by one descriptor,
 * those who have seen the news would wake for the others' sake, again and again until these got a processor. A caller
 * whose operation cannot go on is left alone: of a thousand ranks in a process the news concerns one. */
static void tell_sleepers(struct engine *engine)
{
    list_each(node, &engine->asleep)
    {
        struct bed *bed = list_entry(node, struct bed, node);
        if (!bed->told && bed_wants(bed))
            tell(engine, bed);
    }
}

/* The last one that slept on the poller is up: another one takes the place, if none was told anyway. */
static void pass_poller_on(struct engine *engine)
{
    if (engine->pollers || list_empty(&engine->asleep))
        return;
    list_each(node, &engine->asleep)
    {
        if (list_entry(node, struct bed, node)->told)
            return;
    }
    tell(engine, list_entry(engine->asleep.next, struct bed, node));
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

void engine_attend(struct engine *engine, uint64_t now)
{
    uint64_t gap = now - engine->attended;
    if (now <= engine->attended) /* read before the lock was taken, and another thread was here since */
        return;
    engine->attended = now;
    if (gap > LATE)
        link_excuse(engine->links, gap - LATE, now);
}

uint64_t engine_silence(struct engine *engine, struct link *link, uint64_t now)
{
    engine_attend(engine, now);
    return link_silence(link, now);
}

static void tick(struct engine *engine, uint64_t now)
{
    engine_attend(engine, now);
    engine->tick_wanted = link_tick(engine->links, now);
}

void engine_look_everywhere(struct engine *engine)
{
    take_events(engine);
    take_news(engine);
    tick(engine, clock_ns());
}

void engine_introduce(struct engine *engine, struct wire_process *out)
{
    lock_take(&engine->lock);
    engine_look_everywhere(engine); /* what was lost meanwhile is to be known */
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

static void sleep_locked(struct engine *engine, struct team *team, const bool *came, int timeout_ms, bool caller)
{
    struct bed *bed = lie_down(engine, team, came);
    bool polls = !bed || engine->pollers < POLLERS;
    engine->armed++;
    engine->pollers += polls;
    engine->sleeping += caller;
    bool quiet =
        link_arm(engine->links) && take_news(engine) == 0 && !(team && team_may_move(team)) && !(came && *came);
    lock_release(&engine->lock);
    struct pollfd ready[2] = {{.fd = polls ? poller_fd(engine->poller) : -1, .events = POLLIN},
                              {.fd = bed ? bed->fd : -1, .events = POLLIN}};
    if (quiet)
        poll(ready, 2, bed ? timeout_ms : 1);
    lock_take(&engine->lock);
    engine->sleeping -= caller;
    engine->pollers -= polls;
    get_up(engine, bed);
    if (--engine->armed == 0)
        link_disarm(engine->links);
    engine_look_everywhere(engine);
    if (engine->armed && !link_arm(engine->links)) /* the bell rang once, and others still sleep */
        tell_sleepers(engine);
    pass_poller_on(engine);
}

void engine_sleep_locked(struct engine *engine, struct team *team, int timeout_ms, bool caller)
{
    sleep_locked(engine, team, NULL, timeout_ms, caller);
}

void engine_sleep_until(struct engine *engine, const bool *came, int timeout_ms)
{
    if (!lock_try(&engine->lock)) {
        usleep(BACKOFF_US);
        return;
    }
    sleep_locked(engine, NULL, came, timeout_ms, true);
    lock_release(&engine->lock);
}

void engine_try_to_sleep(struct engine *engine, struct team *team, int timeout_ms, bool caller)
{
    if (!lock_try(&engine->lock)) {
        usleep(BACKOFF_US);
        return;
    }
    engine_sleep_locked(engine, team, timeout_ms, caller);
    lock_release(&engine->lock);
}

void engine_sleep(struct engine *engine, struct team *team, int timeout_ms)
{
    engine_try_to_sleep(engine, team, timeout_ms, true);
}

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
