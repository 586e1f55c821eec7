/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half: cuts requests into packets and numbers them. A reliable queue pair keeps a window of packets in
 * flight. It goes back to the first missing one when it is told so or when time runs out. requester_rc.c takes the
 * answers. Source: InfiniBand specification volume 1, sections 9.7.1 to 9.7.5. */
#include "verbs/requester.h"
#include "verbs/counters.h"
#include "verbs/cq.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/pace.h"
#include "verbs/qp.h"

#include <string.h>

#define BUDGET    64                       /* packets of an unacknowledged service in one go */
#define ACK_EVERY (4 * WIRE_SUPER_PACKETS) /* in a stream one packet in this number asks for an acknowledgement */

/* What cannot be done whatever the peer says. */
static enum ibv_wc_status check(const struct qp *qp, const struct send_wqe *wqe, const struct ibv_sge *sges)
{
    bool takes = requester_is_read(wqe) && !requester_is_dataless(wqe);
    int access = takes ? IBV_ACCESS_LOCAL_WRITE : 0;
    if (requester_is_read(wqe) && !qp->req.read_capacity)
        return IBV_WC_LOC_QP_OP_ERR;
    if (wqe->length > MAX_MSG_SIZE ||
        ((requester_is_atomic(wqe) || wqe->opcode == IBV_WR_ATOMIC_WRITE) && wqe->length != 8) ||
        (qp_is(qp, IBV_QPT_UD) && wqe->length > qp->mtu))
        return IBV_WC_LOC_LEN_ERR;
    if (!wqe->inlined && !sgl_valid(qp_pd(qp), sges, wqe->count, access))
        return IBV_WC_LOC_PROT_ERR;
    return IBV_WC_SUCCESS;
}

static void start(struct qp *qp, struct send_wqe *wqe)
{
    wqe->state = WQE_STARTED;
    wqe->status = check(qp, wqe, qp_send_sges(qp, qp->req.next));
    wqe->first_psn = qp->req.psn;
    wqe->packets = requester_is_local(wqe)                              ? 0
                   : requester_is_atomic(wqe) || wqe->length <= qp->mtu ? 1
                                                                        : (wqe->length + qp->mtu - 1) / qp->mtu;
    wqe->apart = wqe->opcode == IBV_WR_RDMA_WRITE && qp_is(qp, IBV_QPT_RC) && wire_joins() && !qp->hands;
}

struct requester_source {
    struct qp *qp;
    const struct send_wqe *wqe;
    const struct ibv_sge *sges;
    uint64_t offset;
};

static int fill(void *arg, uint8_t *to, uint32_t size, uint32_t *crc)
{
    const struct requester_source *source = arg;
    if (!source->wqe->inlined)
        return sgl_read(qp_pd(source->qp), source->sges, source->wqe->count, source->offset, to, size, crc);
    *crc = icrc_copy(*crc, to, source->wqe->inlined + source->offset, size);
    return 0;
}

/* The opcode for the part of a SEND or WRITE that begins at packet `offset` and has `packets` packets. */
static uint8_t part_opcode(const struct send_wqe *wqe, uint32_t offset, uint32_t packets)
{
    bool inv = wqe->opcode == IBV_WR_SEND_WITH_INV;
    bool send = wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM || inv;
    bool imm = wqe->opcode == IBV_WR_SEND_WITH_IMM || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    bool first = wqe->apart || offset == 0, last = wqe->apart || offset + packets == wqe->packets;
    if (inv && last)
        return first ? OP_SEND_ONLY_INV : OP_SEND_LAST_INV;
    unsigned base = send ? OP_SEND_FIRST : OP_WRITE_FIRST;
    unsigned step = first && last ? 4u + imm : last ? 2u + imm : first ? 0 : 1;
    return (uint8_t)(base + step);
}

static uint8_t service_of(const struct qp *qp)
{
    return qp_is(qp, IBV_QPT_RC)         ? SERVICE_RC
           : qp_is(qp, IBV_QPT_UC)       ? SERVICE_UC
           : qp_is(qp, IBV_QPT_XRC_SEND) ? SERVICE_XRC
                                         : SERVICE_UD;
}

static bool may_start(const struct qp *qp)
{
    return qp->state == IBV_QPS_RTS && !qp->req.draining && !wire_waits(qp->context->device);
}

static bool read_fits(const struct requester *req)
{
    return req->read_tail - req->read_head < req->read_capacity;
}

