/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, answers and attributes of rtnetlink(7). */
#include "lab/netlink.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Linux 6.13 and 6.15; the headers of Debian 12 end before them. */
#define RULE_DSCP       25
#define RULE_SPORT_MASK 28

#define ANSWER_BYTES  32768
#define OPERSTATE_UP  6 /* RFC 2863 */
#define FLAG_LOWER_UP 0x10000u

struct netlink_request {
    alignas(NLMSG_ALIGNTO) char bytes[512];
};

static struct nlmsghdr *header_of(struct netlink_request *request)
{
    return (struct nlmsghdr *)request->bytes;
}

static void *request_init(struct netlink_request *request, int type, int flags, size_t body)
{
    memset(request, 0, sizeof *request);
    struct nlmsghdr *header = header_of(request);
    header->nlmsg_len = (uint32_t)NLMSG_LENGTH(body);
    header->nlmsg_type = (uint16_t)type;
    header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
    header->nlmsg_seq = 1;
    return NLMSG_DATA(header);
}

/* Requests are made here and fit by construction. */
static void request_attr(struct netlink_request *request, int type, const void *data, size_t size)
{
    struct nlmsghdr *header = header_of(request);
    struct rtattr *attr = (struct rtattr *)(request->bytes + NLMSG_ALIGN(header->nlmsg_len));
    attr->rta_type = (uint16_t)type;
    attr->rta_len = (uint16_t)RTA_LENGTH(size);
    memcpy(RTA_DATA(attr), data, size);
    header->nlmsg_len = (uint32_t)(NLMSG_ALIGN(header->nlmsg_len) + RTA_ALIGN(attr->rta_len));
}

tutti_result_t netlink_open(int *out)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct timeval limit = {.tv_sec = 10};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
        int code = errno;
        netlink_close(fd);
        return error_note(TUTTI_SYSTEM_ERROR, "opening a netlink socket: %s", strerror(code));
    }
    *out = fd;
    return TUTTI_SUCCESS;
}

void netlink_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* One attribute of a message; NULL if absent or shorter than `size`. */
static void *attr_find(struct rtattr *attr, int length, int type, size_t size)
{
    for (; RTA_OK(attr, length); attr = RTA_NEXT(attr, length))
        if ((attr->rta_type & NLA_TYPE_MASK) == type)
            return RTA_PAYLOAD(attr) >= size ? RTA_DATA(attr) : NULL;
    return NULL;
}

typedef void (*message_fn)(const struct nlmsghdr *message, void *context);

/* 1: more to come, 0: finished, negative: errno. */
static int take_answers(char *bytes, ssize_t length, message_fn each, void *context)
{
    size_t left = (size_t)length;
    for (struct nlmsghdr *message = (struct nlmsghdr *)bytes; NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
        if (message->nlmsg_type == NLMSG_DONE)
            return 0;
        if (message->nlmsg_type == NLMSG_ERROR)
            return ((struct nlmsgerr *)NLMSG_DATA(message))->error;
        if (each)
            each(message, context);
    }
    return 1;
}

