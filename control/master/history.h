/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every verdict, kept in a file of SQLite or in PostgreSQL for later questions. A history that cannot be written costs
 * nothing else. PostgreSQL is written by a thread of its own: what it does not take now waits in memory.
 */
#ifndef TUTTI_MASTER_HISTORY_H
#define TUTTI_MASTER_HISTORY_H

#include "master/ledger.h"

#include "tutti/tutti.h"

#include <jansson.h>

struct history;

#define HISTORY_WAITING 4096 /* writes that wait for PostgreSQL; beyond it the oldest are lost, and counted */

/*
 * `where`: a file, or postgresql://, where many masters share a table and `job` tells theirs apart. Open verdicts of an
 * earlier master end now. NULL after error_note.
 */
struct history *history_open(const char *where, const char *job);
void history_close(struct history *history);
/* The number of the new row; 0 after error_note. */
int64_t history_begin(struct history *history, const struct verdict *verdict);
/* False after error_note. */
bool history_end(struct history *history, const struct verdict *verdict, uint64_t day);
/* The answer of the hook. */
bool history_note(struct history *history, int64_t row, const char *outcome);
/* "host h3 again: the 4th verdict in 7 days (slow 2, link 1), the one before began 2026-11-28 02:14", of the latest
 * thousand; `day`: CLOCK_REALTIME now. "": there was none. */
void history_again(struct history *history, const char *host, uint64_t day, char *out, size_t size);
/* The latest verdicts, newest first; NULL after error_note. */
json_t *history_json(struct history *history, int most);

#endif
