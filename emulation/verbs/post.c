/* SPDX-License-Identifier: Apache-2.0 */
/* Posting requests and receives, polling and arming completion queues. */
#include "verbs/post.h"
#include "verbs/cq.h"
#include "verbs/engine.h"
#include "verbs/fault.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

#include <errno.h>
#include <string.h>

#define POLL_CHUNK 16

int post_allowed(const struct qp *qp)
{
    if (qp->context->inherited)
        return EPERM;
    switch (qp->state) {
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
    case IBV_QPS_ERR:
        return fault_fails(FAULT_POST_SEND) ? ENOMEM : 0;
    default:
        return EINVAL;
    }
}

struct send_wqe *post_slot(struct qp *qp, uint32_t ahead)
{
    struct requester *req = &qp->req;
    if (req->tail + ahead - req->head >= req->capacity || qp->init.cap.max_send_wr == 0)
        return NULL;
    struct send_wqe *wqe = qp_send_wqe(qp, req->tail + ahead);
    memset(wqe, 0, sizeof(*wqe));
    return wqe;
}

int post_inline(struct qp *qp, struct send_wqe *wqe, uint32_t index, const struct ibv_sge *list, int n)
{
    struct requester *req = &qp->req;
    uint64_t size = sgl_size(list, n);
    if (size > req->max_inline)
        return EINVAL;
    wqe->inlined = req->inline_bytes + (size_t)(index % req->capacity) * req->max_inline;
    wqe->length = (uint32_t)size;
    uint8_t *at = wqe->inlined;
    for (int i = 0; i < n; at += list[i++].length)
        memcpy(at, (const void *)(uintptr_t)list[i].addr, list[i].length);
    return 0;
}

void post_publish(struct qp *qp, uint32_t n)
{
    if (qp->context->inherited)
        return;
    qp->req.tail += n;
    engine_mark(qp);
    engine_push();
}

static int right_opcode(const struct qp *qp, enum ibv_wr_opcode opcode)
{
    if (qp_is(qp, IBV_QPT_XRC_RECV))
        return EINVAL;
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return 0;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return qp_is(qp, IBV_QPT_UD) ? EINVAL : 0;
    case IBV_WR_BIND_MW:
    case IBV_WR_LOCAL_INV:
        return qp_is(qp, IBV_QPT_UD) ? EINVAL : 0;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_SEND_WITH_INV:
        return qp_is_reliable(qp) ? 0 : EINVAL;
    case IBV_WR_ATOMIC_WRITE:
        return qp_is(qp, IBV_QPT_RC) ? 0 : EINVAL;
    default:
        return EOPNOTSUPP;
    }
}

static void take_remote(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
    bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    bool swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    wqe->imm = wr->imm_data;
    if (atomic) {
        wqe->remote = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->compare = swap ? wr->wr.atomic.compare_add : 0;
        wqe->swap_add = swap ? wr->wr.atomic.swap : wr->wr.atomic.compare_add;
    } else {
        wqe->remote = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
    }
}

static int take_datagram(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
    const struct ah *ah = (const struct ah *)wr->wr.ud.ah;
    if (!ah)
        return EINVAL;
    wqe->path = ah->path;
    wqe->qpn = wr->wr.ud.remote_qpn & QPN_MASK;
    wqe->qkey = wr->wr.ud.remote_qkey;
    return 0;
}

void post_take_bind(struct send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    wqe->qpn = mw->handle;
    wqe->rkey = rkey;
    wqe->qkey = info->mr ? info->mr->lkey : 0;
    wqe->remote = info->addr;
    wqe->compare = info->length;
    wqe->swap_add = info->mw_access_flags;
}

