/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a process: it makes communicators, works on them until a fault comes, and says what was not as it must
 * be. */
#include "chaos.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STEPS_BETWEEN_AGREEMENTS 16
#define STEPS_AFTER_LOSS         24
#define BATCH                    3
#define NO_ID                    TUTTI_RESULT_COUNT /* nothing was called, so the library has no sentence about it */
#define DESCRIPTORS_MORE         64                 /* that caches and peers met since may have open */

static struct {
    struct world *world;
    struct account *account;
    int slot;
    uint64_t era, drawn; /* drawn: what the era is like */
    int members, place;
    struct plan plan;
    tutti_comm_t comm[COMMS];
    bool failed[COMMS];
    struct job batch[BATCH];
    int pending;
} me;

/* ---- Saying ---- */

static const char *const stage_names[] = {"idle",
                                          "joining",
                                          "splitting",
                                          "working",
                                          "waiting for the fault to be over",
                                          "shrinking",
                                          "working after a loss",
                                          "destroying"};

const char *stage_name(int stage)
{
    return stage_names[stage];
}

void nap(int ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void stage(enum stage stage)
{
    atomic_store(&me.account->stage, stage);
}

__attribute__((format(printf, 1, 2))) static void bad(const char *format, ...)
{
    char text[1500];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "WRONG: era %llu (%s of place %d, second %d, after %d ms), %d members, place %d: %s\n",
            (unsigned long long)me.drawn, fault_name(me.plan.fault), me.plan.victim, me.plan.second, me.plan.after_ms,
            me.members, me.place, text);
    atomic_store(&me.account->bad, true);
}

static bool names_rank(const char *sentence, int rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d", rank);
    for (const char *at = sentence; (at = strstr(at, name)); at++)
        if (at[strlen(name)] < '0' || at[strlen(name)] > '9')
            return true;
    return false;
}

/* The sentence without the first words, which name the rank that speaks. */
static const char *beyond_own_rank(const char *sentence)
{
    char own[32];
    int length = snprintf(own, sizeof own, "rank %d: ", me.place);
    return strncmp(sentence, own, (size_t)length) == 0 ? sentence + length : sentence;
}

static bool names_place(const char *sentence, int comm, int place)
{
    int rank = place < 0 ? -1 : plan_rank(comm, me.members, me.place, place);
    return rank >= 0 && names_rank(beyond_own_rank(sentence), rank);
}

static bool names_culprit(const char *sentence, int comm)
{
    return names_place(sentence, comm, me.plan.victim) || names_place(sentence, comm, me.plan.second);
}

static bool lost(int place)
{
    return place == me.plan.victim || place == me.plan.second;
}

static bool victim(void)
{
    return me.place == me.plan.victim;
}

/* ---- Judging ---- */

/* A failure of the world must name who caused it. */
static void judge_world(const char *when, tutti_result_t result, const char *sentence)
{
    atomic_fetch_add(&me.account->failures, 1);
    switch (me.plan.fault) {
    case FAULT_KILL:
        if (result != TUTTI_REMOTE_ERROR || !names_culprit(sentence, 0))
            bad("%s: %s: \"%s\" names no culprit", when, tutti_get_error_string(result), sentence);
        break;
    case FAULT_STOP: /* a process that was stopped hears of what the others did meanwhile, if they gave up waiting */
        if (result != TUTTI_REMOTE_ERROR || (!victim() && !names_culprit(sentence, 0)))
            bad("%s: %s: \"%s\" names no culprit", when, tutti_get_error_string(result), sentence);
        break;
    default:
        bad("%s: %s: \"%s\"", when, tutti_get_error_string(result), sentence);
    }
}

static bool is_aborted(int comm)
{
    return me.plan.fault == FAULT_ABORT && comm == me.plan.aborted &&
           plan_rank(comm, me.members, me.place, me.plan.victim) >= 0;
}

static void judge_abort(int comm, tutti_result_t result)
{
    const char *sentence = tutti_get_last_error(me.comm[comm]);
    if (result != TUTTI_REMOTE_ERROR || (!victim() && !names_place(sentence, comm, me.plan.victim)))
        bad("aborted communicator %d: %s: \"%s\"", comm, tutti_get_error_string(result), sentence);
}

