/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell one another of the calls that they wait in: calls that differ, or cross, are found. */
#ifndef TUTTI_ENGINE_CALLS_H
#define TUTTI_ENGINE_CALLS_H

#include "engine/circle.h"
#include "wire/link.h"
#include <stdatomic.h>
#include <stddef.h>

struct closed;
struct engine;
struct link;
struct op;
struct team;

#define CALLS_KEPT 64
struct calls {
    struct wire_call kept[CALLS_KEPT]; /* collectives, by number: those that have started last */
    uint32_t started;                  /* the last of them */
    struct wire_begun *with;           /* messages and signals by peer, that have started */
    uint64_t say;                      /* when to say ours */
    struct wire_message said;          /* by the rank that we wait for; under the engine's lock, */
    struct wire_begun begun;           /* and what it has begun */
    _Atomic int looks; /* at it, in which nothing had moved; -1: nothing was said since this rank waits */
    struct circle circle;
    /* calls_hear, for those of this process that say something: what says it stands below what hears it */
    void (*hear)(struct team *team, const struct wire_message *said, const void *body);
};

/* Under the team's lock: a collective starts; a message with `peer` starts. */
static inline void calls_start(struct calls *calls, uint32_t seq, struct wire_call call)
{
    calls->kept[seq % CALLS_KEPT] = call;
    calls->started = seq;
}
static inline void calls_message(struct calls *calls, int peer, bool sends)
{
    ++*(sends ? &calls->with[peer].sent : &calls->with[peer].received);
}
/* A wait begins. A wait lasts, under both locks: tells the peer of the wait, and finds out whether the peer is in
 * another call. */
void calls_wait(struct team *team, uint64_t now);
void calls_look(struct team *team, const struct op *op, uint64_t now);
/* A peer has said what it waits in, or answered: the body of WIRE_CALL or WIRE_BLOCKED. Under the engine's lock. */
void calls_hear(struct team *team, const struct wire_message *said, const void *body);
/* Has a rank begun the call that another one waits for? `begun`: its messages with that one; `started`: its last
 * collective. */
bool calls_has_begun(const struct wire_message *waits, struct wire_begun begun, uint32_t started);
/* Has this rank begun the call of `waits`? */
bool calls_begun(const struct team *team, const struct wire_message *waits);
/* Says something to another rank, here or over its link. */
void calls_send(struct team *team, int rank, const struct wire_message *head, const void *body, size_t length);
#define CALLS_TEXT (WIRE_CALL_TEXT + 60)
const char *calls_text(const struct wire_message *said, char *out, size_t size);
/* The team closes: remembers what was begun for peers that still wait. Under the engine's lock. */
void calls_keep(struct team *team);
/* What was remembered is not needed any more. */
void calls_drop(struct closed *closed);
void calls_closed(struct engine *engine, struct link *link, const struct wire_message *said);

#endif
