/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes remember of two processes. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_LANES_H
#define TUTTI_DIAGNOSIS_LANES_H

#include "diagnosis/scene.h"

/* Do lanes remember what goes from this member to that one, on another host? */
bool lanes_tell(const struct member *from, const struct member *to);
/* How long the latest segment was under way there that has landed; 0: none is known. */
uint64_t lanes_last(const struct member *from, const struct member *to);

#endif