/* ---- Work ---- */

static bool run_batch(void)
{
    bool right = true;
    for (int i = 0; i < me.pending; i++)
        right &= job_check(&me.batch[i]);
    if (!right)
        bad("a result was wrong");
    return right;
}

static void free_batch(void)
{
    for (int i = 0; i < me.pending; i++)
        job_free(&me.batch[i]);
    me.pending = 0;
}

/* After a failure the library must leave the buffers alone. */
static void watch_buffers(void)
{
    uint64_t before[BATCH];
    for (int i = 0; i < me.pending; i++)
        before[i] = job_digest(&me.batch[i]);
    nap(20);
    for (int i = 0; i < me.pending; i++) {
        if (job_digest(&me.batch[i]) != before[i])
            bad("a buffer of %s changed after its failure", job_name(me.batch[i].kind));
        me.batch[i].made = false; /* the operator went with the communicator */
    }
}

/* One batch on a communicator, checked. */
static tutti_result_t step(tutti_comm_t comm, uint64_t number, int rank, int nranks)
{
    uint64_t hash = data_hash(me.world->seed + me.drawn, number);
    int together = 1 + (int)(hash % BATCH);
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < together && result == TUTTI_SUCCESS; i++) {
        struct job *job = &me.batch[me.pending++];
        *job = job_draw(hash, (uint64_t)i, nranks);
        job_prepare(job, comm, rank, nranks);
        result = job_issue(job, NULL);
    }
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    else
        tutti_comm_synchronize(comm);
    atomic_fetch_add(&me.account->jobs, (uint64_t)me.pending);
    if (result == TUTTI_SUCCESS)
        run_batch();
    else
        watch_buffers();
    free_batch();
    return result;
}

/* The communicator on which ranks agree to end. One that waits for a stopped process gives up any of them, and all end
 * when that is the world. */
static int agreement(void)
{
    return me.plan.fault == FAULT_STOP ? 0 : AGREEMENT;
}