/* Whether the request behind the one being sent is certain to leave right after it, so that its acknowledgement serves
 * both. */
static bool another_follows(struct qp *qp)
{
    const struct requester *req = &qp->req;
    uint32_t index = req->next + 1;
    if (index == req->tail)
        return false;
    const struct send_wqe *wqe = qp_send_wqe(qp, index);
    if (wqe->state != WQE_POSTED)
        return !requester_is_local(wqe) && wqe->status == IBV_WC_SUCCESS && (!requester_is_read(wqe) || read_fits(req));
    if (requester_is_local(wqe) || !may_start(qp) || (wqe->flags & IBV_SEND_FENCE) ||
        (requester_is_read(wqe) && !read_fits(req)))
        return false;
    return check(qp, wqe, qp_send_sges(qp, index)) == IBV_WC_SUCCESS;
}

/* The peer acknowledges what it is asked to: the last packet before a pause, and in a stream one now and then. */
static bool wants_ack(struct qp *qp, uint32_t packets, bool last)
{
    struct requester *req = &qp->req;
    bool full = psn_add(req->psn, packets) == req->until;
    req->unasked += packets;
    bool pauses = req->turn.on && req->turn.left <= (size_t)packets * qp->mtu;
    bool wants = req->unasked >= ACK_EVERY || full || pauses || (last && !another_follows(qp));
    if (wants)
        req->unasked = 0;
    return wants;
}

/* How many packets of the request may be handed over at once; fewer than two are sent. */
static uint32_t handable(struct qp *qp, const struct send_wqe *wqe, struct transport_pieces *to)
{
    const struct requester *req = &qp->req;
    uint32_t packets = wqe->packets - req->offset, room = (uint32_t)psn_diff(req->until, req->psn);
    if (!qp->hands || wqe->inlined || psn_diff(req->psn, req->highest) < 0) /* what is sent again is sent by packets */
        return 1;
    packets = packets < room ? packets : room;
    packets = packets < HAND_PACKETS ? packets : HAND_PACKETS;
    uint64_t done = (uint64_t)req->offset * qp->mtu, left = wqe->length - done, bytes = (uint64_t)packets * qp->mtu;
    to->n = sgl_pieces(qp_pd(qp), qp_send_sges(qp, req->next), wqe->count, done, bytes < left ? bytes : left,
                       to->pieces, HAND_PIECES);
    return to->n ? packets : 1;
}

/* The next part of a SEND or a WRITE. The number of packets that it is, 0 when the memory cannot be read. */
static uint32_t send_part(struct qp *qp, struct send_wqe *wqe)
{
    struct requester *req = &qp->req;
    struct transport_pieces handed;
    uint32_t packets = handable(qp, wqe, &handed);
    uint64_t done = (uint64_t)req->offset * qp->mtu, left = wqe->length - done;
    uint32_t size = left < qp->mtu ? (uint32_t)left : qp->mtu;
    bool last = req->offset + packets == wqe->packets, datagram = qp_is(qp, IBV_QPT_UD);
    struct packet packet = {
        .opcode = (packets > 1 ? SERVICE_HAND : service_of(qp)) | part_opcode(wqe, req->offset, packets),
        .qpn = datagram ? wqe->qpn : qp->attr.dest_qp_num,
        .psn = req->psn,
        .solicited = last && (wqe->flags & IBV_SEND_SOLICITED),
        .va = wqe->remote + (wqe->apart ? done : 0),
        .rkey = wqe->rkey,
        .dma_length = wqe->apart ? size : wqe->length,
        .imm = wqe->imm,
        .invalidated = wqe->imm,
        .qkey = wqe->qkey & 0x80000000u ? qp->attr.qkey : wqe->qkey,
        .source_qpn = qp_number(qp),
        .srqn = wqe->srqn,
    };
    packet.ack_request = qp_is_reliable(qp) && wants_ack(qp, packets, last);
    struct requester_source source = {qp, wqe, qp_send_sges(qp, req->next), done};
    if (packets > 1)
        return transport_send(&qp->path, &packet, (uint32_t)handed.n * HAND_REF_SIZE, transport_fill_pieces, &handed)
                   ? 0
                   : packets;
    return transport_send(datagram ? &wqe->path : &qp->path, &packet, size, fill, &source) ? 0 : 1;
}

static uint8_t request_opcode(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_RDMA_READ            ? OP_READ_REQUEST
           : opcode == IBV_WR_ATOMIC_WRITE       ? OP_ATOMIC_WRITE
           : opcode == WR_FLUSH                  ? OP_FLUSH
           : opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? OP_COMPARE_SWAP
                                                 : OP_FETCH_ADD;
}

