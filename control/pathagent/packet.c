/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/packet.h"

#include <netinet/in.h>
#include <string.h>

#define IP_HEAD     20
#define UDP_HEAD    8
#define ICMP_HEAD   8
#define TIME_OVER   11 /* types and a code of ICMP */
#define UNREACHABLE 3
#define NO_PORT     3

/* ---- numbers in a packet ---- */

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8)
        at[i] = (uint8_t)value;
}

static uint64_t get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static uint32_t sum_of(const uint8_t *at, size_t size, uint32_t sum)
{
    for (size_t i = 0; i < size; i++)
        sum += i % 2 ? at[i] : (uint32_t)at[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* The checksum of UDP, over addresses, protocol, length, head and payload. */
static uint16_t check_of(const uint8_t *packet, size_t length)
{
    uint32_t sum = sum_of(packet + 12, 8, IPPROTO_UDP + (uint32_t)length);
    sum = ~sum_of(packet + IP_HEAD, length, sum) & 0xffff;
    return sum ? (uint16_t)sum : 0xffff;
}

/* ---- writing ---- */

static void write_payload(const struct probe *probe, uint8_t *at)
{
    put(at, PROBE_MAGIC, 4);
    put(at + 4, probe->kind, 2);
    put(at + 6, probe->back, 2);
    put(at + 8, probe->session, 8);
    put(at + 16, probe->seq, 4);
    put(at + 20, probe->arrived, 4);
    put(at + 24, probe->dropped, 4);
    put(at + 28, 0, 4);
    put(at + 32, probe->rate, 8);
    put(at + 40, probe->stamp, 8);
}

/* The kernel adds the checksum of the IP header. */
size_t probe_write(struct probe_ends *ends, const struct probe *probe, size_t size, uint8_t out[PROBE_PACKET])
{
    size_t length = UDP_HEAD + size;
    memset(out, 0, IP_HEAD + length);
    out[0] = 0x45;
    put(out + 2, IP_HEAD + length, 2);
    put(out + 4, ends->ident, 2);
    out[8] = ends->ttl;
    out[9] = IPPROTO_UDP;
    memcpy(out + 12, &ends->from, 4);
    memcpy(out + 16, &ends->to, 4);
    put(out + IP_HEAD, ends->from_port, 2);
    put(out + IP_HEAD + 2, ends->to_port, 2);
    put(out + IP_HEAD + 4, length, 2);
    write_payload(probe, out + PROBE_HEADS);
    ends->check = check_of(out, length);
    put(out + IP_HEAD + 6, ends->check, 2);
    return IP_HEAD + length;
}

/* ---- reading ---- */

/* The length of an IP header that is whole, and followed by `more` bytes; 0: there is none. */
static size_t head_of(const uint8_t *packet, size_t size, uint8_t protocol, size_t more)
{
    if (size < IP_HEAD || packet[0] >> 4 != 4)
        return 0;
    size_t head = (size_t)(packet[0] & 15) * 4;
    return head >= IP_HEAD && size >= head + more && packet[9] == protocol ? head : 0;
}

/* Heads of IP and UDP; fragments have none. */
static size_t read_heads(const uint8_t *packet, size_t size, struct probe_ends *ends)
{
    size_t head = head_of(packet, size, IPPROTO_UDP, UDP_HEAD);
    if (!head || get(packet + 6, 2) & 0x3fff)
        return 0;
    *ends = (struct probe_ends){.ident = (uint16_t)get(packet + 4, 2),
                                .ttl = packet[8],
                                .from_port = (uint16_t)get(packet + head, 2),
                                .to_port = (uint16_t)get(packet + head + 2, 2),
                                .check = (uint16_t)get(packet + head + 6, 2)};
    memcpy(&ends->from, packet + 12, 4);
    memcpy(&ends->to, packet + 16, 4);
    return head + UDP_HEAD;
}

bool probe_read(const uint8_t *packet, size_t size, struct probe_ends *ends, struct probe *out)
{
    size_t at = read_heads(packet, size, ends);
    if (!at || size < at + PROBE_BYTES || get(packet + at, 4) != PROBE_MAGIC)
        return false;
    const uint8_t *payload = packet + at;
    uint64_t kind = get(payload + 4, 2);
    *out = (struct probe){.kind = (enum probe_kind)kind,
                          .back = (uint16_t)get(payload + 6, 2),
                          .session = get(payload + 8, 8),
                          .seq = (uint32_t)get(payload + 16, 4),
                          .arrived = (uint32_t)get(payload + 20, 4),
                          .dropped = (uint32_t)get(payload + 24, 4),
                          .rate = get(payload + 32, 8),
                          .stamp = get(payload + 40, 8)};
    return kind >= PROBE_ONE && kind <= PROBE_HOP && out->back >= PROBE_BACK && !get(payload + 28, 4);
}

/* A router repeats the heads of IP and UDP, and perhaps more. */
bool probe_read_icmp(const uint8_t *packet, size_t size, struct probe_quote *out)
{
    size_t head = head_of(packet, size, IPPROTO_ICMP, ICMP_HEAD);
    if (!head)
        return false;
    const uint8_t *icmp = packet + head;
    out->arrived = icmp[0] == UNREACHABLE && icmp[1] == NO_PORT;
    memcpy(&out->router, packet + 12, 4);
    if (!out->arrived && (icmp[0] != TIME_OVER || icmp[1]))
        return false;
    return read_heads(icmp + ICMP_HEAD, size - head - ICMP_HEAD, &out->of) > 0;
}
