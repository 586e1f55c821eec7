/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meetings: those who are to be the members of a shrunken communicator find that all of them have come, with the same
 * list of excluded ranks. Nothing of the parent is used but who its ranks are, so that it may have failed, and no
 * excluded rank is needed. Those of one that grows meet in the same way, all of them, and hear where newcomers wait;
 * the parent works on meanwhile. docs/comm.md.
 */
#ifndef TUTTI_COMM_MEET_H
#define TUTTI_COMM_MEET_H

#include "bootstrap/bootstrap.h"
#include "engine/team.h"

#define MEET_BRANCHES 8 /* as those of share.c, whose links are the same */

/* Of one rank, while the parent's team is open. All but `aborts` under the engine's lock. */
struct meeting {
    struct team *team;
    struct list arrivals;    /* those who have said that they have come */
    uint64_t visits;         /* of this rank, counted */
    _Atomic unsigned aborts; /* by the user; each ends the visit of that time */
    memo_fn *consents;       /* or NULL: hears the words of a generation's members, */
    void *consents_context;  /* with this */

    /* the visit */
    uint64_t visit;     /* its number; 0: none */
    const bool *is_out; /* by rank: excluded */
    struct wire_list list;
    const char *what;       /* the call */
    bootstrap_stop_t *stop; /* or NULL: set when the attempt fails; who sets it himself ends the attempt */
    tutti_unique_id_t id;   /* where newcomers wait; all 0: not known yet, or there are none */
    int up, below[MEET_BRANCHES], belows; /* ranks of the parent; up -1: this one is the first member */
    uint64_t told;                        /* the visit of `up` that knows that all below us are here */
    uint64_t child;                       /* what is to be made; 0: not known yet */
    bool came;                            /* a memo, since this rank looked last */
    bool failed;
    struct wire_abort why;
    struct wire_abort missed; /* of the last one that failed, for those who came too late */
};

void meeting_open(struct meeting *meeting, struct team *team);
/* Ranks that wait for this one are told that it goes. */
void meeting_close(struct meeting *meeting);

/* The ranks that meet: `members`, ranks of the parent in their order, of which this is one. `is_out` lives until
 * meeting_end(). */
struct meeting_call {
    const int *members;
    int count;
    const bool *is_out;
    bool wrong; /* this rank's list is not one: it fits no other's */
    uint64_t deadline;
    /* Of a communicator that grows; 0 and NULL of one that shrinks: */
    int nranks;                  /* to how many ranks */
    const tutti_unique_id_t *id; /* or NULL: another member has it */
    bootstrap_stop_t *stop;
};
/* grow.c: what ends this rank's joining as newcomers see it, when the members' attempt to grow has failed. */
uint64_t grow_stop(const struct team *old, const struct wire_abort *why);
/* Ends an attempt to grow that goes on, also when meeting_visit() has returned. Any thread. */
void meeting_stop(struct meeting *meeting);
/* Waits until all have come, and gives the new communicator's number. meeting_end() is to follow, whatever comes back.
 */
tutti_result_t meeting_visit(struct meeting *meeting, const struct meeting_call *call, uint64_t *child);
/* The making is over. If it failed here the other members' fails too: because of `cause`, unless they were known to
 * have failed before. */
void meeting_end(struct meeting *meeting, const struct wire_abort *cause);

#endif
