/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process and the path agent of its host (tutti pathagent) say to one another: packets of a Unix socket of
 * SOCK_SEQPACKET. The connection stands for the process: with it all its lanes end.
 */
#ifndef TUTTI_WIRE_LEASE_H
#define TUTTI_WIRE_LEASE_H

#include <stdint.h>

#define WIRE_LEASE_ASK    0x31414c54u /* "TLA1" */
#define WIRE_LEASE_ANSWER 0x31474c54u /* "TLG1" */

enum wire_lease_flags {
    WIRE_LEASE_IDLE = 1,  /* the lane carries next to nothing */
    WIRE_LEASE_AGAIN = 2, /* it failed where it was */
};

struct wire_lease_ask {
    uint32_t magic;
    uint32_t number;  /* of the lane, the process's own */
    uint8_t from[16]; /* address of the NIC that sends; IPv4 behind ::ffff:0:0 */
    uint8_t to[16];
    uint16_t parts; /* lanes that share what the NIC sends */
    uint16_t port;  /* that the lane has, or failed at; 0: none */
    uint32_t flags;
};

/* The answer to a question; or, unasked: the lane's next connection is to have another port. */
struct wire_lease_answer {
    uint32_t magic;
    uint32_t number;
    uint16_t port; /* UDP source port; 0: none is given */
    uint16_t reserved;
};

_Static_assert(sizeof(struct wire_lease_ask) == 48, "wire_lease_ask is part of the protocol");
_Static_assert(sizeof(struct wire_lease_answer) == 12, "wire_lease_answer is part of the protocol");

#endif
