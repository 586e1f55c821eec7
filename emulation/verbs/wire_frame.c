/* SPDX-License-Identifier: Apache-2.0 */
/* The short way out: whole frames by a packet socket, without the kernel's UDP and routing. The frames are those that
 * the long way makes. On Ethernet their destination's hardware address is the next hop's. On the loopback interface it
 * is nobody's: then the kernel's own stack leaves them alone and does not search for a UDP socket that wants them. */
#include "verbs/wire_frame.h"
#include "verbs/wire.h"
#include "verbs/wire_hop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GSO_UDP  5 /* VIRTIO_NET_HDR_GSO_UDP_L4, which older headers lack */
#define HOPS     64
#define UDP_SIZE 8
#define IP6_SIZE 40
/* Bytes: with small packets as frames, ping-pong by WRITEs sometimes fell into a slow mode (docs/notebook/emulator.md).
 */
#define ETHER_LEAST 1024
#define SEND_BUFFER (8 * 1024 * 1024)

static int frame_fd = -1;

/* SOFTVERBS_FRAMES=0: everything through the kernel's stack, also what its firewall or IPsec would do something to. */
static bool wanted(void)
{
    const char *wish = getenv("SOFTVERBS_FRAMES");
    return !wish || *wish != '0';
}

void wire_frame_open(void)
{
    int on = 1, size = SEND_BUFFER;
    if (!wanted())
        return;
    frame_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (frame_fd < 0)
        return;
    if (setsockopt(frame_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
        setsockopt(frame_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    if (setsockopt(frame_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)))
        wire_frame_close();
}

void wire_frame_close(void)
{
    if (frame_fd >= 0)
        close(frame_fd);
    frame_fd = -1;
}

static const uint8_t nobody[6] = {2}; /* locally administered */

static bool to_a_group(const struct path *path)
{
    return path->v6 ? path->destination[0] == 0xff : path->destination[0] >> 4 == 0xe;
}

/* Multicast needs the kernel's copies; what is too long for the interface, its refusal. */
int wire_frame_fd(const struct path *path, size_t size, uint64_t now, uint8_t to[6])
{
    if (frame_fd < 0 || to_a_group(path) || size + IP6_SIZE + UDP_SIZE > path->device->mtu)
        return -1;
    if (path->device->hardware != ARPHRD_LOOPBACK)
        return size >= ETHER_LEAST && wire_hop_find(path, now, to) ? frame_fd : -1;
    memcpy(to, nobody, sizeof(nobody));
    return frame_fd;
}

static void put16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint32_t add(uint32_t sum, const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i += 2)
        sum += (uint32_t)(at[i] << 8 | at[i + 1]);
    return sum;
}

static uint16_t folded(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* The addresses' part of the checksum; returns the header's size. */
static size_t put_ip4(uint8_t *at, const struct path *path, size_t size, uint32_t *pseudo)
{
    memset(at, 0, 20);
    at[0] = 0x45;
    at[1] = path->traffic_class;
    put16(at + 2, size + UDP_SIZE + 20);
    at[6] = 0x40; /* don't fragment */
    at[8] = HOPS;
    at[9] = IPPROTO_UDP;
    memcpy(at + 12, path->source, 4);
    memcpy(at + 16, path->destination, 4);
    put16(at + 10, (uint16_t)~folded(add(0, at, 20)));
    *pseudo = add(0, at + 12, 8);
    return 20;
}

static size_t put_ip6(uint8_t *at, const struct path *path, size_t size, uint32_t *pseudo)
{
    memset(at, 0, 40);
    at[0] = (uint8_t)(0x60 | path->traffic_class >> 4);
    at[1] = (uint8_t)(path->traffic_class << 4);
    put16(at + 4, size + UDP_SIZE);
    at[6] = IPPROTO_UDP;
    at[7] = HOPS;
    memcpy(at + 8, path->source, 16);
    memcpy(at + 24, path->destination, 16);
    *pseudo = add(0, at + 8, 32);
    return 40;
}

size_t wire_frame_headers(uint8_t *out, const struct path *path, const uint8_t to[6], size_t size, size_t segment)
{
    struct virtio_net_hdr offload = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_offset = 6};
    uint8_t *at = out + sizeof(offload);
    uint32_t pseudo = 0;
    memcpy(at, to, ETH_ALEN);
    memcpy(at + ETH_ALEN, path->device->mac, ETH_ALEN);
    put16(at + 12, path->v6 ? ETH_P_IPV6 : ETH_P_IP);
    at += ETH_HLEN;
    at += path->v6 ? put_ip6(at, path, size, &pseudo) : put_ip4(at, path, size, &pseudo);
    offload.csum_start = (uint16_t)(at - out - (ptrdiff_t)sizeof(offload));
    /* all of it: the kernel then takes one block of memory, the one that was freed last. The small pages of a frame in
     * pieces go round through the lists of two processors and come back cold. */
    offload.hdr_len = (uint16_t)(offload.csum_start + UDP_SIZE + size);
    offload.gso_type = segment ? GSO_UDP : VIRTIO_NET_HDR_GSO_NONE;
    offload.gso_size = (uint16_t)segment;
    put16(at, path->source_port);
    put16(at + 2, ROCE_UDP_PORT);
    put16(at + 4, size + UDP_SIZE);
    put16(at + 6,
          folded(pseudo + IPPROTO_UDP + (uint32_t)size + UDP_SIZE)); /* what cuts or forwards it adds the rest */
    memcpy(out, &offload, sizeof(offload));
    return (size_t)(at - out) + UDP_SIZE;
}

void wire_frame_loop(const struct path *path, uint8_t *bytes, size_t size, size_t segment)
{
    static unsigned loopback;
    uint8_t headers[WIRE_FRAME_HEADERS];
    struct sockaddr_ll link;
    if (frame_fd < 0 || !to_a_group(path) || path->device->hardware == ARPHRD_LOOPBACK)
        return;
    struct iovec parts[2] = {{headers, wire_frame_headers(headers, path, nobody, size, segment)}, {bytes, size}};
    struct msghdr message = {.msg_name = &link, .msg_namelen = sizeof(link), .msg_iov = parts, .msg_iovlen = 2};
    wire_frame_address(&link, path);
    if (!loopback)
        loopback = if_nametoindex("lo");
    link.sll_ifindex = (int)loopback;
    sendmsg(frame_fd, &message, MSG_DONTWAIT); /* datagrams may be lost */
}

void wire_frame_address(struct sockaddr_ll *out, const struct path *path)
{
    *out = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_halen = ETH_ALEN, .sll_ifindex = path->device->ifindex};
    out->sll_protocol = htons(path->v6 ? ETH_P_IPV6 : ETH_P_IP);
}
