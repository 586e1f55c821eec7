/* SPDX-License-Identifier: Apache-2.0 */
/* ibv_create_qp_ex, ibv_create_cq_ex and ibv_create_srq_ex, and reading an extended completion queue. */
#include "verbs/extended.h"
#include "verbs/cq.h"
#include "verbs/engine.h"
#include "verbs/post.h"
#include "verbs/qp.h"
#include "verbs/xrc.h"

#include <errno.h>
#include <string.h>

#define WITH_FLUSH (1 << 11) /* of later <verbs.h> */
#define SEND_OPS                                                                                                       \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |                            \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                     \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |                         \
     IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE | WITH_FLUSH)
#define CQ_FLAGS                                                                                                       \
    (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct ibv_qp *create_qp_ex(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *init)
{
    uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    bool xrc = init->qp_type == IBV_QPT_XRC_RECV;
    uint32_t needed = xrc ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
    bool ops = init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    bool flags = init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags;
    if (init->comp_mask & ~(known | needed) || flags || (ops && init->send_ops_flags & ~(uint64_t)SEND_OPS)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!(init->comp_mask & needed) || (!xrc && !init->pd) || (xrc && ops)) {
        errno = EINVAL;
        return NULL;
    }
    engine_lock();
    struct qp *qp = qp_create(context_of(ibv), init);
    if (qp) {
        init->cap = qp->init.cap;
        qp->extended = ops;
        extended_set_wr(qp);
    }
    engine_unlock();
    return qp ? qp_ibv(qp) : NULL;
}

static bool has_domain(const struct ibv_srq_init_attr_ex *init)
{
    uint32_t needed = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    return (init->comp_mask & needed) == needed && init->xrcd && init->cq;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *ibv, struct ibv_srq_init_attr_ex *init)
{
    struct ibv_srq_init_attr plain = {.srq_context = init->srq_context, .attr = init->attr};
    bool typed = init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE, xrc = typed && init->srq_type == IBV_SRQT_XRC;
    bool known = !typed || init->srq_type == IBV_SRQT_BASIC || xrc;
    if (!known || !(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) || (xrc && !has_domain(init))) {
        errno = known ? EINVAL : EOPNOTSUPP;
        return NULL;
    }
    struct ibv_srq *srq = ibv_create_srq(init->pd, &plain);
    if (srq)
        init->attr = plain.attr;
    if (srq && xrc)
        xrc_enter((struct srq *)srq, (struct xrcd *)init->xrcd, (struct cq *)init->cq);
    return srq;
}

static struct cq *cq_of(struct ibv_cq_ex *ex)
{
    return (struct cq *)ex;
}

static int take_one(struct cq *cq, bool look)
{
    int n = look ? post_take(cq, 1, &cq->current) : cq_take(cq, 1, &cq->current);
    if (n <= 0)
        return n < 0 ? EIO : ENOENT;
    cq->ex.wr_id = cq->current.wc.wr_id;
    cq->ex.status = cq->current.wc.status;
    return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    return attr && attr->comp_mask ? EINVAL : take_one(cq_of(ex), true);
}

static int next_poll(struct ibv_cq_ex *ex)
{
    return take_one(cq_of(ex), false);
}

static void end_poll(struct ibv_cq_ex *ex)
{
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.wc.src_qp;
}

static unsigned read_wc_flags(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
    return 0;
}

static uint8_t read_zero(struct ibv_cq_ex *ex)
{
    return 0;
}

static uint64_t read_time(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.time_ns;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *init)
{
    uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    struct pd *domain = init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? (struct pd *)init->parent_domain : NULL;
    if (!init->cqe || init->cqe > MAX_CQE || init->wc_flags & ~(uint64_t)CQ_FLAGS || init->comp_mask & ~known ||
        init->comp_vector >= (uint32_t)ibv->num_comp_vectors || (domain && !domain->base)) {
        errno = init->wc_flags & ~(uint64_t)CQ_FLAGS ? EOPNOTSUPP : EINVAL;
        return NULL;
    }
    engine_lock();
    struct cq *cq = cq_create(context_of(ibv), init->cqe, (struct event_channel *)init->channel, init->cq_context);
    if (cq)
        cq->extended = true;
    if (cq && domain) {
        cq->domain = domain;
        domain->users++;
    }
    engine_unlock();
    if (!cq)
        return NULL;
    struct ibv_cq_ex *ex = &cq->ex;
    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_byte_len = read_byte_len;
    ex->read_imm_data = read_imm_data;
    ex->read_qp_num = read_qp_num;
    ex->read_src_qp = read_src_qp;
    ex->read_wc_flags = read_wc_flags;
    ex->read_slid = read_slid;
    ex->read_sl = read_zero;
    ex->read_dlid_path_bits = read_zero;
    ex->read_completion_ts = read_time;
    ex->read_completion_wallclock_ns = read_time;
    return ex;
}

void extended_set_ops(struct verbs_context *verbs)
{
    verbs->create_qp_ex = create_qp_ex;
    verbs->create_srq_ex = create_srq_ex;
    verbs->create_cq_ex = create_cq_ex;
}
