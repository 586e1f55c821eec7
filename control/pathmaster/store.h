/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state in a file of SQLite: rows are what the events so far have made. Events between store_begin() and
 * store_commit() are there together or not at all, whenever the process is killed.
 */
#ifndef TUTTI_PATHMASTER_STORE_H
#define TUTTI_PATHMASTER_STORE_H

#include "pathmaster/allot.h"
#include "pathmaster/names.h"
#include "pathmaster/tenants.h"

struct store;

/* NULL after error_note, also where another process has the file. */
struct store *store_open(const char *path, const struct fabric_names *names, const struct tenants *tenants);
void store_close(struct store *store);

/* Applies what is stored to an empty state. *dropped: lanes whose tenant, NICs or uplink are not there any more; they
 * are taken out of the file. */
tutti_result_t store_load(struct store *store, struct allot *allot, int32_t *dropped);

tutti_result_t store_begin(struct store *store);
/* Before the event is applied. */
tutti_result_t store_note(struct store *store, const struct allot *allot, const struct allot_event *event);
/* After a failure nothing of the events since store_begin() is stored. */
tutti_result_t store_commit(struct store *store);
void store_undo(struct store *store);

#endif
