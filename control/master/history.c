/* SPDX-License-Identifier: Apache-2.0 */
#include "master/history_way.h"

#include <string.h>

struct history *history_open(const char *where, const char *job)
{
    bool postgres = strncmp(where, "postgresql://", 13) == 0 || strncmp(where, "postgres://", 11) == 0;
    return postgres ? history_postgres_open(where, job) : history_sqlite_open(where);
}

void history_close(struct history *history)
{
    if (history)
        history->way->close(history);
}

int64_t history_begin(struct history *history, const struct verdict *verdict)
{
    return history->way->begin(history, verdict);
}

bool history_end(struct history *history, const struct verdict *verdict, uint64_t day)
{
    return history->way->end(history, verdict, day);
}

bool history_note(struct history *history, int64_t row, const char *outcome)
{
    return history->way->note(history, row, outcome);
}

json_t *history_json(struct history *history, int most)
{
    return history->way->latest(history, most);
}
