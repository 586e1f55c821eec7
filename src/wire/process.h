/* SPDX-License-Identifier: Apache-2.0 */
/* What a process tells its peers about itself when a communicator is made: its identity, and how to reach it. */
#ifndef TUTTI_WIRE_PROCESS_H
#define TUTTI_WIRE_PROCESS_H

#include "wire/distance.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WIRE_UUID_BYTES   16
#define WIRE_SECRET_BYTES 16
#define WIRE_ADDRESSES    4
#define WIRE_DEVICES      8 /* ports of RDMA devices that a process uses, at most */

struct wire_address {
    uint8_t family; /* 4, 6, or 0 for none */
    uint8_t pad;
    uint16_t port;  /* host order */
    uint32_t scope; /* of an IPv6 link-local address */
    uint8_t bytes[16];
};

/* Which memory a process shares with others of its host; they must do the same. */
enum wire_shares {
    WIRE_SHARES_NONE,
    WIRE_SHARES_SEALED,   /* memfds with seals */
    WIRE_SHARES_UNSEALED, /* files in /dev/shm, where the system refuses memfds */
};

/* Sent through the bootstrap, which only members pass: the secret lets them, and nobody else, connect. */
struct wire_process {
    uint8_t uuid[WIRE_UUID_BYTES];     /* of this process, made at its first communicator */
    uint8_t secret[WIRE_SECRET_BYTES]; /* to be shown by whoever connects to this process */
    uint64_t host;                     /* equal: the two can share memory and abstract sockets */
    uint32_t pid;
    uint32_t uid;
    uint32_t losses;                         /* links that it had lost when it said this: see wire_session() */
    uint16_t processors;                     /* processors that it may run on; 0: not known */
    uint16_t processor_set;                  /* which: a hash of them */
    uint32_t shares;                         /* enum wire_shares */
    uint32_t reserved;                       /* 0 */
    uint32_t place[WIRE_PLACES];             /* rack, zone, ...: a hash of its name and of all around it; 0: not told */
    struct wire_address tcp[WIRE_ADDRESSES]; /* one for each interface that listens; lanes are spread over them */
    struct wire_address
        verbs[WIRE_DEVICES]; /* one for each port of an RDMA device: where lanes to that port are agreed on */
};

_Static_assert(sizeof(struct wire_address) == 24, "wire_address is part of the protocol");
_Static_assert(sizeof(struct wire_process) == 368, "wire_process is part of the protocol");

/* Do both uuids name one process? */
static inline bool wire_same_process(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, WIRE_UUID_BYTES) == 0;
}

/* By the nearest of what both are in. */
static inline enum wire_distance wire_distance(const struct wire_process *a, const struct wire_process *b)
{
    if (a->host == b->host)
        return WIRE_DISTANCE_HOST;
    for (unsigned i = 0; i < WIRE_PLACES; i++)
        if (a->place[i] && a->place[i] == b->place[i])
            return (enum wire_distance)(WIRE_DISTANCE_RACK + i);
    return WIRE_DISTANCE_FAR;
}

/* Does one of the two say nothing of its place? Then how far they are is not known, but to who measures it. */
static inline bool wire_place_untold(const struct wire_process *a, const struct wire_process *b)
{
    uint32_t here = 0, there = 0;
    for (unsigned i = 0; i < WIRE_PLACES; i++) {
        here |= a->place[i];
        there |= b->place[i];
    }
    return a->host != b->host && (!here || !there);
}

/*
 * The bit of a lane where 16 of them tell of all that a process has to a peer. Lanes of RDMA begin with index 8 and
 * take its ports in turn, so those by one port have one bit.
 */
static inline unsigned wire_fold(const struct wire_process *process, unsigned lane)
{
    unsigned ports = 0;
    while (ports < WIRE_DEVICES && process->verbs[ports].family)
        ports++;
    unsigned turns = ports ? 8 / ports * ports : 8;
    return lane < 8 ? lane : 8 + (lane - 8) % turns;
}

/* First words on every lane, from the side that connects. */
struct wire_hello {
    uint32_t magic; /* WIRE_HELLO_MAGIC: also tells the byte order */
    uint16_t version;
    uint16_t lane;    /* index in the link */
    uint32_t epoch;   /* of the lane: wire_epoch() */
    uint32_t known;   /* of the last lane of this index that the other side connected and this side took; 0: none */
    uint64_t session; /* which link of the two processes: wire_session() */
    uint8_t secret[WIRE_SECRET_BYTES]; /* of the process connected to */
    struct wire_process from;
};

/*
 * Names a link of two processes among all that they have one after the other. A link that one of them has lost is never
 * used again. What both say when they make their next communicator differs from what they said before. So they meet by
 * another link, also if the other one does not know of the loss yet.
 */
static inline uint64_t wire_session(const struct wire_process *a, const struct wire_process *b)
{
    int order = memcmp(a->uuid, b->uuid, WIRE_UUID_BYTES);
    uint64_t smaller = order < 0 ? a->losses : b->losses, greater = order < 0 ? b->losses : a->losses;
    return order ? smaller << 32 | greater : 0;
}

/*
 * Names one attempt to connect a lane, among all of both sides: the how manyth of its side, from 1, and which side's.
 * So news of an attempt that failed is never taken for news of one that the other side makes at the same time.
 */
static inline uint32_t wire_epoch(uint32_t attempt, bool greater_uuid)
{
    return attempt << 1 | greater_uuid;
}

/* Both are of one side, and `epoch` is the later one. */
static inline bool wire_epoch_later(uint32_t epoch, uint32_t than)
{
    return (epoch & 1) == (than & 1) && (int32_t)(epoch - than) > 0;
}

#define WIRE_HELLO_MAGIC   0x48545455u /* "UTTH" */
#define WIRE_HELLO_VERSION 14
_Static_assert(sizeof(struct wire_hello) == 408, "wire_hello is part of the protocol");

#endif
