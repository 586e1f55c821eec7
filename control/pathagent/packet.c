/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/packet.h"

#include <netinet/in.h>
#include <string.h>

#define IP4_HEAD  20
#define IP6_HEAD  40
#define UDP_HEAD  8
#define ICMP_HEAD 8
#define IDENT     28 /* place in a payload */
#define SIDE      30
#define ICMP6     58 /* next header */

/* Types of ICMP, and the code of a port that nobody listens at. */
static const struct {
    uint8_t over, unreachable, no_port;
} says[2] = {{11, 3, 3}, {3, 1, 4}};

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
static uint16_t check_of(const uint8_t *addresses, size_t size, const uint8_t *udp, size_t length)
{
    uint32_t sum = sum_of(addresses, size, IPPROTO_UDP + (uint32_t)length);
    sum = ~sum_of(udp, length, sum) & 0xffff;
    return sum ? (uint16_t)sum : 0xffff;
}

/* ---- addresses ---- */

static const uint8_t before_4[12] = {[10] = 0xff, [11] = 0xff};

bool probe_is_4(const uint8_t address[PROBE_END])
{
    return memcmp(address, before_4, sizeof before_4) == 0;
}

static void read_address(const uint8_t *at, bool is_4, uint8_t out[PROBE_END])
{
    memcpy(out, before_4, sizeof before_4);
    memcpy(is_4 ? out + sizeof before_4 : out, at, is_4 ? 4 : PROBE_END);
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
    put(at + IDENT, 0, 2);
    put(at + SIDE, probe->side, 2);
    put(at + 32, probe->rate, 8);
    put(at + 40, probe->stamp, 8);
}

/* The kernel adds the checksum of the IPv4 header. */
static size_t write_4(const struct probe_ends *ends, size_t length, uint8_t *out)
{
    out[0] = 0x45;
    put(out + 2, IP4_HEAD + length, 2);
    put(out + 4, ends->ident, 2);
    out[8] = ends->ttl;
    out[9] = IPPROTO_UDP;
    memcpy(out + 12, ends->from + sizeof before_4, 4);
    memcpy(out + 16, ends->to + sizeof before_4, 4);
    return IP4_HEAD;
}

static size_t write_6(const struct probe_ends *ends, size_t length, uint8_t *out)
{
    out[0] = 0x60;
    put(out + 4, length, 2);
    out[6] = IPPROTO_UDP;
    out[7] = ends->ttl;
    memcpy(out + 8, ends->from, PROBE_END);
    memcpy(out + 24, ends->to, PROBE_END);
    return IP6_HEAD;
}

size_t probe_write(struct probe_ends *ends, const struct probe *probe, size_t size, uint8_t out[PROBE_PACKET])
{
    size_t length = UDP_HEAD + size;
    bool is_4 = probe_is_4(ends->from);
    memset(out, 0, IP6_HEAD + length);
    size_t head = is_4 ? write_4(ends, length, out) : write_6(ends, length, out);
    uint8_t *udp = out + head;
    put(udp, ends->from_port, 2);
    put(udp + 2, ends->to_port, 2);
    put(udp + 4, length, 2);
    write_payload(probe, udp + UDP_HEAD);
    put(udp + UDP_HEAD + IDENT, is_4 ? 0 : ends->ident, 2);
    ends->check = is_4 ? check_of(out + 12, 8, udp, length) : check_of(out + 8, 2 * (size_t)PROBE_END, udp, length);
    put(udp + 6, ends->check, 2);
    return head + length;
}

/* ---- reading ---- */

/* The length of an IP header that is whole, and followed by `more` bytes; 0: there is none. Fragments, and packets of
 * IPv6 with more headers, are none. */
static size_t head_of(const uint8_t *packet, size_t size, bool icmp, size_t more)
{
    if (size >= IP6_HEAD + more && packet[0] >> 4 == 6)
        return packet[6] == (icmp ? ICMP6 : IPPROTO_UDP) ? IP6_HEAD : 0;
    if (size < IP4_HEAD || packet[0] >> 4 != 4)
        return 0;
    size_t head = (size_t)(packet[0] & 15) * 4;
    return head >= IP4_HEAD && size >= head + more && packet[9] == (icmp ? IPPROTO_ICMP : IPPROTO_UDP) ? head : 0;
}

/* Heads of IP and UDP; fragments have none. */
static size_t read_heads(const uint8_t *packet, size_t size, struct probe_ends *ends)
{
    size_t head = head_of(packet, size, false, UDP_HEAD);
    bool is_4 = head && packet[0] >> 4 == 4;
    if (!head || (is_4 && get(packet + 6, 2) & 0x3fff))
        return 0;
    bool told = !is_4 && size >= head + UDP_HEAD + IDENT + 2;
    *ends = (struct probe_ends){.ident = (uint16_t)(is_4 ? get(packet + 4, 2) : 0),
                                .ttl = packet[is_4 ? 8 : 7],
                                .from_port = (uint16_t)get(packet + head, 2),
                                .to_port = (uint16_t)get(packet + head + 2, 2),
                                .check = (uint16_t)get(packet + head + 6, 2)};
    if (told)
        ends->ident = (uint16_t)get(packet + head + UDP_HEAD + IDENT, 2);
    read_address(packet + (is_4 ? 12 : 8), is_4, ends->from);
    read_address(packet + (is_4 ? 16 : 24), is_4, ends->to);
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
                          .side = payload[SIDE + 1] & 1,
                          .session = get(payload + 8, 8),
                          .seq = (uint32_t)get(payload + 16, 4),
                          .arrived = (uint32_t)get(payload + 20, 4),
                          .dropped = (uint32_t)get(payload + 24, 4),
                          .rate = get(payload + 32, 8),
                          .stamp = get(payload + 40, 8)};
    return kind >= PROBE_ONE && kind <= PROBE_HOP && out->back >= PROBE_BACK && get(payload + SIDE, 2) <= 1 &&
           (!probe_is_4(ends->from) || !get(payload + IDENT, 2));
}

/* A router repeats the heads of IP and UDP, and perhaps more; of IPv6 as much as there is room for. */
bool probe_read_icmp(const uint8_t *packet, size_t size, struct probe_quote *out)
{
    size_t head = head_of(packet, size, true, ICMP_HEAD);
    if (!head)
        return false;
    const uint8_t *icmp = packet + head;
    bool is_4 = packet[0] >> 4 == 4;
    out->arrived = icmp[0] == says[!is_4].unreachable && icmp[1] == says[!is_4].no_port;
    read_address(packet + (is_4 ? 12 : 8), is_4, out->router);
    if (!out->arrived && (icmp[0] != says[!is_4].over || icmp[1]))
        return false;
    return read_heads(icmp + ICMP_HEAD, size - head - ICMP_HEAD, &out->of) > 0;
}
