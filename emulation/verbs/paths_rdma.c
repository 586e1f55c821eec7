/* SPDX-License-Identifier: Apache-2.0 */
/* Answers `rdma link` and `rdma dev`, which ask the kernel's RDMA core by netlink, with libmnl: its socket for that
 * core is one of ours. Sockets for anything else are libmnl's. */
#include "verbs/paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#define SOCKETS 4

struct mnl_socket;
struct mnl_socket *mnl_socket_open(int bus);
int mnl_socket_bind(struct mnl_socket *nl, unsigned groups, pid_t pid);
int mnl_socket_setsockopt(const struct mnl_socket *nl, int type, void *value, socklen_t length);
unsigned mnl_socket_get_portid(const struct mnl_socket *nl);
ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *request, size_t length);
ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *out, size_t size);
int mnl_socket_close(struct mnl_socket *nl);

/* What waits to be received, as netlink messages. */
static struct paths_socket {
    bool open;
    size_t length;
    char answer[16384] __attribute__((aligned(8)));
} sockets[SOCKETS];

static struct paths_socket *ours(const struct mnl_socket *nl)
{
    for (int i = 0; i < SOCKETS; i++)
        if ((const void *)&sockets[i] == (const void *)nl)
            return &sockets[i];
    return NULL;
}

PATHS_EXPORT struct mnl_socket *mnl_socket_open(int bus)
{
    if (bus != NETLINK_RDMA)
        return PATHS_NEXT(mnl_socket_open)(bus);
    for (int i = 0; i < SOCKETS; i++)
        if (!sockets[i].open) {
            sockets[i].open = true;
            sockets[i].length = 0;
            return (struct mnl_socket *)&sockets[i];
        }
    errno = EMFILE;
    return NULL;
}

PATHS_EXPORT int mnl_socket_bind(struct mnl_socket *nl, unsigned groups, pid_t pid)
{
    return ours(nl) ? 0 : PATHS_NEXT(mnl_socket_bind)(nl, groups, pid);
}

PATHS_EXPORT int mnl_socket_setsockopt(const struct mnl_socket *nl, int type, void *value, socklen_t length)
{
    return ours(nl) ? 0 : PATHS_NEXT(mnl_socket_setsockopt)(nl, type, value, length);
}

PATHS_EXPORT unsigned mnl_socket_get_portid(const struct mnl_socket *nl)
{
    return ours(nl) ? 0 : PATHS_NEXT(mnl_socket_get_portid)(nl);
}

PATHS_EXPORT int mnl_socket_close(struct mnl_socket *nl)
{
    struct paths_socket *socket = ours(nl);
    if (!socket)
        return PATHS_NEXT(mnl_socket_close)(nl);
    socket->open = false;
    return 0;
}

PATHS_EXPORT ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *out, size_t size)
{
    struct paths_socket *socket = ours(nl);
    if (!socket)
        return PATHS_NEXT(mnl_socket_recvfrom)(nl, out, size);
    size_t length = socket->length;
    if (length > size) {
        errno = ENOSPC;
        return -1;
    }
    memcpy(out, socket->answer, length);
    socket->length = 0;
    return (ssize_t)length;
}

static struct nlmsghdr *begin(struct paths_socket *socket, const struct nlmsghdr *request, uint16_t type,
                              uint16_t flags)
{
    struct nlmsghdr *message = (void *)(socket->answer + socket->length);
    *message = (struct nlmsghdr){NLMSG_LENGTH(0), type, flags, request->nlmsg_seq, 0};
    return message;
}

static void put(struct nlmsghdr *message, uint16_t type, const void *value, size_t size)
{
    struct nlattr *at = (void *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));
    at->nla_type = type;
    at->nla_len = (uint16_t)(NLA_HDRLEN + size);
    memcpy((char *)at + NLA_HDRLEN, value, size);
    message->nlmsg_len = NLMSG_ALIGN(message->nlmsg_len) + (uint32_t)NLA_ALIGN(at->nla_len);
}

static void put32(struct nlmsghdr *message, uint16_t type, uint32_t value)
{
    put(message, type, &value, sizeof(value));
}

static void end(struct paths_socket *socket, const struct nlmsghdr *message)
{
    socket->length += NLMSG_ALIGN(message->nlmsg_len);
}

/* 0: an acknowledgement, else a refusal. */
static void say(struct paths_socket *socket, const struct nlmsghdr *request, int error)
{
    struct nlmsghdr *message = begin(socket, request, NLMSG_ERROR, 0);
    struct nlmsgerr text = {.error = -error, .msg = *request};
    memcpy(NLMSG_DATA(message), &text, sizeof(text));
    message->nlmsg_len = NLMSG_LENGTH(sizeof(text));
    end(socket, message);
}

/* The text of a device's file, without the end of its line; an empty one, if there is none. */
static const char *text_of(const char *device, const char *file, char *out, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", device, file);
    if (paths_text(path, out, size) < 0)
        *out = 0;
    out[strcspn(out, "\n")] = 0;
    return out;
}

