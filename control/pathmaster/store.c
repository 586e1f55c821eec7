/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/store_way.h"

#include <string.h>

#define ETCD "etcd:"

struct store *store_open(const char *path, const struct fabric_names *names, const struct tenants *tenants)
{
    bool etcd = strncmp(path, ETCD, strlen(ETCD)) == 0;
    return etcd ? store_etcd(path + strlen(ETCD), names, tenants) : store_sqlite(path, names, tenants);
}

void store_close(struct store *store)
{
    if (store)
        store->way->close(store);
}

bool store_is_shared(const struct store *store)
{
    return store->way->turn;
}

enum store_role store_turn(struct store *store)
{
    return store->way->turn ? store->way->turn(store) : STORE_LEADS;
}

tutti_result_t store_load(struct store *store, struct allot *allot, int32_t *dropped)
{
    return store->way->load(store, allot, dropped);
}

tutti_result_t store_begin(struct store *store)
{
    return store->way->begin(store);
}

tutti_result_t store_note(struct store *store, const struct allot *allot, const struct allot_event *event)
{
    return store->way->note(store, allot, event);
}

tutti_result_t store_commit(struct store *store)
{
    return store->way->commit(store);
}

void store_undo(struct store *store)
{
    store->way->undo(store);
}
