/* SPDX-License-Identifier: Apache-2.0 */
#include "master/postgres.h"

#include "base/clock.h"
#include "base/error.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_NS (10 * NS_PER_S) /* time limit of a connection, and of each question */
#define TICK_MS   100
#define COLUMNS   8

struct postgres {
    char *url, name[300], why[300];
    PGconn *connection; /* NULL: none */
    postgres_greeting greeting;
    void *context;
    atomic_ullong give_up; /* 0: never */
};

const char *postgres_name(const struct postgres *server)
{
    return server->name;
}

const char *postgres_why(const struct postgres *server)
{
    return server->why;
}

void postgres_give_up_at(struct postgres *server, uint64_t deadline)
{
    atomic_store(&server->give_up, deadline);
}

static void hang_up(struct postgres *server)
{
    PQfinish(server->connection);
    server->connection = NULL;
}

/* Keeps the first line of the library's sentence. */
static void note_why(struct postgres *server, const char *text)
{
    if (*text)
        snprintf(server->why, sizeof server->why, "%.*s", (int)strcspn(text, "\r\n"), text);
}

/* ---- Waiting ---- */

static bool is_late(const struct postgres *server, uint64_t deadline)
{
    uint64_t give_up = atomic_load(&server->give_up);
    return clock_passed(deadline) || (give_up && clock_passed(give_up));
}

/* False: nothing came in time. */
static bool await(struct postgres *server, short events, uint64_t deadline)
{
    struct pollfd socket = {.fd = PQsocket(server->connection), .events = events};
    while (!is_late(server, deadline))
        if (poll(&socket, 1, TICK_MS) > 0)
            return true;
    snprintf(server->why, sizeof server->why, "it does not answer");
    return false;
}

static bool dial(struct postgres *server)
{
    const char *const names[] = {"dbname", "fallback_application_name", "client_encoding", NULL};
    const char *const values[] = {server->url, "tutti master", "UTF8", NULL};
    uint64_t deadline = clock_ns() + ANSWER_NS;
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    *server->why = 0;
    server->connection = PQconnectStartParams(names, values, 1);
    if (!server->connection || PQstatus(server->connection) == CONNECTION_BAD)
        state = PGRES_POLLING_FAILED;
    while (state == PGRES_POLLING_WRITING || state == PGRES_POLLING_READING)
        state = await(server, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline)
                    ? PQconnectPoll(server->connection)
                    : PGRES_POLLING_FAILED;
    if (state == PGRES_POLLING_OK && PQsetnonblocking(server->connection, 1) == 0)
        return true;
    if (!*server->why)
        note_why(server, server->connection ? PQerrorMessage(server->connection) : "no memory");
    hang_up(server);
    return false;
}

/* ---- Questions ---- */

static bool flush(struct postgres *server, uint64_t deadline)
{
    int left;
    while ((left = PQflush(server->connection)) == 1)
        if (!await(server, POLLIN | POLLOUT, deadline) || !PQconsumeInput(server->connection))
            return false;
    return left == 0;
}

/* NULL: there is no other result, or the connection is lost. */
static PGresult *next_result(struct postgres *server, uint64_t deadline)
{
    while (PQisBusy(server->connection))
        if (!await(server, POLLIN, deadline) || !PQconsumeInput(server->connection)) {
            hang_up(server);
            return NULL;
        }
    return PQgetResult(server->connection);
}

/* Judges an answer: these classes of errors are in what was sent, that is data, and what the table's rules forbid. */
static enum postgres_outcome judge(struct postgres *server, const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE),
               *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return POSTGRES_DONE;
    note_why(server, text ? text : PQresultErrorMessage(result));
    return state && (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0) ? POSTGRES_REFUSED : POSTGRES_AWAY;
}

static void hand_rows(const PGresult *result, void (*on_row)(void *context, const char *const *values), void *context)
{
    for (int i = 0; on_row && i < PQntuples(result); i++) {
        const char *values[COLUMNS] = {NULL};
        for (int j = 0; j < PQnfields(result) && j < COLUMNS; j++)
            values[j] = PQgetisnull(result, i, j) ? NULL : PQgetvalue(result, i, j);
        on_row(context, values);
    }
}

static enum postgres_outcome ask(struct postgres *server, const char *text, const char *const *values, int count,
                                 void (*on_row)(void *context, const char *const *values), void *context)
{
    uint64_t deadline = clock_ns() + ANSWER_NS;
    enum postgres_outcome outcome = POSTGRES_AWAY;
    PGresult *result;
    if (!PQsendQueryParams(server->connection, text, count, NULL, values, NULL, NULL, 0) || !flush(server, deadline)) {
        note_why(server, PQerrorMessage(server->connection));
        hang_up(server);
        return POSTGRES_AWAY;
    }
    while ((result = next_result(server, deadline))) {
        outcome = judge(server, result);
        if (outcome == POSTGRES_DONE)
            hand_rows(result, on_row, context);
        PQclear(result);
    }
    if (server->connection && PQstatus(server->connection) == CONNECTION_BAD)
        hang_up(server);
    return server->connection ? outcome : POSTGRES_AWAY;
}

enum postgres_outcome postgres_do(struct postgres *server, const char *text, const char *const *values, int count,
                                  void (*on_row)(void *context, const char *const *values), void *context)
{
    if (server->connection)
        return ask(server, text, values, count, on_row, context);
    if (!dial(server))
        return POSTGRES_AWAY;
    if (server->greeting(server->context, server) != POSTGRES_DONE) {
        hang_up(server);
        return POSTGRES_AWAY;
    }
    return server->connection ? ask(server, text, values, count, on_row, context) : POSTGRES_AWAY;
}

/* ---- Beginning and end ---- */

static const char *value_of(const PQconninfoOption *options, const char *name, const char *other)
{
    for (; options->keyword; options++)
        if (strcmp(options->keyword, name) == 0 && options->val && *options->val)
            return options->val;
    return other;
}

struct postgres *postgres_open(const char *url, postgres_greeting greeting, void *context)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);
    struct postgres *server = options ? calloc(1, sizeof *server) : NULL;
    if (server && !(server->url = strdup(url))) {
        free(server);
        server = NULL;
    }
    if (server) {
        server->greeting = greeting;
        server->context = context;
        snprintf(server->name, sizeof server->name, "%s/%s", value_of(options, "host", "localhost"),
                 value_of(options, "dbname", ""));
    } else {
        error_note(TUTTI_INVALID_USAGE, "the URL of the history is none: %.*s", why ? (int)strcspn(why, "\n") : 9,
                   why ? why : "no memory");
    }
    PQconninfoFree(options);
    PQfreemem(why);
    return server;
}

void postgres_close(struct postgres *server)
{
    if (!server)
        return;
    hang_up(server);
    free(server->url);
    free(server);
}
