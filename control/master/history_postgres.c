/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PostgreSQL: writes go into a queue. A thread takes them from there to a server that may be away. Each verdict has a
 * number that is drawn here: nobody may know whether a first write succeeded, and a second one changes nothing.
 */
#include "master/history_way.h"
#include "master/postgres.h"

#include "base/clock.h"
#include "base/error.h"
#include "verdict/verdict.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define LATEST     1000 /* verdicts that are kept here, too, for questions */
#define VALUES     8
#define PAUSE_MOST 10             /* seconds between two tries */
#define CLOSE_NS   (3 * NS_PER_S) /* at the end, for writes that wait */

static const char begin_text[] = "INSERT INTO tutti_verdicts(id, job, began, kind, confidence, host, rank, verdict)"
                                 " VALUES($1, $2, to_timestamp($3), $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING";
static const char end_text[] = "UPDATE tutti_verdicts SET ended = to_timestamp($2) WHERE id = $1";
static const char note_text[] = "UPDATE tutti_verdicts SET hook = $2 WHERE id = $1";

struct write {
    struct write *next;
    const char *text;
    char *values[VALUES]; /* NULL is the database's NULL */
    int count;
};

/* A verdict as history_json() returns it. */
struct history_postgres_row {
    int64_t id;
    json_t *json;
};

struct postgres_history {
    struct history base;
    struct postgres *server; /* owned by the thread */
    bool greeted;            /* owned by the thread */
    char *job;
    pthread_t thread;
    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t change;
    struct write *first, **last;
    size_t waiting, lost;
    struct history_postgres_row rows[LATEST]; /* the newest last */
    size_t row_count;
    uint64_t closing; /* the time until which waiting writes are written; 0: goes on */
};

static struct postgres_history *of(struct history *history)
{
    return (struct postgres_history *)history;
}

/* ---- Writes ---- */

static void write_free(struct write *write)
{
    for (int i = 0; i < write->count; i++)
        free(write->values[i]);
    free(write);
}

/* Takes the next write out of the queue. The caller holds the lock. */
static struct write *take_first(struct postgres_history *history)
{
    struct write *write = history->first;
    if (!write)
        return NULL;
    history->first = write->next;
    history->waiting--;
    if (!history->first)
        history->last = &history->first;
    return write;
}

/* The caller holds the lock. */
static void push(struct postgres_history *history, struct write *write)
{
    if (history->waiting == HISTORY_WAITING) {
        write_free(take_first(history));
        history->lost++;
    }
    *history->last = write;
    history->last = &write->next;
    history->waiting++;
    pthread_cond_signal(&history->change);
}

static char *seconds(uint64_t day)
{
    char *text = NULL;
    return asprintf(&text, "%llu.%06llu", (unsigned long long)(day / NS_PER_S),
                    (unsigned long long)(day % NS_PER_S / NS_PER_US)) < 0
               ? NULL
               : text;
}

static char *number(int64_t value)
{
    char *text = NULL;
    return asprintf(&text, "%lld", (long long)value) < 0 ? NULL : text;
}

/* NULL after error_note. `absent`: the value that may be NULL; -1: none. */
static struct write *make_write(const char *text, char *const *values, int count, int absent)
{
    struct write *write = calloc(1, sizeof *write);
    bool fine = write != NULL;
    for (int i = 0; i < count; i++) {
        if (write)
            write->values[write->count++] = values[i];
        else
            free(values[i]);
        fine = fine && (values[i] || i == absent);
    }
    if (fine) {
        write->text = text;
        return write;
    }
    if (write)
        write_free(write);
    error_note(TUTTI_SYSTEM_ERROR, "the history cannot be written: no memory");
    return NULL;
}

/* ---- The latest rows ---- */

static struct history_postgres_row *find_row(struct postgres_history *history, int64_t id)
{
    for (size_t i = history->row_count; i-- > 0;)
        if (history->rows[i].id == id)
            return &history->rows[i];
    return NULL;
}

/* At the front the rows of the database, which are older than this master's; at the back the newest. */
static void add_row(struct postgres_history *history, int64_t id, json_t *json, bool front)
{
    if (history->row_count == LATEST && front) {
        json_decref(json);
        return;
    }
    if (history->row_count == LATEST) {
        json_decref(history->rows[0].json);
        memmove(history->rows, history->rows + 1, (LATEST - 1) * sizeof *history->rows);
        history->row_count--;
    }
    if (front)
        memmove(history->rows + 1, history->rows, history->row_count * sizeof *history->rows);
    history->rows[front ? 0 : history->row_count] = (struct history_postgres_row){id, json};
    history->row_count++;
}

static void set(struct postgres_history *history, int64_t id, const char *name, json_t *value)
{
    struct history_postgres_row *row = find_row(history, id);
    if (row)
        json_object_set(row->json, name, value);
    json_decref(value);
}

/* ---- What the master says: never waits for the server ---- */

