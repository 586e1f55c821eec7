/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces history_postgres.c in a build without libpq. */
#include "master/history_way.h"

#include "base/error.h"

struct history *history_postgres_open(const char *url, const char *job)
{
    error_note(TUTTI_INVALID_USAGE, "this tutti was built without libpq, so there is no history in PostgreSQL");
    return NULL;
}
