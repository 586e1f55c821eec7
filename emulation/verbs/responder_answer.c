/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a reliable responder as they leave: acknowledgements, and what was read. */
#include "verbs/transport.h"
#include "verbs/counters.h"
#include "verbs/engine.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

#include <string.h>

struct responder_answer_source {
    struct qp *qp;
    const struct answer_entry *entry;
};

static int fill(void *arg, uint8_t *to, uint32_t size, uint32_t *crc)
{
    const struct responder_answer_source *source = arg;
    const struct answer_entry *entry = source->entry;
    uint64_t va = entry->va + (uint64_t)entry->done * source->qp->mtu;
    struct mr *mr = mr_find_for_peer(source->qp, entry->rkey, va, size, IBV_ACCESS_REMOTE_READ);
    return mr ? mr_read(mr, va, to, size, crc) : -1;
}

static uint8_t read_opcode(const struct answer_entry *entry, uint32_t packets)
{
    bool first = entry->apart || entry->done == 0, last = entry->apart || entry->done + packets == entry->packets;
    return first && last ? OP_READ_ONLY : first ? OP_READ_FIRST : last ? OP_READ_LAST : OP_READ_MIDDLE;
}

/* Sends the next part of a READ's answer by saying where it is. The number of packets that it stands for, 0 when that
 * cannot be. */
static uint32_t hand_answer_part(struct qp *qp, const struct answer_entry *entry, struct packet *packet)
{
    uint32_t rest = entry->packets - entry->done, packets = rest < HAND_PACKETS ? rest : HAND_PACKETS;
    uint64_t done = (uint64_t)entry->done * qp->mtu, left = entry->length - done, bytes = (uint64_t)packets * qp->mtu;
    size_t size = bytes < left ? bytes : left;
    if (!qp->hands || entry->repeated || packets < 2)
        return 0;
    struct mr *mr = mr_find_for_peer(qp, entry->rkey, entry->va + done, size, IBV_ACCESS_REMOTE_READ);
    struct transport_pieces to = {.n = 1};
    if (!mr || !mr_piece(mr, entry->va + done, size, &to.pieces[0]))
        return 0;
    packet->opcode = SERVICE_HAND | read_opcode(entry, packets);
    return transport_send(&qp->path, packet, HAND_REF_SIZE, transport_fill_pieces, &to) ? 0 : packets;
}

/* Sends the next packet of an answer. False when the memory has gone meanwhile. */
bool responder_answer(struct qp *qp, struct answer_entry *entry)
{
    struct packet packet = {
        .opcode = OP_ACK,
        .qpn = qp->attr.dest_qp_num,
        .psn = psn_add(entry->psn, entry->done),
        .syndrome = entry->kind == ANSWER_ACK ? entry->syndrome : SYNDROME_ACK | CREDIT_NONE,
        .msn = entry->msn,
        .original = entry->original,
    };
    uint32_t size = 0;
    struct responder_answer_source source = {qp, entry};
    if (entry->kind == ANSWER_ATOMIC)
        packet.opcode = OP_ATOMIC_ACK;
    if (entry->kind == ANSWER_WRITTEN)
        packet.opcode = OP_READ_ONLY;
    if (entry->kind == ANSWER_READ) {
        uint32_t handed = hand_answer_part(qp, entry, &packet);
        if (handed) {
            entry->done += handed;
            return true;
        }
        uint64_t left = entry->length - (uint64_t)entry->done * qp->mtu;
        size = left < qp->mtu ? (uint32_t)left : qp->mtu;
        packet.opcode = read_opcode(entry, 1);
    }
    packet.opcode |= qp->xrcd ? SERVICE_XRC : SERVICE_RC;
    if (transport_send(&qp->path, &packet, size, fill, &source))
        return false;
    entry->done++;
    return true;
}

uint64_t responder_timer(struct qp *qp, uint64_t now)
{
    const struct responder *resp = &qp->resp;
    if (!resp->ack_due || !resp->ack_at)
        return 0;
    if (now >= resp->ack_at)
        engine_mark(qp);
    return now >= resp->ack_at ? 0 : resp->ack_at;
}

void responder_ack_until(struct qp *qp, uint32_t psn, uint32_t msn)
{
    struct answer_entry ack = {.kind = ANSWER_ACK, .psn = psn_add(psn, PSN_MASK), .msn = msn};
    ack.syndrome = SYNDROME_ACK | CREDIT_NONE;
    responder_answer(qp, &ack);
}

void responder_ack(struct qp *qp)
{
    qp->resp.ack_due = false;
    qp->resp.ack_at = 0;
    responder_ack_until(qp, qp->resp.psn, qp->resp.msn);
}

void responder_settle(struct qp *qp)
{
    if (qp->resp.ack_due && (qp->resp.ack_at || qp->resp.held_until) && qp_receives(qp))
        responder_ack(qp);
}