static uint64_t guid_of(const char *text)
{
    unsigned part[4] = {0};
    sscanf(text, "%x:%x:%x:%x", &part[0], &part[1], &part[2], &part[3]);
    return (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 | part[3];
}

static void put_device(struct nlmsghdr *message, const char *name)
{
    char text[64];
    uint8_t node = 1; /* a channel adapter */
    uint64_t guid = guid_of(text_of(name, "node_guid", text, sizeof(text)));
    put(message, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, &node, sizeof(node));
    put(message, RDMA_NLDEV_ATTR_NODE_GUID, &guid, sizeof(guid));
    put(message, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, &guid, sizeof(guid));
    text_of(name, "fw_ver", text, sizeof(text));
    put(message, RDMA_NLDEV_ATTR_FW_VERSION, text, strlen(text) + 1);
}

static void put_port(struct nlmsghdr *message, const char *name)
{
    char text[64], path[PATH_MAX];
    uint8_t state = (uint8_t)atoi(text_of(name, "ports/1/state", text, sizeof(text)));
    uint8_t physical = (uint8_t)atoi(text_of(name, "ports/1/phys_state", text, sizeof(text)));
    put(message, RDMA_NLDEV_ATTR_PORT_STATE, &state, sizeof(state));
    put(message, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, &physical, sizeof(physical));
    snprintf(path, sizeof(path), "%s/device/net", name);
    if (paths_list(path, text, sizeof(text)) > 0) {
        text[strcspn(text, "\n")] = 0;
        put32(message, RDMA_NLDEV_ATTR_NDEV_INDEX, if_nametoindex(text + 1));
        put(message, RDMA_NLDEV_ATTR_NDEV_NAME, text + 1, strlen(text + 1) + 1);
    }
}

/* The number in a request's attribute, or `otherwise`. */
static uint32_t wanted(const struct nlmsghdr *request, uint16_t type, uint32_t otherwise)
{
    const char *at = NLMSG_DATA(request), *stop = (const char *)request + request->nlmsg_len;
    while (stop - at >= (ptrdiff_t)NLA_HDRLEN) {
        const struct nlattr *attribute = (const void *)at;
        if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > stop - at)
            break;
        if ((attribute->nla_type & NLA_TYPE_MASK) == type && attribute->nla_len == NLA_HDRLEN + sizeof(otherwise))
            memcpy(&otherwise, at + NLA_HDRLEN, sizeof(otherwise));
        at += NLA_ALIGN(attribute->nla_len);
    }
    return otherwise;
}

/* One message for each device, or for the one that is asked for; the number of them. */
static int describe(struct paths_socket *socket, const struct nlmsghdr *request, bool port)
{
    char list[4096], *at = list;
    bool all = request->nlmsg_flags & NLM_F_DUMP;
    int found = 0;
    if (paths_list("", list, sizeof(list)) < 0)
        return 0;
    for (uint32_t index = 0; *at; index++) {
        char *stop = strchr(at, '\n'), *name = at + 1;
        *stop = 0;
        at = stop + 1;
        if ((!all && index != wanted(request, RDMA_NLDEV_ATTR_DEV_INDEX, 0)) ||
            socket->length + 1024 > sizeof(socket->answer))
            continue;
        struct nlmsghdr *message = begin(socket, request, request->nlmsg_type, all ? NLM_F_MULTI : 0);
        put32(message, RDMA_NLDEV_ATTR_DEV_INDEX, index);
        put(message, RDMA_NLDEV_ATTR_DEV_NAME, name, strlen(name) + 1);
        put32(message, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
        if (port)
            put_port(message, name);
        else
            put_device(message, name);
        end(socket, message);
        found++;
    }
    return found;
}

PATHS_EXPORT ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *bytes, size_t length)
{
    struct paths_socket *socket = ours(nl);
    const struct nlmsghdr *request = bytes;
    if (!socket)
        return PATHS_NEXT(mnl_socket_sendto)(nl, bytes, length);
    if (length < sizeof(*request) || request->nlmsg_len < sizeof(*request) || request->nlmsg_len > length) {
        errno = EINVAL;
        return -1;
    }
    bool port = request->nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_PORT_GET);
    bool known = port || request->nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
    socket->length = 0;
    int found = known ? describe(socket, request, port) : 0;
    if (!known || (!found && !(request->nlmsg_flags & NLM_F_DUMP))) {
        say(socket, request, known ? ENODEV : EOPNOTSUPP);
    } else if (request->nlmsg_flags & NLM_F_DUMP) {
        struct nlmsghdr *done = begin(socket, request, NLMSG_DONE, NLM_F_MULTI);
        memset(NLMSG_DATA(done), 0, sizeof(int));
        done->nlmsg_len = NLMSG_LENGTH(sizeof(int));
        end(socket, done);
    } else if (request->nlmsg_flags & NLM_F_ACK) {
        say(socket, request, 0);
    }
    return (ssize_t)length;
}