/* Sends a request and hands each answer to `each`. Negative: errno. */
static int converse(int fd, struct netlink_request *request, message_fn each, void *context)
{
    alignas(NLMSG_ALIGNTO) char bytes[ANSWER_BYTES];
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    const struct nlmsghdr *header = header_of(request);
    if (sendto(fd, header, header->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        return -errno;
    for (int more = 1; more;) {
        ssize_t length = recv(fd, bytes, sizeof bytes, 0);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return -errno;
        more = take_answers(bytes, length, each, context);
        if (more < 0)
            return more;
    }
    return 0;
}

struct port_list {
    struct netlink_port *ports;
    int room, count;
};

static void take_link(const struct nlmsghdr *message, void *context)
{
    struct port_list *list = context;
    const struct ifinfomsg *info = NLMSG_DATA(message);
    struct rtattr *attrs = IFLA_RTA(info);
    int length = (int)IFLA_PAYLOAD(message);
    const char *name = attr_find(attrs, length, IFLA_IFNAME, 1);
    if (message->nlmsg_type != RTM_NEWLINK || !name || (info->ifi_flags & IFF_LOOPBACK))
        return;
    if (list->count++ >= list->room)
        return;
    const uint8_t *operstate = attr_find(attrs, length, IFLA_OPERSTATE, 1);
    struct rtnl_link_stats64 stats = {0};
    const void *found = attr_find(attrs, length, IFLA_STATS64, offsetof(struct rtnl_link_stats64, rx_compressed));
    if (found) /* not aligned to 8 bytes in the message */
        memcpy(&stats, found, offsetof(struct rtnl_link_stats64, rx_compressed));
    const uint8_t *mac = attr_find(attrs, length, IFLA_ADDRESS, 6);
    struct netlink_port *port = &list->ports[list->count - 1];
    *port = (struct netlink_port){.index = info->ifi_index, .up = info->ifi_flags & IFF_UP};
    port->carrier = info->ifi_flags & FLAG_LOWER_UP;
    port->running = operstate && *operstate == OPERSTATE_UP;
    port->silent = mac && mac[1] == NETLINK_DEAF;
    port->tx_bytes = stats.tx_bytes;
    port->tx_packets = stats.tx_packets;
    port->drops = stats.tx_dropped;
    snprintf(port->name, sizeof port->name, "%.15s", name);
}

static void take_tbf(struct netlink_port *port, struct rtattr *options)
{
    int length = (int)RTA_PAYLOAD(options);
    const struct tc_tbf_qopt *tbf = attr_find(RTA_DATA(options), length, TCA_TBF_PARMS, sizeof *tbf);
    const void *rate64 = attr_find(RTA_DATA(options), length, TCA_TBF_RATE64, sizeof port->rate);
    if (!tbf)
        return;
    port->rate = tbf->rate.rate;
    if (rate64)
        memcpy(&port->rate, rate64, sizeof port->rate);
    port->rate *= 8;
}

static void take_qdisc(const struct nlmsghdr *message, void *context)
{
    struct port_list *list = context;
    const struct tcmsg *info = NLMSG_DATA(message);
    struct rtattr *attrs = TCA_RTA(info);
    int length = (int)TCA_PAYLOAD(message);
    const char *kind = attr_find(attrs, length, TCA_KIND, 1);
    struct tc_stats stats = {0};
    const void *found = attr_find(attrs, length, TCA_STATS, offsetof(struct tc_stats, bps));
    char *options = attr_find(attrs, length, TCA_OPTIONS, 1);
    if (found) /* not aligned either */
        memcpy(&stats, found, offsetof(struct tc_stats, bps));
    int known = list->count < list->room ? list->count : list->room;
    for (int i = 0; i < known; i++) {
        if (list->ports[i].index != info->tcm_ifindex || info->tcm_parent != TC_H_ROOT)
            continue;
        list->ports[i].drops += stats.drops;
        if (kind && options && strcmp(kind, "tbf") == 0)
            take_tbf(&list->ports[i], (struct rtattr *)(options - RTA_LENGTH(0)));
    }
}

tutti_result_t netlink_ports(int fd, struct netlink_port *ports, int room, int *count)
{
    struct netlink_request request;
    struct port_list list = {ports, room, 0};
    struct ifinfomsg *link = request_init(&request, RTM_GETLINK, NLM_F_DUMP, sizeof *link);
    int code = converse(fd, &request, take_link, &list);
    if (code == 0) {
        request_init(&request, RTM_GETQDISC, NLM_F_DUMP, sizeof(struct tcmsg));
        code = converse(fd, &request, take_qdisc, &list);
    }
    *count = list.count;
    return code == 0
               ? TUTTI_SUCCESS
               : error_note(TUTTI_SYSTEM_ERROR, "asking the kernel for the counters of ports: %s", strerror(-code));
}

static void match_ports(struct netlink_request *request, const struct netlink_rule *rule)
{
    uint8_t protocol = IPPROTO_UDP, dscp = (uint8_t)rule->dscp;
    uint16_t mask = (uint16_t)rule->mask;
    struct fib_rule_port_range source = {(uint16_t)rule->first, (uint16_t)rule->last};
    struct fib_rule_port_range target = {(uint16_t)rule->dport, (uint16_t)rule->dport};
    request_attr(request, FRA_IP_PROTO, &protocol, sizeof protocol);
    request_attr(request, FRA_SPORT_RANGE, &source, sizeof source);
    if (mask)
        request_attr(request, RULE_SPORT_MASK, &mask, sizeof mask);
    if (rule->dport >= 0)
        request_attr(request, FRA_DPORT_RANGE, &target, sizeof target);
    if (rule->dscp >= 0)
        request_attr(request, RULE_DSCP, &dscp, sizeof dscp);
}

static void match_source(struct netlink_request *request, struct fib_rule_hdr *header, const struct netlink_rule *rule)
{
    unsigned char address[16];
    size_t size = rule->family == AF_INET ? 4 : 16;
    inet_pton(rule->family, rule->source, address); /* made by topology_build */
    header->src_len = (uint8_t)(size * 8);
    request_attr(request, FRA_SRC, address, size);
}

static void rule_request(struct netlink_request *request, const struct netlink_rule *rule)
{
    struct fib_rule_hdr *header =
        request_init(request, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, sizeof *header);
    uint32_t priority = (uint32_t)rule->priority, table = (uint32_t)rule->table;
    header->family = (uint8_t)rule->family;
    header->action = FR_ACT_TO_TBL;
    request_attr(request, FRA_PRIORITY, &priority, sizeof priority);
    request_attr(request, FRA_TABLE, &table, sizeof table);
    if (rule->source)
        match_source(request, header, rule);
    else
        match_ports(request, rule);
}

struct rule_check {
    const struct netlink_rule *rule;
    bool understood;
};

static void take_rule(const struct nlmsghdr *message, void *context)
{
    struct rule_check *check = context;
    struct fib_rule_hdr *header = NLMSG_DATA(message);
    struct rtattr *attrs = (struct rtattr *)((char *)header + NLMSG_ALIGN(sizeof *header));
    int length = (int)(message->nlmsg_len - NLMSG_SPACE(sizeof *header));
    const uint32_t *priority = attr_find(attrs, length, FRA_PRIORITY, sizeof *priority);
    const uint8_t *dscp = attr_find(attrs, length, RULE_DSCP, sizeof *dscp);
    if (priority && *priority == (uint32_t)check->rule->priority)
        check->understood = dscp && *dscp == check->rule->dscp;
}

/* Kernels older than 6.13 ignore the DSCP without a word, and would steer all traffic. */
static int check_dscp(int fd, const struct netlink_rule *rule)
{
    struct netlink_request request;
    struct rule_check check = {rule, false};
    struct fib_rule_hdr *header = request_init(&request, RTM_GETRULE, NLM_F_DUMP, sizeof *header);
    header->family = (uint8_t)rule->family;
    int code = converse(fd, &request, take_rule, &check);
    return code ? code : check.understood ? 0 : -EOPNOTSUPP;
}

tutti_result_t netlink_add_rule(int fd, const struct netlink_rule *rule)
{
    struct netlink_request request;
    bool by_dscp = !rule->source && rule->dscp >= 0;
    rule_request(&request, rule);
    int code = converse(fd, &request, NULL, NULL);
    if (code == 0 && by_dscp)
        code = check_dscp(fd, rule);
    if (code == -EOPNOTSUPP && by_dscp)
        return error_note(
            TUTTI_SYSTEM_ERROR,
            "a routing rule for DSCP %d: this kernel cannot match it (Linux 6.13 can); leave dscp out of the policy",
            rule->dscp);
    return code == 0 ? TUTTI_SUCCESS
                     : error_note(TUTTI_SYSTEM_ERROR, "adding routing rule %d for table %d: %s", rule->priority,
                                  rule->table, strerror(-code));
}
