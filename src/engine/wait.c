/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: for operations, for a place in the queue, until peers know of a failure. */
#include "engine/wait.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "engine/engine_thread.h"
#include "engine/failure.h"
#include "engine/head.h"
#include "engine/op.h"
#include "engine/progress.h"
#include "engine/queue.h"
#include "engine/shared.h"
#include "engine/windows.h"

#include <sched.h>

#define TELL_LOOKS   500 /* a millisecond apart, each longer where processors are few */
#define TELL_MS      500
#define TELL_MOST_MS 5000
#define NAP_US       50000
#define PATIENCE_MS  10 /* with a full queue of which nothing ends */
#define LONG_PATIENCE_MS                                                                                               \
    1000 /* with one of this many operations: a peer is stopped rather than called later by the same thread */
#define LONG_QUEUE              (1u << 16)
#define LOOK_EVERY              256 /* spins between two looks at the clock */
#define LOOKS_BEFORE_YIELD      8
#define SPINS_NOTED             8               /* a wait that is over before is none */
#define LOOKS_ALONE             300             /* when every rank can have a processor */
#define CROWDED_NOTE            16              /* spins before one that yields has its wait noted; */
#define CROWDED_LOOKS           128             /* spins before this one looks whether to sleep, */
#define CROWDED_NS              (5 * NS_PER_MS) /* or time: a yield among thousands of threads takes milliseconds */
#define LOOKS_AT_A_RUNNING_PEER 200             /* when not every rank can */

/* ---- Telling of a failure ---- */

/* One look. *flooded: what has been told of failures so far. */
static bool have_heard(struct engine *engine, uint64_t *flooded)
{
    lock_take(&engine->lock);
    failure_flood(engine);
    engine_poll(engine);
    *flooded = engine->flooded;
    bool heard = engine->told == engine->flooded || link_all_heard(engine->links);
    lock_release(&engine->lock);
    return heard;
}

/* Every peer that lives has the news: then this process may end without a word. One that is stopped is not waited for
 * long; on a busy machine one that lives needs longer. Of all ranks of this process that report a failure one looks. */
static void see_told(struct engine *engine)
{
    uint64_t flooded;
    pthread_mutex_lock(&engine->hearing);
    uint64_t least = clock_deadline_ms(TELL_MS), most = clock_deadline_ms(TELL_MOST_MS);
    bool heard = have_heard(engine, &flooded);
    for (int looks = 1; !heard && (looks < TELL_LOOKS || !clock_passed(least)) && !clock_passed(most); looks++) {
        engine_sleep(engine, NULL, 1);
        heard = have_heard(engine, &flooded);
    }
    lock_take(&engine->lock);
    engine->told = flooded;
    lock_release(&engine->lock);
    pthread_mutex_unlock(&engine->hearing);
}

tutti_result_t team_report(struct team *team)
{
    if (atomic_load(&team->failed))
        windows_stop(team);
    if (atomic_load(&team->failed) && atomic_exchange(&team->telling, false))
        see_told(team->engine);
    tutti_result_t result = team_failure(team);
    if (result != TUTTI_SUCCESS)
        atomic_store(&team->reported, true);
    return result;
}

/* ---- Waiting ---- */

/* Waits for the operation at the head without a processor. */
static void sleep_for_news(struct team *team, uint64_t deadline)
{
    uint64_t left = deadline == UINT64_MAX ? NAP_US : (uint64_t)clock_left_ms(deadline) * 1000,
             nap = left < NAP_US ? left : NAP_US;
    struct team_head head;
    if (!team_head(team, &head)) {
        usleep(BACKOFF_US); /* another thread runs it, or has ended it */
        return;
    }
    trace_count(team->engine->trace, WIRE_COUNTER_SLEEPS, 1);
    if (head.kind->sleep && head.started)
        head.kind->sleep(team, head.waiting, nap);
    else if (head.kind->needs_links)
        engine_sleep(team->engine, team, (int)(nap / 1000));
    else
        usleep(200); /* behind a stream: another team is being waited for */
}

/* Is the rank that is waited for running just now? Then its news comes sooner than another switch to it would. */
static bool awaited_runs(const struct team *team)
{
    int peer = atomic_load_explicit(&team->awaited, memory_order_relaxed);
    return team->shared && peer >= 0 && peer < team->nranks && arena_is_running(&team->shared->arena, team->rank, peer);
}

/*
 * Where every rank can have a processor, many looks are cheaper than a system call. Elsewhere the peer may need this
 * very one: one look, then the others' turn, unless the peer was seen running on another one; but it may have been
 * switched from since, so not for ever. Looks at sockets are system calls themselves: the others' turn at once.
 */
static void spin(const struct team *team, unsigned spins)
{
    if (team->crowded && team->shared)
        arena_say_running(&team->shared->arena, team->rank, atomic_load_explicit(&team->awaited, memory_order_relaxed));
    bool look_on = team->crowded ? spins < (awaited_runs(team) ? LOOKS_AT_A_RUNNING_PEER : !team_yields_first(team))
                                 : spins <= LOOKS_ALONE || spins % LOOKS_BEFORE_YIELD != LOOKS_BEFORE_YIELD - 1;
    if (look_on)
        cpu_relax();
    else
        sched_yield();
}

/* What else there may be to do, as a failure or the engine's part, is found by every sixteenth look. A word and a value
 * of two waits, if it should come to that, are as harmless. */
static bool worth_a_look(const struct team *team, unsigned spins)
{
    const _Atomic uint64_t *word = atomic_load_explicit(&team->awaited_word, memory_order_relaxed);
    return !word || spins % 16 == 15 ||
           atomic_load_explicit(word, memory_order_relaxed) >=
               atomic_load_explicit(&team->awaited_value, memory_order_relaxed);
}

