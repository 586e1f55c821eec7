/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's thread. It is in one of three modes. WORKING: operations are unattended. NAPPING (short timed sleeps):
 * callers attend to their operations, and the thread wakes for none of their events. DEEP: otherwise, asleep on the
 * poller.
 */
#include "engine/engine_thread.h"

#include "base/clock.h"
#include "base/param.h"
#include "engine/progress.h"
#include "engine/team.h"

#include <sched.h>

#define VISITS       16 /* teams that are seen to before links are */
#define NAPS         50 /* without activity before deep sleep */
#define FIRST_NAP_US 50 /* what was just issued and is still unattended then, is so for long */

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

/* Visits some teams that have unattended operations, by turns. The caller parts from the teams. Under the lock. */
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
static bool engine_thread_serve(struct team *const visited[VISITS], int count)
{
    bool moved = false;
    for (int i = 0; i < count; i++) {
        moved |= team_progress(visited[i]) != TEAM_STILL;
        team_note_wait(visited[i], clock_ns());
        team_leave(visited[i]);
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
    engine_thread_serve(visited, count);
}

/*
 * Operations in shared memory are not on the poller: a thread that sleeps looks again soon, and after a look in vain,
 * twice as late. Where many processes share a processor, quick looks would leave no time to the processes that are
 * waited for.
 */
static int engine_thread_pause_after(const struct engine *engine, int pause_ms)
{
    int longest = (int)(engine->nap_us / ENGINE_NAP_US);
    return 2 * pause_ms < longest ? 2 * pause_ms : longest;
}

/* Runs what nobody waits for until nothing is left. */
static void engine_thread_work(struct engine *engine)
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
        moved |= engine_thread_serve(visited, count);
        if (moved) {
            give_up = clock_ns() + patience;
            pause_ms = 1;
        } else if (clock_ns() < give_up) {
            sched_yield();
        } else {
            engine_try_to_sleep(engine, NULL, pause_ms, false);
            pause_ms = engine_thread_pause_after(engine, pause_ms);
        }
    }
}

/* Looks at everything; is anything left to do? Under the lock. */
static bool engine_thread_look(struct engine *engine)
{
    engine_look_everywhere(engine);
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
        bool any = engine_thread_look(engine);
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

/* Looks after callers that enqueue can see the mode. Another thread may take a wake-up and not pass it on until this is
 * armed: then the mode has changed. */
static void deep(struct engine *engine)
{
    atomic_store(&engine->mode, ENGINE_DEEP);
    lock_take(&engine->lock);
    if (!engine_thread_look(engine) && atomic_load(&engine->mode) == ENGINE_DEEP && !atomic_load(&engine->stop))
        engine_sleep_locked(engine, NULL, deep_timeout(engine), false);
    lock_release(&engine->lock);
    atomic_store(&engine->mode, ENGINE_WORKING);
}

void *engine_thread_main(void *argument)
{
    struct engine *engine = argument;
    while (!atomic_load(&engine->stop)) {
        uint32_t before = atomic_load(&engine->activity);
        deep(engine);
        if (atomic_load(&engine->attending) ||
            atomic_load(&engine->activity) != before) /* it may only not be waited for yet */
            nap(engine);
        engine_thread_work(engine);
    }
    return NULL;
}
