/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a context's table holds: memory windows, parent and thread domains, advice about memory. */
#ifndef VERBS_MEMORY_H
#define VERBS_MEMORY_H

#include "verbs/object.h"

void memory_set_ops(struct verbs_context *verbs);

#endif
