/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team: one rank's view of a group of ranks, with its queue of operations. A team is to the engine what a
 * communicator is to users. One thread at a time enqueues; the thread that holds the lock runs operations.
 */
#ifndef TUTTI_ENGINE_TEAM_H
#define TUTTI_ENGINE_TEAM_H

#include "base/cpu.h"
#include "engine/calls.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/queue.h"
#include "engine/stream.h"
#include "engine/watch.h"
#include "wire/roster.h"

#include <pthread.h>

#define TEAM_TURN     (1u << 20) /* bytes of work in a turn: some tenths of a millisecond */
#define TEAM_SENTENCE WIRE_ABORT_TEXT

struct rounds_memory;
struct shared;
struct team;

/* What of an allreduce over links may be under way from a rank to another one: pieces, and bytes of each. 0 bytes: what
 * the parameters say, by any algorithm. */
struct team_bound {
    size_t bytes;
    int pieces;
    bool shares; /* what the team is given is a part of a vector: the bound holds however short it is */
};

/* Under the engine's lock. */
typedef void memo_fn(void *context, int from, const struct wire_memo *memo);

struct team {
    struct executor host; /* host.c: the team's calls on host memory */
    struct engine *engine;
    struct list node; /* in engine->teams */
    int rank, nranks;
    int local_rank, local_ranks;
    uint64_t id;
    uint64_t timeout_ms; /* silence of a peer after which operations fail */
    struct team_bound bound;
    _Atomic uint64_t due; /* from this time on they fail, too, when they wait for one that lives; 0: never */
    struct watch watch;   /* under the lock */
    struct calls calls;   /* under the lock */
    _Atomic bool ending;  /* this rank makes no more calls: it waits for the end of those made */
    bool one_process;     /* all ranks live in this process */
    bool ends_alone;      /* a part: a member may end it before others */
    bool in_turn;         /* circle_in_turn(): under the engine's lock */
    bool (*settled)(void *context);
    void *settled_context;
    bool untold;                 /* another team has written this one's failure to the log */
    _Atomic bool crowded;        /* more ranks than processors here: yield, do not spin */
    const struct roster *roster; /* what members have said, maybe among others: a child has its parent's */
    int32_t *row;                /* by rank: number of its row there; NULL: ranks are rows */
    struct link **link;          /* by rank, NULL until used */
    _Atomic uint8_t *gone;       /* by rank: enum wire_cause of how its process left; 0: it has not */
    const struct choice_table *choices;
    enum choice_class class;
    struct levels *levels; /* which ranks are near one another */
    struct trace_comm *trace;
    struct shared *shared;              /* NULL: ranks do not all share memory */
    int shares_taken;                   /* descriptors that came for this rank: comm/share.c */
    const struct rounds_memory *memory; /* the memory that calls over links work on: rounds_memory.h */
    struct rounds *rounds_idle;         /* kept for the next operation */
    _Atomic(struct p2p *) p2p_idle;
    _Atomic(struct puts *) puts_idle;
    uint32_t *sent, *received;         /* p2p sequence by peer, at issue */
    uint32_t *signalled;               /* the same of signals */
    _Atomic(struct windows *) windows; /* windows.h; NULL: there was no call of that kind yet */

    /* the last route, for calls that repeat */
    uint64_t route_key[2];
    struct route route;

    struct try_lock lock;
    size_t work; /* bytes copied and reduced in this turn */
    _Atomic bool attended;
    _Atomic int visitors; /* threads that wait for a stream, by stream_visit(), or run what nobody waits for */
    _Atomic int awaited;  /* rank that the running operation waits for: a hint for threads that look without the lock */
    /* If set, the team has nothing to do before this word has this value, which is looked at without the lock. Now and
     * then the whole team is looked at. */
    _Atomic(const _Atomic uint64_t *) awaited_word;
    _Atomic uint64_t awaited_value;
    _Atomic uint64_t issued, completed; /* queue positions */
    _Atomic uint32_t seq;               /* collectives: all ranks count alike. The thread that issues counts; others
                                           may look */
    uint32_t p2p_seq;                   /* sends and receives: this rank's own number */
    struct op_queue queue;

    /* failure.c. The cause is written once, under `failing` */
    _Atomic bool failing;
    _Atomic int failed; /* tutti_result_t */
    struct wire_abort cause;
    _Atomic bool flood;           /* peers must be told, */
    _Atomic bool telling;         /* and nobody has waited yet until they knew */
    _Atomic bool reported;        /* a call has returned the failure, or the user caused it */
    bool met_some;                /* links to tell them have been made; under the engine's lock */
    _Atomic bool stopped;         /* an operation has failed here, or this rank gave up: those behind it fail too */
    _Atomic uint32_t finished;    /* the last collective that ended well */
    _Atomic uint32_t limit;       /* of a failed team: collectives up to this one go on */
    _Atomic uint64_t failed_from; /* position of the first operation that failed; UINT64_MAX: none has */
    _Atomic uint64_t told;        /* the user has waited for the operations below */
    _Atomic uint64_t waits_since; /* ticks of the black box: the user waits for an end since then; 0: does not */

