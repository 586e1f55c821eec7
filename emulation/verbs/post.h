/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the data path, as they stand in a context's table of operations. */
#ifndef VERBS_POST_H
#define VERBS_POST_H

#include "verbs/object.h"

int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_poll(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
int post_notify(struct ibv_cq *ibv, int solicited_only);

/* ibv_bind_mw: of a window of type 1, with the next key. */
int post_bind(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* What a request for a bind keeps of its arguments. */
void post_take_bind(struct send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);

/* Whether requests may be posted now; 0 or errno. */
int post_allowed(const struct qp *qp);

/* The next free request, its fields cleared, or NULL when the queue is full. `ahead`: how many were taken but not
 * published. */
struct send_wqe *post_slot(struct qp *qp, uint32_t ahead);

/* Copies inline data. 0 or errno. */
int post_inline(struct qp *qp, struct send_wqe *wqe, uint32_t index, const struct ibv_sge *list, int n);

/* Publishes requests and sends what can be sent. */
void post_publish(struct qp *qp, uint32_t n);

/* A poll that looked in vain: makes progress. */
int post_take(struct cq *cq, int n, struct completion *out);

#endif