static bool engine_wait_goes_on(const struct team *team, uint64_t position, const _Atomic bool *enough)
{
    return atomic_load_explicit(&team->completed, memory_order_acquire) < position &&
           !(enough && atomic_load_explicit(enough, memory_order_acquire));
}

void team_waits(struct team *team)
{
    if (team->engine->trace && !atomic_load_explicit(&team->waits_since, memory_order_relaxed))
        atomic_store_explicit(&team->waits_since, trace_now(), memory_order_relaxed);
}

/* Waits, progressing, until `position` operations have completed, it is enough, or it is time. */
static void wait_until(struct team *team, uint64_t position, const _Atomic bool *enough, uint64_t deadline)
{
    struct engine *engine = team->engine;
    uint64_t patience = (uint64_t)param_int(PARAM_SPIN) * NS_PER_US, give_up = 0, looked = 0;
    unsigned spins = 0;
    bool watched = false;
    if (team->crowded && engine_wait_goes_on(team, position, enough))
        team_waits(team); /* before the first switch to others, which may take long */
    if (team_yields_first(team) && engine_wait_goes_on(team, position, enough))
        sched_yield();
    while (engine_wait_goes_on(team, position, enough)) {
        if (worth_a_look(team, spins) && team_progress(team)) {
            spins = 0;
            give_up = looked = 0;
            continue;
        }
        spin(team, spins);
        if (spins % 32 == 31)
            engine_assist(engine);
        if (++spins == SPINS_NOTED)
            team_waits(team);
        if (spins % (team->crowded ? LOOKS_BEFORE_YIELD : LOOK_EVERY))
            continue;
        uint64_t now = clock_ns();
        looked = looked ? looked : now;
        bool enough_looks = !team->crowded || spins % CROWDED_LOOKS == 0 || now - looked >= CROWDED_NS;
        if (!enough_looks && spins != CROWDED_NOTE)
            continue;
        if (!watched) {
            atomic_fetch_add(&engine->attending, 1);
            atomic_store(&team->attended, true);
            watched = true;
        }
        team_note_wait(team, now);
        if (now >= deadline)
            break;
        if (!enough_looks)
            continue;
        give_up = give_up ? give_up : now + patience;
        if (now < give_up)
            continue;
        sleep_for_news(team, deadline);
        give_up = looked = 0;
    }
    atomic_store_explicit(&team->waits_since, 0, memory_order_relaxed);
    if (watched) {
        atomic_store(&team->attended, false);
        atomic_fetch_sub(&engine->attending, 1);
        if (atomic_load(&team->completed) !=
            atomic_load(&team->issued)) /* of other streams: the thread took them for attended */
            engine_notice(engine);
    }
    uint32_t activity = atomic_load_explicit(&engine->activity,
                                             memory_order_relaxed); /* a hint: of two threads at once one may count */
    atomic_store_explicit(&engine->activity, activity + 1, memory_order_relaxed);
}

/* A rank that has heard of the failure calls no more, or may wait elsewhere for peers that wait here for those calls.
 */
static tutti_result_t engine_wait_refuse(struct team *team)
{
    team_end_calls(team);
    return team_report(team);
}

tutti_result_t team_wait_or(struct team *team, uint64_t position, const _Atomic bool *enough)
{
    wait_until(team, position, enough, UINT64_MAX);
    return atomic_load_explicit(&team->completed, memory_order_acquire) < position ? TUTTI_SUCCESS
                                                                                   : team_wait(team, position);
}

tutti_result_t team_wait(struct team *team, uint64_t position)
{
    if (atomic_load_explicit(&team->completed, memory_order_acquire) < position)
        wait_until(team, position, NULL, UINT64_MAX);
    bool heard = atomic_load_explicit(&team->told, memory_order_relaxed) >= position;
    if (!heard)
        atomic_store_explicit(&team->told, position, memory_order_relaxed);
    return !heard && position <= atomic_load(&team->failed_from) ? TUTTI_SUCCESS : engine_wait_refuse(team);
}

/* ---- A place in the queue ---- */

/* Waits for room while operations end. If none ends, they may wait for calls that this very thread is to make, for
 * another rank or on another stream: then the queue may grow. A queue that is long already grows slowly: a peer that is
 * stopped for half an hour costs no more memory than a program can spare. */
static void wait_for_room(struct team *team, uint64_t position)
{
    uint64_t completed;
    while (position - (completed = atomic_load(&team->completed)) >= team->queue.limit) {
        bool is_long = team->queue.limit >= LONG_QUEUE;
        wait_until(team, completed + 1, NULL, clock_deadline_ms(is_long ? LONG_PATIENCE_MS : PATIENCE_MS));
        if (atomic_load(&team->completed) == completed)
            team->queue.limit += is_long ? LONG_QUEUE / 256 : team->queue.limit;
    }
}

tutti_result_t team_place(struct team *team, bool collective, struct op **out)
{
    uint64_t position = atomic_load_explicit(&team->issued, memory_order_relaxed);
    if (position - atomic_load_explicit(&team->completed, memory_order_acquire) >= team->queue.limit)
        wait_for_room(team, position);
    if (atomic_load_explicit(&team->failed, memory_order_relaxed) && !(collective && team_takes_collective(team)))
        return engine_wait_refuse(team);
    if (atomic_load_explicit(&team->excused, memory_order_acquire))
        return error_set(TUTTI_REMOTE_ERROR, "rank %d: %s", team->rank, team->excused_sentence);
    struct op *op = queue_tail(&team->queue, position, atomic_load_explicit(&team->completed, memory_order_acquire));
    if (!op)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a queue of more than %llu operations",
                         (unsigned long long)team->queue.limit);
    op_clear(op);
    *out = op;
    return TUTTI_SUCCESS;
}
