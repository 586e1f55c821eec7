/* SPDX-License-Identifier: Apache-2.0 */
#include "master/history_way.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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

#define AGAIN_ROWS    1000
#define AGAIN_SECONDS (7 * 24 * 3600)

/* How many of a kind there were, as " slow 2,". */
static size_t say_kinds(const size_t *kinds, char *out, size_t size)
{
    size_t used = 0;
    *out = 0;
    for (int kind = 0; kind < FINDING_KINDS && used < size; kind++)
        if (kinds[kind])
            used += (size_t)snprintf(out + used, size - used, "%s%s %zu", used ? ", " : "",
                                     finding_row((enum finding_kind)kind)->name, kinds[kind]);
    return used;
}

static void count_kind(size_t *kinds, const char *name)
{
    for (int kind = 0; kind < FINDING_KINDS; kind++)
        kinds[kind] += name && strcmp(name, finding_row((enum finding_kind)kind)->name) == 0;
}

static const char *ending(size_t number)
{
    size_t last = number % 10, tens = number / 10 % 10;
    return tens == 1 || last > 3 || last == 0 ? "th" : last == 1 ? "st" : last == 2 ? "nd" : "rd";
}

void history_again(struct history *history, const char *host, uint64_t day, char *out, size_t size)
{
    json_t *rows = *host ? history_json(history, AGAIN_ROWS) : NULL, *row;
    size_t kinds[FINDING_KINDS] = {0}, count = 0, i;
    double now = (double)day / 1e9, latest = 0;
    char words[80], when[32] = "";
    *out = 0;
    json_array_foreach(rows, i, row)
    {
        const char *there = json_string_value(json_object_get(row, "host"));
        double began = json_number_value(json_object_get(row, "began"));
        if (!there || strcmp(there, host) != 0 || began < now - AGAIN_SECONDS)
            continue;
        count_kind(kinds, json_string_value(json_object_get(row, "kind")));
        latest = began > latest ? began : latest;
        count++;
    }
    json_decref(rows);
    time_t seconds = (time_t)latest;
    struct tm broken;
    if (!count || !localtime_r(&seconds, &broken))
        return;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", &broken);
    say_kinds(kinds, words, sizeof words);
    snprintf(out, size, "host %.40s again: the %zu%s verdict in 7 days (before: %s), the latest of them began %s", host,
             count + 1, ending(count + 1), words, when);
}

json_t *history_json(struct history *history, int most)
{
    return history->way->latest(history, most);
}
