/* SPDX-License-Identifier: Apache-2.0 */
/* The ibv_wr_* calls: requests are built in the send queue between start and complete, behind those that the engine
 * knows of. */
#include "verbs/engine.h"
#include "verbs/extended.h"
#include "verbs/mr.h"
#include "verbs/post.h"
#include "verbs/qp.h"
#include "verbs/requester.h"

#include <errno.h>
#include <string.h>

static struct qp *of(struct ibv_qp_ex *ex)
{
    return (struct qp *)ex;
}

static void start(struct ibv_qp_ex *ex)
{
    qp_build(of(ex), true);
    of(ex)->building_from = 0;
    engine_lock();
    of(ex)->building_error = post_allowed(of(ex));
    engine_unlock();
}

static int complete(struct ibv_qp_ex *ex)
{
    struct qp *qp = of(ex);
    int err = qp->building_error;
    engine_lock();
    post_publish(qp, err ? 0 : qp->building_from);
    engine_unlock();
    qp_build(qp, false);
    return err;
}

static void abort_building(struct ibv_qp_ex *ex)
{
    qp_build(of(ex), false);
}

/* The next request; the first error ends the building. */
static struct send_wqe *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct qp *qp = of(ex);
    struct send_wqe *wqe = NULL;
    if (!qp->building_error) {
        engine_lock();
        wqe = post_slot(qp, qp->building_from);
        engine_unlock();
    }
    if (!wqe) {
        qp->building_error = qp->building_error ? qp->building_error : ENOMEM;
        return NULL;
    }
    qp->building_from++;
    wqe->wr_id = ex->wr_id;
    wqe->opcode = opcode;
    wqe->flags = (enum ibv_send_flags)ex->wr_flags;
    wqe->signaled = qp->signal_all || (ex->wr_flags & IBV_SEND_SIGNALED);
    return wqe;
}

static struct send_wqe *begin_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote)
{
    bool reads = opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
    bool new = opcode == IBV_WR_ATOMIC_WRITE || opcode == WR_FLUSH;
    if (qp_is(of(ex), IBV_QPT_UD) || (reads && !qp_is_reliable(of(ex))) || (new && !qp_is(of(ex), IBV_QPT_RC)))
        of(ex)->building_error = EINVAL;
    struct send_wqe *wqe = begin(ex, opcode);
    if (wqe) {
        wqe->rkey = rkey;
        wqe->remote = remote;
    }
    return wqe;
}

static void wr_send(struct ibv_qp_ex *ex)
{
    begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    struct send_wqe *wqe = begin(ex, IBV_WR_SEND_WITH_IMM);
    if (wqe)
        wqe->imm = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
    begin_remote(ex, IBV_WR_RDMA_WRITE, rkey, remote);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, __be32 imm)
{
    struct send_wqe *wqe = begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote);
    if (wqe)
        wqe->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
    begin_remote(ex, IBV_WR_RDMA_READ, rkey, remote);
}

static void wr_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, uint64_t compare, uint64_t swap)
{
    struct send_wqe *wqe = begin_remote(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote);
    if (!wqe)
        return;
    wqe->compare = compare;
    wqe->swap_add = swap;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    struct send_wqe *wqe = begin_remote(ex, IBV_WR_SEND_WITH_INV, 0, 0);
    if (wqe)
        wqe->imm = rkey;
}

static struct send_wqe *begin_local(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    if (qp_is(of(ex), IBV_QPT_UD))
        of(ex)->building_error = EINVAL;
    return begin(ex, opcode);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    struct send_wqe *wqe = begin_local(ex, IBV_WR_LOCAL_INV);
    if (wqe)
        wqe->imm = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    if (mw->type != IBV_MW_TYPE_2)
        of(ex)->building_error = EINVAL;
    struct send_wqe *wqe = begin_local(ex, IBV_WR_BIND_MW);
    if (wqe)
        post_take_bind(wqe, mw, rkey, info);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, const void *value)
{
    struct send_wqe *wqe = begin_remote(ex, IBV_WR_ATOMIC_WRITE, rkey, remote);
    if (!wqe)
        return;
    memcpy(wqe->eight, value, sizeof(wqe->eight));
    wqe->inlined = wqe->eight;
    wqe->length = sizeof(wqe->eight);
}

