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
/* <linux/icmp.h> has these, and does not go together with <net/if.h>. */
#define FILTER_TYPES 1 /* option of a raw socket of ICMP: bits of types that it does not want */
#define UNREACHABLE  3
#define TIME_OVER    11

/* ---- opening ---- */

static int fails(const char *what)
{
    error_note(TUTTI_SYSTEM_ERROR, "%s for probes: %s%s", what, strerror(errno),
               errno == EPERM ? " (it needs CAP_NET_RAW)" : "");
    return -1;
}

/* Data of RDMA that a socket of the software device gets is not copied here: the kernel looks at port and magic. */
static bool filter_probes(int fd, uint16_t port)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
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

static bool filter_routers(int fd)
{
    uint32_t unwanted = ~(1u << TIME_OVER | 1u << UNREACHABLE);
    return setsockopt(fd, SOL_RAW, FILTER_TYPES, &unwanted, sizeof unwanted) == 0;
}

static int open_raw(int protocol)
{
    int on = 1, room = ROOM, fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    (void)setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
    return fd;
}

static int read_nics(uint8_t (*nic)[16], int room)
{
    struct ifaddrs *list, *at;
    int count = 0;
    if (getifaddrs(&list))
        return fails("the addresses of this host");
    for (at = list; at && count < room; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || at->ifa_flags & IFF_LOOPBACK)
            continue;
        memset(nic[count], 0, 10);
        nic[count][10] = nic[count][11] = 0xff;
        memcpy(nic[count++] + 12, &((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr, 4);
    }
    freeifaddrs(list);
    return count;
}

static int open_here(struct probe_door *door, uint16_t port, uint8_t (*nic)[16], int room)
{
    door->sending = open_raw(IPPROTO_RAW);
    door->probes = open_raw(IPPROTO_UDP);
    door->routers = open_raw(IPPROTO_ICMP);
    if (door->sending < 0 || door->probes < 0 || door->routers < 0)
        return fails("a raw socket");
    if (!filter_probes(door->probes, port) || !filter_routers(door->routers))
        return fails("the filter of a socket");
    return read_nics(nic, room);
}

/* Sockets belong to the network in which they were opened. */
int door_open(struct probe_door *door, const char *space, uint16_t port, uint8_t (*nic)[16], int room)
{
    *door = (struct probe_door){-1, -1, -1, 0, open("/proc/net/softnet_stat", O_RDONLY | O_CLOEXEC)};
    if (!space)
        return open_here(door, port, nic, room);
    int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), away = open(space, O_RDONLY | O_CLOEXEC);
    int count = -1;
    if (home >= 0 && away >= 0 && setns(away, CLONE_NEWNET) == 0) {
        count = open_here(door, port, nic, room);
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
    const int fd[] = {door->sending, door->probes, door->routers, door->kernel};
    for (int i = 0; i < 4; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    *door = (struct probe_door){-1, -1, -1, 0, -1};
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

/* The source address chooses the NIC, where a host has several. */
void door_send(const struct probe_door *door, const struct probe_ends *ends, const uint8_t *packet, size_t size)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo))] = {0};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {ends->to}};
    struct iovec part = {(void *)packet, size};
    struct msghdr message = {.msg_name = &to,
                             .msg_namelen = sizeof to,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    const struct in_pktinfo from = {.ipi_spec_dst = {ends->from}};
    head->cmsg_level = IPPROTO_IP;
    head->cmsg_type = IP_PKTINFO;
    head->cmsg_len = CMSG_LEN(sizeof from);
    memcpy(CMSG_DATA(head), &from, sizeof from);
    (void)!sendmsg(door->sending, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
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

bool door_take(struct probe_door *door, int fd, struct door_packet *out)
{
    _Alignas(struct cmsghdr) char control[CONTROL];
    struct iovec part = {out->bytes, sizeof out->bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT);
    if (size < 0)
        return false;
    out->size = (size_t)size;
    out->when = clock_ns();
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        struct timespec day;
        if (head->cmsg_level != SOL_SOCKET)
            continue;
        if (head->cmsg_type == SO_TIMESTAMPNS) {
            memcpy(&day, CMSG_DATA(head), sizeof day);
            out->when = since_boot(&day);
        } else if (head->cmsg_type == SO_RXQ_OVFL && fd == door->probes) {
            memcpy(&door->dropped, CMSG_DATA(head), sizeof door->dropped);
        }
    }
    return true;
}
