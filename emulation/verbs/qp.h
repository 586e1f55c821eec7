/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: their life, states and queues. What packets do to them is in requester.c and responder.c. Under the
 * engine's lock. */
#ifndef VERBS_QP_H
#define VERBS_QP_H

#include "verbs/object.h"

#define WINDOW_START 128 /* packets in flight */
#define WINDOW_MAX   256
#define WINDOW_LOCAL 240 /* within a host nothing queues but the receiver's socket */
#define WINDOW_MIN   2

struct qp *qp_create(struct rdma_context *context, const struct ibv_qp_init_attr_ex *init);
void qp_destroy(struct qp *qp);
int qp_modify(struct qp *qp, struct ibv_qp_attr *attr, int mask);
void qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* Moves to the error state and flushes. `event`: also reports it (IBV_EVENT_QP_FATAL and the like; -1: none). */
void qp_fail(struct qp *qp, int event);
void qp_flush(struct qp *qp);

/* Sends what can be sent. */
void qp_run(struct qp *qp, uint64_t now);

/* Looks at the timers: what has ended acts. Returns the next deadline, 0 if no timer runs. */
uint64_t qp_timer(struct qp *qp, uint64_t now);

/* Resolves addresses and the source port. 0 or errno. */
int path_resolve(struct path *out, struct rdma_device *device, const struct ibv_ah_attr *attr, uint32_t local_qpn,
                 uint32_t remote_qpn);

/* A multicast group that this queue pair has joined. */
struct multicast_group {
    struct list node;
    union ibv_gid gid;
};
bool qp_in_group(const struct qp *qp, const uint8_t *address, bool v6);

static inline bool qp_is(const struct qp *qp, enum ibv_qp_type type)
{
    return qp->ex.qp_base.qp_type == type;
}

static inline bool qp_is_xrc(const struct qp *qp)
{
    return qp_is(qp, IBV_QPT_XRC_SEND) || qp_is(qp, IBV_QPT_XRC_RECV);
}

/* Whether requests are acknowledged. */
static inline bool qp_is_reliable(const struct qp *qp)
{
    return qp_is(qp, IBV_QPT_RC) || qp_is_xrc(qp);
}

/* Where receives complete; NULL: nowhere now. */
static inline struct cq *qp_recv_cq(const struct qp *qp)
{
    if (qp->xrcd)
        return qp->resp.filling ? qp->resp.filling->cq : NULL;
    return (struct cq *)qp->ex.qp_base.recv_cq;
}

/* Whether packets that come are taken. */
static inline bool qp_receives(const struct qp *qp)
{
    return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
}

#endif
