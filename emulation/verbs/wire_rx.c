/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving. Several processes of a host share UDP port 4791. So each reads packets by a packet socket whose filter
 * passes the process's own queue pair numbers. A UDP socket that drops everything keeps the kernel from answering "port
 * unreachable". The packet socket also shows the IP header, of which the ICRC covers a part. */
#include "verbs/counters.h"
#include "verbs/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RX_BATCH       4
#define RX_FRAME       (66 * 1024)
#define RX_BUFFER      (64 * 1024 * 1024)
#define FILTER_MAX     (22 + SLOTS_MAX)
#define V6_IDLE_PERIOD 16
#define GSO_UDP        5 /* VIRTIO_NET_HDR_GSO_UDP_L4, which older headers lack */

struct receiver {
    int fd;
    struct mmsghdr messages[RX_BATCH];
    struct iovec parts[RX_BATCH][2];
    struct virtio_net_hdr offload[RX_BATCH];
    struct sockaddr_ll from[RX_BATCH];
};

static uint8_t frames[RX_BATCH][RX_FRAME] __attribute__((aligned(64)));
static struct receiver receivers[2] = {{.fd = -1}, {.fd = -1}}; /* IPv4, IPv6 */
static int sinks[2] = {-1, -1};
static unsigned idle_rounds;
static bool v6_seen;

/* Passes UDP packets to port 4791 whose destination is multicast or in one of the slots. `ip` is 4 or 6. */
static int build_filter(struct sock_filter *code, bool v6, const uint32_t *slots, int n)
{
    uint32_t net = (uint32_t)SKF_NET_OFF, transport = v6 ? 40 : 20;
    int at = 0;
    struct {
        uint16_t load;
        uint32_t offset, value;
        uint16_t jump;
    } tests[] = {
        {BPF_LD | BPF_B | BPF_ABS, net + (v6 ? 6 : 9), IPPROTO_UDP, BPF_JEQ},
        {BPF_LD | BPF_B | BPF_ABS, v6 ? net + 6 : net, v6 ? IPPROTO_UDP : 0x45, BPF_JEQ},
        {BPF_LD | BPF_H | BPF_ABS, net + transport + 2, ROCE_UDP_PORT, BPF_JEQ},
    };
    int total = 2 * 3 + 7 + n + 2 + 2;
    int drop = total - 1;
    for (int i = 0; i < 3; i++) {
        code[at++] = (struct sock_filter)BPF_STMT(tests[i].load, tests[i].offset);
        code[at] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | tests[i].jump | BPF_K, tests[i].value, 0, (uint8_t)(drop - at - 1));
        at++;
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE));
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OTHERHOST, 0, 2);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS,
                                              (uint32_t)(SKF_AD_OFF + SKF_AD_HATYPE)); /* see wire_frame.c */
    code[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARPHRD_LOOPBACK, 0, (uint8_t)(drop - at - 1));
    at++;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, net + transport + 8 + 4);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MASK);
    int pass = drop - 1;
    code[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QPN_MULTICAST, (uint8_t)(pass - at - 1), 0);
    at++;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, SLOT_BITS);
    for (int i = 0; i < n; i++, at++)
        code[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slots[i], (uint8_t)(pass - at - 1), 0);
    code[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, (uint32_t)(drop - at - 1), 0, 0);
    at++;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0x7fffffff);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    return at;
}

static int attach(int fd, struct sock_filter *code, int n)
{
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? errno : 0;
}

static int attach_nothing(int fd)
{
    struct sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    return attach(fd, drop, 1);
}

int wire_listen(const uint32_t *slots, int n)
{
    struct sock_filter code[FILTER_MAX];
    int err = 0;
    for (int i = 0; i < 2 && !err; i++)
        err = attach(receivers[i].fd, code, build_filter(code, i == 1, slots, n));
    return err;
}

static void prepare(struct receiver *receiver)
{
    for (int i = 0; i < RX_BATCH; i++) {
        receiver->parts[i][0] = (struct iovec){&receiver->offload[i], sizeof(struct virtio_net_hdr)};
        receiver->parts[i][1] = (struct iovec){frames[i], RX_FRAME};
        receiver->messages[i].msg_hdr =
            (struct msghdr){.msg_iov = receiver->parts[i], .msg_iovlen = 2, .msg_name = &receiver->from[i]};
    }
}

