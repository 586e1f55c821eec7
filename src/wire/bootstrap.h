/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte layouts of the bootstrap protocol. Every number is in the sender's byte order: a peer with the other order shows
 * it by a swapped magic number and is refused. A frame is a header and `size` bytes of body. boot_check() must pass
 * before a body is used. Version 1.
 */
#ifndef TUTTI_WIRE_BOOTSTRAP_H
#define TUTTI_WIRE_BOOTSTRAP_H

#include "base/net.h"
#include "tutti/tutti.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOOT_MAGIC     0x74755401u
#define BOOT_VERSION   1
#define BOOT_NONCE     16
#define BOOT_STEPS_MAX 24
#define BOOT_RANKS_MAX (1 << BOOT_STEPS_MAX)
#define BOOT_TO_ROOT   UINT32_MAX /* boot_hello.to when the root is meant */
#define BOOT_NOBODY    UINT32_MAX /* boot_failed.rank when no rank is to blame */

/* S: the side that accepted the connection, C: the side that connected. */
enum boot_type {
    BOOT_CHALLENGE = 1, /* S: a random number; C must prove with it that it knows the nonce */
    BOOT_HELLO,         /* C: my identity, and the proof */
    BOOT_JOINED,        /* root: you are registered; stay connected */
    BOOT_LATER,         /* root: you are registered; I cannot keep your connection, come again */
    BOOT_PEERS,         /* root: all ranks are here; connect to these */
    BOOT_WELCOME,       /* rank: the connection is accepted */
    BOOT_READY,         /* C to root: I have all my connections */
    BOOT_FAILED,        /* anyone: it is over, and why */
    BOOT_DATA,          /* rank: one step of an allgather */
    BOOT_TYPES
};

enum boot_reason {
    BOOT_BAD_PROOF = 1, /* the nonce is wrong */
    BOOT_BAD_VERSION,   /* a = the version of the speaker */
    BOOT_BAD_RANK,      /* rank is not below a */
    BOOT_TWICE,         /* two processes said that they are `rank` */
    BOOT_NRANKS,        /* `rank` says a ranks, the first to come said b */
    BOOT_DIED,          /* the connection of `rank` broke */
    BOOT_MISSING,       /* a of b ranks did not come in time, `rank` first */
    BOOT_ABORTED,       /* `rank` was aborted by its user */
    BOOT_SILENT,        /* `rank` sent nothing until the deadline */
    BOOT_BROKEN,        /* `rank` failed for a reason of its own (memory, sockets) */
    BOOT_CLOSED,        /* the process with the root closed it */
    BOOT_MISFIT,        /* `rank` sent something else than expected: other size, other operation */
    BOOT_FULL,          /* `rank`, or the root (BOOT_NOBODY), cannot accept connections: errno a; b files may be open */
    BOOT_REASONS
};

struct boot_header {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint64_t size; /* of the body */
};

struct boot_address {
    uint16_t family; /* 4 or 6 */
    uint16_t port;
    uint32_t zero;
    uint8_t host[16]; /* network order; IPv4 in the first four */
};

/* tutti_unique_id_t */
struct boot_id {
    uint32_t magic;
    uint16_t version;
    uint16_t listening; /* 1: the root was open before the id was made, so a refused connection means that the root is
                           gone */
    struct boot_address root;
    uint8_t nonce[BOOT_NONCE];
    uint32_t opener;  /* 1 + the rank that opened the root, where a communicator grows; 0: not told */
    uint8_t rest[76]; /* zero */
};

struct boot_challenge {
    uint8_t random[16];
};

/* Bodies that prove something begin with a tag: a keyed hash (key: the nonce) of the frame type, both sides' random
 * numbers and the rest of the body. */
