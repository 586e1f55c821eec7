/* SPDX-License-Identifier: Apache-2.0 */
/* Who stands still, and may get on by itself. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_PATIENCE_H
#define TUTTI_DIAGNOSIS_PATIENCE_H

#include "diagnosis/scene.h"

/* One that stands still, with what decides which finding it belongs to. */
struct victim {
    const struct member *member, *end;
    enum finding_kind ending;
    uint64_t key, rank; /* whom it is about: a process, or a rank of a communicator */
};

/* A process that is outside of calls. */
struct absence {
    enum { ABSENCE_UNUSUAL, ABSENCE_SAID, ABSENCE_USUAL, ABSENCE_BUSY } why;
    uint64_t away;                     /* ns since the last sign of it */
    uint64_t times, longest;           /* pauses of this length that were before, or of any; the longest of them */
    uint64_t moved;                    /* bytes that it has read and written between the looks */
    const struct blackbox_pause *like; /* of these, the one that began behind the same call, or the longest; or NULL */
};
/* Does the process of this rank stay away as it has said, or as before; does it work? Of one that stands nowhere. */
struct absence absence_of(const struct scene *scene, const struct victim *victim);
/* The longest that this rank was away between two calls: as far as these are remembered, where the box counts none. */
uint64_t longest_pause(const struct blackbox_comm *comm);
/* It was away for about as long before: to save a checkpoint, to evaluate. */
bool may_come_yet(const struct victim *victim);
/* It would get on if it had a processor: that is slow, and no hang. Who waits in a call gives its processor away, and
 * takes what has come if it runs for moments. */
bool only_starved(const struct scene *scene, const struct victim *witness);
/* Nobody is named so far: there is a sign that it will go on, and it has not been waited for many times as long. */
bool may_get_on(struct scene *scene, const struct victim *witness);

#endif
