/* SPDX-License-Identifier: Apache-2.0 */
/* The raw sockets of probes. Probes are seen beside whoever listens at their port, and nothing is bound to it. */
#ifndef TUTTI_PATHAGENT_DOOR_H
#define TUTTI_PATHAGENT_DOOR_H

#include "pathagent/packet.h"

enum door_socket { DOOR_PROBES, DOOR_ROUTERS }; /* routers: what they say by ICMP */

#define DOOR_SIDES 2 /* ports of a bond */

/* By family: [0] is IPv4. */
struct probe_door {
    int sending[2][DOOR_SIDES], fd[2][2]; /* by side; fd: of each door_socket. -1: this host has no IPv6 */
    uint32_t dropped[2];                  /* packets for which the socket of probes had no room */
    int kernel; /* what the kernel says of packets that it dropped before any socket; -1: nothing */
};

/* Returns how many addresses the host has, and sets them; -1 after error_note. door_close() also after that. `marks`:
 * of packets by either port of a bond; 0: none. */
int door_open(struct probe_door *door, const char *space, uint16_t port, const uint32_t marks[DOOR_SIDES],
              uint8_t (*nic)[16], int room);
void door_close(struct probe_door *door);

/* Packets that the kernel of this host dropped before any socket had them; 0: unknown. */
uint64_t door_overrun(const struct probe_door *door);

/* What the network does not take is lost, as any probe may be. */
void door_send(const struct probe_door *door, const struct probe_ends *ends, unsigned side, const uint8_t *packet,
               size_t size);

struct door_packet {
    uint8_t bytes[PROBE_PACKET + 64];
    size_t size;
    uint64_t when; /* the kernel had it, by clock_ns() */
};
/* False: there is none now. */
bool door_take(struct probe_door *door, int family, enum door_socket which, struct door_packet *out);

#endif
