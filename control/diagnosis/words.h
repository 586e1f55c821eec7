/* SPDX-License-Identifier: Apache-2.0 */
/* Times and calls as people read them. */
#ifndef TUTTI_DIAGNOSIS_WORDS_H
#define TUTTI_DIAGNOSIS_WORDS_H

#include "wire/boxread.h"

struct word {
    char text[48];
};

struct word word_time(uint64_t ns);
struct word word_number(uint64_t number);
/* "allreduce #17" */
struct word word_call(const struct blackbox_op *op);
const char *word_state(const struct blackbox_op *op);
/* Of a communicator. */
const char *word_name(const struct blackbox_comm *comm);

#endif