struct boot_hello {
    uint8_t tag[16];
    uint8_t random[16];
    uint64_t token; /* made once per join: tells a rank that comes again from a second process with its rank */
    uint32_t rank;
    uint32_t nranks;
    uint32_t to;         /* the rank meant, or BOOT_TO_ROOT */
    uint32_t step;       /* the connection is for data over a distance of 2^step ranks */
    uint32_t timeout_ms; /* how long the sender will wait */
    uint32_t attempt;
    struct boot_address listener; /* where peers reach the sender */
};

struct boot_joined {
    uint8_t tag[16];
};

struct boot_later {
    uint8_t tag[16];
    uint32_t wait_ms;
    uint32_t zero;
};

struct boot_peers {
    uint8_t tag[16];
    uint32_t count;
    uint32_t stay;                            /* 1: stay connected and say READY. 0: hang up */
    struct boot_address peer[BOOT_STEPS_MAX]; /* `count` are sent: ranks rank + 1, 2, 4, ... modulo n */
};

struct boot_welcome {
    uint8_t tag[16];
    uint32_t rank; /* of the speaker */
    uint32_t zero;
};

struct boot_failed {
    uint8_t tag[16]; /* zero if the speaker cannot prove anything to this listener */
    uint32_t reason;
    uint32_t rank;
    uint32_t a, b;
};

struct boot_data {
    uint32_t sequence; /* of the operation on this communicator */
    uint32_t step;     /* then the blocks, in rank order */
};

static_assert(sizeof(struct boot_header) == 16, "layout");
static_assert(sizeof(struct boot_address) == 24, "layout");
static_assert(sizeof(struct boot_id) == TUTTI_UNIQUE_ID_BYTES, "layout");
static_assert(sizeof(struct boot_challenge) == 16, "layout");
static_assert(sizeof(struct boot_hello) == 88, "layout");
static_assert(offsetof(struct boot_hello, listener) == 64, "layout");
static_assert(sizeof(struct boot_later) == 24, "layout");
static_assert(offsetof(struct boot_peers, peer) == 24, "layout");
static_assert(sizeof(struct boot_welcome) == 24, "layout");
static_assert(sizeof(struct boot_failed) == 32, "layout");
static_assert(sizeof(struct boot_data) == 8, "layout");

#define BOOT_BODY_MAX sizeof(struct boot_peers) /* of all frames but BOOT_DATA */

enum boot_fault { BOOT_FINE, BOOT_STRANGE, BOOT_OTHER_ORDER, BOOT_OTHER_VERSION };

/* Is this a header we can go on from? The size is then one that the type may have. */
enum boot_fault boot_check_header(const struct boot_header *header);
/* Does the body agree with itself? Only after boot_check_header; `body` has header->size bytes. Not for BOOT_DATA. */
bool boot_check_body(const struct boot_header *header, const void *body);

struct boot_header boot_header_of(enum boot_type type, uint64_t size);

/* Sets the tag at the start of `body`, or compares it. `server` and `client` are both sides' random numbers. */
void boot_seal(const uint8_t nonce[BOOT_NONCE], enum boot_type type, const uint8_t server[16], const uint8_t client[16],
               void *body, size_t size);
bool boot_proven(const uint8_t nonce[BOOT_NONCE], enum boot_type type, const uint8_t server[16],
                 const uint8_t client[16], const void *body, size_t size);

void boot_address_put(struct boot_address *out, const struct net_address *address);
bool boot_address_get(const struct boot_address *from, struct net_address *out);

void boot_id_put(tutti_unique_id_t *out, const struct net_address *root, const uint8_t nonce[BOOT_NONCE]);
/* Notes that the root of this id listens already; asks for it. */
void boot_id_set_listening(tutti_unique_id_t *id);
bool boot_id_listening(const tutti_unique_id_t *id);
/* The rank that opened the root; -1: not told. */
void boot_id_set_opener(tutti_unique_id_t *id, int rank);
int boot_id_opener(const tutti_unique_id_t *id);
/* Checks everything; on failure an error sentence is set. */
tutti_result_t boot_id_get(const tutti_unique_id_t *id, struct net_address *root, uint8_t nonce[BOOT_NONCE]);

#endif
