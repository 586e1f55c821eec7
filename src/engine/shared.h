/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations through shared memory: schedules between ranks that load and store each other's memory. A SEND makes data
 * readable. A RECV reads the data where they lie, and a RECV into SCRATCH is only a pointer. A REDUCE is one fused pass
 * over all peers' data.
 */
#ifndef TUTTI_ENGINE_SHARED_H
#define TUTTI_ENGINE_SHARED_H

#include "engine/arena.h"
#include "engine/shared_peer.h"
#include "engine/team.h"

#define SHARED_RANKS   1024 /* most ranks that share an arena */
#define SHARED_REGIONS 8
#define SHARED_SOUND   8

/* A receive, with the place of its data in the peer's slot found beforehand. */
struct shared_recv {
    struct action action;
    int slot_block;      /* position among the blocks that the peer stages in this round */
    int peer_blocks;     /* how many it stages */
    uint8_t peer_buffer; /* where the peer sends it from */
    int32_t peer_block;
};

struct shared_send {
    uint8_t buffer;
    int32_t src_block, block, nblocks;
    int slot_block;
    bool reduced; /* a REDUCE of this round makes it, right in the slot */
};

struct shared_round {
    struct action *local;
    struct shared_send *send;
    struct shared_recv *recv;
    int locals, sends, recvs, staged;
    bool step;  /* somebody sends: a slot is used, by all ranks alike */
    bool holds; /* receives are pointers that the next round's local actions use */
};

struct shared_plan {
    const struct algorithm *algorithm;
    struct shape shape;
    int rounds, blocks, scratch, staged_most, steps;
    size_t cut_count, cut_size, stride,
        slices; /* of the last vector that was cut: elements, bytes of one; what it gave */
    bool reads; /* this rank reads its peers */
    struct shared_round *round;
    bool *reader;                    /* by rank: does it read what this rank sends? */
    uint32_t mapped[SHARED_REGIONS]; /* regions of this process that all of them have mapped: those seen last */
    unsigned mapped_next;
    void *memory;
};

struct shared_exchange;

struct shared {
    struct arena arena;
    uint64_t step;        /* of the next slot */
    uint64_t read;        /* what arena->ranks[me].done will become when pointers are let go */
    uint64_t freed;       /* all peers have read steps below, as far as seen */
    const void **pointer; /* SCRATCH blocks of the running operation */
    int pointers;
    struct peer_memory peers;
    unsigned char *bounce; /* what is read from peers and then reduced */
    size_t bounce_size;
    unsigned char *prepared; /* the multiplied input of a slice */
    size_t prepared_size;
    _Atomic bool unread; /* the last operation read nothing of its peers: they may have been in another one */
    bool attach_tried, reads_known, reads; /* all ranks can attach to each other */
    struct shared_sound {
        const void *buffer;
        size_t bytes;
    } sound[SHARED_SOUND]; /* buffers that can be read by attach */
    unsigned sound_next;
    struct shared_plan *plan[COLL_COUNT];
    struct shared_exchange *exchange[COLL_COUNT]; /* NULL, or the last call's */
};

tutti_result_t shared_open(struct team *team, int fd);
void shared_close(struct team *team);

/* The plan of an algorithm, kept per collective. */
tutti_result_t shared_plan(struct team *team, const struct algorithm *algorithm, const struct shape *shape,
                           struct shared_plan **out);
void shared_plan_free(struct shared_plan *plan);

/* shared_exchange.c. By whoever puts in, nothing being queued. Small calls of a single exchange that have been made
 * before: over when this returns, or begun and queued. False: nothing was done. */
bool shared_exchange_now(struct team *team, const struct call *call);

/* Bytes of shared memory that this rank has mapped for it. */
size_t shared_memory(const struct team *team);

#endif
