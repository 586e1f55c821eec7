/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of processes, and packets on them. */
#include "transport/shm/packet.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

socklen_t shm_name(const uint8_t *uuid, bool abstract, struct sockaddr_un *out)
{
    char hex[2 * WIRE_UUID_BYTES + 1];
    for (int i = 0; i < WIRE_UUID_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", uuid[i]);
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    int length = snprintf(out->sun_path, sizeof out->sun_path, abstract ? "@tutti-%s" : "/dev/shm/tutti-%s", hex);
    if (abstract)
        out->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length + !abstract);
}

bool shm_packet_send(int fd, const void *bytes, size_t size, const int *fds, int count)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * ACCEPTOR_FDS)];
    } control;
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    size_t length = sizeof(int) * (size_t)count;
    if (count) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(length);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(length)};
        memcpy(CMSG_DATA(header), fds, length);
    }
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}
