/* SPDX-License-Identifier: Apache-2.0 */
/* The extended interface: queue pairs with ibv_wr_* calls, completion queues that are read field by field. */
#ifndef VERBS_EXTENDED_H
#define VERBS_EXTENDED_H

#include "verbs/object.h"

/* Enters the extended calls into a context's table. */
void extended_set_ops(struct verbs_context *verbs);

/* Sets the ibv_wr_* pointers of a queue pair. */
void extended_set_wr(struct qp *qp);

#endif
