/* SPDX-License-Identifier: Apache-2.0 */
/* When the calls of a process were over. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_ENDS_H
#define TUTTI_DIAGNOSIS_ENDS_H

#include "wire/boxread.h"

struct ends {
    const struct blackbox_op **calls; /* by their beginnings */
    uint64_t *end;                    /* of each; not before its beginning */
    size_t count;                     /* 0 also without memory */
};

/* All calls of a process by its own clock. A call that runs ends now. */
struct ends ends_of(const struct blackbox *box);
void ends_free(struct ends *ends);
/* The first of the process's calls that did not begin before this time. */
size_t ends_first_from(const struct ends *ends, uint64_t time);
/* When the program began to wait for the end of this call: at its beginning, where that is not known. */
uint64_t call_waits_from(const struct blackbox_op *op);
/* The calls of a process that are wanted, by their beginnings; the caller frees the array. NULL: none, or no memory. */
typedef bool call_is_wanted(const struct blackbox *box, const struct blackbox_op *op);
const struct blackbox_op **process_calls(const struct blackbox *box, call_is_wanted *wanted, size_t *count);

#endif