/* A READ of at most READ_PACKETS packets, or an atomic. The number of packets that the answer has, 0 when the
 * memory cannot be read. A READ that is sent
 * again ends where it ended before: the responder repeats only what it has done. */
static uint32_t send_read(struct qp *qp, struct send_wqe *wqe)
{
    struct requester *req = &qp->req;
    uint64_t done = (uint64_t)req->offset * qp->mtu;
    uint32_t most = READ_PACKETS - req->offset % READ_PACKETS;
    uint32_t packets = wqe->packets - req->offset < most ? wqe->packets - req->offset : most;
    uint64_t bytes = (uint64_t)packets * qp->mtu, left = wqe->length - done;
    struct packet packet = {
        .opcode = service_of(qp) | request_opcode(wqe->opcode),
        .qpn = qp->attr.dest_qp_num,
        .psn = req->psn,
        .ack_request = true,
        .apart = wqe->opcode == IBV_WR_RDMA_READ,
        .va = wqe->remote + done,
        .rkey = wqe->rkey,
        .dma_length = (uint32_t)(bytes < left ? bytes : left),
        .swap_add = wqe->swap_add,
        .compare = wqe->compare,
        .flush = wqe->imm,
        .srqn = wqe->srqn,
    };
    if (wqe->opcode == WR_FLUSH) {
        packet.dma_length = (uint32_t)wqe->compare;
        packet.twice = req->twice;
    }
    struct requester_source source = {qp, wqe, qp_send_sges(qp, req->next), 0};
    bool carries = wqe->opcode == IBV_WR_ATOMIC_WRITE;
    if (transport_send(&qp->path, &packet, carries ? wqe->length : 0, fill, &source))
        return 0;
    req->reads[req->read_tail++ % req->read_capacity] = (struct pending_read){req->psn, psn_add(req->psn, packets)};
    return packets;
}

static void step(struct qp *qp, struct send_wqe *wqe, uint32_t packets)
{
    struct requester *req = &qp->req;
    if (psn_diff(req->psn, req->highest) < 0)
        count_add(sent_retransmitted, packets);
    pace_took(&req->turn, (size_t)packets * qp->mtu);
    req->psn = psn_add(req->psn, packets);
    if (psn_diff(req->psn, req->highest) > 0)
        req->highest = req->psn;
    req->offset += packets;
    if (req->offset >= wqe->packets) {
        wqe->state = WQE_SENT;
        req->next++;
        req->offset = 0;
    }
}

/* Memory that cannot be read any more ends a request before its last packet asks for an acknowledgement: the one before
 * it asks instead, once more. */
static bool give_up(struct qp *qp, struct send_wqe *wqe)
{
    struct requester *req = &qp->req;
    wqe->status = IBV_WC_LOC_PROT_ERR;
    if (req->next == req->head || psn_diff(wqe->first_psn, req->unacked) <= 0 ||
        requester_is_read(qp_send_wqe(qp, req->next - 1)) || requester_is_local(qp_send_wqe(qp, req->next - 1)))
        return false;
    req->next--;
    req->psn = psn_add(wqe->first_psn, PSN_MASK);
    req->offset = qp_send_wqe(qp, req->next)->packets - 1;
    return true;
}

/* Whether the memory of the request is not too busy. */
static bool may_touch(struct qp *qp, const struct send_wqe *wqe, uint64_t now)
{
    struct requester *req = &qp->req;
    enum pace_way way = requester_is_read(wqe) && !requester_is_dataless(wqe) ? PACE_INTO_MEMORY : PACE_OUT_OF_MEMORY;
    const struct pace *pace = wqe->inlined ? NULL : sgl_pace(qp_pd(qp), qp_send_sges(qp, req->next), wqe->count, way);
    if (pace_may(pace, way, &req->turn, now))
        return true;
    engine_arm(qp, req->turn.at);
    return false;
}

