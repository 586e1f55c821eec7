/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues and completion channels. */
#ifndef VERBS_CQ_H
#define VERBS_CQ_H

#include "verbs/object.h"

struct cq *cq_create(struct rdma_context *context, uint32_t asked, struct event_channel *channel, void *cq_context);
void cq_destroy(struct cq *cq);

/* Adds a completion. `loud`: it must wake who waits for solicited ones. */
void cq_push(struct cq *cq, const struct ibv_wc *wc, bool loud);

/* Moves up to n completions out. -1 when the queue has overrun. */
int cq_take(struct cq *cq, int n, struct completion *out);

/* Removes the completions of a queue pair. */
void cq_purge(struct cq *cq, uint32_t qpn);
int cq_resize(struct cq *cq, uint32_t asked);

/* Asks for an event at the next completion. True: one that counts lies in the queue already, so cq_fire must be called
 * with the engine's lock held. */
bool cq_arm(struct cq *cq, bool solicited_only);
void cq_fire(struct cq *cq);

#endif
