/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on a TCP lane: frames go to the socket at once; what it does not take waits in a queue. */
#include "base/error.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define PARTS     16         /* of one sendmsg */
#define MOST_REST (1u << 20) /* that is worth a copy, when its put was given up */

/* Bytes that the socket took, 0 if it is full or the peer has closed it, -1 if the lane has failed. */
static ssize_t give(struct tcp_lane *lane, struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    for (;;) {
        ssize_t took = sendmsg(lane->source.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (took >= 0) {
            lane->given += (uint64_t)took;
            return took;
        }
        if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
            return 0;
        if (errno == EPIPE || errno == ECONNRESET) {
            lane->broken = errno;
            return 0;
        }
        if (errno != EINTR) {
            tcp_fail(lane, "sending failed", errno);
            return -1;
        }
    }
}

uint64_t tcp_moved(struct lane *base)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    int unconfirmed = 0;
    if (lane->source.fd >= 0 && ioctl(lane->source.fd, SIOCOUTQ, &unconfirmed) == 0 && unconfirmed > 0)
        lane->confirmed = lane->given - (uint64_t)unconfirmed;
    return lane->taken + lane->confirmed;
}

static struct tcp_out *push(struct tcp_lane *lane)
{
    struct tcp_out *out = &lane->queue[(lane->first + lane->count++) % TCP_QUEUE];
    memset(out, 0, sizeof *out);
    return out;
}

static void block(struct tcp_lane *lane)
{
    if (list_empty(&lane->blocked))
        list_push(&tcp_of(lane)->blocked, &lane->blocked);
    if (lane->base.lane.transport->armed)
        tcp_lane_watch(lane, EPOLLIN | EPOLLOUT);
}

/* The first frame is done. */
static void finish_first(struct tcp_lane *lane)
{
    struct tcp_out done = lane->queue[lane->first];
    lane->first = (lane->first + 1) % TCP_QUEUE;
    lane->count--;
    free(done.copy);
    if (done.frame.type == TCP_PUT && !done.given_up)
        lane->base.lane.transport->owner.sent(&lane->base.lane, done.token);
}

/* `took` more bytes of the queue have gone. Returns how many frames were done. */
static int advance(struct tcp_lane *lane, size_t took)
{
    int done = 0;
    while (took && !lane->base.closed) {
        struct tcp_out *out = &lane->queue[lane->first];
        uint64_t left = sizeof out->frame + out->frame.length - out->done;
        if (took < left) {
            out->done += took;
            break;
        }
        took -= left;
        finish_first(lane);
        done++;
    }
    return done;
}

/* The unsent parts of the first frames. */
static int gather(struct tcp_lane *lane, struct iovec *parts, size_t *bytes)
{
    int used = 0;
    *bytes = 0;
    for (unsigned i = 0; i < lane->count && used + 2 <= PARTS; i++) {
        struct tcp_out *out = &lane->queue[(lane->first + i) % TCP_QUEUE];
        uint64_t skip = out->done;
        if (skip < sizeof out->frame) {
            parts[used++] = (struct iovec){(char *)&out->frame + skip, sizeof out->frame - skip};
            *bytes += sizeof out->frame - skip;
            skip = sizeof out->frame;
        }
        skip -= sizeof out->frame;
        parts[used++] = (struct iovec){(void *)(out->body + skip), out->frame.length - skip};
        *bytes += out->frame.length - skip;
    }
    return used;
}

static int drain(struct tcp_lane *lane)
{
    int done = 0;
    lane->flushing = true;
    while (lane->count) {
        struct iovec parts[PARTS];
        size_t bytes;
        int count = gather(lane, parts, &bytes);
        ssize_t took = give(lane, parts, count);
        if (took <= 0)
            break;
        done += advance(lane, (size_t)took);
        if (carrier_dead(&lane->base) || (size_t)took < bytes)
            break;
    }
    lane->flushing = false;
    if (carrier_dead(&lane->base))
        return done;
    if (lane->count)
        block(lane);
    else if (lane->events & EPOLLOUT)
        tcp_lane_watch(lane, EPOLLIN);
    return done;
}

int tcp_flush(struct tcp_lane *lane)
{
    list_remove(&lane->blocked);
    int done = drain(lane);
    if (carrier_dead(&lane->base) || !lane->wants_room || lane->count > TCP_QUEUE / 2)
        return done;
    lane->wants_room = false;
    lane->base.lane.transport->owner.writable(&lane->base.lane);
    return done + 1;
}

