/* SPDX-License-Identifier: Apache-2.0 */
/* One operation: what was asked for, how it is carried out, how far it is. */
#ifndef TUTTI_ENGINE_OP_H
#define TUTTI_ENGINE_OP_H

#include "algorithm/choice.h"
#include "base/list.h"
#include "device/reduce.h"
#include "engine/op_kind.h"
#include "schedule/schedule.h"
#include "trace/trace.h"
#include "wire/link.h"

struct p2p;
struct puts;
struct rounds;
struct shared_exchange;
struct shared_plan;
struct team;
struct tutti_stream;

/* What a user asked for. */
struct call {
    enum coll coll;
    tutti_type_t type;
    size_t count; /* as in the API call */
    int root;
    int16_t op;    /* tutti_op_t; -1: none */
    bool premul;   /* a pre-multiplied sum: op is TUTTI_SUM then */
    uint8_t size;  /* bytes of an element: call_fill() */
    uint8_t shown; /* 0: nothing; else it is a part of the collective of this number less 1, which the black box
                      shows, */
    uint8_t step, steps, step_of; /* 0: it is none; else its number, from 1, among the steps of this collective, */
    uint8_t step_at;              /* on the island or rail of this index */
    size_t shown_count;           /* of so many elements */
    uint64_t scalar;              /* of a pre-multiplied sum */
    const void *scalar_at;        /* on devices: where the scalar is, read when the kernel runs; NULL: in `scalar` */
    const void *in;
    void *out;
    const size_t *send_counts, *send_offsets, *recv_counts, *recv_offsets; /* alltoallv: n each. Of a reduce-scatter as
                                                                              a step recv_counts has the length of each
                                                                              block, the longest of which is count */
    size_t bytes;                                                          /* of count: call_fill() */
    int32_t divisor;   /* of an average: as part of a larger one; 0: the ranks whose vectors are reduced */
    uint32_t together; /* the communicator's collectives in the caller's group, with this one; 0: no group */
};

/* Fills in the fields that follow from the others, and that all users of a call read. The maker of a call does this
 * last. False: the bytes are more than a size_t holds. */
static inline bool call_fill(struct call *call)
{
    call->size = (uint8_t)type_size(call->type);
    return !__builtin_mul_overflow(call->count, type_size(call->type), &call->bytes);
}

/* Of alltoallv: what this rank sends to a peer, or receives from it. */
struct call_part {
    char *at;
    size_t count;
};
static inline struct call_part call_part(const struct call *call, int peer, bool sends)
{
    size_t offset = (sends ? call->send_offsets : call->recv_offsets)[peer] * call->size;
    char *base = sends ? (char *)(uintptr_t)call->in : call->out;
    return (struct call_part){base + offset, (sends ? call->send_counts : call->recv_counts)[peer]};
}

/* How a call is carried out: the same for equal calls, so kept between them. */
struct route {
    const struct algorithm *algorithm;
    const struct op_kind *kind;
    struct shared_plan *plan; /* found when it starts */
    struct reduction reduction;
    uint32_t signature;
    struct wire_name name;
    bool bounded; /* as the team's bound says */
};

/* Progress of an operation that goes through shared memory. */
struct shared_run {
    size_t slice, slices;
    size_t stride; /* elements of a block of a slice */
    int round;
    int recv; /* next receive of the round */
    bool published, borrowed;
    bool in_shown, out_shown;       /* peers read these where they lie: none is given back before all have */
    uint32_t in_region, out_region; /* as in a slot_place */
    uint64_t in_offset, out_offset;
    bool settled;
    bool looked;                            /* has read peers' buffers where they lie */
    int prepared;                           /* blocks of the slice's input that have been multiplied */
    const struct shared_exchange *exchange; /* it goes by this, and has published; NULL: by a plan */
};

struct op {
    const struct op_kind *kind;
    bool started;
    struct call call;
    struct route route;
    struct team *team;
    uint64_t position;           /* in the team's queue */
    struct tutti_stream *stream; /* NULL: in order with its team's operations alone */
    struct list turn;            /* in stream->ops */
    enum wire_collective wire_kind;
    size_t bytes;       /* of the vector that this rank holds */
    void *owned;        /* freed at the end: counts of alltoallv */
    uint32_t whole_seq; /* of a part's: the whole's collective that it belongs to; TEAM_NO_SEQ: to none */
    uint32_t seq; /* of collectives the same on all ranks; sends and receives, which not all issue, are counted apart */
    struct trace_op *trace;
    int waiting; /* rank it waits for; -1 */
    uint32_t waiting_round, waiting_slice;
    int noted; /* the rank that the black box has: it is told only of waits that last */
    union {
        struct shared_run shared; /* the largest */
        struct rounds *rounds;
        struct p2p *p2p;
        struct puts *puts;
    };
};

static inline void op_clear(struct op *op)
{
    op->started = false;
    op->waiting = op->noted = -1;
    op->owned = NULL;
    op->shared =
        (struct shared_run){0}; /* and so what shares its place: one that fails before it begins has nothing to end */
}

/* A collective as its messages name it. */
static inline struct wire_call op_call(const struct op *op)
{
    return (struct wire_call){op->route.signature, op->call.root, op->call.count};
}

#endif
