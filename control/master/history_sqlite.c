/* SPDX-License-Identifier: Apache-2.0 */
/* One file, no service. Each verdict is written at once. */
#include "master/history_way.h"

#include "base/clock.h"
#include "base/error.h"
#include "verdict/verdict.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

#define BUSY_MS 1000 /* the time that another reader may hold the file */

/* Times are seconds since 1970. `verdict` is what `tutti diagnose --json` says of a finding. */
static const char schema[] =
    "PRAGMA journal_mode=WAL; PRAGMA user_version=1;"
    "CREATE TABLE IF NOT EXISTS verdicts(id INTEGER PRIMARY KEY, began REAL NOT NULL, ended REAL, kind TEXT NOT NULL,"
    " confidence TEXT NOT NULL, host TEXT NOT NULL, rank INTEGER, text TEXT NOT NULL, verdict TEXT NOT NULL, hook "
    "TEXT);";

struct sqlite_history {
    struct history base;
    sqlite3 *database;
};

static struct sqlite_history *of(struct history *history)
{
    return (struct sqlite_history *)history;
}

static double seconds(uint64_t day)
{
    return (double)day / 1e9;
}

static tutti_result_t failed(const struct sqlite_history *history)
{
    return error_note(TUTTI_SYSTEM_ERROR, "the history cannot be written: %s", sqlite3_errmsg(history->database));
}

static sqlite3_stmt *prepare(struct sqlite_history *history, const char *text)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(history->database, text, -1, &statement, NULL) != SQLITE_OK)
        failed(history);
    return statement;
}

/* Carries out a statement that returns nothing, and ends it. */
static bool carry_out(struct sqlite_history *history, sqlite3_stmt *statement)
{
    bool fine = statement && sqlite3_step(statement) == SQLITE_DONE;
    if (statement && !fine)
        failed(history);
    sqlite3_finalize(statement);
    return fine;
}

static int64_t begin(struct history *base, const struct verdict *verdict)
{
    struct sqlite_history *history = of(base);
    const struct finding *finding = &verdict->finding;
    json_t *whole = verdict_json(finding);
    char *text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    sqlite3_stmt *statement =
        prepare(history,
                "INSERT INTO verdicts(began, kind, confidence, host, rank, text, verdict) VALUES(?, ?, ?, ?, ?, ?, ?)");
    if (statement) {
        sqlite3_bind_double(statement, 1, seconds(verdict->began));
        sqlite3_bind_text(statement, 2, finding_row(finding->kind)->name, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 3, confidence_name(finding->confidence), -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 4, finding->culprit.host, -1, SQLITE_STATIC);
        if (finding->culprit.world_rank >= 0)
            sqlite3_bind_int(statement, 5, finding->culprit.world_rank);
        sqlite3_bind_text(statement, 6, finding->sentence, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 7, text ? text : "{}", -1, SQLITE_STATIC);
    }
    bool fine = carry_out(history, statement);
    json_decref(whole);
    free(text);
    return fine ? sqlite3_last_insert_rowid(history->database) : 0;
}

static bool end(struct history *base, const struct verdict *verdict, uint64_t day)
{
    struct sqlite_history *history = of(base);
    sqlite3_stmt *statement = prepare(history, "UPDATE verdicts SET ended=? WHERE id=?");
    if (statement) {
        sqlite3_bind_double(statement, 1, seconds(day));
        sqlite3_bind_int64(statement, 2, verdict->row);
    }
    return carry_out(history, statement);
}

static bool note(struct history *base, int64_t row, const char *outcome)
{
    struct sqlite_history *history = of(base);
    sqlite3_stmt *statement = prepare(history, "UPDATE verdicts SET hook=? WHERE id=?");
    if (statement) {
        sqlite3_bind_text(statement, 1, outcome, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, row);
    }
    return carry_out(history, statement);
}

static json_t *row_json(sqlite3_stmt *statement)
{
    const char *verdict = (const char *)sqlite3_column_text(statement, 2),
               *hook = (const char *)sqlite3_column_text(statement, 3);
    json_t *row = json_loads(verdict ? verdict : "{}", 0, NULL);
    if (!row)
        row = json_object();
    json_object_set_new(row, "began", json_real(sqlite3_column_double(statement, 0)));
    json_object_set_new(row, "ended",
                        sqlite3_column_type(statement, 1) == SQLITE_NULL
                            ? json_null()
                            : json_real(sqlite3_column_double(statement, 1)));
    json_object_set_new(row, "hook", hook ? json_string(hook) : json_null());
    return row;
}

static json_t *latest(struct history *base, int most)
{
    struct sqlite_history *history = of(base);
    json_t *rows = json_array();
    int step = SQLITE_ROW;
    sqlite3_stmt *statement =
        prepare(history, "SELECT began, ended, verdict, hook FROM verdicts ORDER BY id DESC LIMIT ?");
    if (!statement) {
        json_decref(rows);
        return NULL;
    }
    sqlite3_bind_int(statement, 1, most);
    while ((step = sqlite3_step(statement)) == SQLITE_ROW)
        json_array_append_new(rows, row_json(statement));
    if (step != SQLITE_DONE)
        failed(history);
    sqlite3_finalize(statement);
    return rows;
}

static void close_file(struct history *base)
{
    sqlite3_close(of(base)->database);
    free(base);
}

struct history *history_sqlite_open(const char *path)
{
    static const struct history_way way = {close_file, begin, end, note, latest};
    struct sqlite_history *history = calloc(1, sizeof *history);
    if (!history) {
        error_note(TUTTI_SYSTEM_ERROR, "opening %s: no memory", path);
        return NULL;
    }
    history->base.way = &way;
    bool fine =
        sqlite3_open_v2(path, &history->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                        NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(history->database, BUSY_MS) == SQLITE_OK &&
        sqlite3_exec(history->database, schema, NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_stmt *statement = fine ? prepare(history, "UPDATE verdicts SET ended=? WHERE ended IS NULL") : NULL;
    if (statement)
        sqlite3_bind_double(statement, 1, (double)time(NULL));
    fine = fine && carry_out(history, statement);
    if (fine)
        return &history->base;
    error_note(TUTTI_SYSTEM_ERROR, "opening the history %s: %s", path,
               history->database ? sqlite3_errmsg(history->database) : "no memory");
    close_file(&history->base);
    return NULL;
}
