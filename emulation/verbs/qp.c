/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a queue pair: making it, moving it through its states, flushing it, and running its two halves. */
#include "verbs/qp.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/qp_state.h"
#include "verbs/transport.h"
#include "verbs/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t round_up(uint32_t n)
{
    uint32_t size = 1;
    while (size < n)
        size *= 2;
    return size;
}

/* A queue pair of XRC that sends receives nothing; one that receives has neither queues nor memory of its own. */
static bool right_init(const struct ibv_qp_init_attr_ex *init)
{
    const struct ibv_qp_cap *cap = &init->cap;
    if (init->qp_type == IBV_QPT_XRC_RECV)
        return init->xrcd;
    return init->pd && init->send_cq && (init->recv_cq || init->qp_type == IBV_QPT_XRC_SEND) &&
           cap->max_send_wr <= MAX_QP_WR && cap->max_recv_wr <= MAX_QP_WR && cap->max_send_sge <= MAX_SGE &&
           cap->max_recv_sge <= MAX_SGE && cap->max_inline_data <= MAX_INLINE;
}

static void release(struct qp *qp)
{
    pthread_mutex_destroy(&qp->building);
    free(qp->req.wqes);
    free(qp->req.sges);
    free(qp->req.inline_bytes);
    free(qp->req.reads);
    free(qp->resp.queue);
    free(qp->resp.kept);
    free(qp->recv.wqes);
    free(qp->recv.sges);
    free(qp);
}

static bool allocate(struct qp *qp, const struct ibv_qp_cap *cap, bool shared_receive)
{
    struct requester *req = &qp->req;
    req->capacity = round_up(cap->max_send_wr);
    req->max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
    req->max_inline = cap->max_inline_data > LEAST_INLINE ? cap->max_inline_data : LEAST_INLINE;
    req->wqes = calloc(req->capacity, sizeof(*req->wqes));
    req->sges = calloc((size_t)req->capacity * req->max_sge, sizeof(*req->sges));
    req->inline_bytes = malloc((size_t)req->capacity * req->max_inline + 1);
    req->reads = calloc(MAX_RD_ATOMIC, sizeof(*req->reads));
    qp->resp.queue = calloc(ANSWERS_MAX, sizeof(*qp->resp.queue));
    qp->resp.kept = calloc(MAX_RD_ATOMIC, sizeof(*qp->resp.kept));
    bool good = req->wqes && req->sges && req->inline_bytes && req->reads && qp->resp.queue && qp->resp.kept;
    qp->recv.capacity = shared_receive ? 1 : round_up(cap->max_recv_wr);
    qp->recv.max_sge = cap->max_recv_sge ? cap->max_recv_sge : 1;
    qp->recv.wqes = calloc(qp->recv.capacity, sizeof(*qp->recv.wqes));
    qp->recv.sges = calloc((size_t)qp->recv.capacity * qp->recv.max_sge, sizeof(*qp->recv.sges));
    return good && qp->recv.wqes && qp->recv.sges;
}

static void set_ibv(struct qp *qp, struct rdma_context *context, const struct ibv_qp_init_attr_ex *init)
{
    struct ibv_qp *ibv = qp_ibv(qp);
    ibv->context = context_ibv(context);
    ibv->qp_context = init->qp_context;
    bool receives = init->qp_type == IBV_QPT_XRC_RECV, sends = init->qp_type == IBV_QPT_XRC_SEND;
    qp->xrcd = receives ? (struct xrcd *)init->xrcd : NULL;
    ibv->pd = receives ? NULL : init->pd;
    ibv->send_cq = receives ? NULL : init->send_cq;
    ibv->recv_cq = receives ? NULL : sends ? init->send_cq : init->recv_cq;
    ibv->srq = receives || sends ? NULL : init->srq;
    ibv->state = IBV_QPS_RESET;
    ibv->qp_type = init->qp_type;
    pthread_mutex_init(&ibv->mutex, NULL);
    pthread_cond_init(&ibv->cond, NULL);
}

static void use(struct qp *qp, int by)
{
    if (qp->xrcd) {
        qp->xrcd->users += by;
        return;
    }
    ((struct pd *)qp_ibv(qp)->pd)->users += by;
    ((struct cq *)qp_ibv(qp)->send_cq)->users += by;
    ((struct cq *)qp_ibv(qp)->recv_cq)->users += by;
    if (qp_ibv(qp)->srq)
        ((struct srq *)qp_ibv(qp)->srq)->users += by;
}