static int open_receiver(struct receiver *receiver, uint16_t protocol)
{
    int on = 1, size = RX_BUFFER;
    receiver->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (receiver->fd < 0)
        return errno;
    if (setsockopt(receiver->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
        setsockopt(receiver->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (setsockopt(receiver->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) || attach_nothing(receiver->fd))
        return errno;
    struct sockaddr_ll any = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol)};
    prepare(receiver);
    return bind(receiver->fd, (struct sockaddr *)&any, sizeof(any)) ? errno : 0;
}

/* Without IPv6, or when another user's process holds the port already, there is simply no sink. */
static int open_sink(int family)
{
    int on = 1, fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)); /* else the kernel cuts each super-packet before it drops it */
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    const struct sockaddr *address = family == AF_INET6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    if (attach_nothing(fd) || bind(fd, address, family == AF_INET6 ? sizeof(six) : sizeof(four))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void wire_close_receivers(void);
int wire_open_receivers(void);

int wire_open_receivers(void)
{
    int err = open_receiver(&receivers[0], ETH_P_IP);
    if (!err)
        err = open_receiver(&receivers[1], ETH_P_IPV6);
    if (err) {
        wire_close_receivers();
        return err;
    }
    sinks[0] = open_sink(AF_INET);
    sinks[1] = open_sink(AF_INET6);
    return 0;
}

void wire_close_receivers(void)
{
    for (int i = 0; i < 2; i++) {
        close_fd(&receivers[i].fd);
        close_fd(&sinks[i]);
    }
    v6_seen = false;
}

int wire_fd4(void)
{
    return receivers[0].fd;
}

int wire_fd6(void)
{
    return receivers[1].fd;
}

static bool parse_ip4(struct arrival *out, const uint8_t *ip, size_t size)
{
    if (size < 28 || ip[0] != 0x45 || ip[9] != IPPROTO_UDP || (ip[6] & 0x3f) || ip[7])
        return false;
    out->flow.v6 = false;
    out->traffic_class = ip[1];
    out->hops = ip[8];
    out->flow.ip_id = (uint16_t)(ip[4] << 8 | ip[5]);
    out->flow.ip_fragment = (uint16_t)(ip[6] << 8 | ip[7]);
    memcpy(out->flow.source, ip + 12, 4);
    memcpy(out->flow.destination, ip + 16, 4);
    out->ip_size = 20;
    return true;
}

static bool parse_ip6(struct arrival *out, const uint8_t *ip, size_t size)
{
    if (size < 48 || ip[0] >> 4 != 6 || ip[6] != IPPROTO_UDP)
        return false;
    out->flow.v6 = true;
    out->traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
    out->hops = ip[7];
    memcpy(out->flow.source, ip + 8, 16);
    memcpy(out->flow.destination, ip + 24, 16);
    out->ip_size = 40;
    return true;
}

void wire_split(const uint8_t *ip, size_t size, size_t segment, int ifindex, wire_deliver_fn deliver)
{
    struct arrival arrival = {.ip = ip, .ifindex = ifindex};
    if (size < 1 || !(ip[0] >> 4 == 6 ? parse_ip6(&arrival, ip, size) : parse_ip4(&arrival, ip, size))) {
        count(dropped_not_ip);
        return;
    }
    const uint8_t *udp = ip + arrival.ip_size, *at = udp + 8;
    size_t length = (size_t)(udp[4] << 8 | udp[5]), left = size - arrival.ip_size - 8;
    if (!segment && (length < 8 || length - 8 > left || (udp[2] << 8 | udp[3]) != ROCE_UDP_PORT)) {
        count(dropped_short);
        return;
    }
    arrival.flow.source_port = (uint16_t)(udp[0] << 8 | udp[1]);
    left = segment ? left : length - 8;
    do {
        arrival.bytes = at;
        arrival.size = segment && segment < left ? segment : left;
        at += arrival.size;
        left -= arrival.size;
        deliver(&arrival);
        arrival.flow.ip_id++; /* as segmentation would have numbered them */
    } while (left);
}

static size_t link_header(const struct sockaddr_ll *from)
{
    return from->sll_hatype == ARPHRD_ETHER || from->sll_hatype == ARPHRD_LOOPBACK ? ETH_HLEN : 0;
}

static int receive_from(struct receiver *receiver, wire_deliver_fn deliver)
{
    for (int i = 0; i < RX_BATCH; i++)
        receiver->messages[i].msg_hdr.msg_namelen = sizeof(receiver->from[i]);
    int n = recvmmsg(receiver->fd, receiver->messages, RX_BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        size_t size = receiver->messages[i].msg_len, skip = link_header(&receiver->from[i]);
        if (size < sizeof(struct virtio_net_hdr) + skip || receiver->messages[i].msg_hdr.msg_flags & MSG_TRUNC) {
            count(dropped_short);
            continue;
        }
        size -= sizeof(struct virtio_net_hdr) + skip;
        size_t segment = receiver->offload[i].gso_type == GSO_UDP ? receiver->offload[i].gso_size : 0;
        wire_split(frames[i] + skip, size, segment, receiver->from[i].sll_ifindex, deliver);
    }
    return n;
}

/* IPv6 is asked less often until its first packet, to spare a spinning poller the second system call. */
enum wire_came wire_receive(wire_deliver_fn deliver)
{
    int n = receive_from(&receivers[0], deliver);
    if (v6_seen || (n <= 0 && ++idle_rounds % V6_IDLE_PERIOD == 0)) {
        int six = receive_from(&receivers[1], deliver);
        v6_seen |= six > 0;
        n = six > 0 ? six : n;
    }
    return n <= 0 ? WIRE_NOTHING : n < RX_BATCH ? WIRE_SOME : WIRE_MANY;
}
