/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and builds RoCEv2 transport headers. Sources: InfiniBand specification volume 1, chapter 9, and its annex A17.
 */
#include "verbs/packet.h"

#include <string.h>

#define ONLY   (HAS_FIRST | HAS_LAST)
#define SEND   (HAS_SEND | HAS_REQUEST | HAS_PAYLOAD)
#define WRITE  (HAS_WRITE | HAS_REQUEST | HAS_PAYLOAD)
#define READ   (HAS_READ | HAS_PAYLOAD)
#define ATOMIC (HAS_ATOMIC | HAS_REQUEST | HAS_ATOMIC_ETH | ONLY)

static const uint32_t operations[OP_COUNT] = {
    [OP_SEND_FIRST] = SEND | HAS_FIRST,
    [OP_SEND_MIDDLE] = SEND,
    [OP_SEND_LAST] = SEND | HAS_LAST,
    [OP_SEND_LAST_IMM] = SEND | HAS_LAST | HAS_IMM,
    [OP_SEND_ONLY] = SEND | ONLY,
    [OP_SEND_ONLY_IMM] = SEND | ONLY | HAS_IMM,
    [OP_WRITE_FIRST] = WRITE | HAS_FIRST | HAS_RETH,
    [OP_WRITE_MIDDLE] = WRITE,
    [OP_WRITE_LAST] = WRITE | HAS_LAST,
    [OP_WRITE_LAST_IMM] = WRITE | HAS_LAST | HAS_IMM,
    [OP_WRITE_ONLY] = WRITE | ONLY | HAS_RETH,
    [OP_WRITE_ONLY_IMM] = WRITE | ONLY | HAS_RETH | HAS_IMM,
    [OP_READ_REQUEST] = HAS_REQUEST | HAS_RETH | ONLY,
    [OP_READ_FIRST] = READ | HAS_FIRST | HAS_AETH,
    [OP_READ_MIDDLE] = READ,
    [OP_READ_LAST] = READ | HAS_LAST | HAS_AETH,
    [OP_READ_ONLY] = READ | ONLY | HAS_AETH,
    [OP_ACK] = HAS_AETH,
    [OP_ATOMIC_ACK] = HAS_AETH | HAS_ATOMIC_ACK,
    [OP_COMPARE_SWAP] = ATOMIC,
    [OP_FETCH_ADD] = ATOMIC,
    [OP_SEND_LAST_INV] = SEND | HAS_LAST | HAS_IETH,
    [OP_SEND_ONLY_INV] = SEND | ONLY | HAS_IETH,
    [OP_FLUSH] = HAS_REQUEST | HAS_FLUSH | HAS_RETH | ONLY,
    [OP_ATOMIC_WRITE] = HAS_REQUEST | HAS_PAYLOAD | HAS_RETH | HAS_ATOMIC_WRITE | ONLY,
};

/* In the order in which headers follow each other on the wire. */
static const struct {
    uint32_t flag, size;
} extended[] = {{HAS_DETH, 8}, {HAS_XRC, 4},  {HAS_FLUSH, 4},      {HAS_RETH, 16}, {HAS_ATOMIC_ETH, 28},
                {HAS_AETH, 4}, {HAS_IETH, 4}, {HAS_ATOMIC_ACK, 8}, {HAS_IMM, 4}};

unsigned packet_flags(uint8_t opcode)
{
    unsigned op = OPERATION(opcode);
    if (op >= OP_COUNT)
        return 0;
    if (SERVICE(opcode) == SERVICE_RC)
        return operations[op];
    if (SERVICE(opcode) == SERVICE_HAND)
        return operations[op] & HAS_PAYLOAD && op != OP_ATOMIC_WRITE ? operations[op] : 0;
    if (SERVICE(opcode) == SERVICE_XRC && op <= OP_SEND_ONLY_INV) /* each request names a queue, also a middle packet */
        return operations[op] & HAS_REQUEST ? operations[op] | HAS_XRC : operations[op];
    if (SERVICE(opcode) == SERVICE_UC)
        return op <= OP_WRITE_ONLY_IMM ? operations[op] : 0;
    if (SERVICE(opcode) == SERVICE_UD)
        return op == OP_SEND_ONLY || op == OP_SEND_ONLY_IMM ? operations[op] | HAS_DETH : 0;
    return 0;
}