static int64_t draw_id(void)
{
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != sizeof id)
        id = clock_ns() * 0x9e3779b97f4a7c15ull;
    return (int64_t)(id >> 1 | 1);
}

static int64_t begin(struct history *base, const struct verdict *verdict)
{
    struct postgres_history *history = of(base);
    const struct finding *finding = &verdict->finding;
    int64_t id = draw_id();
    json_t *json = verdict_json(finding);
    char *const values[VALUES] = {number(id),
                                  strdup(history->job),
                                  seconds(verdict->began),
                                  strdup(finding_row(finding->kind)->name),
                                  strdup(confidence_name(finding->confidence)),
                                  strdup(finding->culprit.host),
                                  finding->culprit.world_rank < 0 ? NULL : number(finding->culprit.world_rank),
                                  json ? json_dumps(json, JSON_COMPACT) : NULL};
    struct write *write = make_write(begin_text, values, VALUES, 6);
    if (!write) {
        json_decref(json);
        return 0;
    }
    json_object_set_new(json, "began", json_real((double)verdict->began / 1e9));
    json_object_set_new(json, "ended", json_null());
    json_object_set_new(json, "hook", json_null());
    pthread_mutex_lock(&history->lock);
    add_row(history, id, json, false);
    push(history, write);
    pthread_mutex_unlock(&history->lock);
    return id;
}

static bool change(struct postgres_history *history, int64_t id, const char *text, char *value, const char *name,
                   json_t *json)
{
    char *const values[] = {number(id), value};
    struct write *write = make_write(text, values, 2, -1);
    pthread_mutex_lock(&history->lock);
    set(history, id, name, json);
    if (write)
        push(history, write);
    pthread_mutex_unlock(&history->lock);
    return write != NULL;
}

static bool end(struct history *base, const struct verdict *verdict, uint64_t day)
{
    return change(of(base), verdict->row, end_text, seconds(day), "ended", json_real((double)day / 1e9));
}

static bool note(struct history *base, int64_t row, const char *outcome)
{
    json_t *json = json_string(outcome);
    return change(of(base), row, note_text, strdup(json ? outcome : "?"), "hook", json ? json : json_string("?"));
}

static json_t *latest(struct history *base, int most)
{
    struct postgres_history *history = of(base);
    json_t *rows = json_array();
    pthread_mutex_lock(&history->lock);
    for (size_t i = history->row_count; i-- > 0 && json_array_size(rows) < (size_t)most;)
        json_array_append_new(rows, json_deep_copy(history->rows[i].json));
    pthread_mutex_unlock(&history->lock);
    return rows;
}

/* ---- Earlier rows ---- */

static void take_row(void *context, const char *const *values)
{
    struct postgres_history *history = context;
    json_t *json = json_loads(values[3] ? values[3] : "", 0, NULL);
    if (!json_is_object(json)) {
        json_decref(json);
        json = json_object();
    }
    json_object_set_new(json, "began", json_real(strtod(values[1] ? values[1] : "0", NULL)));
    json_object_set_new(json, "ended", values[2] ? json_real(strtod(values[2], NULL)) : json_null());
    json_object_set_new(json, "hook", values[4] ? json_string(values[4]) : json_null());
    pthread_mutex_lock(&history->lock);
    add_row(history, strtoll(values[0] ? values[0] : "0", NULL, 10), json, true);
    pthread_mutex_unlock(&history->lock);
}

/* With each connection: makes the table, and reads the earlier rows once. */
static enum postgres_outcome greet(void *context, struct postgres *server)
{
    static const char make[] = "DO $$ BEGIN IF to_regclass('tutti_verdicts') IS NULL THEN"
                               " CREATE TABLE tutti_verdicts(id BIGINT PRIMARY KEY, job TEXT NOT NULL, began "
                               "TIMESTAMPTZ NOT NULL, ended TIMESTAMPTZ,"
                               " kind TEXT NOT NULL, confidence TEXT NOT NULL, host TEXT NOT NULL, rank INTEGER, "
                               "verdict JSONB NOT NULL, hook TEXT);"
                               " CREATE INDEX tutti_verdicts_of_job ON tutti_verdicts(job, began); END IF; END $$";
    static const char over[] = "UPDATE tutti_verdicts SET ended = now() WHERE job = $1 AND ended IS NULL";
    static const char before[] =
        "SELECT id, extract(epoch FROM began), extract(epoch FROM ended), verdict, hook FROM tutti_verdicts"
        " WHERE job = $1 ORDER BY began DESC LIMIT 1000";
    struct postgres_history *history = context;
    const char *const job[] = {history->job};
    enum postgres_outcome outcome = postgres_do(server, make, NULL, 0, NULL, NULL);
    if (outcome != POSTGRES_DONE || history->greeted)
        return outcome;
    outcome = postgres_do(server, over, job, 1, NULL, NULL);
    if (outcome == POSTGRES_DONE)
        outcome = postgres_do(server, before, job, 1, take_row, history);
    history->greeted = outcome == POSTGRES_DONE;
    return outcome;
}

