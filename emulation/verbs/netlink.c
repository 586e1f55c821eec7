/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of rtnetlink(7), and questions about one route and one neighbour. */
#include "verbs/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOWER_UP 0x10000 /* IFF_LOWER_UP, which <net/if.h> lacks */

struct callback {
    void (*link)(const struct netlink_link *link, void *arg);
    void (*address)(const struct netlink_address *address, void *arg);
    void *arg;
};

static int ask(int fd, uint16_t type)
{
    struct {
        struct nlmsghdr header;
        struct rtgenmsg general;
    } request = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtgenmsg)),
                   .nlmsg_type = type,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .general = {.rtgen_family = AF_UNSPEC},
    };
    return send(fd, &request, request.header.nlmsg_len, 0) < 0 ? errno : 0;
}

static void take_link(const struct nlmsghdr *message, const struct callback *call)
{
    const struct ifinfomsg *info = NLMSG_DATA(message);
    struct netlink_link link = {.index = info->ifi_index, .hardware = info->ifi_type};
    int left = (int)IFLA_PAYLOAD(message);
    link.up = (info->ifi_flags & IFF_UP) && (info->ifi_flags & LOWER_UP);
    for (const struct rtattr *at = IFLA_RTA(info); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        size_t size = RTA_PAYLOAD(at);
        if (at->rta_type == IFLA_IFNAME && size <= sizeof(link.name))
            memcpy(link.name, RTA_DATA(at), size);
        else if (at->rta_type == IFLA_MTU && size == sizeof(link.mtu))
            memcpy(&link.mtu, RTA_DATA(at), size);
        else if (at->rta_type == IFLA_ADDRESS && size == sizeof(link.mac))
            memcpy(link.mac, RTA_DATA(at), size);
    }
    link.name[sizeof(link.name) - 1] = 0;
    call->link(&link, call->arg);
}

static void take_address(const struct nlmsghdr *message, const struct callback *call)
{
    const struct ifaddrmsg *info = NLMSG_DATA(message);
    struct netlink_address address = {.index = (int)info->ifa_index, .v6 = info->ifa_family == AF_INET6};
    uint32_t flags = info->ifa_flags;
    size_t want = address.v6 ? 16 : 4;
    bool have = false;
    int left = (int)IFA_PAYLOAD(message);
    for (const struct rtattr *at = IFA_RTA(info); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        bool local = at->rta_type == IFA_LOCAL || (at->rta_type == IFA_ADDRESS && (address.v6 || !have));
        if (at->rta_type == IFA_FLAGS && RTA_PAYLOAD(at) == sizeof(flags)) {
            memcpy(&flags, RTA_DATA(at), sizeof(flags));
        } else if (local && RTA_PAYLOAD(at) == want) {
            memcpy(address.bytes, RTA_DATA(at), want);
            have = true;
        }
    }
    bool family = info->ifa_family == AF_INET || info->ifa_family == AF_INET6;
    if (have && family && !(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)))
        call->address(&address, call->arg);
}

/* 0: go on, 1: the dump is complete, -1 with errno. */
static int take_messages(const char *buffer, size_t size, const struct callback *call)
{
    unsigned left = (unsigned)size;
    for (const struct nlmsghdr *at = (const void *)buffer; NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
        if (at->nlmsg_type == NLMSG_DONE)
            return 1;
        if (at->nlmsg_type == NLMSG_ERROR) {
            errno = -((const struct nlmsgerr *)NLMSG_DATA(at))->error;
            return -1;
        }
        if (at->nlmsg_type == RTM_NEWLINK && call->link)
            take_link(at, call);
        if (at->nlmsg_type == RTM_NEWADDR && call->address)
            take_address(at, call);
    }
    return 0;
}

static int dump(uint16_t type, const struct callback *call)
{
    char buffer[32768] __attribute__((aligned(8)));
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return errno;
    int err = ask(fd, type), state = 0;
    while (!err && !state) {
        ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
        state = n < 0 ? (errno == EINTR ? 0 : -1) : take_messages(buffer, (size_t)n, call);
        err = state < 0 ? errno : 0;
    }
    close(fd);
    return err;
}

int netlink_links(void (*each)(const struct netlink_link *link, void *arg), void *arg)
{
    return dump(RTM_GETLINK, &(struct callback){.link = each, .arg = arg});
}

int netlink_addresses(void (*each)(const struct netlink_address *address, void *arg), void *arg)
{
    return dump(RTM_GETADDR, &(struct callback){.address = each, .arg = arg});
}

struct netlink_question {
    struct nlmsghdr header;
    union {
        struct rtmsg route;
        struct ndmsg neighbour;
    } about;
    char attributes[128];
};

static void add(struct netlink_question *question, uint16_t type, const void *data, size_t size)
{
    struct rtattr *at = (void *)((char *)question + NLMSG_ALIGN(question->header.nlmsg_len));
    at->rta_type = type;
    at->rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(RTA_DATA(at), data, size);
    question->header.nlmsg_len = NLMSG_ALIGN(question->header.nlmsg_len) + (uint32_t)RTA_ALIGN(at->rta_len);
}

