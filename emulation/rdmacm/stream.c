/* SPDX-License-Identifier: Apache-2.0 */
#include "rdmacm/stream.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

void stream_init(struct cm_stream *stream)
{
    stream->fd = stream->entry = -1;
    stream->fill = 0;
}

int stream_adopt(struct cm_stream *stream, int fd, uint32_t events, watch_fn ready, void *arg)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    stream->fill = 0;
    stream->fd = fd;
    stream->entry = watch_add(fd, events, ready, arg);
    if (stream->entry >= 0)
        return 0;
    int err = errno;
    close(fd);
    stream->fd = -1;
    return err;
}

int stream_connect(struct cm_stream *stream, const union cm_address *from, const union cm_address *to, watch_fn ready,
                   void *arg)
{
    union cm_address source = *from, target = *to;
    address_set_port(&source, 0);
    address_set_port(&target, STREAM_PORT);
    int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    if (bind(fd, &source.any, address_size(&source)) ||
        (connect(fd, &target.any, address_size(&target)) && errno != EINPROGRESS)) {
        int err = errno;
        close(fd);
        return err;
    }
    return stream_adopt(stream, fd, EPOLLOUT, ready, arg);
}

int stream_connected(struct cm_stream *stream)
{
    int err = 0;
    socklen_t size = sizeof(err);
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &err, &size))
        err = errno;
    if (!err)
        watch_change(stream->entry, EPOLLIN);
    return err;
}

void stream_send(struct cm_stream *stream, const struct cm_message *message)
{
    uint8_t bytes[MESSAGE_MAX];
    size_t size = message_build(message, bytes);
    if (stream->fd >= 0 && send(stream->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)size)
        shutdown(stream->fd, SHUT_RDWR); /* the thread reads the end */
}

enum stream_read stream_next(struct cm_stream *stream, struct cm_message *message)
{
    for (;;) {
        int used = message_parse(message, stream->buffer, stream->fill);
        if (used < 0)
            return STREAM_END;
        if (used) {
            stream->fill -= (size_t)used;
            memmove(stream->buffer, stream->buffer + used, stream->fill);
            return STREAM_MESSAGE;
        }
        ssize_t n =
            recv(stream->fd, stream->buffer + stream->fill, sizeof(stream->buffer) - stream->fill, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN ? STREAM_WAIT : STREAM_END;
        stream->fill += (size_t)n;
    }
}

int stream_release(struct cm_stream *stream)
{
    int fd = stream->fd;
    if (fd >= 0)
        watch_remove(stream->entry);
    stream->fd = stream->entry = -1;
    return fd;
}

void stream_close(struct cm_stream *stream)
{
    int fd = stream_release(stream);
    if (fd >= 0)
        close(fd);
}