/* Whether all may end. Every rank asks at the same steps. */
static tutti_result_t agree(bool *end)
{
    tutti_comm_t comm = me.comm[agreement()];
    int32_t mine = atomic_load(&me.world->end) >= me.era, least = 0;
    tutti_result_t result = tutti_allreduce(&mine, &least, 1, TUTTI_INT32, TUTTI_MIN, comm, NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    *end = result == TUTTI_SUCCESS && least;
    return result;
}

static tutti_result_t work_on_one(int comm, uint64_t number, bool *end)
{
    if (number % STEPS_BETWEEN_AGREEMENTS == STEPS_BETWEEN_AGREEMENTS - 1)
        return agree(end);
    return step(me.comm[comm], number, plan_rank(comm, me.members, me.place, me.place),
                plan_size(comm, me.members, me.place));
}

/* Whether the fault may fail a communicator other than the world, and with what. */
static void judge_part(int comm, tutti_result_t result)
{
    if (is_aborted(comm))
        judge_abort(comm, result);
    else if ((me.plan.fault != FAULT_KILL && me.plan.fault != FAULT_STOP) || result != TUTTI_REMOTE_ERROR)
        bad("communicator %d: %s: %s", comm, tutti_get_error_string(result), tutti_get_last_error(me.comm[comm]));
}

/* Works until all agree to end, or until the world has failed. What failed is left out from then on: the others find
 * out, too. */
static bool work(void)
{
    bool end = false;
    for (uint64_t number = 0; !end && !atomic_load(&me.account->bad); number++) {
        bool agrees = number % STEPS_BETWEEN_AGREEMENTS == STEPS_BETWEEN_AGREEMENTS - 1;
        int comm = agrees ? agreement() : (int)(data_hash(me.drawn, number) % COMMS);
        if (me.failed[comm])
            continue;
        tutti_result_t result = work_on_one(comm, number, &end);
        if (result == TUTTI_SUCCESS)
            continue;
        me.failed[comm] = true;
        if (comm == 0 && !is_aborted(0)) {
            judge_world("world", result, tutti_get_last_error(me.comm[0]));
            return false;
        }
        judge_part(comm, result);
    }
    return true;
}

/* ---- Beginnings ---- */

static tutti_result_t await_init(tutti_comm_t comm)
{
    tutti_result_t state = TUTTI_IN_PROGRESS;
    for (int i = 0; i < DEAD_SECONDS * 1000 && state == TUTTI_IN_PROGRESS; i++) {
        nap(1);
        tutti_result_t asked = tutti_comm_get_async_error(comm, &state);
        if (asked != TUTTI_SUCCESS)
            return asked;
    }
    return state;
}

static tutti_result_t join(int which, tutti_comm_t *comm)
{
    struct era *era = &me.world->era;
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    if (me.place == 0) {
        tutti_result_t made = tutti_get_unique_id(&era->id[which]);
        if (made != TUTTI_SUCCESS)
            return made;
        atomic_store(&era->id_made[which], me.era);
    }
    while (atomic_load(&era->id_made[which]) != me.era) {
        if (atomic_load(&me.world->struck) == me.era && me.plan.fault == FAULT_KILL && lost(0))
            return NO_ID; /* the process that makes it is dead */
        nap(1);
    }
    config.blocking = !me.plan.non_blocking;
    tutti_result_t result = tutti_comm_init_rank(comm, me.members, &era->id[which], me.place, &config);
    return result == TUTTI_IN_PROGRESS ? await_init(*comm) : result;
}

/* A loss may come while communicators are made; what else fails then is a mistake. The culprit is named as a rank of
 * the one that is made, or of the world. */
static bool begin_failed(const char *what, int comm, tutti_comm_t made, tutti_result_t result)
{
    const char *sentence = tutti_get_last_error(made);
    if (result == TUTTI_SUCCESS)
        return false;
    if (result == NO_ID)
        return true;
    atomic_fetch_add(&me.account->failures, 1);
    if (me.plan.fault != FAULT_KILL || (!names_culprit(sentence, comm) && !names_culprit(sentence, 0)))
        bad("%s: %s: %s", what, tutti_get_error_string(result), sentence);
    return true;
}

static bool begin(void)
{
    stage(STAGE_INIT);
    tutti_result_t result = join(0, &me.comm[0]);
    if (begin_failed("init", 0, me.comm[0], result))
        return false;
    if (me.plan.two_inits) {
        tutti_comm_t second = NULL;
        result = join(1, &second);
        bool failed = begin_failed("second init", 0, second, result);
        tutti_comm_destroy(failed ? second : me.comm[0]);
        if (failed)
            return false;
        me.comm[0] = second;
    }
    atomic_store(&me.account->joined, me.era);
    stage(STAGE_SPLIT);
    result = tutti_comm_duplicate(me.comm[0], &me.comm[1], NULL);
    if (begin_failed("duplicate", 0, NULL, result))
        return false;
    for (int i = 2; i < COMMS; i++) {
        int color = plan_color(i, me.members, me.place), key = plan_key(i, me.members, me.place);
        result = tutti_comm_split(me.comm[0], color, key, &me.comm[i], NULL);
        if (begin_failed("split", i, NULL, result))
            return false;
    }
    return true;
}

/* ---- After a loss ---- */

static void destroy(int comm)
{
    if (me.comm[comm])
        tutti_comm_destroy(me.comm[comm]);
    me.comm[comm] = NULL;
}

static void give_up(int comm, bool free)
{
    if (me.comm[comm])
        tutti_comm_abort(me.comm[comm]);
    if (free)
        destroy(comm);
}

static void work_on(tutti_comm_t rest, int lost)
{
    int rank = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    tutti_comm_rank(rest, &rank);
    stage(STAGE_SHRUNK);
    for (uint64_t number = 0; number < STEPS_AFTER_LOSS && result == TUTTI_SUCCESS; number++)
        result = step(rest, 100000 + number, rank, me.members - lost);
    if (result != TUTTI_SUCCESS)
        bad("after the loss: %s: %s", tutti_get_error_string(result), tutti_get_last_error(rest));
    else
        atomic_fetch_add(&me.account->shrunk, 1);
}

/* A process that died early may have let some join the world and others not: the others do not come to shrink. */
static bool all_joined(void)
{
    for (int place = 0; place < me.members; place++)
        if (!lost(place) && atomic_load(&me.world->account[me.world->era.slot[place]].joined) != me.era)
            return false;
    return true;
}

/* The world has failed here: others may still wait for this process on other communicators. */
static void give_up_parts(bool free)
{
    for (int i = 1; i < COMMS; i++)
        give_up(i, free);
}

/* The others join hands and go on. What they have given up and the world are destroyed before or behind the work that
 * follows. */
static void shrink(void)
{
    int excluded[2] = {me.plan.victim, me.plan.second}, count = me.plan.second < 0 ? 1 : 2;
    tutti_comm_t rest = NULL;
    stage(STAGE_STRUCK);
    while (atomic_load(&me.world->struck) != me.era)
        nap(1);
    give_up_parts(me.plan.leaving & 1);
    stage(STAGE_SHRINK);
    tutti_result_t result = tutti_comm_shrink(me.comm[0], excluded, count, &rest, NULL);
    if (result != TUTTI_SUCCESS) {
        if (all_joined())
            bad("shrink: %s: %s", tutti_get_error_string(result), tutti_get_last_error(NULL));
        return;
    }
    if (me.plan.leaving & 2)
        destroy(0);
    work_on(rest, count);
    tutti_comm_destroy(rest);
}

/* ---- An era ---- */

static void *abort_when_told(void *unused)
{
    (void)unused;
    while (atomic_load(&me.world->abort_now) != me.era)
        nap(1);
    tutti_comm_abort(me.comm[me.plan.aborted]);
    return NULL;
}

static void play_era(void)
{
    pthread_t aborter;
    bool aborts = me.plan.fault == FAULT_ABORT && victim();
    if (begin()) {
        aborts = aborts && pthread_create(&aborter, NULL, abort_when_told, NULL) == 0;
        stage(STAGE_WORK);
        atomic_store(&me.account->working, me.era);
        bool whole = work();
        if (!whole && me.plan.fault == FAULT_KILL)
            shrink();
        else if (!whole)
            give_up_parts(false);
        if (aborts)
            pthread_join(aborter, NULL);
    } else if (atomic_load(&me.account->joined) == me.era) {
        shrink();
    }
    stage(STAGE_DESTROY);
    for (int i = 0; i < COMMS; i++)
        destroy((i + (int)(me.drawn % COMMS)) % COMMS);
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* With nothing left open a process has hardly more descriptors than when it first had none. */
static void look_for_leaks(void)
{
    int count = open_descriptors();
    if (!me.account->descriptors)
        me.account->descriptors = count;
    else if (count > me.account->descriptors + DESCRIPTORS_MORE)
        bad("%d descriptors are open, %d after the first era", count, me.account->descriptors);
}

static bool member_of(const struct era *era)
{
    me.place = -1;
    for (int place = 0; place < era->members; place++)
        if (era->slot[place] == me.slot)
            me.place = place;
    return me.place >= 0;
}

int live(struct world *world, int slot)
{
    me.world = world;
    me.slot = slot;
    me.account = &world->account[slot];
    for (uint64_t done = atomic_load(&me.account->idle); !atomic_load(&world->over);) {
        uint64_t begun = atomic_load(&world->begun);
        if (begun == done) {
            nap(1);
            continue;
        }
        me.era = done = begun;
        me.drawn = world->era.drawn;
        me.members = world->era.members;
        me.plan = plan_draw(world->seed, me.drawn, me.members);
        memset(me.failed, 0, sizeof me.failed);
        if (member_of(&world->era)) {
            play_era();
            look_for_leaks();
        }
        stage(STAGE_IDLE);
        atomic_store(&me.account->idle, done); /* what the era is like may change from now on */
    }
    return atomic_load(&me.account->bad);
}
