/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of receives: taken, completed, flushed. */
#include "verbs/transport.h"
#include "verbs/counters.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/qp.h"

#include <string.h>

static bool pop(struct recv_queue *queue, struct recv_wqe *wqe, struct ibv_sge *sges)
{
    if (queue->head == queue->tail)
        return false;
    uint32_t index = queue->head++ % queue->capacity;
    *wqe = queue->wqes[index];
    memcpy(sges, &queue->sges[(size_t)index * queue->max_sge], (size_t)wqe->count * sizeof(*sges));
    return true;
}

bool responder_take_wqe(struct qp *qp, struct recv_wqe *wqe, struct ibv_sge *sges)
{
    struct srq *srq = qp->xrcd ? qp->resp.filling : (struct srq *)qp_ibv(qp)->srq;
    if (!srq)
        return pop(&qp->recv, wqe, sges);
    if (!pop(&srq->queue, wqe, sges))
        return false;
    if (srq->limit && srq->queue.tail - srq->queue.head < srq->limit) {
        srq->limit = 0; /* told once, until it is set again */
        event_srq(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
    return true;
}

void responder_complete(struct qp *qp, const struct ibv_wc *wc, bool solicited)
{
    cq_push(qp_recv_cq(qp), wc, solicited);
}

void responder_flush(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .qp_num = qp_number(qp)};
    wc.vendor_err = 0x50 + wc.status;
    resp->queue_head = resp->queue_tail;
    resp->ack_due = false;
    if (resp->have_wqe) {
        resp->have_wqe = false;
        wc.wr_id = resp->wqe.wr_id;
        responder_complete(qp, &wc, false);
    }
    while (!qp_ibv(qp)->srq && qp->recv.head != qp->recv.tail) {
        wc.wr_id = qp->recv.wqes[qp->recv.head++ % qp->recv.capacity].wr_id;
        responder_complete(qp, &wc, false);
    }
}
