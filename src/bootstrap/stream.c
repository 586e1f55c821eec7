/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over a non-blocking socket. */
#include "bootstrap/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void stream_init(struct boot_stream *stream, int fd, void *in, uint32_t in_room, struct bootstrap_counters *counters)
{
    *stream = (struct boot_stream){.fd = fd, .in = in, .in_room = in_room, .counters = counters};
}

static void drop_output(struct boot_stream *stream)
{
    free(stream->out);
    stream->out = NULL;
}

int stream_release(struct boot_stream *stream)
{
    int fd = stream->fd;
    drop_output(stream);
    stream->fd = -1;
    return fd;
}

void stream_close(struct boot_stream *stream)
{
    char rest[512];
    int fd = stream_release(stream);
    if (fd < 0)
        return;
    for (int i = 0; i < 8 && recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0; i++)
        ;
    close(fd);
}

/* Reads up to in_used == want. 1: there; 0: not yet; -1: ended. */
static int bootstrap_stream_fill(struct boot_stream *stream, uint64_t want)
{
    while (stream->in_used < want) {
        ssize_t got = recv(stream->fd, stream->in + stream->in_used, want - stream->in_used, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (got <= 0) {
            errno = got ? errno : 0;
            return -1;
        }
        stream->in_used += (uint32_t)got;
        stream->counters->bytes_received += (uint64_t)got;
    }
    return 1;
}

static enum stream_state fault_state(enum boot_fault fault)
{
    if (fault == BOOT_OTHER_ORDER)
        return STREAM_OTHER_ORDER;
    return fault == BOOT_OTHER_VERSION ? STREAM_OTHER_VERSION : STREAM_STRANGE;
}

enum stream_state stream_read(struct boot_stream *stream)
{
    int got = bootstrap_stream_fill(stream, sizeof(struct boot_header));
    if (got <= 0)
        return got ? STREAM_ENDED : STREAM_MORE;
    const struct boot_header *header = stream_header(stream);
    enum boot_fault fault = boot_check_header(header);
    if (fault != BOOT_FINE)
        return fault_state(fault);
    if (header->size > stream->in_room - sizeof *header)
        return STREAM_STRANGE;
    got = bootstrap_stream_fill(stream, sizeof *header + header->size);
    if (got <= 0)
        return got ? STREAM_ENDED : STREAM_MORE;
    if (header->type == BOOT_DATA || !boot_check_body(header, stream_body(stream)))
        return STREAM_STRANGE;
    stream->counters->messages_received++;
    return STREAM_FRAME;
}

const struct boot_header *stream_header(const struct boot_stream *stream)
{
    return (const struct boot_header *)(const void *)stream->in;
}

const void *stream_body(const struct boot_stream *stream)
{
    return stream->in + sizeof(struct boot_header);
}

void stream_next(struct boot_stream *stream)
{
    stream->in_used = 0;
}

/* Bytes written until the socket is full; -1 if the connection broke. */
static ssize_t bootstrap_stream_push(struct boot_stream *stream, const unsigned char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t sent = send(stream->fd, bytes + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return -1;
        if (sent <= 0)
            break;
        done += (size_t)sent;
        stream->counters->bytes_sent += (uint64_t)sent;
    }
    return (ssize_t)done;
}

static bool bootstrap_stream_keep(struct boot_stream *stream, const unsigned char *bytes, size_t size)
{
    if (!size)
        return true;
    stream->out = malloc(size);
    if (!stream->out)
        return false;
    memcpy(stream->out, bytes, size);
    stream->out_size = (uint32_t)size;
    stream->out_done = 0;
    return true;
}

bool stream_send(struct boot_stream *stream, enum boot_type type, const void *body, size_t size)
{
    unsigned char frame[sizeof(struct boot_header) + BOOT_BODY_MAX];
    struct boot_header header = boot_header_of(type, size);
    if (stream_pending(stream) || size > BOOT_BODY_MAX) {
        errno = EBUSY;
        return false;
    }
    memcpy(frame, &header, sizeof header);
    if (size)
        memcpy(frame + sizeof header, body, size);
    ssize_t sent = bootstrap_stream_push(stream, frame, sizeof header + size);
    if (sent < 0 || !bootstrap_stream_keep(stream, frame + sent, sizeof header + size - (size_t)sent))
        return false;
    stream->counters->messages_sent++;
    return true;
}

bool stream_flush(struct boot_stream *stream)
{
    if (!stream_pending(stream))
        return true;
    ssize_t sent = bootstrap_stream_push(stream, stream->out + stream->out_done, stream->out_size - stream->out_done);
    if (sent < 0)
        return false;
    stream->out_done += (uint32_t)sent;
    if (stream->out_done == stream->out_size)
        drop_output(stream);
    return true;
}
