/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to a reliable requester: acknowledgements, negative ones, read and atomic responses; timers and going back.
 * Source: InfiniBand specification volume 1, sections 9.7.5 and 9.7.6 (timeouts, retry counters, RNR). */
#include "verbs/counters.h"
#include "verbs/cq.h"
#include "verbs/engine.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/requester.h"
#include "verbs/wire_hop.h"

#include "base/clock.h"

#include <net/if_arp.h>

#define RNR_FOR_EVER   7
#define GOBACK_HOLD_NS (2 * NS_PER_MS)

/* The 5-bit code of an RNR NAK, in units of 10 us. */
static const uint16_t rnr_delays[32] = {65536 - 1, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                        48,        64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                        2048,      3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

/* Where in the queue a PSN is: sets next and offset. */
static void locate(struct qp *qp, uint32_t psn)
{
    struct requester *req = &qp->req;
    uint32_t i = req->head;
    for (; i != req->tail; i++) {
        struct send_wqe *wqe = qp_send_wqe(qp, i);
        if (wqe->state == WQE_POSTED || wqe->status != IBV_WC_SUCCESS ||
            psn_diff(psn, psn_add(wqe->first_psn, wqe->packets)) < 0)
            break;
    }
    req->next = i;
    req->offset = i != req->tail && qp_send_wqe(qp, i)->state != WQE_POSTED
                      ? (uint32_t)psn_diff(psn, qp_send_wqe(qp, i)->first_psn)
                      : 0;
    req->psn = psn;
}

static void go_back(struct qp *qp, uint32_t psn)
{
    struct requester *req = &qp->req;
    while (req->read_tail != req->read_head &&
           psn_diff(req->reads[(req->read_tail - 1) % req->read_capacity].end, psn) > 0)
        req->read_tail--;
    locate(qp, psn);
    engine_mark(qp);
}

static void shrink(struct requester *req)
{
    req->window = req->window / 2 > WINDOW_MIN ? req->window / 2 : WINDOW_MIN;
    req->window_credit = 0;
}

static void grow(struct qp *qp, uint32_t acked)
{
    struct requester *req = &qp->req;
    uint32_t most = qp->context->device->hardware == ARPHRD_LOOPBACK ? WINDOW_LOCAL : WINDOW_MAX;
    req->window_credit += acked;
    while (req->window_credit > req->window / 4) {
        req->window_credit -= req->window / 4 + 1; /* before the window grows: never more than there is */
        req->window += req->window < most;
    }
}

void requester_finish_acked(struct qp *qp)
{
    struct requester *req = &qp->req;
    while (req->head != req->tail) {
        struct send_wqe *wqe = qp_send_wqe(qp, req->head);
        if (wqe->state == WQE_POSTED || wqe->status != IBV_WC_SUCCESS ||
            psn_diff(req->unacked, psn_add(wqe->first_psn, wqe->packets)) < 0)
            break;
        requester_finish_head(qp);
    }
}

/* Everything before `psn` is done. */
static void advance(struct qp *qp, uint32_t psn, uint64_t now)
{
    struct requester *req = &qp->req;
    int32_t acked = psn_diff(psn, req->unacked);
    if (acked <= 0)
        return;
    req->unacked = psn;
    req->retry_left = qp->attr.retry_cnt;
    req->rnr_left = qp->attr.rnr_retry;
    req->ack_deadline = psn == req->highest || !qp->attr.timeout ? 0 : now + requester_timeout(qp);
    grow(qp, (uint32_t)acked);
    bool behind = psn_diff(psn, req->psn) > 0;
    requester_finish_acked(qp);
    if (behind)
        locate(qp, psn);
    engine_mark(qp);
}

static const struct pending_read *first_read(const struct requester *req)
{
    return req->read_head == req->read_tail ? NULL : &req->reads[req->read_head % req->read_capacity];
}

/* An answer to something later proves that this one was lost. Told once: more proofs are on their way. */
static void implied_loss(struct qp *qp, uint64_t now)
{
    struct requester *req = &qp->req;
    if (req->goback_psn == req->unacked && now < req->goback_until)
        return;
    count(implied_nak);
    req->goback_psn = req->unacked;
    req->goback_until = now + GOBACK_HOLD_NS;
    shrink(req);
    go_back(qp, req->unacked);
}

/* Where the first read that lacks data begins, if that is before `end`, else `end`. A read that waits to be sent again
 * counts. */
static uint32_t before_reads(const struct qp *qp, uint32_t end)
{
    const struct requester *req = &qp->req;
    for (uint32_t i = req->head; i != req->tail; i++) {
        const struct send_wqe *wqe = qp_send_wqe((struct qp *)qp, i);
        if (wqe->state == WQE_POSTED || psn_diff(wqe->first_psn, end) >= 0)
            break;
        if (requester_is_read(wqe))
            return psn_diff(wqe->first_psn, req->unacked) > 0 ? wqe->first_psn : req->unacked;
    }
    return end;
}

/* Everything before `end` is acknowledged, as far as no read before it still lacks its data. */
static bool acknowledge(struct qp *qp, uint32_t end, uint64_t now)
{
    uint32_t limit = before_reads(qp, end);
    advance(qp, limit, now);
    if (limit == end)
        return true;
    implied_loss(qp, now);
    return false;
}

static void sequence_nak(struct qp *qp, uint32_t psn, uint64_t now)
{
    struct requester *req = &qp->req;
    if (!acknowledge(qp, psn, now) || req->unacked != psn || qp->state == IBV_QPS_ERR)
        return;
    if (!req->retry_left) {
        count(retry_exceeded);
        requester_complete(qp, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    req->retry_left--;
    shrink(req);
    go_back(qp, psn);
}

static void receiver_not_ready(struct qp *qp, const struct packet *packet, uint64_t now)
{
    struct requester *req = &qp->req;
    count(rnr_nak_received);
    if (!acknowledge(qp, packet->psn, now) || req->unacked != packet->psn || req->rnr_deadline)
        return;
    if (!req->rnr_left) {
        requester_complete(qp, IBV_WC_RNR_RETRY_EXC_ERR);
        return;
    }
    if (req->rnr_left != RNR_FOR_EVER)
        req->rnr_left--;
    req->rnr_deadline = now + rnr_delays[packet->syndrome & SYNDROME_VALUE] * 10 * NS_PER_US;
    req->ack_deadline = 0;
    go_back(qp, packet->psn);
    engine_arm(qp, req->rnr_deadline);
}

static void negative(struct qp *qp, const struct packet *packet, uint64_t now)
{
    static const enum ibv_wc_status statuses[] = {
        [NAK_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
        [NAK_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
        [NAK_REMOTE_OPERATION] = IBV_WC_REM_OP_ERR,
    };
    unsigned code = packet->syndrome & SYNDROME_VALUE;
    count(nak_received);
    if (code == NAK_SEQUENCE) {
        count(nak_sequence);
        sequence_nak(qp, packet->psn, now);
    } else if (code <= NAK_REMOTE_OPERATION) {
        advance(qp, packet->psn, now);
        requester_complete(qp, statuses[code]);
    } else {
        requester_complete(qp, IBV_WC_BAD_RESP_ERR);
    }
}

/* A response answers all earlier requests too, and must continue exactly where the last one ended. */
static bool expected(struct qp *qp, const struct packet *packet, uint64_t now)
{
    struct requester *req = &qp->req;
    const struct pending_read *read = first_read(req);
    uint32_t want = read && psn_diff(read->first, req->unacked) > 0 ? read->first : req->unacked;
    int32_t ahead = psn_diff(packet->psn, want);
    if (!read || ahead < 0 || psn_diff(packet->psn, req->highest) >= 0) {
        count(dropped_answer);
        return false;
    }
    advance(qp, want, now);
    if (ahead > 0)
        implied_loss(qp, now);
    return ahead == 0;
}

/* One part of the data of the oldest request is here: store it and step on. */
static void take_data(struct qp *qp, uint32_t end, uint64_t offset, const void *data, uint32_t size, uint64_t now)
{
    struct requester *req = &qp->req;
    struct send_wqe *wqe = qp_send_wqe(qp, req->head);
    if (sgl_write(qp_pd(qp), qp_send_sges(qp, req->head), wqe->count, offset, data, size)) {
        requester_complete(qp, IBV_WC_LOC_PROT_ERR);
        return;
    }
    if (end == req->reads[req->read_head % req->read_capacity].end) {
        req->read_head++;
        if (req->next != req->tail)
            engine_hurry(qp); /* or else the peer answers all that it was asked, and then waits */
    }
    advance(qp, end, now);
}

static void read_response(struct qp *qp, const struct packet *packet, uint64_t now)
{
    struct requester *req = &qp->req;
    if (!expected(qp, packet, now) || req->head == req->tail)
        return;
    struct send_wqe *wqe = qp_send_wqe(qp, req->head);
    uint64_t offset = (uint64_t)psn_diff(packet->psn, wqe->first_psn) * qp->mtu;
    uint64_t left = offset <= wqe->length ? wqe->length - offset : 0;
    uint32_t end = psn_add(packet->psn, packet->span), most = packet->span * qp->mtu;
    bool long_one = psn_diff(end, first_read(req)->end) > 0;
    if (requester_is_dataless(wqe))
        left = 0; /* an answer without data */
    else if (wqe->opcode != IBV_WR_RDMA_READ)
        long_one = true;
    if (long_one || packet->length != (left < most ? left : most)) {
        requester_complete(qp, IBV_WC_BAD_RESP_ERR);
        return;
    }
    take_data(qp, end, offset, packet->payload, packet->length, now);
}

static void atomic_response(struct qp *qp, const struct packet *packet, uint64_t now)
{
    struct requester *req = &qp->req;
    if (!expected(qp, packet, now) || req->head == req->tail)
        return;
    struct send_wqe *wqe = qp_send_wqe(qp, req->head);
    if (!requester_is_atomic(wqe)) {
        requester_complete(qp, IBV_WC_BAD_RESP_ERR);
        return;
    }
    uint64_t original = packet->original;
    take_data(qp, psn_add(packet->psn, 1), 0, &original, sizeof(original), now);
}

void requester_answer(struct qp *qp, const struct packet *packet, uint64_t now)
{
    struct requester *req = &qp->req;
    bool stale = psn_diff(packet->psn, req->highest) >= 0 || psn_diff(packet->psn, req->unacked) < 0;
    if (stale || (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)) {
        count(dropped_answer);
        return;
    }
    enum operation op = OPERATION(packet->opcode);
    if (op == OP_ATOMIC_ACK)
        atomic_response(qp, packet, now);
    else if (op != OP_ACK)
        read_response(qp, packet, now);
    else if ((packet->syndrome & SYNDROME_KIND) == SYNDROME_ACK)
        acknowledge(qp, psn_add(packet->psn, 1), now);
    else if ((packet->syndrome & SYNDROME_KIND) == SYNDROME_RNR)
        receiver_not_ready(qp, packet, now);
    else if ((packet->syndrome & SYNDROME_KIND) == SYNDROME_NAK)
        negative(qp, packet, now);
    else
        count(dropped_answer);
}

static void time_out(struct qp *qp, uint64_t now)
{
    struct requester *req = &qp->req;
    count(ack_timeout);
    wire_hop_forget(); /* the way may have changed: the kernel knows */
    if (!req->retry_left) {
        count(retry_exceeded);
        requester_complete(qp, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    req->retry_left--;
    req->ack_deadline = now + requester_timeout(qp);
    for (uint32_t i = req->head; i != req->next; i++)
        if (qp_send_wqe(qp, i)->opcode == WR_FLUSH) {
            req->twice = !req->twice;
            break;
        }
    shrink(req);
    go_back(qp, req->unacked);
}

uint64_t requester_timer(struct qp *qp, uint64_t now)
{
    struct requester *req = &qp->req;
    if (req->rnr_deadline && now >= req->rnr_deadline) {
        req->rnr_deadline = 0;
        engine_mark(qp);
    }
    if (req->ack_deadline && now >= req->ack_deadline && wire_waits(qp->context->device))
        req->ack_deadline = now + requester_timeout(qp); /* what was sent has not left yet */
    else if (req->ack_deadline && now >= req->ack_deadline)
        time_out(qp, now);
    if (req->rnr_deadline && req->ack_deadline)
        return req->rnr_deadline < req->ack_deadline ? req->rnr_deadline : req->ack_deadline;
    return req->rnr_deadline ? req->rnr_deadline : req->ack_deadline;
}
