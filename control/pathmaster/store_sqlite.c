/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/store_way.h"

#include "base/error.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* Owners have numbers of the file: their places in the state are others after each start. */
static const char schema[] =
    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS owners(id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, secret BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS lanes(owner INTEGER NOT NULL, number INTEGER NOT NULL, nic_from TEXT NOT NULL, nic_to "
    "TEXT NOT NULL, weight INTEGER NOT NULL, uplink TEXT NOT NULL, side INTEGER NOT NULL, port INTEGER NOT NULL, wave "
    "INTEGER NOT NULL, PRIMARY KEY(owner, number)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS links(uplink TEXT PRIMARY KEY, percent INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS found(uplink TEXT PRIMARY KEY, percent INTEGER NOT NULL);"
    "BEGIN EXCLUSIVE; COMMIT;";

enum {
    S_BEGIN,
    S_COMMIT,
    S_UNDO,
    S_OWNER,
    S_GIVE,
    S_MOVE,
    S_END,
    S_LEAVE,
    S_LEAVE_LANES,
    S_LINK,
    S_FOUND,
    S_OWNERS,
    S_LANES,
    S_LINKS,
    S_FOUNDS,
    STATEMENTS
};

static const char *const text_of[STATEMENTS] = {
    [S_BEGIN] = "BEGIN IMMEDIATE",
    [S_COMMIT] = "COMMIT",
    [S_UNDO] = "ROLLBACK",
    [S_OWNER] = "INSERT INTO owners(id, tenant, secret) VALUES(?, ?, ?)",
    [S_GIVE] = "INSERT INTO lanes VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [S_MOVE] = "UPDATE lanes SET uplink=?3, side=?4, port=?5, wave=?6 WHERE owner=?1 AND number=?2",
    [S_END] = "DELETE FROM lanes WHERE owner=? AND number=?",
    [S_LEAVE] = "DELETE FROM owners WHERE id=?",
    [S_LEAVE_LANES] = "DELETE FROM lanes WHERE owner=?",
    [S_LINK] = "INSERT OR REPLACE INTO links VALUES(?, ?)",
    [S_FOUND] = "INSERT OR REPLACE INTO found VALUES(?, ?)",
    [S_OWNERS] = "SELECT id, tenant, secret FROM owners ORDER BY id",
    [S_LANES] = "SELECT number, nic_from, nic_to, weight, uplink, side, port, wave FROM lanes WHERE owner=?",
    [S_LINKS] = "SELECT uplink, percent FROM links",
    [S_FOUNDS] = "SELECT uplink, percent FROM found",
};

struct file_store {
    struct store store; /* first */
    sqlite3 *database;
    sqlite3_stmt *statement[STATEMENTS];
    const struct fabric_names *names;
    const struct tenants *tenants;
    const char *path;
    int64_t last;   /* number of an owner */
    int64_t *owner; /* the number of each place */
};

static tutti_result_t store_fails(struct file_store *store)
{
    return error_note(TUTTI_SYSTEM_ERROR, "the state in %s: %s", store->path,
                      store->database ? sqlite3_errmsg(store->database) : "no memory");
}

static tutti_result_t carry_out(struct file_store *store, int which)
{
    int code = sqlite3_step(store->statement[which]);
    tutti_result_t result = code == SQLITE_DONE || code == SQLITE_ROW ? TUTTI_SUCCESS : store_fails(store);
    sqlite3_reset(store->statement[which]);
    return result;
}

static void file_close(struct store *base);
static tutti_result_t file_load(struct store *base, struct allot *allot, int32_t *dropped);
static tutti_result_t file_begin(struct store *base);
static tutti_result_t file_note(struct store *base, const struct allot *allot, const struct allot_event *event);
static tutti_result_t file_commit(struct store *base);
static void file_undo(struct store *base);

static const struct store_way sqlite_way = {.close = file_close,
                                            .load = file_load,
                                            .begin = file_begin,
                                            .note = file_note,
                                            .commit = file_commit,
                                            .undo = file_undo};

struct store *store_sqlite(const char *path, const struct fabric_names *names, const struct tenants *tenants)
{
    struct file_store *store = calloc(1, sizeof *store);
    if (!store) {
        error_note(TUTTI_SYSTEM_ERROR, "the state in %s: no memory", path);
        return NULL;
    }
    *store = (struct file_store){.store = {&sqlite_way}, .names = names, .tenants = tenants, .path = path};
    store->owner = calloc(ALLOT_OWNERS, sizeof *store->owner);
    bool good =
        store->owner &&
        sqlite3_open_v2(path, &store->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK &&
        sqlite3_exec(store->database, schema, NULL, NULL, NULL) == SQLITE_OK;
    for (int i = 0; good && i < STATEMENTS; i++)
        good = sqlite3_prepare_v2(store->database, text_of[i], -1, &store->statement[i], NULL) == SQLITE_OK;
    if (good)
        return &store->store;
    store_fails(store);
    file_close(&store->store);
    return NULL;
}

static void file_close(struct store *base)
{
    struct file_store *store = (struct file_store *)base;
    if (!store)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statement[i]);
    sqlite3_close(store->database);
    free(store->owner);
    free(store);
}

static tutti_result_t file_begin(struct store *base)
{
    return carry_out((struct file_store *)base, S_BEGIN);
}

static tutti_result_t file_commit(struct store *base)
{
    tutti_result_t result = carry_out((struct file_store *)base, S_COMMIT);
    if (result)
        file_undo(base);
    return result;
}

static void file_undo(struct store *base)
{
    struct file_store *store = (struct file_store *)base;
    if (!sqlite3_get_autocommit(store->database))
        carry_out(store, S_UNDO);
}

/* ---- events ---- */

static void bind_text(sqlite3_stmt *statement, int place, const char *text)
{
    sqlite3_bind_text(statement, place, text, -1, SQLITE_TRANSIENT);
}

static void bind_uplink(struct file_store *store, sqlite3_stmt *statement, int place, int32_t uplink)
{
    char name[PATHS_NAME];
    paths_uplink_name(store->names->fabric, uplink, name);
    bind_text(statement, place, name);
}

static tutti_result_t note_owner(struct file_store *store, const struct allot_event *event)
{
    sqlite3_stmt *to = store->statement[S_OWNER];
    sqlite3_bind_int64(to, 1, store->owner[event->owner] = ++store->last);
    bind_text(to, 2, store->tenants->tenant[event->tenant].name);
    sqlite3_bind_blob(to, 3, event->secret, ALLOT_SECRET, SQLITE_TRANSIENT);
    return carry_out(store, S_OWNER);
}

static tutti_result_t note_give(struct file_store *store, const struct allot_event *event)
{
    sqlite3_stmt *to = store->statement[S_GIVE];
    sqlite3_bind_int64(to, 1, store->owner[event->owner]);
    sqlite3_bind_int64(to, 2, (int64_t)event->number);
    bind_text(to, 3, store->names->fabric->nic[event->from].address);
    bind_text(to, 4, store->names->fabric->nic[event->to].address);
    sqlite3_bind_int64(to, 5, event->weight);
    bind_uplink(store, to, 6, event->uplink);
    sqlite3_bind_int(to, 7, event->side);
    sqlite3_bind_int(to, 8, event->port);
    sqlite3_bind_int64(to, 9, (int64_t)event->wave);
    return carry_out(store, S_GIVE);
}

static tutti_result_t note_move(struct file_store *store, const struct allot_event *event)
{
    sqlite3_stmt *to = store->statement[S_MOVE];
    sqlite3_bind_int64(to, 1, store->owner[event->owner]);
    sqlite3_bind_int64(to, 2, (int64_t)event->number);
    bind_uplink(store, to, 3, event->uplink);
    sqlite3_bind_int(to, 4, event->side);
    sqlite3_bind_int(to, 5, event->port);
    sqlite3_bind_int64(to, 6, (int64_t)event->wave);
    return carry_out(store, S_MOVE);
}

static tutti_result_t note_end(struct file_store *store, const struct allot_event *event)
{
    sqlite3_bind_int64(store->statement[S_END], 1, store->owner[event->owner]);
    sqlite3_bind_int64(store->statement[S_END], 2, (int64_t)event->number);
    return carry_out(store, S_END);
}

static tutti_result_t note_leave(struct file_store *store, int64_t owner)
{
    sqlite3_bind_int64(store->statement[S_LEAVE_LANES], 1, owner);
    sqlite3_bind_int64(store->statement[S_LEAVE], 1, owner);
    tutti_result_t result = carry_out(store, S_LEAVE_LANES);
    return result ? result : carry_out(store, S_LEAVE);
}

static tutti_result_t note_link(struct file_store *store, const struct allot_event *event)
{
    int which = event->probed ? S_FOUND : S_LINK;
    bind_uplink(store, store->statement[which], 1, event->uplink);
    sqlite3_bind_int(store->statement[which], 2, (int)event->percent);
    return carry_out(store, which);
}

static tutti_result_t file_note(struct store *base, const struct allot *allot, const struct allot_event *event)
{
    struct file_store *store = (struct file_store *)base;
    switch (event->kind) {
    case ALLOT_OWNER:
        return note_owner(store, event);
    case ALLOT_GIVE:
        return note_give(store, event);
    case ALLOT_MOVE:
        return note_move(store, event);
    case ALLOT_END:
        return note_end(store, event);
    case ALLOT_LEAVE:
        return note_leave(store, store->owner[event->owner]);
    case ALLOT_LINK:
        return note_link(store, event);
    }
    return error_note(TUTTI_INTERNAL_ERROR, "%s: no event has the kind %d", allot->paths->label, (int)event->kind);
}

/* ---- the start ---- */

static const char *text_at(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    return text ? (const char *)text : "";
}

static int32_t nic_at(const struct file_store *store, sqlite3_stmt *row, int column)
{
    uint8_t address[16];
    return names_address(text_at(row, column), address) ? names_nic(store->names, address) : -1;
}

static int32_t tenant_of(const struct file_store *store, const char *name)
{
    for (int i = 0; i < store->tenants->count; i++)
        if (strcmp(store->tenants->tenant[i].name, name) == 0)
            return i;
    return -1;
}

/* Links that the fabric no longer has are forgotten with the fault that they had. */
static tutti_result_t load_links(struct file_store *store, struct allot *allot, bool probed)
{
    sqlite3_stmt *row = store->statement[probed ? S_FOUNDS : S_LINKS];
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct allot_event event = {.kind = ALLOT_LINK,
                                          .uplink = names_uplink(store->names, text_at(row, 0)),
                                          .percent = (uint32_t)sqlite3_column_int(row, 1),
                                          .probed = probed};
        if (event.uplink >= 0)
            allot_apply(allot, &event);
    }
    sqlite3_reset(row);
    return code == SQLITE_DONE ? TUTTI_SUCCESS : store_fails(store);
}

/* A lane that no longer fits is one that the state refuses. */
static tutti_result_t load_lanes(struct file_store *store, struct allot *allot, int32_t owner, int32_t *dropped)
{
    sqlite3_stmt *row = store->statement[S_LANES];
    tutti_result_t result = TUTTI_SUCCESS;
    int code = SQLITE_DONE;
    sqlite3_bind_int64(row, 1, store->owner[owner]);
    while (!result && (code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct allot_event event = {.kind = ALLOT_GIVE,
                                          .owner = owner,
                                          .number = (uint64_t)sqlite3_column_int64(row, 0),
                                          .from = nic_at(store, row, 1),
                                          .to = nic_at(store, row, 2),
                                          .weight = (uint32_t)sqlite3_column_int64(row, 3),
                                          .uplink = names_uplink(store->names, text_at(row, 4)),
                                          .side = (uint8_t)sqlite3_column_int(row, 5),
                                          .port = (uint16_t)sqlite3_column_int(row, 6),
                                          .wave = (uint64_t)sqlite3_column_int64(row, 7)};
        tutti_result_t one = allot_apply(allot, &event);
        if (one == TUTTI_INVALID_ARGUMENT) {
            ++*dropped;
            one = note_end(store, &event);
        }
        result = one;
    }
    sqlite3_reset(row);
    return result ? result : code == SQLITE_DONE ? TUTTI_SUCCESS : store_fails(store);
}

static tutti_result_t load_owner(struct file_store *store, struct allot *allot, sqlite3_stmt *row, int32_t *dropped)
{
    struct allot_event event = {
        .kind = ALLOT_OWNER, .owner = allot_next_owner(allot), .tenant = tenant_of(store, text_at(row, 1))};
    int64_t number = sqlite3_column_int64(row, 0);
    store->last = number > store->last ? number : store->last;
    bool whole = sqlite3_column_bytes(row, 2) == ALLOT_SECRET;
    if (whole)
        memcpy(event.secret, sqlite3_column_blob(row, 2), ALLOT_SECRET);
    if (!whole || event.tenant < 0 || event.owner < 0 || allot_apply(allot, &event)) {
        ++*dropped;
        return note_leave(store, number);
    }
    store->owner[event.owner] = number;
    return load_lanes(store, allot, event.owner, dropped);
}

static tutti_result_t file_load(struct store *base, struct allot *allot, int32_t *dropped)
{
    struct file_store *store = (struct file_store *)base;
    sqlite3_stmt *row = store->statement[S_OWNERS];
    tutti_result_t result = load_links(store, allot, false);
    int code = SQLITE_DONE;
    *dropped = 0;
    if (!result)
        result = load_links(store, allot, true);
    if (!result)
        result = file_begin(base);
    while (!result && (code = sqlite3_step(row)) == SQLITE_ROW)
        result = load_owner(store, allot, row, dropped);
    sqlite3_reset(row);
    if (!result && code != SQLITE_DONE)
        result = store_fails(store);
    if (!result)
        return file_commit(base);
    file_undo(base);
    return result;
}