static tutti_result_t check(struct tcp_lane *lane)
{
    if (carrier_dead(&lane->base))
        return error_note(TUTTI_REMOTE_ERROR, "TCP lane %u is down", lane->index);
    if (!lane->base.up)
        return error_note(TUTTI_INVALID_USAGE, "TCP lane %u is not up yet", lane->index);
    if (lane->count < TCP_QUEUE)
        return TUTTI_SUCCESS;
    lane->wants_room = true;
    return TUTTI_IN_PROGRESS;
}

static tutti_result_t keep_rest(struct tcp_lane *lane, const struct iovec *parts, int count,
                                const struct tcp_frame *frame, size_t done)
{
    unsigned char *copy = malloc(frame->length);
    if (!copy) {
        if (done)
            return tcp_fail(lane, "no memory for the rest of a message", 0);
        lane->wants_room = true; /* tried again when the socket takes more */
        block(lane);
        return TUTTI_IN_PROGRESS;
    }
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len)
            memcpy(copy + used, parts[i].iov_base, parts[i].iov_len);
        used += parts[i].iov_len;
    }
    struct tcp_out *out = push(lane);
    *out = (struct tcp_out){.frame = *frame, .body = copy, .copy = copy, .done = done};
    block(lane);
    return TUTTI_SUCCESS;
}

tutti_result_t tcp_msg(struct lane *base, const struct iovec *parts, int count)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    struct tcp_frame frame = {.type = TCP_MSG, .length = transport_msg_length(parts, count, TCP_MAX_MSG)};
    tutti_result_t result = check(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!frame.length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a message has 1 to %d bytes", TCP_MAX_MSG);
    ssize_t took = 0;
    tcp_lane_touch(lane);
    if (!lane->count && count < PARTS && !lane->welcome_due) {
        struct iovec all[PARTS] = {{&frame, sizeof frame}};
        memcpy(all + 1, parts, (size_t)count * sizeof *parts);
        took = give(lane, all, count + 1);
        if (took < 0)
            return TUTTI_REMOTE_ERROR;
    }
    if ((size_t)took < sizeof frame + frame.length)
        result = keep_rest(lane, parts, count, &frame, (size_t)took);
    if (result == TUTTI_SUCCESS)
        base->bytes_sent += frame.length;
    return result;
}

tutti_result_t tcp_put(struct lane *base, const struct put *put)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    struct transport *transport = base->transport;
    tutti_result_t result = check(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!put->length || put->offset > UINT64_MAX - put->length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a put has at least 1 byte, and no end beyond 2^64");
    struct tcp_out *out = push(lane);
    out->frame = (struct tcp_frame){.type = TCP_PUT, .imm = put->imm, .length = put->length, .offset = put->offset};
    out->body = put->source;
    out->token = put->token;
    base->bytes_sent += put->length;
    tcp_lane_touch(lane);
    if (lane->flushing || lane->welcome_due || lane->count > 1)
        return TUTTI_SUCCESS;
    transport_enter(transport);
    drain(lane);
    result = lane->base.failing ? TUTTI_REMOTE_ERROR : TUTTI_SUCCESS;
    transport_leave(transport);
    return result;
}

static void take_out(struct tcp_lane *lane, unsigned position)
{
    lane->count--;
    for (unsigned i = position; i < lane->count; i++)
        lane->queue[(lane->first + i) % TCP_QUEUE] = lane->queue[(lane->first + i + 1) % TCP_QUEUE];
}

/* A frame that has begun is sent whole, from a copy of its rest. While the queue is being sent any of it may have
 * begun. */
static void keep_copy(struct tcp_lane *lane, struct tcp_out *out)
{
    uint64_t skip = out->done > sizeof out->frame ? out->done - sizeof out->frame : 0;
    unsigned char *copy = out->frame.length - skip <= MOST_REST ? malloc(out->frame.length) : NULL;
    out->given_up = true;
    if (!copy) {
        tcp_fail(lane, "a put was given up half-way, and its rest is too much to be copied", 0);
        return;
    }
    memcpy(copy + skip, out->body + skip, out->frame.length - skip);
    out->body = out->copy = copy;
}

void tcp_give_up(struct lane *base, uint64_t token)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    for (unsigned i = 0; i < lane->count; i++) {
        struct tcp_out *out = &lane->queue[(lane->first + i) % TCP_QUEUE];
        if (out->frame.type != TCP_PUT || out->given_up || out->token != token)
            continue;
        if (out->done || lane->flushing)
            keep_copy(lane, out);
        else
            take_out(lane, i);
        return;
    }
}

void tcp_forget_queue(struct tcp_lane *lane)
{
    for (; lane->count; lane->count--) {
        free(lane->queue[lane->first].copy);
        lane->first = (lane->first + 1) % TCP_QUEUE;
    }
}