/* Sends the next packet of the next request if nothing holds it back. */
static bool send_next_rc(struct qp *qp, uint64_t now)
{
    struct requester *req = &qp->req;
    if (req->next == req->tail || psn_diff(req->psn, req->until) >= 0)
        return false;
    struct send_wqe *wqe = qp_send_wqe(qp, req->next);
    bool reads = req->read_head != req->read_tail;
    if (wqe->state == WQE_POSTED) {
        if (!may_start(qp) || (reads && (wqe->flags & IBV_SEND_FENCE)))
            return false;
        start(qp, wqe);
        if (requester_is_local(wqe))
            requester_act(qp, wqe);
    }
    if (wqe->status != IBV_WC_SUCCESS)
        return false;
    if (requester_is_local(wqe)) {
        step(qp, wqe, 0);
        requester_finish_acked(qp);
        return true;
    }
    if (!may_touch(qp, wqe, now))
        return false;
    if (!requester_is_read(wqe)) {
        uint32_t packets = send_part(qp, wqe);
        if (!packets)
            return give_up(qp, wqe);
        step(qp, wqe, packets);
        return true;
    }
    if (!read_fits(req))
        return false;
    uint32_t packets = send_read(qp, wqe);
    if (!packets)
        return give_up(qp, wqe);
    step(qp, wqe, packets);
    return true;
}

/* A request that was found bad ends when all before it are complete. */
static bool head_is_bad(const struct qp *qp)
{
    const struct requester *req = &qp->req;
    return req->head == req->next && req->head != req->tail &&
           qp_send_wqe((struct qp *)qp, req->head)->state != WQE_POSTED &&
           qp_send_wqe((struct qp *)qp, req->head)->status != IBV_WC_SUCCESS;
}

static void drained(struct qp *qp)
{
    if (qp->state != IBV_QPS_SQD || !qp->req.draining || qp->req.unacked != qp->req.highest)
        return;
    qp->req.draining = false;
    if (qp->attr.en_sqd_async_notify)
        event_qp(qp, IBV_EVENT_SQ_DRAINED);
}

/* Sets how far the window lets packets go now. In a stream whole super-packets leave, and none for a little room: the
 * packets in flight, of which the last one asks for an acknowledgement, will make more. */
static bool open_window(struct requester *req)
{
    uint32_t flying = (uint32_t)psn_diff(req->psn, req->unacked),
             room = req->window > flying ? req->window - flying : 0;
    uint32_t least = req->window / 4 < ACK_EVERY ? req->window / 4 : ACK_EVERY;
    if (flying && room < least)
        return false;
    if (flying && least)
        room -= room % least;
    req->until = psn_add(req->psn, room);
    return room;
}

static void run_rc(struct qp *qp, uint64_t now)
{
    struct requester *req = &qp->req;
    if (req->rnr_deadline || (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD))
        return;
    bool sent = false, open = !wire_waits(qp->context->device) && open_window(req);
    while (open && send_next_rc(qp, now))
        sent = true;
    if (sent && req->unacked != req->highest && !req->ack_deadline && qp->attr.timeout) {
        req->ack_deadline = now + requester_timeout(qp);
        engine_arm(qp, req->ack_deadline);
    }
    if (head_is_bad(qp))
        requester_complete(qp, qp_send_wqe(qp, req->head)->status);
    else
        drained(qp);
}

/* Unreliable services: a request is complete when it has left. An error stops the send queue only. */
static void run_unreliable(struct qp *qp, uint64_t now)
{
    struct requester *req = &qp->req;
    bool waits = false;
    for (int budget = BUDGET; budget && req->next != req->tail && may_start(qp); budget--) {
        struct send_wqe *wqe = qp_send_wqe(qp, req->next);
        if (wqe->state == WQE_POSTED)
            start(qp, wqe);
        bool local = requester_is_local(wqe);
        if (!local && (waits = !may_touch(qp, wqe, now)))
            break;
        if (local)
            requester_act(qp, wqe);
        else if (wqe->status == IBV_WC_SUCCESS && !send_part(qp, wqe))
            wqe->status = IBV_WC_LOC_PROT_ERR;
        if (wqe->status != IBV_WC_SUCCESS) {
            requester_push(qp, wqe, wqe->status);
            req->head = ++req->next;
            qp->state = IBV_QPS_SQE;
            requester_flush(qp);
            return;
        }
        uint32_t before = req->next;
        step(qp, wqe, !local);
        req->unacked = req->psn;
        if (req->next != before)
            requester_finish_head(qp);
    }
    if (!waits && req->next != req->tail && may_start(qp))
        engine_mark(qp);
    drained(qp);
}

void requester_run(struct qp *qp, uint64_t now)
{
    if (qp->state == IBV_QPS_ERR)
        requester_flush(qp);
    else if (qp_is_reliable(qp))
        run_rc(qp, now);
    else
        run_unreliable(qp, now);
}
