/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of probes: packets of UDP in IPv4 or IPv6 as a raw socket sends and receives them, and what routers say of
 * those whose time to live was over (ICMP). No socket is touched here. What is read may be hostile: it is a probe, or
 * nothing.
 *
 * The payload begins with an opcode that no adapter of RDMA takes: a probe to RoCE's port ends where it arrives.
 */
#ifndef TUTTI_PATHAGENT_PACKET_H
#define TUTTI_PATHAGENT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_MAGIC  0xFF545031u /* the first four bytes of a payload */
#define PROBE_BYTES  48          /* of a payload */
#define PROBE_MOST   1400        /* of a payload in a train */
#define PROBE_HEADS  48          /* bytes of IP and UDP before it, at most */
#define PROBE_PACKET (PROBE_HEADS + PROBE_MOST)
#define PROBE_END    16 /* bytes of an address; IPv4 behind ::ffff:0:0 */
#define PROBE_TTL    64
#define PROBE_BACK   0xC000 /* the least source port of an answer */

enum probe_kind {
    PROBE_ONE = 1, /* one of a path's probes, which is answered */
    PROBE_ANSWER,
    PROBE_TRAIN, /* one of many at once: the last ones are answered */
    PROBE_HOP,   /* it is not to arrive */
};

struct probe {
    enum probe_kind kind;
    uint16_t back;    /* the source port that the answer is to have */
    uint8_t side;     /* of the bonds at both ends: 0 is left, 1 right; the answer goes by the same */
    uint64_t session; /* of the path, drawn by the sender: nobody else knows it */
    uint32_t seq;     /* 0, 1, ... in the session; of a train: in the train */
    uint32_t arrived; /* ANSWER: probes of the session by now; TRAIN: how many the train has */
    uint32_t dropped; /* ANSWER: what the far host's own socket has dropped by now */
    uint64_t rate;    /* ANSWER to a train: bytes per second of its second half; 0: unknown */
    uint64_t stamp;   /* of the sender's clock, which the answer repeats */
};

/* Both addresses are of one family. */
struct probe_ends {
    uint8_t from[PROBE_END], to[PROBE_END];
    uint16_t from_port, to_port;
    uint16_t ident; /* of the IPv4 header; IPv6 has it in the payload */
    uint16_t check; /* of the UDP header; probe_write() sets it */
    uint8_t ttl;
};

/* The address is of IPv4. */
bool probe_is_4(const uint8_t address[PROBE_END]);

/* Writes the whole packet, and returns its bytes. `size`: of the payload, PROBE_BYTES to PROBE_MOST. */
size_t probe_write(struct probe_ends *ends, const struct probe *probe, size_t size, uint8_t out[PROBE_PACKET]);

/* An IP packet. False: it is no probe. */
bool probe_read(const uint8_t *packet, size_t size, struct probe_ends *ends, struct probe *out);

/* What a router said, and the heads of the packet of which it says it. */
struct probe_quote {
    uint8_t router[PROBE_END];
    bool arrived; /* the host has it, and nobody listens; else its time to live was over */
    struct probe_ends of;
};
bool probe_read_icmp(const uint8_t *packet, size_t size, struct probe_quote *out);

#endif
