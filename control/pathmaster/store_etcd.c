/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state in etcd: a log of events, and from time to time all of it anew. The master that leads has the key `leader`,
 * which goes with its lease. Each change asks whether that key is still the one that this master made: so a master that
 * was asleep, and no longer leads, changes nothing.
 */
#include "pathmaster/etcd.h"
#include "pathmaster/pathmaster.pb-c.h"
#include "pathmaster/store_way.h"
#include "pathmaster/stored.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "report/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_S 3
#define LEASE   (LEASE_S * NS_PER_S)
#define EVENTS  4096 /* of a key */
#define AGAIN   1024 /* keys of the log, after which all is written anew */
#define ID      16   /* bytes */
#define MEMORY  (64u << 20)

struct etcd_store {
    struct store store; /* first */
    struct etcd *etcd;
    struct stored stored;
    char prefix[ETCD_KEY / 2], leader[ETCD_KEY];
    uint8_t id[ID];
    int64_t lease, made; /* made: the revision of our key `leader` */
    uint64_t renewed;    /* when the lease was, at the latest that is sure */
    bool leads;
    uint64_t log, since; /* the latest key of the log; how many there are since all was written */
    const struct allot *allot;
};

static void key_at(const struct etcd_store *store, char out[ETCD_KEY], const char *what, uint64_t number)
{
    snprintf(out, ETCD_KEY, "%s%s%016" PRIx64, store->prefix, what, number);
}

/* ---- the lead ---- */

static tutti_result_t lost(struct etcd_store *store)
{
    store->leads = false;
    return error_note(TUTTI_SYSTEM_ERROR, "another master leads by now");
}

static tutti_result_t change(struct etcd_store *store, struct etcd_change *change)
{
    bool done = false;
    int64_t revision;
    change->same = store->leader;
    change->made = store->made;
    tutti_result_t result = etcd_change(store->etcd, change, &done, &revision);
    store->leads &= !result;
    return result || done ? result : lost(store);
}

struct found_leader {
    const struct etcd_store *store;
    int64_t made; /* 0: it is another one */
};

static bool on_leader(void *context, const struct etcd_pair *pair)
{
    struct found_leader *found = context;
    if (pair->lease == found->store->lease && pair->size == ID && memcmp(pair->value, found->store->id, ID) == 0)
        found->made = pair->made;
    return false;
}

/* A try that timed out may have made the key. */
static enum store_role take_lead(struct etcd_store *store)
{
    const struct etcd_change wish = {
        .same = store->leader, .put = store->leader, .value = store->id, .size = ID, .lease = store->lease};
    struct found_leader found = {.store = store};
    char end[ETCD_KEY + 2];
    bool done = false;
    if (etcd_change(store->etcd, &wish, &done, &store->made))
        return STORE_FOLLOWS;
    if (!done) {
        snprintf(end, sizeof end, "%s!", store->leader);
        if (etcd_read(store->etcd, store->leader, end, on_leader, &found) || !found.made)
            return STORE_FOLLOWS;
        store->made = found.made;
    }
    store->leads = true;
    return STORE_BEGINS;
}

/* True: the lease lives for sure. */
static bool renew(struct etcd_store *store)
{
    uint64_t now = clock_ns();
    bool lives = false;
    if (!store->lease) {
        if (etcd_grant(store->etcd, LEASE_S, &store->lease))
            return false;
        store->renewed = now;
    }
    if (now - store->renewed < LEASE / 4)
        return true;
    if (etcd_renew(store->etcd, store->lease, &lives) == TUTTI_SUCCESS) {
        store->renewed = lives ? now : store->renewed;
        store->lease = lives ? store->lease : 0;
        return lives;
    }
    return clock_ns() - store->renewed < LEASE / 2;
}

static enum store_role on_turn(struct store *base)
{
    struct etcd_store *store = (struct etcd_store *)base;
    error_note(TUTTI_SUCCESS, "%s", "");
    if (!renew(store)) {
        store->leads = false;
        return STORE_FOLLOWS;
    }
    return store->leads ? STORE_LEADS : take_lead(store);
}

