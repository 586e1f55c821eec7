/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair fails: what it has is flushed, and the program is told. */
#include "verbs/qp.h"
#include "verbs/event.h"
#include "verbs/requester.h"

void qp_flush(struct qp *qp)
{
    requester_flush(qp);
    responder_flush(qp);
}

void qp_fail(struct qp *qp, int event)
{
    bool before = qp->state == IBV_QPS_ERR;
    responder_settle(qp);
    qp->state = qp_ibv(qp)->state = IBV_QPS_ERR;
    qp_flush(qp);
    if (before)
        return;
    if (event >= 0)
        event_qp(qp, (enum ibv_event_type)event);
    if (qp_ibv(qp)->srq)
        event_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void requester_complete(struct qp *qp, enum ibv_wc_status status)
{
    struct requester *req = &qp->req;
    if (req->head != req->tail)
        requester_push(qp, qp_send_wqe(qp, req->head++), status);
    qp_fail(qp, -1);
}
