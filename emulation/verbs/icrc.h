/* SPDX-License-Identifier: Apache-2.0 */
/* The invariant CRC of RoCEv2: CRC-32 (Ethernet's polynomial) over the packet from its IP header, changing fields
 * masked. */
#ifndef VERBS_ICRC_H
#define VERBS_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the IP and UDP headers of a packet hold and a router does not change. Addresses of IPv4 use the first 4 bytes.
 */
struct icrc_flow {
    bool v6;
    uint8_t source[16], destination[16];
    uint16_t source_port;
    uint16_t ip_id, ip_fragment; /* IPv4: identification, flags and offset, in host order */
};

/* The state after the IP and UDP headers and the base transport header (12 bytes at `bth`). size: of everything after
 * the UDP header, the ICRC too. */
uint32_t icrc_begin(const struct icrc_flow *flow, const uint8_t *bth, size_t size);

uint32_t icrc_add(uint32_t state, const void *data, size_t size);

/* As icrc_add, and copies: one pass over memory. */
uint32_t icrc_copy(uint32_t state, void *restrict to, const void *restrict from, size_t size);

/* Writes the four bytes. */
void icrc_end(uint32_t state, uint8_t *out);

/* Whether `size` bytes that begin with the base header end with the right ICRC. For a FLUSH that of Linux's rxe is
 * right, too, which counts all headers behind those of UDP once more: it takes them for a payload (seen with
 * Linux 6.12). */
bool icrc_check(const struct icrc_flow *flow, const uint8_t *bytes, size_t size);

#endif