/* ---- The thread ---- */

/* Says what has changed, and how often in a row the server was away. The caller holds the lock. */
static unsigned conclude(struct postgres_history *history, enum postgres_outcome outcome, unsigned failures)
{
    const char *name = postgres_name(history->server), *why = postgres_why(history->server);
    if (outcome == POSTGRES_AWAY && !failures)
        fprintf(stderr, "tutti master: the history at %s cannot be written: %s; what is new waits\n", name, why);
    if (outcome == POSTGRES_AWAY)
        return failures + 1;
    if (outcome == POSTGRES_REFUSED) {
        fprintf(stderr, "tutti master: the history at %s refuses a verdict: %s\n", name, why);
        history->lost++;
    }
    if (failures)
        fprintf(stderr, "tutti master: the history at %s is written again: %zu waited, %zu were lost\n", name,
                history->waiting + 1, history->lost);
    return 0;
}

/* Each pause is longer than the one before. The caller holds the lock. */
static void pause_after(struct postgres_history *history, unsigned failures)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += failures < PAUSE_MOST ? failures : PAUSE_MOST;
    while (!history->closing && pthread_cond_timedwait(&history->change, &history->lock, &until) == 0)
        continue; /* another write is no reason to hurry */
}

/* Asks the server once, outside of the lock: writes, or finds out whether the server is there again. */
static enum postgres_outcome try_it(struct postgres_history *history, const struct write *write)
{
    pthread_mutex_unlock(&history->lock);
    enum postgres_outcome outcome =
        write ? postgres_do(history->server, write->text, (const char *const *)write->values, write->count, NULL, NULL)
              : postgres_do(history->server, "SELECT 1", NULL, 0, NULL, NULL);
    pthread_mutex_lock(&history->lock);
    return outcome;
}

static bool is_over(const struct postgres_history *history, const struct write *write)
{
    return history->closing && (!write || clock_passed(history->closing));
}

/* Begins as if the server had been away, so that it connects first. */
static void *run(void *context)
{
    struct postgres_history *history = context;
    struct write *write = NULL;
    bool connected = false;
    unsigned failures = 0;
    pthread_mutex_lock(&history->lock);
    while (write = write ? write : take_first(history), !is_over(history, write)) {
        if (!write && connected && !failures) {
            pthread_cond_wait(&history->change, &history->lock);
            continue;
        }
        enum postgres_outcome outcome = try_it(history, write);
        failures = conclude(history, outcome, failures);
        if (outcome == POSTGRES_AWAY) {
            pause_after(history, failures);
            continue;
        }
        connected = true;
        if (write)
            write_free(write);
        write = NULL;
    }
    history->lost += write != NULL;
    if (write)
        write_free(write);
    pthread_mutex_unlock(&history->lock);
    return NULL;
}

/* ---- Beginning and end ---- */

static void dispose(struct postgres_history *history)
{
    while (history->first)
        write_free(take_first(history));
    for (size_t i = 0; i < history->row_count; i++)
        json_decref(history->rows[i].json);
    postgres_close(history->server);
    pthread_cond_destroy(&history->change);
    pthread_mutex_destroy(&history->lock);
    free(history->job);
    free(history);
}

/* Waiting writes are written if that goes quickly. */
static void close_all(struct history *base)
{
    struct postgres_history *history = of(base);
    pthread_mutex_lock(&history->lock);
    history->closing = clock_ns() + CLOSE_NS;
    postgres_give_up_at(history->server, history->closing);
    pthread_cond_signal(&history->change);
    pthread_mutex_unlock(&history->lock);
    pthread_join(history->thread, NULL);
    history->lost += history->waiting;
    if (history->lost)
        fprintf(stderr, "tutti master: of what the history at %s was to hold, %zu are lost\n",
                postgres_name(history->server), history->lost);
    dispose(history);
}

static void prepare_lock(struct postgres_history *history)
{
    pthread_condattr_t clock;
    pthread_mutex_init(&history->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&history->change, &clock);
    pthread_condattr_destroy(&clock);
}

struct history *history_postgres_open(const char *url, const char *job)
{
    static const struct history_way way = {close_all, begin, end, note, latest};
    struct postgres_history *history = calloc(1, sizeof *history);
    if (!history) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
        return NULL;
    }
    history->base.way = &way;
    history->last = &history->first;
    prepare_lock(history);
    history->job = strdup(job);
    if (!history->job)
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
    else if (!(history->server = postgres_open(url, greet, history)))
        ; /* error_note has the reason */
    else if (pthread_create(&history->thread, NULL, run, history) != 0)
        error_note(TUTTI_SYSTEM_ERROR, "no thread for the history");
    else
        return &history->base;
    dispose(history);
    return NULL;
}
