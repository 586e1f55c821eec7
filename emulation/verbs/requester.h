/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the requester. */
#ifndef VERBS_REQUESTER_H
#define VERBS_REQUESTER_H

#include "verbs/transport.h"

/* As later <verbs.h> name them; ibv_wr_flush() alone posts one. */
#define WR_FLUSH ((enum ibv_wr_opcode)14)
#define WC_FLUSH ((enum ibv_wc_opcode)8)

/* READ, atomic, or what is answered as a READ of nothing. */
bool requester_is_read(const struct send_wqe *wqe);
/* The last of these: its answer has no data. */
bool requester_is_dataless(const struct send_wqe *wqe);

bool requester_is_atomic(const struct send_wqe *wqe);

/* Sends nothing: a bind, or a local invalidation. */
bool requester_is_local(const struct send_wqe *wqe);
/* Does one of those; it may set the request's status. */
void requester_act(struct qp *qp, struct send_wqe *wqe);

/* Completes what is acknowledged. */
void requester_finish_acked(struct qp *qp);

void requester_push(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status);

/* The oldest request is complete. */
void requester_finish_head(struct qp *qp);

/* How long to wait for an acknowledgement, in nanoseconds. */
uint64_t requester_timeout(const struct qp *qp);

#endif
