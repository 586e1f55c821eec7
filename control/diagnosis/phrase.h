/* SPDX-License-Identifier: Apache-2.0 */
/* Times and calls as people read them. */
#ifndef TUTTI_DIAGNOSIS_PHRASE_H
#define TUTTI_DIAGNOSIS_PHRASE_H

#include "wire/boxread.h"

struct phrase {
    char text[48];
};

struct phrase_line {
    char text[128];
};

struct phrase phrase_time(uint64_t ns);
struct phrase phrase_number(uint64_t number);
/* "allreduce #17" */
struct phrase phrase_call(const struct blackbox_op *op);
/* "step 2 of 3 (reduce on the rail of index 1) of reduce #17"; of what is no step as phrase_call(). */
struct phrase_line phrase_step(const struct blackbox_op *op);
const char *phrase_state(const struct blackbox_op *op);
/* Of a communicator. */
const char *phrase_name(const struct blackbox_comm *comm);

#endif