size_t packet_header_size(uint8_t opcode)
{
    unsigned flags = packet_flags(opcode);
    size_t size = PACKET_BTH_SIZE;
    for (size_t i = 0; i < sizeof(extended) / sizeof(extended[0]); i++)
        size += flags & extended[i].flag ? extended[i].size : 0;
    return size;
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t get64(const uint8_t *p)
{
    return (uint64_t)get32(p) << 32 | get32(p + 4);
}

static uint8_t *put32(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
    return p + 4;
}

static uint8_t *put64(uint8_t *p, uint64_t value)
{
    return put32(put32(p, (uint32_t)(value >> 32)), (uint32_t)value);
}

static const uint8_t *parse_reth(struct packet *out, const uint8_t *at)
{
    out->va = get64(at);
    out->rkey = get32(at + 8);
    out->dma_length = get32(at + 12);
    return at + 16;
}

static const uint8_t *parse_atomic(struct packet *out, const uint8_t *at)
{
    out->va = get64(at);
    out->rkey = get32(at + 8);
    out->swap_add = get64(at + 12);
    out->compare = get64(at + 20);
    return at + 28;
}

static const uint8_t *parse_extended(struct packet *out, unsigned flags, const uint8_t *at)
{
    if (flags & HAS_DETH) {
        out->qkey = get32(at);
        out->source_qpn = get32(at + 4) & QPN_MASK;
        at += 8;
    }
    if (flags & HAS_XRC) {
        out->srqn = get32(at) & QPN_MASK;
        at += 4;
    }
    if (flags & HAS_FLUSH) {
        out->flush = get32(at);
        at += 4;
    }
    if (flags & HAS_RETH)
        at = parse_reth(out, at);
    if (flags & HAS_ATOMIC_ETH)
        at = parse_atomic(out, at);
    if (flags & HAS_AETH) {
        out->syndrome = at[0];
        out->msn = get32(at) & 0xffffff;
        at += 4;
    }
    if (flags & HAS_ATOMIC_ACK) {
        out->original = get64(at);
        at += 8;
    }
    if (flags & HAS_IETH) {
        out->invalidated = get32(at);
        at += 4;
    }
    if (flags & HAS_IMM) {
        memcpy(&out->imm, at, 4);
        at += 4;
    }
    return at;
}

enum packet_error packet_parse(struct packet *out, const uint8_t *bytes, size_t size)
{
    memset(out, 0, sizeof(*out));
    if (size < PACKET_BTH_SIZE + PACKET_ICRC_SIZE)
        return PACKET_SHORT;
    unsigned flags = packet_flags(bytes[0]);
    out->opcode = bytes[0];
    out->solicited = bytes[1] >> 7;
    out->pad = bytes[1] >> 4 & 3;
    out->pkey = (uint16_t)(bytes[2] << 8 | bytes[3]);
    out->qpn = get32(bytes + 4) & QPN_MASK;
    out->ack_request = bytes[8] >> 7;
    out->apart = bytes[8] >> 6 & 1;
    out->psn = get32(bytes + 8) & PSN_MASK;
    out->span = 1;
    if (bytes[1] & 0x0f)
        return PACKET_VERSION;
    if (!flags)
        return PACKET_OPCODE;
    size_t headers = packet_header_size(bytes[0]);
    if (size < headers + PACKET_ICRC_SIZE)
        return PACKET_SHORT;
    out->payload = parse_extended(out, flags, bytes + PACKET_BTH_SIZE);
    size_t rest = size - headers - PACKET_ICRC_SIZE;
    if (rest < out->pad || (rest & 3))
        return PACKET_PAD;
    if (rest > UINT32_MAX || (rest && !(flags & HAS_PAYLOAD)))
        return PACKET_LONG;
    out->length = (uint32_t)rest - out->pad;
    return PACKET_OK;
}

static uint8_t *build_atomic(const struct packet *in, uint8_t *at)
{
    at = put32(put64(at, in->va), in->rkey);
    return put64(put64(at, in->swap_add), in->compare);
}

void packet_build(const struct packet *in, uint8_t *out)
{
    unsigned flags = packet_flags(in->opcode);
    out[0] = in->opcode;
    out[1] = (uint8_t)(in->solicited << 7 | 1 << 6 | in->pad << 4); /* bit 6: the path migration state "migrated" */
    out[2] = (uint8_t)(in->pkey >> 8);
    out[3] = (uint8_t)in->pkey;
    put32(out + 4, in->qpn & QPN_MASK);
    uint8_t *at = put32(out + 8, (uint32_t)in->ack_request << 31 | (uint32_t)in->apart << 30 | (in->psn & PSN_MASK));
    if (flags & HAS_DETH)
        at = put32(put32(at, in->qkey), in->source_qpn & QPN_MASK);
    if (flags & HAS_XRC)
        at = put32(at, in->srqn & QPN_MASK);
    if (flags & HAS_FLUSH)
        at = put32(at, in->flush);
    if (flags & HAS_RETH)
        at = put32(put32(put64(at, in->va), in->rkey), in->dma_length);
    if (flags & HAS_ATOMIC_ETH)
        at = build_atomic(in, at);
    if (flags & HAS_AETH)
        at = put32(at, (uint32_t)in->syndrome << 24 | (in->msn & 0xffffff));
    if (flags & HAS_ATOMIC_ACK)
        at = put64(at, in->original);
    if (flags & HAS_IETH)
        at = put32(at, in->invalidated);
    if (flags & HAS_IMM)
        memcpy(at, &in->imm, 4);
}
