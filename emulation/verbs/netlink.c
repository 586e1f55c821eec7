/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of rtnetlink(7). */
#include "netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
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
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtgenmsg)), .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
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

int netlink_monitor(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address))) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}
