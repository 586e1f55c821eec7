/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every verdict in a file of SQLite, or in PostgreSQL, for those who ask later. A history that cannot be written costs
 * nothing else. PostgreSQL is written by a thread of its own: what it does not take now waits in memory.
 */
#ifndef TUTTI_MASTER_HISTORY_H
#define TUTTI_MASTER_HISTORY_H

#include "master/ledger.h"

#include "tutti/tutti.h"

#include <jansson.h>

struct history;

#define HISTORY_WAITING 4096 /* things to write that wait for PostgreSQL; then the oldest are lost, and counted */

/*
 * `where`: a file, or postgresql://, where many masters share a table and `job` tells theirs apart. Verdicts of an
 * earlier master that were not over are over now. NULL after error_note.
 */
struct history *history_open(const char *where, const char *job);
void history_close(struct history *history);
/* The number of its row; 0 after error_note. */
int64_t history_begin(struct history *history, const struct verdict *verdict);
/* False after error_note. */
bool history_end(struct history *history, const struct verdict *verdict, uint64_t day);
/* What the hook answered. */
bool history_note(struct history *history, int64_t row, const char *outcome);
/* The latest, newest first; NULL after error_note. */
json_t *history_json(struct history *history, int most);

#endif
