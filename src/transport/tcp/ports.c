/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News of network interfaces, from rtnetlink(7). A lane whose interface loses its carrier would be silent until
 * somebody probes; here it goes down at once, and its traffic goes on over the others. Lanes to processes of this host
 * are left alone: their bytes never reach the wire.
 */
#include "base/fork.h"
#include "base/log.h"
#include "transport/tcp/ports.h"
#include "transport/tcp/watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NEWS_BYTES 8192 /* netlink(7): no message is longer */

static void interface_down(struct tcp_transport *tcp, int interface)
{
    char name[IF_NAMESIZE] = "?";
    unsigned lanes = 0;
    list_each(node, &tcp->lanes)
    {
        struct tcp_lane *lane = list_entry(node, struct tcp_lane, node);
        if (lane->interface != interface || carrier_dead(&lane->base))
            continue;
        tcp_fail(lane, "its network interface is down", ENETDOWN);
        lanes++;
    }
    if (lanes && if_indextoname((unsigned)interface, name))
        log_info("network interface %s is down, and with it TCP lanes: %u", name, lanes);
}

static void read_one(struct tcp_transport *tcp, const struct nlmsghdr *head)
{
    struct ifinfomsg link;
    if ((head->nlmsg_type != RTM_NEWLINK && head->nlmsg_type != RTM_DELLINK) ||
        head->nlmsg_len < NLMSG_LENGTH(sizeof link))
        return;
    memcpy(&link, NLMSG_DATA(head), sizeof link);
    if (head->nlmsg_type == RTM_DELLINK || !(link.ifi_flags & IFF_RUNNING))
        interface_down(tcp, link.ifi_index);
}

/* The sender is the kernel, port 0: what processes send is not believed. What was lost in an overflow is left to the
 * probes. */
static void ports_ready(struct poll_source *source, uint32_t events)
{
    struct tcp_transport *tcp = container_of(source, struct tcp_transport, ports);
    _Alignas(struct nlmsghdr) unsigned char news[NEWS_BYTES];
    (void)events;
    for (;;) {
        struct sockaddr_nl from = {0};
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(source->fd, news, sizeof news, MSG_DONTWAIT, (struct sockaddr *)&from, &size);
        if (got < 0 && (errno == EINTR || errno == ENOBUFS))
            continue;
        if (got <= 0)
            return;
        unsigned left = from.nl_pid ? 0 : (unsigned)got;
        for (const struct nlmsghdr *head = (const void *)news; NLMSG_OK(head, left); head = NLMSG_NEXT(head, left))
            read_one(tcp, head);
    }
}

void tcp_ports_open(struct tcp_transport *tcp)
{
    struct sockaddr_nl wish = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int fd = fork_socket(AF_NETLINK, SOCK_RAW);
    tcp->ports = (struct poll_source){.fd = fd, .ready = ports_ready};
    if (fd >= 0 && bind(fd, (struct sockaddr *)&wish, sizeof wish) == 0 &&
        poller_add(tcp->base.inner, &tcp->ports, EPOLLIN) == TUTTI_SUCCESS)
        return;
    log_info("no news of network interfaces (%s): a lane whose interface is down is found by probes", strerror(errno));
    if (fd >= 0)
        close(fd);
    tcp->ports.fd = -1;
}

void tcp_ports_close(struct tcp_transport *tcp)
{
    if (tcp->ports.fd < 0)
        return;
    poller_remove(tcp->base.inner, &tcp->ports);
    close(tcp->ports.fd);
    tcp->ports.fd = -1;
}