/* ---- changes ---- */

static tutti_result_t on_begin(struct store *base)
{
    struct etcd_store *store = (struct etcd_store *)base;
    stored_clear(&store->stored);
    return store->leads ? TUTTI_SUCCESS : lost(store);
}

static void on_undo(struct store *base)
{
    struct etcd_store *store = (struct etcd_store *)base;
    stored_clear(&store->stored);
    store->leads = false;
}

static tutti_result_t on_note(struct store *base, const struct allot *allot, const struct allot_event *event)
{
    return stored_note(&((struct etcd_store *)base)->stored, event);
}

/* Events from `from` on, as the value of one key. `fresh`: there is none of that name. */
static tutti_result_t write_events(struct etcd_store *store, const char *key, size_t from, size_t count, bool fresh)
{
    size_t size = 0;
    uint8_t *bytes = stored_pack(&store->stored, from, count, &size);
    struct etcd_change wish = {.absent = fresh ? key : NULL, .put = key, .value = bytes, .size = size};
    tutti_result_t result =
        bytes ? change(store, &wish) : error_note(TUTTI_SYSTEM_ERROR, "no memory for %zu events", count);
    free(bytes);
    return result;
}

/* All that is noted, in one key after the other. */
static tutti_result_t write_all(struct etcd_store *store, const char *what, uint64_t *number, bool fresh)
{
    tutti_result_t result = TUTTI_SUCCESS;
    char key[ETCD_KEY];
    for (size_t from = 0; !result && from < store->stored.count; from += EVENTS) {
        size_t left = store->stored.count - from;
        key_at(store, key, what, *number + 1);
        result = write_events(store, key, from, left < EVENTS ? left : EVENTS, fresh);
        *number += !result;
    }
    return result;
}

static tutti_result_t remove_keys(struct etcd_store *store, const char *what, uint64_t before)
{
    char first[ETCD_KEY], end[ETCD_KEY];
    key_at(store, first, what, 0);
    key_at(store, end, what, before);
    return change(store, &(struct etcd_change){.remove = first, .before = end});
}

/* The whole state anew: what the log has up to now is needed no longer once `head` says so. */
static tutti_result_t write_anew(struct etcd_store *store)
{
    char head[ETCD_KEY], what[ETCD_KEY / 4], number[24];
    uint64_t parts = 0;
    snprintf(head, sizeof head, "%shead", store->prefix);
    snprintf(what, sizeof what, "all/%016" PRIx64 "/", store->log);
    snprintf(number, sizeof number, "%" PRIu64, store->log);
    stored_clear(&store->stored);
    tutti_result_t result = stored_all(&store->stored, store->allot);
    if (!result)
        result = write_all(store, what, &parts, false);
    if (!result)
        result = change(store, &(struct etcd_change){.put = head, .value = number, .size = strlen(number)});
    if (!result)
        result = remove_keys(store, "log/", store->log + 1);
    if (!result)
        result = remove_keys(store, "all/", store->log);
    stored_clear(&store->stored);
    store->since = 0;
    return result;
}

/* An answer without news needs no change, while nobody else can lead. */
static tutti_result_t on_commit(struct store *base)
{
    struct etcd_store *store = (struct etcd_store *)base;
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t log = store->log;
    if (!store->leads)
        result = lost(store);
    else if (store->stored.count)
        result = write_all(store, "log/", &store->log, true);
    else if (clock_ns() - store->renewed > LEASE / 2)
        result = change(store, &(struct etcd_change){0});
    store->since += store->log - log;
    stored_clear(&store->stored);
    if (!result && store->since > AGAIN)
        result = write_anew(store);
    store->leads &= !result;
    return result;
}

/* ---- the start ---- */

struct loading {
    struct etcd_store *store;
    struct allot *allot;
    int32_t *dropped;
    uint64_t head;
    tutti_result_t result;
};

