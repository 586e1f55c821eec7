/* SPDX-License-Identifier: Apache-2.0 */
/* Exported calls: queue pairs, shared receive queues, address handles, multicast, the UDP source port. */
#include "verbs/device.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/hand.h"
#include "verbs/qp.h"
#include "verbs/softverbs.h"
#include "verbs/wire.h"
#include "verbs/xrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct ibv_qp_init_attr_ex all;
    memset(&all, 0, sizeof(all));
    memcpy(&all, init, sizeof(*init));
    all.pd = pd;
    engine_lock();
    bool dead = context_of(pd->context)->dead, fails = dead || fault_fails(FAULT_QUEUE_PAIR);
    struct qp *qp = fails ? NULL : qp_create(context_of(pd->context), &all);
    if (fails)
        errno = dead ? EIO : ENOMEM;
    if (qp)
        init->cap = qp->init.cap;
    engine_unlock();
    return qp ? qp_ibv(qp) : NULL;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
    struct qp *qp = (struct qp *)ibv;
    engine_lock();
    int err = qp->context->inherited ? EPERM : list_empty(&qp->groups) ? 0 : EBUSY;
    if (!err && fault_keeps(FAULT_END_QUEUE_PAIR, qp))
        err = EIO;
    uint32_t reported = qp->async_reported;
    if (!err)
        event_forget(qp->context, qp);
    engine_unlock();
    if (err)
        return err;
    event_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, reported);
    engine_lock();
    qp_destroy(qp);
    engine_unlock();
    return 0;
}

EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    if (context_of(ibv->context)->inherited)
        return EPERM;
    bool asks = ibv->qp_type == IBV_QPT_RC && (mask & IBV_QP_DEST_QPN) && (mask & IBV_QP_AV);
    bool hands = asks && hand_ask((struct qp *)ibv, attr);
    engine_lock();
    bool dead = ((struct qp *)ibv)->context->dead;
    int err = dead ? EIO : fault_fails(FAULT_MODIFY) ? ENOMEM : qp_modify((struct qp *)ibv, attr, mask);
    if (asks && !err)
        ((struct qp *)ibv)->hands = hands;
    engine_push();
    engine_unlock();
    return err;
}

EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    engine_lock();
    qp_query((struct qp *)ibv, attr, init);
    ibv->state = attr->qp_state;
    engine_unlock();
    return 0;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
    struct qp *qp = (struct qp *)ibv;
    return qp->extended ? &qp->ex : NULL;
}

EXPORT int softverbs_set_source_port(struct ibv_qp *ibv, uint16_t port)
{
    struct qp *qp = (struct qp *)ibv;
    engine_lock();
    int err = qp_is(qp, IBV_QPT_UD) || fault_fixes_source() ? EOPNOTSUPP
              : qp->state == IBV_QPS_RTS && port            ? 0
                                                            : EINVAL;
    if (!err && fault_fails(FAULT_SOURCE))
        err = EIO;
    if (!err) {
        struct path path = qp->path;
        path.source_port = port;
        err = wire_claim_port(&path);
    }
    if (!err)
        qp->forced_port = qp->path.source_port = port;
    engine_unlock();
    return err;
}

EXPORT uint16_t softverbs_source_port(struct ibv_qp *ibv)
{
    engine_lock();
    uint16_t port = ((struct qp *)ibv)->path.source_port;
    engine_unlock();
    return port;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t size = 1;
    while (size < n)
        size *= 2;
    return size;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    if (!init->attr.max_wr || init->attr.max_wr > MAX_SRQ_WR || init->attr.max_sge > MAX_SGE) {
        errno = EINVAL;
        return NULL;
    }
    engine_lock();
    bool fails = fault_fails(FAULT_SHARED_QUEUE);
    engine_unlock();
    struct srq *srq = fails ? NULL : calloc(1, sizeof(*srq));
    if (!srq) {
        errno = ENOMEM;
        return NULL;
    }
    struct recv_queue *queue = &srq->queue;
    queue->capacity = power_of_two(init->attr.max_wr);
    queue->max_sge = init->attr.max_sge ? init->attr.max_sge : 1;
    queue->wqes = calloc(queue->capacity, sizeof(*queue->wqes));
    queue->sges = calloc((size_t)queue->capacity * queue->max_sge, sizeof(*queue->sges));
    if (!queue->wqes || !queue->sges) {
        free(queue->wqes);
        free(queue->sges);
        free(srq);
        errno = ENOMEM;
        return NULL;
    }
    srq->ibv.context = pd->context;
    srq->ibv.srq_context = init->srq_context;
    srq->ibv.pd = pd;
    pthread_mutex_init(&srq->ibv.mutex, NULL);
    pthread_cond_init(&srq->ibv.cond, NULL);
    init->attr.max_wr = queue->capacity;
    init->attr.max_sge = queue->max_sge;
    engine_lock();
    srq->limit = init->attr.srq_limit;
    ((struct pd *)pd)->users++;
    engine_unlock();
    return &srq->ibv;
}

static int resize(struct recv_queue *queue, uint32_t wanted)
{
    uint32_t capacity = power_of_two(wanted), n = queue->tail - queue->head;
    if (!wanted || wanted > MAX_SRQ_WR || capacity < n)
        return EINVAL;
    struct recv_wqe *wqes = calloc(capacity, sizeof(*wqes));
    struct ibv_sge *sges = calloc((size_t)capacity * queue->max_sge, sizeof(*sges));
    if (!wqes || !sges) {
        free(wqes);
        free(sges);
        return ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = (queue->head + i) % queue->capacity;
        wqes[i] = queue->wqes[from];
        memcpy(&sges[(size_t)i * queue->max_sge], &queue->sges[(size_t)from * queue->max_sge],
               queue->max_sge * sizeof(*sges));
    }
    free(queue->wqes);
    free(queue->sges);
    *queue = (struct recv_queue){wqes, sges, capacity, queue->max_sge, 0, n};
    return 0;
}

EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
    struct srq *srq = (struct srq *)ibv;
    engine_lock();
    int err = fault_fails(FAULT_MODIFY_SHARED) ? ENOMEM : 0;
    if (!err && mask & IBV_SRQ_MAX_WR)
        err = resize(&srq->queue, attr->max_wr);
    if (!err && mask & IBV_SRQ_LIMIT && attr->srq_limit > srq->queue.capacity)
        err = EINVAL;
    if (!err && mask & IBV_SRQ_LIMIT)
        srq->limit = attr->srq_limit;
    engine_unlock();
    return err;
}

EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
    const struct srq *srq = (struct srq *)ibv;
    engine_lock();
    *attr =
        (struct ibv_srq_attr){.max_wr = srq->queue.capacity, .max_sge = srq->queue.max_sge, .srq_limit = srq->limit};
    engine_unlock();
    return 0;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
    struct srq *srq = (struct srq *)ibv;
    engine_lock();
    int err = fault_keeps(FAULT_END_SHARED_QUEUE, srq) ? EIO : srq->users > 0 ? EBUSY : 0;
    if (!err)
        event_forget(context_of(ibv->context), srq);
    uint32_t reported = srq->async_reported;
    engine_unlock();
    if (err)
        return err;
    event_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, reported);
    engine_lock();
    ((struct pd *)ibv->pd)->users--;
    if (srq->xrcd)
        xrc_leave(srq);
    engine_unlock();
    pthread_mutex_destroy(&ibv->mutex);
    pthread_cond_destroy(&ibv->cond);
    free(srq->queue.wqes);
    free(srq->queue.sges);
    free(srq);
    return 0;
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ah *ah = calloc(1, sizeof(*ah));
    if (!ah)
        return NULL;
    engine_lock();
    int err = path_resolve(&ah->path, context_of(pd->context)->device, attr, 0,
                           0); /* no peer to hash: port 0xC000 unless there is a flow label */
    if (!err)
        ((struct pd *)pd)->users++;
    engine_unlock();
    if (err) {
        free(ah);
        errno = err;
        return NULL;
    }
    ah->attr = *attr;
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    return &ah->ibv;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ibv)
{
    engine_lock();
    ((struct pd *)ibv->pd)->users--;
    engine_unlock();
    free(ibv);
    return 0;
}

static int find_gid(const struct rdma_device *device, const union ibv_gid *gid)
{
    for (int i = 0; i < GID_COUNT; i++) {
        const union ibv_gid *at = device_gid(device, i);
        if (at && !memcmp(at, gid, sizeof(*gid)))
            return i;
    }
    return -1;
}

/* The answer goes where the datagram came from. With IPv4 the last 20 bytes of the GRH are the IPv4 header. */
EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                               struct ibv_ah_attr *attr)
{
    const uint8_t *bytes = (const uint8_t *)grh;
    union ibv_gid local = {.raw = {[10] = 0xff, [11] = 0xff}};
    memset(attr, 0, sizeof(*attr));
    if (!(wc->wc_flags & IBV_WC_GRH))
        return EINVAL;
    attr->port_num = port;
    attr->is_global = 1;
    if (bytes[0] >> 4 == 6) {
        memcpy(attr->grh.dgid.raw, bytes + 8, 16);
        memcpy(local.raw, bytes + 24, 16);
        attr->grh.traffic_class = (uint8_t)(bytes[0] << 4 | bytes[1] >> 4);
    } else {
        attr->grh.dgid = local;
        memcpy(attr->grh.dgid.raw + 12, bytes + 32, 4);
        memcpy(local.raw + 12, bytes + 36, 4);
        attr->grh.traffic_class = bytes[21];
    }
    attr->grh.hop_limit = 64;
    engine_lock();
    int index = find_gid(context_of(context)->device, &local);
    engine_unlock();
    attr->grh.sgid_index = (uint8_t)(index < 0 ? 0 : index);
    return index < 0 ? EADDRNOTAVAIL : 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
    struct ibv_ah_attr attr;
    int err = ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);
    if (err) {
        errno = err;
        return NULL;
    }
    return ibv_create_ah(pd, &attr);
}

EXPORT int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
    struct qp *qp = (struct qp *)ibv;
    bool v4 = wire_gid_is_v4(gid);
    if (!qp_is(qp, IBV_QPT_UD) || (v4 ? gid->raw[12] >> 4 != 14 : gid->raw[0] != 0xff))
        return EINVAL;
    struct multicast_group *group = calloc(1, sizeof(*group));
    if (!group)
        return ENOMEM;
    group->gid = *gid;
    engine_lock();
    int err = wire_join(qp->context->device, gid, true);
    err = err == EADDRINUSE ? 0 : err; /* another queue pair has joined already */
    if (!err)
        list_push(&qp->groups, &group->node);
    engine_unlock();
    if (err)
        free(group);
    return err;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
    struct qp *qp = (struct qp *)ibv;
    int err = EINVAL;
    engine_lock();
    list_each_safe(node, &qp->groups)
    {
        struct multicast_group *group = list_entry(node, struct multicast_group, node);
        if (memcmp(&group->gid, gid, sizeof(*gid)))
            continue;
        list_remove(node);
        free(group);
        err = 0;
        break;
    }
    engine_unlock();
    return err;
}
