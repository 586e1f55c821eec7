/* SPDX-License-Identifier: Apache-2.0 */
/* Extended reliable connections: a queue pair that only sends names, in each request, one of the shared receive queues
 * of its peer's domain. A domain is of one process, also where a file stands for it. */
#ifndef VERBS_XRC_H
#define VERBS_XRC_H

#include "verbs/object.h"

/* Enters the calls about domains into a context's table. */
void xrc_set_ops(struct verbs_context *verbs);

/* A new shared receive queue enters a domain and gets a number. Takes the engine's lock. */
void xrc_enter(struct srq *srq, struct xrcd *xrcd, struct cq *cq);
/* The queue goes: a message that has a receive of it does not end well. With the engine's lock. */
void xrc_leave(struct srq *srq);

/* The queue of the domain that has this number, or NULL. With the engine's lock. */
struct srq *xrc_find(const struct xrcd *xrcd, uint32_t number);

#endif
