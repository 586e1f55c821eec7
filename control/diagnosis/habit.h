/* SPDX-License-Identifier: Apache-2.0 */
/* What a process calls after its last calls, by what it did before: programs repeat their steps. Private to the rules.
 */
#ifndef TUTTI_DIAGNOSIS_HABIT_H
#define TUTTI_DIAGNOSIS_HABIT_H

#include "diagnosis/scene.h"

struct habit_call {
    const struct blackbox_comm *comm;
    const struct blackbox_op *op;
};

struct habit {
    struct habit_call before, usual, made; /* after `before` came `usual` each time, and now `made` */
    size_t times;
    enum { HABIT_OTHER, HABIT_LEFT_OUT, HABIT_TWICE } how;
};

/* Has this process, in one of its last calls, broken a habit? */
bool habit_broken(struct scene *scene, const struct member *member, struct habit *habit);

#endif
