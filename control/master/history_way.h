/* SPDX-License-Identifier: Apache-2.0 */
/* A way to keep the history. Private to the history. */
#ifndef TUTTI_MASTER_HISTORY_WAY_H
#define TUTTI_MASTER_HISTORY_WAY_H

#include "master/history.h"

/* The functions of history.h. */
struct history_way {
    void (*close)(struct history *history);
    int64_t (*begin)(struct history *history, const struct verdict *verdict);
    bool (*end)(struct history *history, const struct verdict *verdict, uint64_t day);
    bool (*note)(struct history *history, int64_t row, const char *outcome);
    json_t *(*latest)(struct history *history, int most);
};

/* The fields with which each history begins. */
struct history {
    const struct history_way *way;
};

struct history *history_sqlite_open(const char *path);
/* A build without libpq returns NULL after error_note. */
struct history *history_postgres_open(const char *url, const char *job);

#endif
