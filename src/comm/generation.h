/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generation: members that work together until one of them is missing. It has a communicator of all, one of those
 * that hold the same shard, and words by which members consent on its end. docs/understand/elastic.md.
 */
#ifndef TUTTI_COMM_GENERATION_H
#define TUTTI_COMM_GENERATION_H

#include "comm/comm.h"
#include "comm/consent.h"

/* What a member is, for all its life. */
struct generation_member {
    int32_t number, unit, shard;
};

struct generation {
    struct tutti_comm *comm;
    struct tutti_comm *data; /* members of this one's shard, on their GPUs if they have any; `comm` itself where there
                                is one shard on host memory */
    bool made;               /* all members can work with both */
    int members, units;
    struct generation_member *member; /* by rank */
    int *unit;                        /* by rank: units in the order in which they come, from 0 */
    uint64_t timeout;                 /* ns */
    struct consent consent;           /* under the engine's lock */
    struct consent_set *cut;          /* the consent's: a set for each member */
    _Atomic uint8_t *left;            /* by rank: it has said so */
    bool replaced;                    /* by a next one; else its members may go on when this one leaves */
};

/* Takes over the communicator, whose team is open, whatever comes back. `turn`: the last one that counts. */
tutti_result_t generation_open(struct tutti_comm *comm, const struct generation_member *member, int minimum,
                               uint64_t timeout, uint32_t turn, struct generation **out);
/* The next one, as members of the old one have decided. Nothing is waited for. */
tutti_result_t generation_follow(const struct generation *old, uint64_t deadline, struct generation **out);
/* "what 1 2 3", by the members' numbers, or "" of an empty set. */
const char *generation_names(const struct generation *of, const struct consent_set *set, const char *what,
                             char text[240]);
/* Members make what they share. */
tutti_result_t generation_make(struct generation *generation, uint64_t deadline);
/* A call that works on the turn begins; 0: it ends. See consent_enter(). */
void generation_enter(struct generation *generation, uint32_t turn);
/* Operations that begin from now on fail at this time. */
void generation_set_due(struct generation *generation, uint64_t due);
/* The work of the turn is done, and so it is on all members. */
tutti_result_t generation_finish(struct generation *generation, uint32_t turn);
/* Gives up what goes on because of error_last(), and waits until the members have decided; `due`: when they should have
 * come. An error, too, where a member's GPU may still store to this one's memory. */
tutti_result_t generation_end(struct generation *generation, uint64_t due);
/* Tells the others that this member takes part no more. If it `fails`, because of error_last(), what goes on is given
 * up. */
void generation_leave(struct generation *generation, bool fails);
/* Members that come back later hear how the generation has ended, or that it has. NULL is allowed. */
void generation_close(struct generation *generation);
/* Bytes that the generation holds; device: of a GPU. */
void generation_memory(const struct generation *generation, size_t *device, size_t *host);

#endif
