/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving half of a reliable queue pair: checks the order of packets, stores data, and queues answers that leave
 * in order. Source: InfiniBand specification volume 1, sections 9.7.2 to 9.7.5 and 9.9.3 (responder faults). */
#include "verbs/counters.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/pace.h"
#include "verbs/posted.h"
#include "verbs/qp.h"
#include "verbs/transport.h"
#include "verbs/window.h"
#include "verbs/xrc.h"

#include "base/clock.h"

#include <string.h>

#define READ_BURST      64                /* packets of read responses in one go */
#define REPLY_NS        (100 * NS_PER_US) /* a program's answer that comes so soon is one */
#define HOLD_NS         (50 * NS_PER_US)  /* how long an acknowledgement waits for it */
#define REPLIES_TRUSTED 4
#define REPLIES_MAX     8

static struct answer_entry *queue_answer(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    engine_mark(qp);
    if (resp->queue_tail - resp->queue_head == ANSWERS_MAX)
        return NULL;
    struct answer_entry *entry = &resp->queue[resp->queue_tail++ % ANSWERS_MAX];
    memset(entry, 0, sizeof(*entry));
    entry->srqn = resp->named ? resp->named->number : 0;
    return entry;
}

static void acknowledge(struct qp *qp)
{
    qp->resp.ack_due = true;
    qp->resp.ack_at = 0;
    engine_mark(qp);
}

/* A program that has answered the last messages with one of its own will answer this one, so the acknowledgement may
 * wait a little and leave with it: half of the packets and of the wake-ups. A second message before the answer is a
 * stream, acknowledged at once. */
static void acknowledge_message(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    uint64_t now = clock_ns();
    acknowledge(qp);
    if (resp->asked_at)
        resp->replies = 0;
    resp->asked_at = now;
    if (resp->replies >= REPLIES_TRUSTED)
        resp->ack_at = now + HOLD_NS;
}

/* The program sends something: is it an answer? */
static void note_reply(struct responder *resp, uint64_t now)
{
    if (!resp->asked_at)
        return;
    if (now - resp->asked_at >= REPLY_NS)
        resp->replies = 0;
    else if (resp->replies < REPLIES_MAX)
        resp->replies++;
    resp->asked_at = 0;
}

/* Whether the acknowledgement waits for the program's answer. */
static bool held(struct qp *qp, uint64_t now, bool replying)
{
    struct responder *resp = &qp->resp;
    if (!resp->ack_at || replying)
        return false;
    if (now < resp->ack_at) {
        engine_arm_loosely(qp, resp->ack_at);
        return true;
    }
    resp->replies = 0;
    return false;
}

static void negative(struct qp *qp, uint8_t syndrome)
{
    struct answer_entry *entry = queue_answer(qp);
    qp->resp.nak_sent = true;
    qp->resp.ack_due = false; /* a negative answer acknowledges what is before it */
    if (entry) {
        entry->kind = ANSWER_ACK;
        entry->psn = qp->resp.psn;
        entry->msn = qp->resp.msn;
        entry->syndrome = syndrome;
    }
}

static void fatal(struct qp *qp, enum nak nak, enum ibv_event_type event)
{
    count(nak_sent);
    if (nak == NAK_REMOTE_ACCESS)
        count(access_error);
    negative(qp, SYNDROME_NAK | nak);
    responder_run(qp, UINT64_MAX, false); /* the error state sends nothing any more */
    qp_fail(qp, (int)event);
}

/* A receive that is in use fails; the peer hears `nak`. */
static void fail_receive(struct qp *qp, enum ibv_wc_status status, enum nak nak)
{
    struct ibv_wc wc = {.wr_id = qp->resp.wqe.wr_id, .status = status, .opcode = IBV_WC_RECV, .qp_num = qp_number(qp)};
    wc.vendor_err = 0x50 + status;
    qp->resp.have_wqe = false;
    responder_complete(qp, &wc, false);
    fatal(qp, nak, IBV_EVENT_QP_REQ_ERR);
}

static bool need_wqe(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    if (resp->have_wqe)
        return true;
    resp->have_wqe = responder_take_wqe(qp, &resp->wqe, resp->sges);
    if (resp->have_wqe)
        return true;
    count(rnr_nak_sent);
    negative(qp, SYNDROME_RNR | (qp->attr.min_rnr_timer & SYNDROME_VALUE));
    return false;
}

