/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a RoCEv2 packet after its UDP header: base transport header, extended headers, payload, pad, ICRC. Pure
 * functions. */
#ifndef VERBS_PACKET_H
#define VERBS_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_UDP_PORT      4791
#define PACKET_BTH_SIZE    12
#define PACKET_ICRC_SIZE   4
#define PACKET_HEADERS_MAX 64 /* no opcode has more bytes of headers */
#define PACKET_GRH_SIZE    40
#define PSN_MASK           0xffffffu
#define QPN_MASK           0xffffffu
#define QPN_MULTICAST      0xffffffu
#define PKEY_DEFAULT       0xffffu

/* The upper three bits of an opcode name the service, the lower five the operation. */
enum {
    SERVICE_RC = 0x00,
    SERVICE_UC = 0x20,
    SERVICE_UD = 0x60,
    SERVICE_XRC = 0xa0,
    SERVICE_HAND = 0xc0
}; /* the last: a manufacturer's, see hand.h */
enum operation {
    OP_SEND_FIRST,
    OP_SEND_MIDDLE,
    OP_SEND_LAST,
    OP_SEND_LAST_IMM,
    OP_SEND_ONLY,
    OP_SEND_ONLY_IMM,
    OP_WRITE_FIRST,
    OP_WRITE_MIDDLE,
    OP_WRITE_LAST,
    OP_WRITE_LAST_IMM,
    OP_WRITE_ONLY,
    OP_WRITE_ONLY_IMM,
    OP_READ_REQUEST,
    OP_READ_FIRST,
    OP_READ_MIDDLE,
    OP_READ_LAST,
    OP_READ_ONLY,
    OP_ACK,
    OP_ATOMIC_ACK,
    OP_COMPARE_SWAP,
    OP_FETCH_ADD,
    OP_SEND_LAST_INV = 22,
    OP_SEND_ONLY_INV,
    OP_FLUSH = 28,
    OP_ATOMIC_WRITE,
    OP_COUNT
};
#define OPCODE_CNP        0x81
#define OPERATION(opcode) ((enum operation)((opcode)&0x1f))
#define SERVICE(opcode)   ((opcode)&0xe0)

/* What an operation is and which headers it has. */
enum {
    HAS_FIRST = 1 << 0, /* begins a message */
    HAS_LAST = 1 << 1,  /* ends one */
    HAS_SEND = 1 << 2,
    HAS_WRITE = 1 << 3,
    HAS_READ = 1 << 4, /* a read response */
    HAS_ATOMIC = 1 << 5,
    HAS_REQUEST = 1 << 6,
    HAS_PAYLOAD = 1 << 7,
    HAS_RETH = 1 << 8,
    HAS_AETH = 1 << 9,
    HAS_IMM = 1 << 10,
    HAS_ATOMIC_ETH = 1 << 11,
    HAS_ATOMIC_ACK = 1 << 12,
    HAS_DETH = 1 << 13,
    HAS_IETH = 1 << 14,         /* the key of a window to take back */
    HAS_ATOMIC_WRITE = 1 << 15, /* eight bytes, written at once, answered as a READ of nothing */
    HAS_FLUSH = 1 << 16, /* what was written becomes visible, answered in the same way; has a header of its own */
    HAS_XRC = 1 << 17,   /* the shared receive queue that a request is for */
};

/* The header of a FLUSH: for whom memory becomes visible, and whether the whole region's does. */
enum { FLUSH_GLOBAL = 1, FLUSH_PERSISTENT = 2, FLUSH_TYPE = 0xf, FLUSH_WHOLE = 1 << 4, FLUSH_LEVEL = 3 << 4 };

enum { SYNDROME_ACK = 0x00, SYNDROME_RNR = 0x20, SYNDROME_NAK = 0x60, SYNDROME_KIND = 0x60, SYNDROME_VALUE = 0x1f };
enum nak { NAK_SEQUENCE, NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATION };
#define CREDIT_NONE 0x1f /* "no end-to-end credits" in the value bits of an ACK */

struct packet {
    uint8_t opcode, pad, syndrome;
    bool solicited, ack_request;
    bool apart; /* a READ: each packet of its answer may be an answer of its own. A bit that others ignore */
    uint16_t pkey;
    uint32_t qpn, psn;
    uint32_t rkey, dma_length;
    uint64_t va;
    uint64_t swap_add, compare; /* atomic request */
    uint64_t original;          /* atomic answer */
    uint32_t msn;
    uint32_t imm; /* as it is on the wire */
    uint32_t invalidated;
    uint32_t flush; /* its header */
    bool twice;     /* a FLUSH: with the ICRC of rxe, see icrc_check */
    uint32_t qkey, source_qpn;
    uint32_t srqn;
    const uint8_t *payload;
    uint32_t length; /* of the payload, without pad */
    uint32_t span;   /* sequence numbers that it stands for: 1 but for data that was handed over */
};

enum packet_error { PACKET_OK, PACKET_SHORT, PACKET_VERSION, PACKET_OPCODE, PACKET_PAD, PACKET_LONG };

/* Flags of an opcode; 0 for one that does not exist. */
unsigned packet_flags(uint8_t opcode);

/* Size of all headers of `opcode`, from the base header to the last extended one. */
size_t packet_header_size(uint8_t opcode);

/* Takes `size` bytes that begin with the base header and end with the ICRC (which is not looked at). *out points into
 * bytes. With PACKET_OPCODE the fields of the base header are there, too. */
enum packet_error packet_parse(struct packet *out, const uint8_t *bytes, size_t size);

/* Writes the headers (packet_header_size bytes). in->pad must be right for the payload that follows. */
void packet_build(const struct packet *in, uint8_t *out);

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & PSN_MASK;
}

/* a - b on the circle of 24-bit numbers: negative when a is before b. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

#endif
