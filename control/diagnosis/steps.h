/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the program: the calls of a communicator repeat after a number of calls, which are a step. Private to
 * network.c and profile.c. */
#ifndef TUTTI_DIAGNOSIS_STEPS_H
#define TUTTI_DIAGNOSIS_STEPS_H

#include "diagnosis/scene.h"

struct steps {
    uint64_t base; /* number of the first call of the first step that is remembered */
    size_t period; /* calls; 1 also where calls do not repeat, or there are none */
    size_t count;  /* steps; the last one may not be over */
};

struct steps steps_of(const struct member_group *group);
/* The collectives of a communicator, in order; the caller frees the array. NULL and no count: no memory. */
const struct blackbox_op **steps_calls(const struct blackbox_comm *comm, size_t *count);

#endif
