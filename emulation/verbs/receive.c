/* SPDX-License-Identifier: Apache-2.0 */
/* Receive queues, and the receiving half of the unreliable services. */
#include "verbs/counters.h"
#include "verbs/cq.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

#include <string.h>

/* Drops the message in progress; its receive is used for the next one. */
static void drop_message(struct qp *qp)
{
    qp->resp.in_message = false;
}

static void finish_uc(struct qp *qp, const struct packet *packet, bool write)
{
    struct responder *resp = &qp->resp;
    struct ibv_wc wc = {.wr_id = resp->wqe.wr_id, .byte_len = resp->received, .qp_num = qp_number(qp)};
    wc.src_qp = qp->attr.dest_qp_num;
    wc.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    if (packet_flags(packet->opcode) & HAS_IMM) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = packet->imm;
    }
    resp->have_wqe = false;
    responder_complete(qp, &wc, packet->solicited);
}

static bool get_wqe(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    if (!resp->have_wqe)
        resp->have_wqe = responder_take_wqe(qp, &resp->wqe, resp->sges);
    if (!resp->have_wqe)
        count(dropped_no_receive);
    return resp->have_wqe;
}

static void uc_fault(struct qp *qp, enum ibv_wc_status status)
{
    struct ibv_wc wc = {.wr_id = qp->resp.wqe.wr_id, .status = status, .opcode = IBV_WC_RECV, .qp_num = qp_number(qp)};
    wc.vendor_err = 0x50 + status;
    qp->resp.have_wqe = false;
    responder_complete(qp, &wc, false);
    qp_fail(qp, IBV_EVENT_QP_REQ_ERR);
}

static bool uc_send(struct qp *qp, const struct packet *packet, unsigned flags)
{
    struct responder *resp = &qp->resp;
    if (flags & HAS_FIRST)
        resp->received = 0;
    if (!get_wqe(qp))
        return false;
    if ((uint64_t)resp->received + packet->length > sgl_size(resp->sges, resp->wqe.count)) {
        uc_fault(qp, IBV_WC_LOC_LEN_ERR);
        return false;
    }
    if (sgl_write(qp_pd(qp), resp->sges, resp->wqe.count, resp->received, packet->payload, packet->length)) {
        uc_fault(qp, IBV_WC_LOC_PROT_ERR);
        return false;
    }
    resp->received += packet->length;
    if (flags & HAS_LAST)
        finish_uc(qp, packet, false);
    return true;
}

static bool uc_write(struct qp *qp, const struct packet *packet, unsigned flags)
{
    struct responder *resp = &qp->resp;
    if (flags & HAS_FIRST) {
        resp->va = packet->va;
        resp->rkey = packet->rkey;
        resp->left = resp->received = packet->dma_length;
    }
    bool wrong = packet->length > resp->left || ((flags & HAS_LAST) && packet->length != resp->left);
    struct mr *mr = resp->left ? mr_find_for_peer(qp, resp->rkey, resp->va, resp->left, IBV_ACCESS_REMOTE_WRITE) : NULL;
    if (wrong || (resp->left && !mr) || !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) {
        count(access_error);
        return false;
    }
    if ((flags & HAS_IMM) && !get_wqe(qp))
        return false;
    if (packet->length && mr_write(mr, resp->va, packet->payload, packet->length))
        return false;
    resp->va += packet->length;
    resp->left -= packet->length;
    if (flags & HAS_IMM)
        finish_uc(qp, packet, true);
    return true;
}

/* A gap ends the message in progress; the next first packet begins anew. */
void responder_uc(struct qp *qp, const struct packet *packet)
{
    struct responder *resp = &qp->resp;
    unsigned flags = packet_flags(packet->opcode);
    if (packet->psn != resp->psn) {
        count(out_of_sequence);
        drop_message(qp);
    }
    bool continues = resp->in_message &&
                     (packet_flags((uint8_t)resp->last) & (HAS_SEND | HAS_WRITE)) == (flags & (HAS_SEND | HAS_WRITE));
    resp->psn = psn_add(packet->psn, 1);
    bool wrong_size = packet->length > qp->mtu || (!(flags & HAS_LAST) && packet->length != qp->mtu);
    if ((!(flags & HAS_FIRST) && !continues) || wrong_size) {
        drop_message(qp);
        return;
    }
    bool good = flags & HAS_SEND ? uc_send(qp, packet, flags) : uc_write(qp, packet, flags);
    resp->in_message = good && !(flags & HAS_LAST);
    resp->last = OPERATION(packet->opcode);
}

/* The first 40 bytes of a datagram's buffer: the IPv6 header, or 20 bytes of nothing and the IPv4 header. */
static void make_grh(const struct arrival *arrival, uint8_t *out)
{
    memset(out, 0, PACKET_GRH_SIZE);
    memcpy(out + PACKET_GRH_SIZE - arrival->ip_size, arrival->ip, arrival->ip_size);
}

static enum ibv_wc_status store_datagram(struct qp *qp, const struct recv_wqe *wqe, const struct ibv_sge *sges,
                                         const struct packet *packet, const struct arrival *arrival)
{
    uint8_t grh[PACKET_GRH_SIZE];
    if ((uint64_t)packet->length + sizeof(grh) > sgl_size(sges, wqe->count))
        return IBV_WC_LOC_LEN_ERR;
    make_grh(arrival, grh);
    if (sgl_write(qp_pd(qp), sges, wqe->count, 0, grh, sizeof(grh)) ||
        sgl_write(qp_pd(qp), sges, wqe->count, sizeof(grh), packet->payload, packet->length))
        return IBV_WC_LOC_PROT_ERR;
    return IBV_WC_SUCCESS;
}

void responder_ud(struct qp *qp, const struct packet *packet, const struct arrival *arrival)
{
    struct recv_wqe wqe;
    struct ibv_sge sges[MAX_SGE];
    if (packet->qkey != qp->attr.qkey) {
        count(dropped_qkey);
        return;
    }
    if (!responder_take_wqe(qp, &wqe, sges)) {
        count(dropped_no_receive);
        return;
    }
    struct ibv_wc wc = {
        .wr_id = wqe.wr_id, .opcode = IBV_WC_RECV, .qp_num = qp_number(qp), .src_qp = packet->source_qpn};
    wc.status = store_datagram(qp, &wqe, sges, packet, arrival);
    wc.byte_len = packet->length + PACKET_GRH_SIZE;
    wc.sl = arrival->flow.v6 ? 1 : 2; /* on RoCE mlx5 tells the kind of IP header here, and UCX reads it */
    wc.wc_flags = IBV_WC_GRH;
    if (packet_flags(packet->opcode) & HAS_IMM) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm_data = packet->imm;
    }
    responder_complete(qp, &wc, packet->solicited);
    if (wc.status != IBV_WC_SUCCESS)
        qp_fail(qp, IBV_EVENT_QP_FATAL);
}