struct qp *qp_create(struct rdma_context *context, const struct ibv_qp_init_attr_ex *init)
{
    bool known = init->qp_type == IBV_QPT_RC || init->qp_type == IBV_QPT_UC || init->qp_type == IBV_QPT_UD ||
                 init->qp_type == IBV_QPT_XRC_SEND || init->qp_type == IBV_QPT_XRC_RECV;
    if (context->inherited || !known || !right_init(init)) {
        errno = context->inherited ? EPERM : known ? EINVAL : EOPNOTSUPP;
        return NULL;
    }
    struct qp *qp = calloc(1, sizeof(*qp));
    if (qp)
        pthread_mutex_init(&qp->building, NULL);
    int err = qp && allocate(qp, &init->cap, init->srq) ? 0 : ENOMEM;
    if (!err) {
        set_ibv(qp, context, init);
        err = engine_add_qp(qp);
    }
    if (err) {
        if (qp)
            release(qp);
        errno = err;
        return NULL;
    }
    qp_ibv(qp)->handle = qp->serial;
    qp->context = context;
    qp->signal_all = init->sq_sig_all;
    list_init(&qp->groups);
    memcpy(&qp->init, init, sizeof(qp->init)); /* the extended attributes begin with the plain ones */
    qp->init.cap.max_send_wr = qp->req.capacity;
    qp->init.cap.max_recv_wr = init->srq ? 0 : qp->recv.capacity;
    qp->init.cap.max_send_sge = qp->req.max_sge;
    qp->init.cap.max_recv_sge = qp->recv.max_sge;
    qp->init.cap.max_inline_data = qp->req.max_inline;
    use(qp, 1);
    return qp;
}

/* Removes what the program could still see of it. The completion queues outlive it. */
static void forget(struct qp *qp)
{
    if (qp->xrcd)
        return; /* what it received is its queues' */
    cq_purge((struct cq *)qp_ibv(qp)->send_cq, qp_number(qp));
    cq_purge((struct cq *)qp_ibv(qp)->recv_cq, qp_number(qp));
}

void qp_destroy(struct qp *qp)
{
    struct list *node;
    responder_settle(qp);
    wire_flush();
    forget(qp);
    event_forget(qp->context, qp);
    engine_remove_qp(qp);
    use(qp, -1);
    while ((node = list_pop(&qp->groups)))
        free(list_entry(node, struct multicast_group, node));
    pthread_mutex_destroy(&qp_ibv(qp)->mutex);
    pthread_cond_destroy(&qp_ibv(qp)->cond);
    release(qp);
}

static void reset(struct qp *qp)
{
    struct requester *req = &qp->req;
    struct responder *resp = &qp->resp;
    responder_settle(qp);
    req->head = req->next = req->tail = req->offset = 0;
    req->read_head = req->read_tail = 0;
    req->ack_deadline = req->rnr_deadline = 0;
    req->draining = false;
    req->turn = resp->turn = (struct pace_turn){0};
    resp->held_until = resp->all_until = 0;
    qp->recv.head = qp->recv.tail = 0;
    resp->queue_head = resp->queue_tail = 0;
    memset(resp->kept, 0, MAX_RD_ATOMIC * sizeof(*resp->kept));
    resp->in_message = resp->nak_sent = resp->ack_due = resp->have_wqe = resp->communication = false;
    resp->ack_at = resp->asked_at = 0;
    resp->msn = resp->replies = 0;
    resp->named = resp->filling = NULL;
    qp->forced_port = 0;
    qp->state = IBV_QPS_RESET;
    memset(&qp->attr, 0, sizeof(qp->attr));
    forget(qp);
}

static bool right_values(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct rdma_device *device = qp->context->device;
    enum ibv_mtu most = device_mtu(device);
    return !((mask & IBV_QP_PORT && attr->port_num != 1) || (mask & IBV_QP_PKEY_INDEX && attr->pkey_index != 0) ||
             (mask & IBV_QP_PATH_MTU && (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > most)) ||
             (mask & IBV_QP_TIMEOUT && attr->timeout > 31) || (mask & IBV_QP_RETRY_CNT && attr->retry_cnt > 7) ||
             (mask & IBV_QP_RNR_RETRY && attr->rnr_retry > 7) ||
             (mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > MAX_RD_ATOMIC) ||
             (mask & IBV_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > MAX_RD_ATOMIC) ||
             (mask & IBV_QP_ALT_PATH));
}

