/* SPDX-License-Identifier: Apache-2.0 */
/* A way to keep the state. */
#ifndef TUTTI_PATHMASTER_STORE_WAY_H
#define TUTTI_PATHMASTER_STORE_WAY_H

#include "pathmaster/store.h"

/* As the functions of store.h. `turn` NULL: it leads, always. */
struct store_way {
    void (*close)(struct store *store);
    tutti_result_t (*load)(struct store *store, struct allot *allot, int32_t *dropped);
    tutti_result_t (*begin)(struct store *store);
    tutti_result_t (*note)(struct store *store, const struct allot *allot, const struct allot_event *event);
    tutti_result_t (*commit)(struct store *store);
    void (*undo)(struct store *store);
    enum store_role (*turn)(struct store *store);
};

struct store {
    const struct store_way *way;
};

/* NULL after error_note. */
struct store *store_sqlite(const char *path, const struct fabric_names *names, const struct tenants *tenants);
struct store *store_etcd(const char *members, const struct fabric_names *names, const struct tenants *tenants);

#endif
