/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kind of operation: how a team's queue carries one out. Each means has one row, in the file of that means; the queue
 * knows operations by this table alone. What a kind has nothing of its own for is left out: the default is written
 * beside each function.
 */
#ifndef TUTTI_ENGINE_OP_KIND_H
#define TUTTI_ENGINE_OP_KIND_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

struct op;
struct team;
struct wire_message;

/* All under the team's lock. Of a kind that needs links, under the engine's lock too, but for work() and sleep(). */
struct op_kind {
    bool needs_links; /* goes over links: the engine's lock is taken, and links are looked at, before a step */
    bool counted;     /* a collective: all ranks number it alike, and some go on after a failure. Else: messages */

    /* Default: the operation is over as soon as its turn has come. */
    tutti_result_t (*start)(struct team *team, struct op *op);
    /* As far as it goes. TUTTI_IN_PROGRESS: op->waiting is the rank that is waited for. Default: it is over. */
    tutti_result_t (*step)(struct team *team, struct op *op);
    /* What takes time, in pieces, after a step. False: there was nothing of that kind. Default: there never is. */
    bool (*work)(struct team *team, struct op *op);
    /* Is there anything that step() would do? Default: there may be. */
    bool (*may_move)(const struct op *op);
    /* Gives back what it holds, whatever became of it, also if it was never started. Default: nothing. */
    void (*end)(struct team *team, struct op *op);
    /* May ranks of this process read its buffers where they lie? Default: none may. */
    bool (*is_shown)(const struct op *op);
    /* Sleeps until `peer` (-1: any) does something; the caller tries again. Without locks. Default: a short sleep. */
    void (*sleep)(struct team *team, int peer, uint64_t timeout_us);
    /* Is what it was last found to wait for still on its way? Default: it is. */
    bool (*waits)(const struct op *op);
    /* What a running one waits for, as WIRE_CALL says it. Default: what `head` says of a collective already. */
    void (*describe)(const struct op *op, struct wire_message *head);
};

/* The kinds, each in the file that is named; collective.c has one more, of a call that has nothing to do. */
extern const struct op_kind op_shared; /* shared.c: through memory that the ranks share */
extern const struct op_kind op_rounds; /* rounds.c: any schedule, over links */
extern const struct op_kind op_p2p;    /* p2p.c: sends and receives */
extern const struct op_kind op_puts;   /* puts.c: puts, gets, signals, and waits for them */

#endif