    /* the function that hears of lost peers and of the failure */
    pthread_mutex_t news_lock;
    void (*news)(void *context);
    bool (*excuses)(void *context, const struct wire_abort *news);
    void *news_context;
    _Atomic bool excused; /* nothing of the host's begins any more, for the following cause: */
    int excused_culprit;
    char excused_sentence[TEAM_SENTENCE];
    uint32_t quiet; /* this rank runs no collective above this one any more; under the engine's lock */

    const bool *stays_away; /* by rank: those without whom this one meets the others; NULL: it meets nobody. Same
                               lock */
    uint64_t away_since;    /* of that */

    /* of memos.c, under the same lock */
    memo_fn *hear;
    void *hear_context;

    /* part.h */
    struct team *whole;                 /* that this one is a part of, and fails with; NULL: it is no part */
    int *in_whole;                      /* by rank: its rank there */
    _Atomic(struct trace_op *) carried; /* the record of a call that parts carry out; NULL: there is none */
    pthread_mutex_t parts_lock;         /* of */
    struct list parts;                  /* those of this one, */
    struct list part;                   /* where a part is */
};

/* What a rank has said. */
static inline const struct roster_row *team_row(const struct team *team, int rank)
{
    return roster_row(team->roster, team->row, rank);
}

/* A thread that came by stream_visit() leaves. */
static inline void team_leave(struct team *team)
{
    atomic_fetch_sub(&team->visitors, 1);
}

/* Nothing is queued, and nothing stands in the way of what comes now. For the thread that puts in. */
static inline bool team_idle(const struct team *team)
{
    return atomic_load_explicit(&team->completed, memory_order_acquire) ==
               atomic_load_explicit(&team->issued, memory_order_relaxed) &&
           !atomic_load_explicit(&team->failed, memory_order_relaxed) &&
           !atomic_load_explicit(&team->excused, memory_order_acquire);
}

/* An operation was issued and is over, without a place in the queue. A wait for what is issued does not wait again for
 * that one. */
static inline void team_forget_told(struct team *team)
{
    atomic_store_explicit(&team->told, 0, memory_order_relaxed);
}

/* The number of the next collective. For the thread that issues. */
static inline uint32_t team_next_seq(struct team *team)
{
    uint32_t seq = atomic_load_explicit(&team->seq, memory_order_relaxed) + 1;
    atomic_store_explicit(&team->seq, seq, memory_order_relaxed);
    return seq;
}
#define TEAM_NO_SEQ UINT32_MAX
/* The collective of the whole that an operation of a part belongs to: the one that is under way. For the thread that
 * issues. */
static inline uint32_t team_whole_seq(const struct team *team)
{
    if (!team->whole)
        return TEAM_NO_SEQ;
    uint32_t seq = atomic_load_explicit(&team->whole->seq, memory_order_relaxed);
    return seq == atomic_load_explicit(&team->whole->finished, memory_order_relaxed) ? TEAM_NO_SEQ : seq;
}
/* Has so much been copied in this turn that others should have theirs? Under the team's lock. */
static inline bool team_should_pause(const struct team *team)
{
    return team->work >= TEAM_TURN;
}
/* The operation waits for `peer` from now on. */
static inline void op_waits(struct op *op, int peer, uint32_t round, uint32_t slice)
{
    op->waiting = peer;
    atomic_store_explicit(&op->team->awaited, peer, memory_order_relaxed);
    atomic_store_explicit(&op->team->awaited_word, NULL, memory_order_relaxed);
    op->waiting_round = round;
    op->waiting_slice = slice;
}

/* A rank that has sent gives the processor away before it looks for an answer. The peer may need that very processor,
 * and a look at links enters the kernel. */
static inline bool team_yields_first(const struct team *team)
{
    return team->crowded && !team->shared;
}

/* The running operation has nothing to do before the word, which only grows, has this value. */
static inline void team_awaits(struct team *team, const _Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(&team->awaited_value, value, memory_order_relaxed);
    atomic_store_explicit(&team->awaited_word, word, memory_order_relaxed);
}

/* A rank's number as people know it: of a part, the number in the whole. */
static inline int team_told_rank(const struct team *team, int rank)
{
    return team->whole && rank >= 0 ? team->in_whole[rank] : rank;
}

/* Does the rank live in this process? */
static inline bool team_is_here(const struct team *team, int rank)
{
    return team->one_process || wire_same_process(team_row(team, rank)->uuid, team_row(team, team->rank)->uuid);
}
/* Bytes of the whole vector of a call: what algorithms are chosen by. */
static inline size_t team_vector_bytes(const struct team *team, const struct call *call)
{
    return schedule_cuts_vector(call->coll) ? call->bytes : call->bytes * (size_t)team->nranks;
}

#endif