/* As data, a FLUSH has none. */
static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, size_t size, uint8_t type, uint8_t level)
{
    bool right = size <= UINT32_MAX && type <= FLUSH_TYPE && level <= 3;
    struct send_wqe *wqe = right ? begin_remote(ex, WR_FLUSH, rkey, remote) : NULL;
    if (!right)
        of(ex)->building_error = EINVAL;
    if (!wqe)
        return;
    wqe->compare = size;
    wqe->imm = (uint32_t)level << 4 | type;
}

static void wr_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, uint64_t add)
{
    struct send_wqe *wqe = begin_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote);
    if (wqe)
        wqe->swap_add = add;
}

/* The request being built, NULL after an error. */
static struct send_wqe *current(struct ibv_qp_ex *ex, uint32_t *index)
{
    struct qp *qp = of(ex);
    *index = qp->req.tail + qp->building_from - 1;
    return qp->building_error || !qp->building_from ? NULL : qp_send_wqe(qp, *index);
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
    uint32_t index;
    struct send_wqe *wqe = current(ex, &index);
    if (wqe)
        wqe->srqn = srqn;
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    uint32_t index;
    struct send_wqe *wqe = current(ex, &index);
    if (!wqe)
        return;
    wqe->path = ((struct ah *)ah)->path;
    wqe->qpn = qpn & QPN_MASK;
    wqe->qkey = qkey;
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
    struct qp *qp = of(ex);
    uint32_t index;
    struct send_wqe *wqe = current(ex, &index);
    if (!wqe)
        return;
    if (n > qp->req.max_sge || sgl_size(list, (int)n) > MAX_MSG_SIZE) {
        qp->building_error = EINVAL;
        return;
    }
    wqe->count = (int)n;
    wqe->length = (uint32_t)sgl_size(list, (int)n);
    if (n)
        memcpy(qp_send_sges(qp, index), list, n * sizeof(*list));
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t address, uint32_t length)
{
    struct ibv_sge sge = {address, length, lkey};
    set_sge_list(ex, 1, &sge);
}

static void set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
    struct ibv_sge sges[MAX_SGE];
    uint32_t index;
    struct send_wqe *wqe = current(ex, &index);
    if (!wqe)
        return;
    bool fits = n <= MAX_SGE;
    for (size_t i = 0; i < n && fits; i++) {
        fits = list[i].length <= MAX_INLINE;
        sges[i] = (struct ibv_sge){(uintptr_t)list[i].addr, (uint32_t)list[i].length, 0};
    }
    of(ex)->building_error = fits ? post_inline(of(ex), wqe, index, sges, (int)n) : EINVAL;
}

static void set_inline_data(struct ibv_qp_ex *ex, void *address, size_t length)
{
    struct ibv_data_buf one = {address, length};
    set_inline_data_list(ex, 1, &one);
}

void extended_set_wr(struct qp *qp)
{
    struct ibv_qp_ex *ex = &qp->ex;
    ex->wr_start = start;
    ex->wr_complete = complete;
    ex->wr_abort = abort_building;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_atomic_cmp_swp = wr_cmp_swp;
    ex->wr_atomic_fetch_add = wr_fetch_add;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_atomic_write = wr_atomic_write;
    qp->wr_flush = wr_flush;
    _Static_assert(offsetof(struct qp, wr_flush) == offsetof(struct qp, ex) + sizeof(qp->ex), "as in <verbs.h>");
    ex->wr_set_ud_addr = set_ud_addr;
    ex->wr_set_xrc_srqn = set_xrc_srqn;
    ex->wr_set_sge = set_sge;
    ex->wr_set_sge_list = set_sge_list;
    ex->wr_set_inline_data = set_inline_data;
    ex->wr_set_inline_data_list = set_inline_data_list;
}
