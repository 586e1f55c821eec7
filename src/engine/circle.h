/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait for each other in a circle: what calls.c tells and asks. Under both locks but where it says so. */
#ifndef TUTTI_ENGINE_CIRCLE_H
#define TUTTI_ENGINE_CIRCLE_H

#include "wire/link.h"

#include <stdbool.h>
#include <stdint.h>

struct op;
struct team;

#define CIRCLE_ASKS 8 /* questions that are answered; the other ranks ask again */

struct circle {
    uint64_t drawn;            /* number of the highest label that was drawn or seen */
    uint64_t label, highest;   /* of this wait, 0: none yet; and what it is answered with */
    bool idle;                 /* no wait from here on is for something that may be on its way */
    struct wire_message other; /* the nearest wait from here on that is in another call; kind 0: none */
    int seen;                  /* answers in sequence with this rank's own label */
    uint64_t since;            /* the first of them came */

    /* Under the engine's lock. */
    struct wire_message asked[CIRCLE_ASKS]; /* by ranks that wait for this one */
    unsigned asks;
    struct wire_message question; /* of this rank, to which there is an answer */
    struct wire_blocked answer;
    bool answered;
};

/* A wait begins. Under the team's lock. */
void circle_wait(struct team *team);
/* A rank waits for this one; the one that this one waits for answers. Under the engine's lock. */
void circle_ask(struct team *team, const struct wire_message *said);
void circle_answer(struct team *team, const struct wire_message *asked, const struct wire_blocked *blocked);
/* Operations of a part, of its whole, and of other parts follow one another in streams; but this part carries some out
 * for which no stream waits. settled: is all over to which streams have come? It waits for nothing, and is called under
 * the engine's lock. NULL: from here on not any more. */
void circle_in_turn(struct team *part, bool (*settled)(void *context), void *context);
/* The wait `mine` of `op` lasts, though this rank has tried to go on since it heard what it heard. */
void circle_look(struct team *team, const struct op *op, const struct wire_message *mine, uint64_t now);

#endif
