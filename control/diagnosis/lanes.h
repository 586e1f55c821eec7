/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes remember of two processes. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_LANES_H
#define TUTTI_DIAGNOSIS_LANES_H

#include "diagnosis/scene.h"

/* Do lanes remember data from this member to that one, on another host? */
bool lanes_tell(const struct member *from, const struct member *to);
/* Time under way of the latest segment that has landed there; 0: unknown. *longest grows to the longest time under way
 * of those that landed lately. */
uint64_t lanes_took(const struct member *from, const struct member *to, uint64_t *longest);
/* How many lanes of this process to that one, on another host, are down just now. */
size_t lanes_down(const struct member *from, const struct member *to);

#endif
