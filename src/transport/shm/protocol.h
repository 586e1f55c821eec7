/* SPDX-License-Identifier: Apache-2.0 */
/* What processes say over the socket of a lane, and show to one another. */
#ifndef TUTTI_TRANSPORT_SHM_PROTOCOL_H
#define TUTTI_TRANSPORT_SHM_PROTOCOL_H

#include "transport/shm/attach.h"
#include "transport/shm/ring.h"
#include "wire/process.h"

/* The first packet of whoever connects; with it the lane's memory, its page and its bell. */
struct shm_hello {
    struct wire_hello hello;
    struct shm_ring_shape shape;
    struct attach_word word; /* of the sender */
};
_Static_assert(sizeof(struct shm_hello) == 448, "shm_hello is part of the protocol");

enum shm_notice_type { SHM_WELCOME = 1, SHM_SHARE, SHM_REGION, SHM_DROP, SHM_DECLINE, SHM_MAPPED };

/* Any later packet. A welcome answers a hello, or a decline does: not now. A welcome brings page and bell, a share or
 * region its descriptor. */
struct shm_notice {
    uint32_t magic;                /* SHM_MAGIC */
    uint32_t type;                 /* enum shm_notice_type */
    uint64_t key;                  /* of a share; id of a region; address of a welcome's attach_word */
    uint64_t size;                 /* of a region; value of a welcome's attach_word */
    uint8_t uuid[WIRE_UUID_BYTES]; /* of the sender of a welcome */
};
#define SHM_MAGIC 0x53545455u /* "UTTS" */
_Static_assert(sizeof(struct shm_notice) == 40, "shm_notice is part of the protocol");

/* The page that a process shows to all its peers. */
struct shm_page {
    _Alignas(CACHE_LINE) _Atomic uint32_t sleeping; /* ring the bell after a store */
};
#define SHM_PAGE 4096

#endif