/* The one answer, of the type that is wanted, is in `buffer`. rtnetlink answers within send. */
static int put(const struct netlink_question *question, uint16_t wanted, void *buffer, size_t size)
{
    const struct nlmsghdr *answer = buffer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err = 0;
    if (fd < 0)
        return errno;
    ssize_t n = send(fd, question, question->header.nlmsg_len, 0);
    if (n >= 0)
        n = recv(fd, buffer, size, MSG_DONTWAIT);
    if (n < 0)
        err = errno;
    else if (!NLMSG_OK(answer, (size_t)n) || answer->nlmsg_type != wanted)
        err = ENOENT;
    close(fd);
    return err;
}

/* Whether the route is a plain one by the interface; then its gateway, if it has one, is in `gateway`. */
static bool take_route(const struct nlmsghdr *answer, const struct netlink_flow *flow, uint8_t *gateway)
{
    const struct rtmsg *route = NLMSG_DATA(answer);
    int left = (int)RTM_PAYLOAD(answer), index = 0;
    bool plain = route->rtm_type == RTN_UNICAST;
    for (const struct rtattr *at = RTM_RTA(route); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type == RTA_OIF && RTA_PAYLOAD(at) == sizeof(index))
            memcpy(&index, RTA_DATA(at), sizeof(index));
        else if (at->rta_type == RTA_GATEWAY && RTA_PAYLOAD(at) == (flow->v6 ? 16 : 4))
            memcpy(gateway, RTA_DATA(at), RTA_PAYLOAD(at));
        else if (at->rta_type == RTA_ENCAP_TYPE || at->rta_type == RTA_VIA || at->rta_type == RTA_MULTIPATH)
            plain = false;
    }
    return plain && index == flow->index;
}

static int ask_route(const struct netlink_flow *flow, uint8_t *gateway)
{
    char buffer[2048] __attribute__((aligned(8)));
    size_t size = flow->v6 ? 16 : 4;
    uint8_t bits = (uint8_t)(size * 8), udp = IPPROTO_UDP;
    uint16_t source = htons(flow->source_port), destination = htons(flow->destination_port);
    struct netlink_question question = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                   .nlmsg_type = RTM_GETROUTE,
                   .nlmsg_flags = NLM_F_REQUEST},
        .about.route = {.rtm_family = flow->v6 ? AF_INET6 : AF_INET, .rtm_dst_len = bits, .rtm_src_len = bits},
    };
    question.about.route.rtm_tos = flow->traffic_class & 0xfc; /* without the bits of ECN */
    add(&question, RTA_DST, flow->destination, size);
    add(&question, RTA_SRC, flow->source, size);
    add(&question, RTA_OIF, &flow->index, sizeof(flow->index));
    add(&question, RTA_IP_PROTO, &udp, sizeof(udp));
    add(&question, RTA_SPORT, &source, sizeof(source));
    add(&question, RTA_DPORT, &destination, sizeof(destination));
    memcpy(gateway, flow->destination, size);
    int err = put(&question, RTM_NEWROUTE, buffer, sizeof(buffer));
    return err ? err : take_route((const void *)buffer, flow, gateway) ? 0 : ENOENT;
}

/* One that was not heard of for a while is good until the kernel finds that it is not. */
static bool take_neighbour(const struct nlmsghdr *answer, uint8_t to[6])
{
    const struct ndmsg *neighbour = NLMSG_DATA(answer);
    int left = (int)NLMSG_PAYLOAD(answer, sizeof(*neighbour));
    if (!(neighbour->ndm_state & (NUD_PERMANENT | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)))
        return false;
    const struct rtattr *at = (const void *)((const char *)neighbour + NLMSG_ALIGN(sizeof(*neighbour)));
    for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type != NDA_LLADDR || RTA_PAYLOAD(at) != 6)
            continue;
        memcpy(to, RTA_DATA(at), 6);
        return true;
    }
    return false;
}

int netlink_next_hop(const struct netlink_flow *flow, uint8_t to[6])
{
    char buffer[2048] __attribute__((aligned(8)));
    uint8_t gateway[16];
    int err = ask_route(flow, gateway);
    if (err)
        return err;
    struct netlink_question question = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
                   .nlmsg_type = RTM_GETNEIGH,
                   .nlmsg_flags = NLM_F_REQUEST},
        .about.neighbour = {.ndm_family = flow->v6 ? AF_INET6 : AF_INET, .ndm_ifindex = flow->index},
    };
    add(&question, NDA_DST, gateway, flow->v6 ? 16 : 4);
    err = put(&question, RTM_NEWNEIGH, buffer, sizeof(buffer));
    return err ? err : take_neighbour((const void *)buffer, to) ? 0 : ENOENT;
}

int netlink_carrier(int fd, const char *ifname)
{
    struct ethtool_value value = {.cmd = ETHTOOL_GLINK};
    struct ifreq request = {.ifr_data = (void *)&value};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", ifname);
    return ioctl(fd, SIOCETHTOOL, &request) ? -1 : value.data != 0;
}

int netlink_monitor(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl address = {.nl_family = AF_NETLINK,
                                  .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address))) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}
