/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that stands still and may get on by itself. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_PATIENCE_H
#define TUTTI_DIAGNOSIS_PATIENCE_H

#include "diagnosis/scene.h"

/* A rank that stands still, and what decides which finding has it. */
struct victim {
    const struct member *member, *end;
    enum finding_kind ending;
    uint64_t key, rank; /* the culprit: a process, or a rank of a communicator */
};

/* A process that is outside of calls. */
struct absence {
    enum { ABSENCE_UNUSUAL, ABSENCE_SAID, ABSENCE_USUAL, ABSENCE_BUSY } why;
    uint64_t away;                     /* ns since its last sign */
    uint64_t times, longest;           /* earlier pauses of this length, or of any; the longest of them */
    uint64_t moved;                    /* bytes that the process has read and written between the looks */
    const struct blackbox_pause *like; /* of these pauses, the one behind the same call, or the longest; or NULL */
};
/* Why the process of this rank, which stands nowhere, is away: as it has said, as before, or at work? */
struct absence absence_of(const struct scene *scene, const struct victim *victim);
/* The longest time that this rank was away between two calls. Where the box counts no pauses, remembered calls tell. */
uint64_t longest_pause(const struct blackbox_comm *comm);
/* The rank was away for about the same time before: to save a checkpoint, to evaluate. */
bool may_come_yet(const struct victim *victim);
/* The rank would get on if it had a processor: it is slow, and does not hang. A rank that waits in a call gives its
 * processor away; short moments of running are enough to take what has come. */
bool only_starved(const struct scene *scene, const struct victim *witness);
/* There is a sign that the rank will go on, and it was not waited for very long: nobody is named so far. */
bool may_get_on(struct scene *scene, const struct victim *witness);

#endif
