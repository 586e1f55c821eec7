/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/door.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROOM    (8 << 20) /* bytes of a socket */
#define CONTROL 256
#define HEAD_6  40 /* bytes of the head of IPv6 */
/* <linux/icmp.h> has this one, and does not go together with <net/if.h>. */
#define FILTER_TYPES 1 /* option of a raw socket of ICMP: bits of types that it does not want */

/* ---- opening ---- */

static int fails(const char *what)
{
    error_note(TUTTI_SYSTEM_ERROR, "%s for probes: %s%s", what, strerror(errno),
               errno == EPERM ? " (it needs CAP_NET_RAW)" : "");
    return -1;
}

/* Data of RDMA that a socket of the software device gets is not copied here: the kernel looks at port and magic. A
 * socket of IPv6 sees packets from the head of UDP on. */
static bool filter_probes(int fd, int family, uint16_t port)
{
    struct sock_filter code[] = {
        family ? (struct sock_filter)BPF_STMT(BPF_LDX | BPF_IMM, 0)
               : (struct sock_filter)BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_IND, 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROBE_MAGIC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0x40000),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/* Bits of the types that are not wanted: all but two. */
static bool filter_routers(int fd, int family)
{
    uint32_t unwanted[8] = {~(family ? 1u << 1 | 1u << 3 : 1u << 11 | 1u << 3), ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
    return family ? setsockopt(fd, IPPROTO_ICMPV6, FILTER_TYPES, unwanted, sizeof unwanted) == 0
                  : setsockopt(fd, SOL_RAW, FILTER_TYPES, unwanted, sizeof *unwanted) == 0;
}

static int open_raw(int family, int protocol)
{
    int on = 1, room = ROOM,
        fd = socket(family ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    (void)setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
    if (family) { /* their heads do not come with the packets */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
    }
    return fd;
}

/* Addresses of one link are of no path. */
static bool read_nic(const struct ifaddrs *at, uint8_t out[16])
{
    if (!at->ifa_addr || at->ifa_flags & IFF_LOOPBACK)
        return false;
    if (at->ifa_addr->sa_family == AF_INET6) {
        const struct in6_addr *address = &((struct sockaddr_in6 *)(void *)at->ifa_addr)->sin6_addr;
        memcpy(out, address, 16);
        return !IN6_IS_ADDR_LINKLOCAL(address);
    }
    memset(out, 0, 10);
    out[10] = out[11] = 0xff;
    if (at->ifa_addr->sa_family == AF_INET)
        memcpy(out + 12, &((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr, 4);
    return at->ifa_addr->sa_family == AF_INET;
}

static int read_nics(uint8_t (*nic)[16], int room)
{
    struct ifaddrs *list, *at;
    int count = 0;
    if (getifaddrs(&list))
        return fails("the addresses of this host");
    for (at = list; at && count < room; at = at->ifa_next)
        count += read_nic(at, nic[count]);
    freeifaddrs(list);
    return count;
}

/* The kernel routes, or a bond queues, packets with a mark as the operator said. */
static int open_sending(int family, uint32_t mark)
{
    int fd = open_raw(family, IPPROTO_RAW);
    if (fd < 0 || !mark || setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int open_family(struct probe_door *door, int family, uint16_t port, const uint32_t marks[DOOR_SIDES])
{
    int *fd = door->fd[family], *sending = door->sending[family];
    for (int side = 0; side < DOOR_SIDES; side++) {
        sending[side] = open_sending(family, marks[side]);
        if (family && sending[side] < 0 && errno == EAFNOSUPPORT)
            return 0;
        if (sending[side] < 0)
            return fails("a raw socket");
    }
    fd[DOOR_PROBES] = open_raw(family, IPPROTO_UDP);
    fd[DOOR_ROUTERS] = open_raw(family, family ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
    if (fd[DOOR_PROBES] < 0 || fd[DOOR_ROUTERS] < 0)
        return fails("a raw socket");
    if (!filter_probes(fd[DOOR_PROBES], family, port) || !filter_routers(fd[DOOR_ROUTERS], family))
        return fails("the filter of a socket");
    return 0;
}

static int open_here(struct probe_door *door, uint16_t port, const uint32_t marks[DOOR_SIDES], uint8_t (*nic)[16],
                     int room)
{
    return open_family(door, 0, port, marks) || open_family(door, 1, port, marks) ? -1 : read_nics(nic, room);
}

static const struct probe_door no_door = {{{-1, -1}, {-1, -1}}, {{-1, -1}, {-1, -1}}, {0}, -1};

/* Sockets belong to the network in which they were opened. */
int door_open(struct probe_door *door, const char *space, uint16_t port, const uint32_t marks[DOOR_SIDES],
              uint8_t (*nic)[16], int room)
{
    *door = no_door;
    door->kernel = open("/proc/net/softnet_stat", O_RDONLY | O_CLOEXEC);
    if (!space)
        return open_here(door, port, marks, nic, room);
    int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), away = open(space, O_RDONLY | O_CLOEXEC);
    int count = -1;
    if (home >= 0 && away >= 0 && setns(away, CLONE_NEWNET) == 0) {
        count = open_here(door, port, marks, nic, room);
        if (setns(home, CLONE_NEWNET))
            count = fails("the way back from a network namespace");
    } else {
        error_note(TUTTI_INVALID_USAGE, "the network namespace %s: %s", space, strerror(errno));
    }
    if (home >= 0)
        close(home);
    if (away >= 0)
        close(away);
    return count;
}

void door_close(struct probe_door *door)
{
    const int fd[] = {door->sending[0][0], door->sending[0][1], door->fd[0][0], door->fd[0][1], door->sending[1][0],
                      door->sending[1][1], door->fd[1][0],      door->fd[1][1], door->kernel};
    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    *door = no_door;
}

/* A line for each processor, of numbers in base 16: the second one counts what a full queue did not take. */
uint64_t door_overrun(const struct probe_door *door)
{
    char text[32768];
    uint64_t sum = 0;
    unsigned packets, dropped;
    ssize_t size = door->kernel < 0 ? -1 : pread(door->kernel, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    for (const char *line = text; sscanf(line, "%x %x", &packets, &dropped) == 2; line++) {
        sum += dropped;
        line = strchr(line, '\n');
        if (!line)
            break;
    }
    return sum;
}

/* ---- packets ---- */

/* The source address chooses the NIC, where a host has several, and the mark the port of a bond. */
void door_send(const struct probe_door *door, const struct probe_ends *ends, unsigned side, const uint8_t *packet,
               size_t size)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
    bool is_4 = probe_is_4(ends->to);
    struct sockaddr_in to4 = {.sin_family = AF_INET};
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6};
    struct in_pktinfo from4 = {0};
    struct in6_pktinfo from6 = {0};
    memcpy(&to4.sin_addr, ends->to + 12, 4);
    memcpy(&to6.sin6_addr, ends->to, PROBE_END);
    memcpy(&from4.ipi_spec_dst, ends->from + 12, 4);
    memcpy(&from6.ipi6_addr, ends->from, PROBE_END);
    size_t from_size = is_4 ? sizeof from4 : sizeof from6;
    struct iovec part = {(void *)packet, size};
    struct msghdr message = {.msg_name = is_4 ? (void *)&to4 : (void *)&to6,
                             .msg_namelen = is_4 ? sizeof to4 : sizeof to6,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(from_size)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = is_4 ? IPPROTO_IP : IPPROTO_IPV6;
    head->cmsg_type = is_4 ? IP_PKTINFO : IPV6_PKTINFO;
    head->cmsg_len = CMSG_LEN(from_size);
    memcpy(CMSG_DATA(head), is_4 ? (void *)&from4 : (void *)&from6, from_size);
    (void)!sendmsg(door->sending[!is_4][side % DOOR_SIDES], &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The kernel notes when a packet came by the clock of the day. */
static uint64_t since_boot(const struct timespec *day)
{
    struct timespec today;
    uint64_t now = clock_ns();
    clock_gettime(CLOCK_REALTIME, &today);
    int64_t age = (today.tv_sec - day->tv_sec) * (int64_t)NS_PER_S + (today.tv_nsec - day->tv_nsec);
    return age > 0 && age < (int64_t)NS_PER_S ? now - (uint64_t)age : now;
}

/* What the kernel says beside a packet. */
static void take_control(struct probe_door *door, int family, enum door_socket which, struct msghdr *message,
                         struct door_packet *out)
{
    struct timespec day;
    int hops;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        bool of_ip6 = family && head->cmsg_level == IPPROTO_IPV6;
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SO_TIMESTAMPNS) {
            memcpy(&day, CMSG_DATA(head), sizeof day);
            out->when = since_boot(&day);
        } else if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SO_RXQ_OVFL && which == DOOR_PROBES) {
            memcpy(&door->dropped[family], CMSG_DATA(head), sizeof door->dropped[family]);
        } else if (of_ip6 && head->cmsg_type == IPV6_PKTINFO) {
            memcpy(out->bytes + 24, &((struct in6_pktinfo *)(void *)CMSG_DATA(head))->ipi6_addr, PROBE_END);
        } else if (of_ip6 && head->cmsg_type == IPV6_HOPLIMIT) {
            memcpy(&hops, CMSG_DATA(head), sizeof hops);
            out->bytes[7] = (uint8_t)hops;
        }
    }
}

/* A packet of IPv6 comes without its head, which is made here of what the kernel says. */
bool door_take(struct probe_door *door, int family, enum door_socket which, struct door_packet *out)
{
    _Alignas(struct cmsghdr) char control[CONTROL];
    size_t head = family ? HEAD_6 : 0;
    struct sockaddr_in6 from = {0};
    struct iovec part = {out->bytes + head, sizeof out->bytes - head};
    struct msghdr message = {.msg_name = &from,
                             .msg_namelen = sizeof from,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t size = door->fd[family][which] < 0 ? -1 : recvmsg(door->fd[family][which], &message, MSG_DONTWAIT);
    if (size < 0)
        return false;
    if (family) {
        memset(out->bytes, 0, HEAD_6);
        out->bytes[0] = 0x60;
        out->bytes[6] = which == DOOR_PROBES ? IPPROTO_UDP : IPPROTO_ICMPV6;
        memcpy(out->bytes + 8, &from.sin6_addr, PROBE_END);
    }
    out->size = (size_t)size + head;
    out->when = clock_ns();
    take_control(door, family, which, &message, out);
    return true;
}