static void complete_receive(struct qp *qp, const struct packet *packet, uint32_t size, bool write)
{
    struct responder *resp = &qp->resp;
    struct ibv_wc wc = {
        .wr_id = resp->wqe.wr_id, .byte_len = size, .qp_num = qp_number(qp), .src_qp = qp->attr.dest_qp_num};
    wc.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    if (packet_flags(packet->opcode) & HAS_IMM) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = packet->imm;
    }
    if (packet_flags(packet->opcode) & HAS_IETH) {
        wc.wc_flags = IBV_WC_WITH_INV;
        wc.invalidated_rkey = packet->invalidated;
    }
    resp->have_wqe = false;
    responder_complete(qp, &wc, packet->solicited);
}

/* What was written is in memory of this pair when that is through with it. */
static void wait_for_memory(struct qp *qp, const struct pace *pace)
{
    struct responder *resp = &qp->resp;
    uint64_t until = pace_through(pace, PACE_INTO_MEMORY);
    if (!until || until <= clock_ns())
        return;
    resp->all_until = until;
    if (resp->held_until)
        return;
    count(waited_for_rate);
    resp->held_until = until;
    resp->held_psn = resp->psn;
    resp->held_msn = resp->msn;
}

/* By more than an acknowledgement. */
static bool answered(const struct packet *packet, unsigned flags)
{
    return flags & (HAS_ATOMIC | HAS_ATOMIC_WRITE | HAS_FLUSH) || OPERATION(packet->opcode) == OP_READ_REQUEST;
}

/* The expected packet was taken. */
static void accepted(struct qp *qp, const struct packet *packet, unsigned flags, uint32_t packets)
{
    struct responder *resp = &qp->resp;
    resp->psn = psn_add(resp->psn, packets);
    resp->nak_sent = false;
    resp->in_message = !(flags & HAS_LAST);
    resp->last = OPERATION(packet->opcode);
    if (flags & HAS_LAST)
        resp->msn = (resp->msn + 1) & 0xffffff;
    if (!packet->ack_request || answered(packet, flags))
        return;
    if (flags & HAS_LAST)
        acknowledge_message(qp);
    else
        acknowledge(qp);
}

static void take_send(struct qp *qp, const struct packet *packet, unsigned flags)
{
    struct responder *resp = &qp->resp;
    if (flags & HAS_FIRST)
        resp->received = 0;
    if (!need_wqe(qp))
        return;
    if ((uint64_t)resp->received + packet->length > sgl_size(resp->sges, resp->wqe.count)) {
        fail_receive(qp, IBV_WC_LOC_LEN_ERR, NAK_INVALID_REQUEST);
        return;
    }
    if (sgl_write(qp_pd(qp), resp->sges, resp->wqe.count, resp->received, packet->payload, packet->length)) {
        fail_receive(qp, IBV_WC_LOC_PROT_ERR, NAK_REMOTE_OPERATION);
        return;
    }
    if (flags & HAS_IETH && !window_invalidate(qp, packet->invalidated)) {
        fail_receive(qp, IBV_WC_MW_BIND_ERR, NAK_REMOTE_ACCESS);
        return;
    }
    resp->received += packet->length;
    accepted(qp, packet, flags, packet->span);
    wait_for_memory(qp, sgl_pace(qp_pd(qp), resp->sges, resp->wqe.count, PACE_INTO_MEMORY));
    if (flags & HAS_LAST)
        complete_receive(qp, packet, resp->received, false);
}

