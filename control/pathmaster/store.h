/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state in a file of SQLite, or in etcd, which several masters share: one of them leads. Events between
 * store_begin() and store_commit() are there together or not at all, whenever the process is killed. (In etcd: 4,096 of
 * them at a time.)
 */
#ifndef TUTTI_PATHMASTER_STORE_H
#define TUTTI_PATHMASTER_STORE_H

#include "pathmaster/allot.h"
#include "pathmaster/names.h"
#include "pathmaster/tenants.h"

struct store;

/* `path`: a file, or "etcd:" and its members: "etcd:http://10.0.0.1:2379,http://10.0.0.2:2379". NULL after error_note,
 * also where another process has the file. */
struct store *store_open(const char *path, const struct fabric_names *names, const struct tenants *tenants);
void store_close(struct store *store);

/* Do several masters share it? */
bool store_is_shared(const struct store *store);
/* Several times a second. STORE_BEGINS: this master leads from now on, and what it knows is old. STORE_FOLLOWS: it does
 * not lead; after error_note where the store does not answer. */
enum store_role { STORE_LEADS, STORE_BEGINS, STORE_FOLLOWS };
enum store_role store_turn(struct store *store);

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
