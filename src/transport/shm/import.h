/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of peers, mapped here. The transport lists them as the owners announce and drop them; who reads one outside
 * the transport's lock holds it meanwhile: it is taken down when it has been dropped and nobody holds it. All functions
 * may be called from any thread.
 */
#ifndef TUTTI_TRANSPORT_SHM_IMPORT_H
#define TUTTI_TRANSPORT_SHM_IMPORT_H

#include "base/list.h"
#include "transport/shm/region.h"

struct shm_import {
    struct list node;    /* among all imports */
    struct list of_peer; /* the transport's */
    struct region_pair who;
    uint32_t id;
    char *base;
    uint64_t size;
    unsigned holders; /* the list is one */
    bool told;        /* the owner knows that it is mapped: the transport's */
};

/* Maps a region of who->owner for who->mapper. The descriptor is closed in any case. NULL: it cannot be mapped, or is
 * not to be trusted. */
struct shm_import *import_add(const struct region_pair *who, uint32_t id, uint64_t size, int fd);
/* The owner has freed it or is gone: nobody finds it any more. */
void import_drop(struct shm_import *import);

/* NULL: there is none. It stays mapped until import_release. */
struct shm_import *import_hold(const struct region_pair *who, uint32_t id);
void import_release(struct shm_import *import);

/* Bytes of all that is mapped. */
uint64_t import_bytes(void);

#endif