static void take_write(struct qp *qp, const struct packet *packet, unsigned flags)
{
    struct responder *resp = &qp->resp;
    if (flags & HAS_FIRST) {
        resp->va = packet->va;
        resp->rkey = packet->rkey;
        resp->left = resp->received = packet->dma_length;
        if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) {
            fatal(qp, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
            return;
        }
    }
    if (packet->length > resp->left || ((flags & HAS_LAST) && packet->length != resp->left)) {
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
        return;
    }
    struct mr *mr = resp->left ? mr_find_for_peer(qp, resp->rkey, resp->va, resp->left, IBV_ACCESS_REMOTE_WRITE) : NULL;
    if (resp->left && !mr) {
        fatal(qp, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
        return;
    }
    if ((flags & HAS_IMM) && !need_wqe(qp))
        return;
    if (packet->length && mr_write(mr, resp->va, packet->payload, packet->length)) {
        fatal(qp, NAK_REMOTE_OPERATION, IBV_EVENT_QP_FATAL);
        return;
    }
    resp->va += packet->length;
    resp->left -= packet->length;
    accepted(qp, packet, flags, packet->span);
    wait_for_memory(qp, mr ? mr->pace : NULL);
    if (flags & HAS_IMM)
        complete_receive(qp, packet, resp->received, true);
}

static uint32_t read_packets(const struct qp *qp, uint32_t length)
{
    return length ? (uint32_t)(((uint64_t)length + qp->mtu - 1) / qp->mtu) : 1;
}

static void keep(struct qp *qp, const struct answer_entry *entry)
{
    struct responder *resp = &qp->resp;
    if (!resp->kept_count)
        return;
    resp->kept[resp->kept_next] = *entry;
    resp->kept[resp->kept_next].valid = true;
    resp->kept_next = (resp->kept_next + 1) % resp->kept_count;
}

static void take_read(struct qp *qp, const struct packet *packet, unsigned flags)
{
    int access = IBV_ACCESS_REMOTE_READ;
    if (!qp->attr.max_dest_rd_atomic || packet->dma_length > MAX_MSG_SIZE) {
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
        return;
    }
    if (!(qp->attr.qp_access_flags & access) ||
        (packet->dma_length && !mr_find_for_peer(qp, packet->rkey, packet->va, packet->dma_length, access))) {
        fatal(qp, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
        return;
    }
    struct answer_entry *entry = queue_answer(qp);
    if (!entry)
        return; /* no room: as if the packet had been lost */
    entry->kind = ANSWER_READ;
    entry->psn = packet->psn;
    entry->packets = read_packets(qp, packet->dma_length);
    entry->va = packet->va;
    entry->rkey = packet->rkey;
    entry->length = packet->dma_length;
    entry->apart = packet->apart && wire_joins();
    accepted(qp, packet, flags, entry->packets);
    entry->msn = qp->resp.msn;
    keep(qp, entry);
}

static void take_atomic(struct qp *qp, const struct packet *packet, unsigned flags)
{
    int access = IBV_ACCESS_REMOTE_ATOMIC;
    if (!qp->attr.max_dest_rd_atomic || packet->va & 7) {
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
        return;
    }
    struct mr *mr = mr_find_for_peer(qp, packet->rkey, packet->va, 8, access);
    if (!(qp->attr.qp_access_flags & access) || !mr || ((uintptr_t)mr->host + (packet->va - mr->iova)) & 7) {
        fatal(qp, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
        return;
    }
    struct answer_entry *entry = queue_answer(qp);
    if (!entry)
        return;
    entry->kind = ANSWER_ATOMIC;
    entry->psn = packet->psn;
    entry->packets = 1;
    bool swap = OPERATION(packet->opcode) == OP_COMPARE_SWAP;
    if (mr_atomic(mr, packet->va, swap, packet->compare, packet->swap_add, &entry->original)) {
        qp->resp.queue_tail--;
        fatal(qp, NAK_REMOTE_OPERATION, IBV_EVENT_QP_FATAL);
        return;
    }
    accepted(qp, packet, flags, 1);
    entry->msn = qp->resp.msn;
    keep(qp, entry);
}

static void take_atomic_write(struct qp *qp, const struct packet *packet, unsigned flags)
{
    int access = IBV_ACCESS_REMOTE_WRITE;
    if (!qp->attr.max_dest_rd_atomic || packet->va & 7 || packet->length != 8 || packet->dma_length != 8) {
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
        return;
    }
    struct mr *mr = mr_find_for_peer(qp, packet->rkey, packet->va, 8, access);
    if (!(qp->attr.qp_access_flags & access) || !mr) {
        fatal(qp, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
        return;
    }
    struct answer_entry *entry = queue_answer(qp);
    if (!entry)
        return;
    if (mr_write(mr, packet->va, packet->payload, 8)) {
        qp->resp.queue_tail--;
        fatal(qp, NAK_REMOTE_OPERATION, IBV_EVENT_QP_FATAL);
        return;
    }
    entry->kind = ANSWER_WRITTEN;
    entry->psn = packet->psn;
    entry->packets = 1;
    accepted(qp, packet, flags, 1);
    entry->msn = qp->resp.msn;
    keep(qp, entry);
}

/* The memory is what other users of it see, at once, but for writes that the fault `posted` keeps back. */
static void take_flush(struct qp *qp, const struct packet *packet, unsigned flags)
{
    unsigned type = packet->flush & FLUSH_TYPE, level = packet->flush & FLUSH_LEVEL;
    if (!qp->attr.max_dest_rd_atomic || !type || level > FLUSH_WHOLE) {
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
        return;
    }
    const struct mr *mr = level ? mr_at(packet->rkey) : NULL;
    uint64_t va = mr ? mr->iova : packet->va, size = mr ? 0 : packet->dma_length;
    bool may = type == FLUSH_GLOBAL && qp->attr.qp_access_flags & ACCESS_FLUSH;
    mr = may ? mr_find_for_peer(qp, packet->rkey, va, size, ACCESS_FLUSH) : NULL;
    if (!mr) {
        fatal(qp, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
        return;
    }
    struct answer_entry *entry = queue_answer(qp);
    if (!entry)
        return;
    posted_push(mr);
    entry->kind = ANSWER_WRITTEN;
    entry->psn = packet->psn;
    entry->packets = 1;
    accepted(qp, packet, flags, 1);
    entry->msn = qp->resp.msn;
    keep(qp, entry);
}

/* A requester that asks again from `psn` on will ask for all that follows too. Answers that wait to leave would only
 * delay those it wants now, until it loses patience and asks for more. */
static void forget_answers(struct responder *resp, uint32_t psn)
{
    for (; resp->queue_tail != resp->queue_head; resp->queue_tail--) {
        const struct answer_entry *entry = &resp->queue[(resp->queue_tail - 1) % ANSWERS_MAX];
        if (entry->kind == ANSWER_ACK || psn_diff(entry->psn, psn) < 0)
            return;
    }
}

/* The answers to reads and atomics are kept: a read is done again, what writes is answered from memory. */
static void repeat(struct qp *qp, const struct packet *packet, unsigned flags)
{
    struct responder *resp = &qp->resp;
    unsigned written = flags & (HAS_ATOMIC_WRITE | HAS_FLUSH);
    enum answer kind = flags & HAS_ATOMIC ? ANSWER_ATOMIC : written ? ANSWER_WRITTEN : ANSWER_READ;
    uint32_t packets = kind == ANSWER_READ ? read_packets(qp, packet->dma_length) : 1;
    for (uint32_t i = 0; i < resp->kept_count; i++) {
        const struct answer_entry *kept = &resp->kept[i];
        int32_t into = psn_diff(packet->psn, kept->psn);
        bool inside = kept->valid && into >= 0 && (uint32_t)into + packets <= kept->packets;
        bool same = inside && kept->kind == kind;
        if (!same || (kept->kind == ANSWER_READ && packet->va - kept->va != (uint64_t)into * qp->mtu))
            continue;
        forget_answers(resp, packet->psn);
        struct answer_entry *entry = queue_answer(qp);
        if (!entry)
            return;
        *entry = *kept;
        entry->psn = packet->psn;
        entry->packets = packets;
        entry->va = packet->va;
        entry->length = packet->dma_length;
        entry->done = 0;
        entry->repeated = true;
        return;
    }
    count(dropped_duplicate);
}

static void duplicate(struct qp *qp, const struct packet *packet, unsigned flags)
{
    count(duplicate_request);
    if (answered(packet, flags))
        repeat(qp, packet, flags);
    else
        acknowledge(qp); /* also after a negative one, which may be lost */
}

/* Middle and last packets continue a message of their kind, first ones do not interrupt one. */
static bool fits(const struct responder *resp, unsigned flags)
{
    if (flags & HAS_FIRST)
        return !resp->in_message;
    return resp->in_message &&
           (packet_flags((uint8_t)resp->last) & (HAS_SEND | HAS_WRITE)) == (flags & (HAS_SEND | HAS_WRITE));
}

/* All packets but the last of a message are full. */
static bool right_size(const struct qp *qp, const struct packet *packet, unsigned flags)
{
    if (!(flags & HAS_PAYLOAD))
        return true;
    if (!(flags & HAS_LAST))
        return packet->length == packet->span * qp->mtu;
    return (flags & HAS_FIRST) || packet->length;
}

/* All packets of a message name the same queue. */
static bool names_queue(struct qp *qp, const struct packet *packet, unsigned flags)
{
    struct responder *resp = &qp->resp;
    if (!qp->xrcd)
        return true;
    resp->named = xrc_find(qp->xrcd, packet->srqn);
    if (flags & HAS_FIRST)
        resp->filling = resp->named;
    return resp->named && resp->named == resp->filling;
}

static void take(struct qp *qp, const struct packet *packet, unsigned flags)
{
    if (!fits(&qp->resp, flags) || !right_size(qp, packet, flags))
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
    else if (!names_queue(qp, packet, flags))
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_ACCESS_ERR);
    else if (flags & HAS_SEND)
        take_send(qp, packet, flags);
    else if (flags & HAS_WRITE)
        take_write(qp, packet, flags);
    else if (flags & HAS_ATOMIC)
        take_atomic(qp, packet, flags);
    else if (flags & HAS_ATOMIC_WRITE)
        take_atomic_write(qp, packet, flags);
    else if (flags & HAS_FLUSH)
        take_flush(qp, packet, flags);
    else
        take_read(qp, packet, flags);
}

static void gap(struct qp *qp)
{
    count(out_of_sequence);
    if (!qp->resp.nak_sent) {
        count(nak_sent);
        negative(qp, SYNDROME_NAK | NAK_SEQUENCE);
    }
}

void responder_missed(struct qp *qp, const struct packet *packet)
{
    if (psn_diff(packet->psn, qp->resp.psn) < 0)
        duplicate(qp, packet, packet_flags(packet->opcode));
    else
        gap(qp);
}

void responder_unknown(struct qp *qp, const struct packet *packet)
{
    int32_t ahead = psn_diff(packet->psn, qp->resp.psn);
    if (ahead > 0)
        gap(qp);
    else if (ahead == 0)
        fatal(qp, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
}

void responder_request(struct qp *qp, const struct packet *packet)
{
    struct responder *resp = &qp->resp;
    unsigned flags = packet_flags(packet->opcode);
    if (!resp->communication && qp->state == IBV_QPS_RTR) {
        resp->communication = true;
        event_qp(qp, IBV_EVENT_COMM_EST);
    }
    int32_t ahead = psn_diff(packet->psn, resp->psn);
    if (ahead < 0) {
        duplicate(qp, packet, flags);
    } else if (ahead > 0) {
        gap(qp);
    } else {
        take(qp, packet, flags);
    }
}

/* Whether answers wait for memory. When the first part of what was written is there, the peer hears of that part: it
 * has a window, and would else stand still until all is there. */
static bool memory_waits(struct qp *qp, uint64_t now)
{
    struct responder *resp = &qp->resp;
    if (resp->held_until && now >= resp->held_until) {
        bool more = now < resp->all_until && resp->queue_head == resp->queue_tail;
        if (more && resp->held_psn != resp->psn)
            responder_ack_until(qp, resp->held_psn, resp->held_msn);
        resp->held_until = more ? resp->all_until : 0;
        resp->held_psn = resp->psn;
        resp->held_msn = resp->msn;
    }
    if (resp->held_until)
        engine_arm(qp, resp->held_until);
    return resp->held_until;
}

/* Whether what is to be read is not too busy. */
static bool may_answer(struct qp *qp, const struct answer_entry *entry, uint64_t now)
{
    struct pace_turn *turn = &qp->resp.turn;
    const struct mr *mr = pace_used() && entry->kind == ANSWER_READ && entry->length
                              ? mr_find_for_peer(qp, entry->rkey, entry->va, entry->length, IBV_ACCESS_REMOTE_READ)
                              : NULL;
    if (pace_may(mr ? mr->pace : NULL, PACE_OUT_OF_MEMORY, turn, now))
        return true;
    engine_arm(qp, turn->at);
    return false;
}

void responder_run(struct qp *qp, uint64_t now, bool replying)
{
    struct responder *resp = &qp->resp;
    if (memory_waits(qp, now))
        return;
    if (replying)
        note_reply(resp, now);
    for (int budget = READ_BURST; resp->queue_head != resp->queue_tail; budget--) {
        struct answer_entry *entry = &resp->queue[resp->queue_head % ANSWERS_MAX];
        if (!budget) {
            engine_mark(qp);
            return;
        }
        if (qp->xrcd)
            resp->named = xrc_find(qp->xrcd, entry->srqn);
        if (!may_answer(qp, entry, now))
            return;
        uint32_t done = entry->done;
        if (!responder_answer(qp, entry)) {
            resp->queue_head = resp->queue_tail;
            fatal(qp, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
            return;
        }
        pace_took(&resp->turn, (size_t)(entry->done - done) * qp->mtu);
        if (entry->kind != ANSWER_READ || entry->done == entry->packets)
            resp->queue_head++;
    }
    if (!resp->ack_due || held(qp, now, replying))
        return;
    responder_ack(qp);
}