static bool on_head(void *context, const struct etcd_pair *pair)
{
    struct loading *loading = context;
    char number[24] = "";
    memcpy(number, pair->value, pair->size < sizeof number - 1 ? pair->size : sizeof number - 1);
    loading->head = strtoull(number, NULL, 10);
    return false;
}

static bool on_events(void *context, const struct etcd_pair *pair)
{
    struct loading *loading = context;
    size_t budget = MEMORY;
    ProtobufCAllocator allocator = report_allocator(&budget);
    Tutti__StoredEvents *events = tutti__stored_events__unpack(&allocator, pair->size, pair->value);
    if (!events) {
        loading->result = error_note(TUTTI_SYSTEM_ERROR, "%s of etcd has no events of a path master", pair->key);
        return false;
    }
    for (size_t i = 0; !loading->result && i < events->n_events; i++)
        loading->result = stored_apply(&loading->store->stored, loading->allot, events->events[i], loading->dropped);
    tutti__stored_events__free_unpacked(events, &allocator);
    const char *slash = strrchr(pair->key, '/');
    uint64_t number = strtoull(slash ? slash + 1 : "", NULL, 16);
    if (number > loading->store->log)
        loading->store->log = number;
    return !loading->result;
}

static tutti_result_t read_range(struct etcd_store *store, const char *first, const char *what, etcd_take *take,
                                 struct loading *loading)
{
    char end[ETCD_KEY];
    snprintf(end, sizeof end, "%s%s~", store->prefix, what);
    tutti_result_t result = etcd_read(store->etcd, first, end, take, loading);
    return result ? result : loading->result;
}

static tutti_result_t on_load(struct store *base, struct allot *allot, int32_t *dropped)
{
    struct etcd_store *store = (struct etcd_store *)base;
    struct loading loading = {.store = store, .allot = allot, .dropped = dropped};
    char first[ETCD_KEY], what[ETCD_KEY / 4];
    *dropped = 0;
    store->allot = allot;
    stored_forget(&store->stored);
    snprintf(first, sizeof first, "%shead", store->prefix);
    tutti_result_t result = read_range(store, first, "head", on_head, &loading);
    snprintf(what, sizeof what, "all/%016" PRIx64 "/", loading.head);
    snprintf(first, sizeof first, "%s%s", store->prefix, what);
    if (!result)
        result = read_range(store, first, what, on_events, &loading);
    store->log = loading.head;
    key_at(store, first, "log/", loading.head + 1);
    if (!result)
        result = read_range(store, first, "log/", on_events, &loading);
    store->since = store->log - loading.head;
    return result;
}

/* ---- beginning and end ---- */

static void on_close(struct store *base)
{
    struct etcd_store *store = (struct etcd_store *)base;
    if (store->etcd && store->lease)
        (void)etcd_revoke(store->etcd, store->lease); /* another master leads at once */
    etcd_close(store->etcd);
    stored_free(&store->stored);
    free(store);
}

static const struct store_way etcd_way = {.close = on_close,
                                          .load = on_load,
                                          .begin = on_begin,
                                          .note = on_note,
                                          .commit = on_commit,
                                          .undo = on_undo,
                                          .turn = on_turn};

struct store *store_etcd(const char *members, const struct fabric_names *names, const struct tenants *tenants)
{
    struct etcd_store *store = calloc(1, sizeof *store);
    if (!store) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory for the state in etcd");
        return NULL;
    }
    store->store.way = &etcd_way;
    snprintf(store->prefix, sizeof store->prefix, "tutti/paths/%s/", names->fabric->name);
    snprintf(store->leader, sizeof store->leader, "%sleader", store->prefix);
    if (stored_open(&store->stored, names, tenants) == TUTTI_SUCCESS && random_bytes(store->id, ID) == TUTTI_SUCCESS &&
        (store->etcd = etcd_open(members)))
        return &store->store;
    on_close(&store->store);
    return NULL;
}
