/* SPDX-License-Identifier: Apache-2.0 */
/* What a process calls after its last calls, by what it did before: programs repeat their steps. Private to the rules.
 */
#ifndef TUTTI_DIAGNOSIS_HABIT_H
#define TUTTI_DIAGNOSIS_HABIT_H

#include "diagnosis/scene.h"

struct habit_call {
    const struct blackbox_comm *comm;
    const struct blackbox_op *op;
    uint64_t begin;
};

struct habit {
    struct habit_call before, usual, made; /* after `before` came `usual` each time, and now `made` */
    size_t times;
    bool skips; /* `made` came after `usual` before. A call that is made twice, in steps of two, looks the same */
    enum { HABIT_OTHER, HABIT_LEFT_OUT, HABIT_TWICE } how;
};

/* Has this process, in one of its last calls, broken a habit? */
bool habit_broken(struct scene *scene, const struct member *member, struct habit *habit);
/* Has this process, after one time and up to another, left out a call or made one twice? The time to the same call
 * before tells, too: a call that is made twice follows soon, and one that is left out leaves a gap. */
bool habit_broken_between(struct scene *scene, const struct member *member, uint64_t from, uint64_t to,
                          struct habit *habit);

#endif