static int take_local(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
    wqe->imm = wr->invalidate_rkey;
    if (wr->opcode != IBV_WR_BIND_MW)
        return 0;
    const struct ibv_mw *mw = wr->bind_mw.mw;
    if (!mw || mw->type != IBV_MW_TYPE_2 || (!wr->bind_mw.bind_info.mr && wr->bind_mw.bind_info.length))
        return EINVAL;
    post_take_bind(wqe, mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
    return 0;
}

static int take_send(struct qp *qp, const struct ibv_send_wr *wr)
{
    struct requester *req = &qp->req;
    int err = right_opcode(qp, wr->opcode);
    if (err || wr->num_sge < 0)
        return err ? err : EINVAL;
    bool inlined = wr->send_flags & IBV_SEND_INLINE;
    if (!inlined && (uint32_t)wr->num_sge > req->max_sge)
        return EINVAL;
    struct send_wqe *wqe = post_slot(qp, 0);
    if (!wqe)
        return ENOMEM;
    wqe->wr_id = wr->wr_id;
    wqe->opcode = wr->opcode;
    wqe->flags = (enum ibv_send_flags)wr->send_flags;
    wqe->signaled = qp->signal_all || (wr->send_flags & IBV_SEND_SIGNALED);
    if (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV)
        return take_local(wqe, wr);
    if (qp_is(qp, IBV_QPT_UD))
        err = take_datagram(wqe, wr);
    else
        take_remote(wqe, wr);
    if (qp_is(qp, IBV_QPT_XRC_SEND))
        wqe->srqn = wr->qp_type.xrc.remote_srqn;
    wqe->imm = wr->imm_data;
    if (err)
        return err;
    if (inlined)
        return post_inline(qp, wqe, req->tail, wr->sg_list, wr->num_sge);
    uint64_t size = sgl_size(wr->sg_list, wr->num_sge);
    if (size > MAX_MSG_SIZE)
        return EINVAL;
    wqe->length = (uint32_t)size;
    wqe->count = wr->num_sge;
    if (wr->num_sge) /* else the list may be NULL */
        memcpy(qp_send_sges(qp, req->tail), wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
    return 0;
}

int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct qp *qp = (struct qp *)ibv;
    int err = 0;
    qp_build(qp, true);
    engine_lock();
    for (; wr && !err; wr = wr->next) {
        err = post_allowed(qp);
        if (!err)
            err = take_send(qp, wr);
        if (err)
            break;
        qp->req.tail++;
    }
    if (err)
        *bad = wr;
    post_publish(qp, 0);
    engine_unlock();
    qp_build(qp, false);
    return err;
}

int post_bind(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct qp *qp = (struct qp *)ibv;
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
        return EINVAL;
    qp_build(qp, true);
    engine_lock();
    int err = post_allowed(qp);
    if (!err)
        err = right_opcode(qp, IBV_WR_BIND_MW);
    struct send_wqe *wqe = err ? NULL : post_slot(qp, 0);
    if (wqe) {
        wqe->wr_id = bind->wr_id;
        wqe->opcode = IBV_WR_BIND_MW;
        wqe->flags = (enum ibv_send_flags)bind->send_flags;
        wqe->signaled = qp->signal_all || (bind->send_flags & IBV_SEND_SIGNALED);
        post_take_bind(wqe, mw, rkey, &bind->bind_info);
        mw->rkey = rkey;
        post_publish(qp, 1);
    }
    engine_unlock();
    qp_build(qp, false);
    return err ? err : wqe ? 0 : ENOMEM;
}

static int push(struct recv_queue *queue, const struct ibv_recv_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
        return EINVAL;
    if (queue->tail - queue->head >= queue->capacity)
        return ENOMEM;
    uint32_t index = queue->tail++ % queue->capacity;
    queue->wqes[index] = (struct recv_wqe){wr->wr_id, wr->num_sge};
    if (wr->num_sge)
        memcpy(&queue->sges[(size_t)index * queue->max_sge], wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
    return 0;
}

static int push_all(struct recv_queue *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int err = 0;
    for (; wr && !err; wr = wr->next) {
        err = fault_fails(FAULT_POST_RECV) ? ENOMEM : push(queue, wr);
        if (err)
            break;
    }
    if (err)
        *bad = wr;
    return err;
}

int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct qp *qp = (struct qp *)ibv;
    engine_lock();
    int err = qp->context->inherited ? EPERM : qp->state == IBV_QPS_RESET || ibv->srq || qp_is_xrc(qp) ? EINVAL : 0;
    if (err)
        *bad = wr;
    else
        err = push_all(&qp->recv, wr, bad);
    if (qp->state == IBV_QPS_ERR && !qp->context->inherited)
        responder_flush(qp);
    engine_unlock();
    return err;
}

int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    engine_lock();
    bool inherited = context_of(ibv->context)->inherited;
    int err = inherited ? EPERM : push_all(&((struct srq *)ibv)->queue, wr, bad);
    if (inherited)
        *bad = wr;
    engine_unlock();
    return err;
}

int post_take(struct cq *cq, int n, struct completion *out)
{
    int taken = cq_take(cq, n, out);
    if (taken) {
        engine_polled();
        return taken;
    }
    engine_poll(cq);
    return cq_take(cq, n, out);
}

int post_poll(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
    struct completion some[POLL_CHUNK];
    int total = 0;
    if (fault_poll_fails())
        return -1;
    while (total < n) {
        int want = n - total < POLL_CHUNK ? n - total : POLL_CHUNK;
        int taken = total ? cq_take((struct cq *)ibv, want, some) : post_take((struct cq *)ibv, want, some);
        if (taken < 0)
            return total ? total : -1;
        for (int i = 0; i < taken; i++)
            wc[total + i] = some[i].wc;
        total += taken;
        if (taken < want)
            break;
    }
    return total;
}

int post_notify(struct ibv_cq *ibv, int solicited_only)
{
    if (fault_fails_unlocked(FAULT_NOTIFY))
        return ENOMEM;
    if (cq_arm((struct cq *)ibv, solicited_only)) {
        engine_lock();
        cq_fire((struct cq *)ibv);
        engine_unlock();
    }
    engine_watch();
    return 0;
}
