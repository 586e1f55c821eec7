/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of requests: what they are, how they complete, and how long an acknowledgement is awaited. */
#include "verbs/requester.h"
#include "verbs/cq.h"
#include "verbs/window.h"

#define TIMEOUT_UNIT_NS 4096ull /* times 2^timeout */

static const enum ibv_wc_opcode wc_opcodes[] = {
    [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
    [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
    [IBV_WR_SEND] = IBV_WC_SEND,
    [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
    [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
    [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
    [IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
    [IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
    [IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
    [WR_FLUSH] = WC_FLUSH,
    [IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};

bool requester_is_atomic(const struct send_wqe *wqe)
{
    return wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool requester_is_read(const struct send_wqe *wqe)
{
    return wqe->opcode == IBV_WR_RDMA_READ || requester_is_dataless(wqe) || requester_is_atomic(wqe);
}

bool requester_is_dataless(const struct send_wqe *wqe)
{
    return wqe->opcode == IBV_WR_ATOMIC_WRITE || wqe->opcode == WR_FLUSH;
}

bool requester_is_local(const struct send_wqe *wqe)
{
    return wqe->opcode == IBV_WR_BIND_MW || wqe->opcode == IBV_WR_LOCAL_INV;
}

void requester_act(struct qp *qp, struct send_wqe *wqe)
{
    struct window_bind bind = {wqe->qpn, wqe->rkey, wqe->qkey, wqe->remote, wqe->compare, (unsigned)wqe->swap_add};
    bool good = wqe->opcode == IBV_WR_BIND_MW ? window_bind(qp, &bind) : window_invalidate(qp, wqe->imm);
    if (!good)
        wqe->status = IBV_WC_MW_BIND_ERR;
}

void requester_push(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status)
{
    struct ibv_wc wc = {
        .wr_id = wqe->wr_id, .status = status, .qp_num = qp_number(qp), .opcode = wc_opcodes[wqe->opcode]};
    wc.vendor_err =
        status == IBV_WC_SUCCESS ? 0 : 0x50 + status; /* nonzero, as adapters have it; the meaning is ours */
    wc.byte_len = wqe->length;
    cq_push((struct cq *)qp_ibv(qp)->send_cq, &wc, false);
}

void requester_finish_head(struct qp *qp)
{
    struct send_wqe *wqe = qp_send_wqe(qp, qp->req.head++);
    if (wqe->signaled)
        requester_push(qp, wqe, IBV_WC_SUCCESS);
}

void requester_flush(struct qp *qp)
{
    struct requester *req = &qp->req;
    while (req->head != req->tail)
        requester_push(qp, qp_send_wqe(qp, req->head++), IBV_WC_WR_FLUSH_ERR);
    req->next = req->tail;
    req->offset = 0;
    req->read_head = req->read_tail;
    req->ack_deadline = req->rnr_deadline = 0;
}

uint64_t requester_timeout(const struct qp *qp)
{
    return TIMEOUT_UNIT_NS << (qp->attr.timeout & 31);
}