static int set_path(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct path path;
    uint32_t remote = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num & QPN_MASK : qp->attr.dest_qp_num;
    int err = path_resolve(&path, qp->context->device, &attr->ah_attr, qp_number(qp), remote);
    if (err)
        return err;
    if (qp->forced_port)
        path.source_port = qp->forced_port;
    err = wire_claim_port(&path);
    if (!err) {
        qp->path = path;
        qp->attr.ah_attr = attr->ah_attr;
    }
    return err;
}

#define TAKE(flag, field)                                                                                              \
    if (mask & (flag))                                                                                                 \
        qp->attr.field = attr->field;

static void take_values(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    TAKE(IBV_QP_PKEY_INDEX, pkey_index)
    TAKE(IBV_QP_PORT, port_num)
    TAKE(IBV_QP_QKEY, qkey)
    TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags)
    TAKE(IBV_QP_PATH_MTU, path_mtu)
    TAKE(IBV_QP_TIMEOUT, timeout)
    TAKE(IBV_QP_RETRY_CNT, retry_cnt)
    TAKE(IBV_QP_RNR_RETRY, rnr_retry)
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
    TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify)
    if (mask & IBV_QP_MIN_RNR_TIMER)
        qp->attr.min_rnr_timer = attr->min_rnr_timer & 31; /* adapters take the bits that they have */
    if (mask & IBV_QP_DEST_QPN)
        qp->attr.dest_qp_num = attr->dest_qp_num & QPN_MASK;
    if (mask & IBV_QP_RQ_PSN)
        qp->attr.rq_psn = qp->resp.psn = attr->rq_psn & PSN_MASK;
    if (mask & IBV_QP_SQ_PSN) {
        qp->attr.sq_psn = attr->sq_psn & PSN_MASK;
        qp->req.psn = qp->req.unacked = qp->req.highest = qp->attr.sq_psn;
        qp->req.goback_psn = psn_add(qp->attr.sq_psn, PSN_MASK);
    }
}

static void enter(struct qp *qp, enum ibv_qp_state state)
{
    struct requester *req = &qp->req;
    if (state == IBV_QPS_RTR) {
        qp->mtu = 128u << (qp_is(qp, IBV_QPT_UD) ? device_mtu(qp->context->device) : qp->attr.path_mtu);
        qp->resp.kept_count = qp->attr.max_dest_rd_atomic;
        qp->resp.kept_next = 0;
    }
    if (state == IBV_QPS_RTS && qp->state != IBV_QPS_RTS) {
        req->window = req->window ? req->window : WINDOW_START;
        req->read_capacity = qp->attr.max_rd_atomic;
        req->retry_left = qp->attr.retry_cnt;
        req->rnr_left = qp->attr.rnr_retry;
        engine_mark(qp);
    }
    if (state == IBV_QPS_SQD && qp->state == IBV_QPS_RTS) {
        req->draining = true;
        engine_mark(qp);
    }
    qp->state = state;
}

int qp_modify(struct qp *qp, struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from = qp->state, to = mask & IBV_QP_STATE ? attr->qp_state : from;
    mask = qp_state_heeds(qp_ibv(qp)->qp_type, mask);
    if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from)
        return EINVAL;
    if (!qp_state_allows(qp_ibv(qp)->qp_type, from, to, mask) || !right_values(qp, attr, mask))
        return EINVAL;
    int err = mask & IBV_QP_AV ? set_path(qp, attr, mask) : 0;
    if (err)
        return err;
    if (to == IBV_QPS_RESET) {
        reset(qp);
    } else if (to == IBV_QPS_ERR) {
        qp_fail(qp, -1);
    } else {
        take_values(qp, attr, mask);
        enter(qp, to);
    }
    qp_ibv(qp)->state = qp->state;
    return 0;
}

void qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->path_mig_state = IBV_MIG_MIGRATED;
    attr->rq_psn = qp->resp.psn;
    attr->sq_psn = qp->req.psn;
    attr->cap = qp->init.cap;
    attr->sq_draining = qp->req.draining;
    *init = qp->init;
}
