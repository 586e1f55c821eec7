/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on a TCP lane: frames go to the socket at once; what it does not take waits in a queue. */
#include "base/error.h"
#include "base/reach.h"
#include "transport/tcp/send.h"
#include "transport/tcp/watch.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define PARTS      16 /* of one sendmsg */
#define UNREADABLE (-2)
#define UNANSWERED 2 /* questions for room: one may be under way */

static const unsigned char nothing[16384]; /* instead of a source that is no longer there */

/* Bytes that the socket took, 0 if it is full or the peer has closed it, -1 if the lane has failed, UNREADABLE. */
static ssize_t tcp_send_give(struct tcp_lane *lane, struct iovec *parts, int count)
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
        if (errno == EFAULT)
            return UNREADABLE;
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

/* The system of a process that stands still confirms what comes, until it has no room: then nothing is under way, and
 * it answers when it is asked for room. */
uint64_t tcp_owes(struct lane *base)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    if (lane->source.fd < 0 || getsockopt(lane->source.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    if (!info.tcpi_unacked && info.tcpi_probes < UNANSWERED)
        return 0;
    tcp_moved(base);
    return lane->confirmed + 1;
}

static struct tcp_out *tcp_send_push(struct tcp_lane *lane)
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
    if (done.end == TCP_WHOLE)
        lane->base.lane.transport->owner.sent(&lane->base.lane, done.token);
}

static uint64_t size_of(const struct tcp_out *out)
{
    return sizeof out->frame + out->frame.length + (out->end ? sizeof out->end : 0);
}

/* `took` more bytes of the queue have gone. Returns how many frames were done. */
static int tcp_send_advance(struct tcp_lane *lane, size_t took)
{
    int done = 0;
    while (took && !lane->base.closed) {
        struct tcp_out *out = &lane->queue[lane->first];
        uint64_t left = size_of(out) - out->done;
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

/* The part of `size` bytes at `at`, which begins at `begin` of the frame, behind those that have gone. */
static struct iovec tcp_send_part(const struct tcp_out *out, const void *at, uint64_t begin, uint64_t size)
{
    uint64_t skip = out->done <= begin ? 0 : out->done < begin + size ? out->done - begin : size;
    return (struct iovec){(char *)(uintptr_t)at + (at == nothing ? 0 : skip), size - skip};
}

/* The unsent parts of one frame. False: there are more of them. */
static bool gather_one(struct tcp_out *out, struct iovec *parts, int *used)
{
    uint64_t behind = sizeof out->frame + out->frame.length;
    parts[(*used)++] = tcp_send_part(out, &out->frame, 0, sizeof out->frame);
    parts[(*used)++] =
        tcp_send_part(out, out->end == TCP_VOID ? nothing : out->body, sizeof out->frame, out->frame.length);
    struct iovec *body = &parts[*used - 1];
    if (out->end == TCP_VOID && body->iov_len > sizeof nothing) {
        body->iov_len = sizeof nothing;
        return false;
    }
    if (out->end)
        parts[(*used)++] = tcp_send_part(out, &out->end, behind, sizeof out->end);
    return true;
}

/* The unsent parts of the first frames. */
static int tcp_send_gather(struct tcp_lane *lane, struct iovec *parts, size_t *bytes)
{
    int used = 0;
    bool whole = true;
    *bytes = 0;
    for (unsigned i = 0; whole && i < lane->count && used + 3 <= PARTS; i++)
        whole = gather_one(&lane->queue[(lane->first + i) % TCP_QUEUE], parts, &used);
    for (int i = 0; i < used; i++)
        *bytes += parts[i].iov_len;
    return used;
}

static void tcp_send_take_out(struct tcp_lane *lane, unsigned position)
{
    lane->count--;
    for (unsigned i = position; i < lane->count; i++)
        lane->queue[(lane->first + i) % TCP_QUEUE] = lane->queue[(lane->first + i + 1) % TCP_QUEUE];
}

/* The put's source is needed no longer. A frame that has begun goes to its end, with nothing in it. */
static void end_early(struct tcp_lane *lane, unsigned position, bool may_have_begun)
{
    struct tcp_out *out = &lane->queue[(lane->first + position) % TCP_QUEUE];
    if (out->done || may_have_begun)
        out->end = TCP_VOID;
    else
        tcp_send_take_out(lane, position);
}

/* The first put of which the system cannot read what is left; where none is found, memory has changed since, and the
 * first one stands for it. -1: no put waits. */
static int find_unreadable(const struct tcp_lane *lane)
{
    int first = -1;
    for (unsigned i = 0; i < lane->count; i++) {
        const struct tcp_out *out = &lane->queue[(lane->first + i) % TCP_QUEUE];
        if (out->end != TCP_WHOLE)
            continue;
        struct iovec body = tcp_send_part(out, out->body, sizeof out->frame, out->frame.length);
        if (reach_unreadable(body.iov_base, body.iov_len))
            return (int)i;
        first = first < 0 ? (int)i : first;
    }
    return first;
}

/* The system could not read something of the queue. False: the lane has failed. */
static bool tcp_send_refuse_source(struct tcp_lane *lane)
{
    const struct transport_owner *owner = &lane->base.lane.transport->owner;
    int position = owner->unreadable ? find_unreadable(lane) : -1;
    if (position < 0) {
        tcp_fail(lane, "sending failed", EFAULT);
        return false;
    }
    uint64_t token = lane->queue[(lane->first + (unsigned)position) % TCP_QUEUE].token;
    end_early(lane, (unsigned)position, false);
    owner->unreadable(&lane->base.lane, token);
    return !carrier_dead(&lane->base);
}

static int drain(struct tcp_lane *lane)
{
    int done = 0;
    lane->flushing = true;
    while (lane->count) {
        struct iovec parts[PARTS];
        size_t bytes;
        int count = tcp_send_gather(lane, parts, &bytes);
        ssize_t took = tcp_send_give(lane, parts, count);
        if (took == UNREADABLE && tcp_send_refuse_source(lane))
            continue;
        if (took <= 0)
            break;
        lane->advancing = true;
        done += tcp_send_advance(lane, (size_t)took);
        lane->advancing = false;
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

static tutti_result_t tcp_send_check(struct tcp_lane *lane)
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
    struct tcp_out *out = tcp_send_push(lane);
    *out = (struct tcp_out){.frame = *frame, .body = copy, .copy = copy, .done = done};
    block(lane);
    return TUTTI_SUCCESS;
}

tutti_result_t tcp_msg(struct lane *base, const struct iovec *parts, int count)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    struct tcp_frame frame = {.type = TCP_MSG, .length = transport_msg_length(parts, count, TCP_MAX_MSG)};
    tutti_result_t result = tcp_send_check(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!frame.length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a message has 1 to %d bytes", TCP_MAX_MSG);
    ssize_t took = 0;
    tcp_lane_touch(lane);
    if (!lane->count && count < PARTS && !lane->welcome_due) {
        struct iovec all[PARTS] = {{&frame, sizeof frame}};
        memcpy(all + 1, parts, (size_t)count * sizeof *parts);
        took = tcp_send_give(lane, all, count + 1);
        if (took == UNREADABLE) /* parts are of the owner, who copies what is its caller's */
            return tcp_fail(lane, "sending failed", EFAULT);
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
    tutti_result_t result = tcp_send_check(lane);
    if (result == TUTTI_SUCCESS)
        result = transport_put_check(base, put, false);
    if (result != TUTTI_SUCCESS)
        return result;
    struct tcp_out *out = tcp_send_push(lane);
    out->frame = (struct tcp_frame){.type = TCP_PUT, .imm = put->imm, .length = put->length, .offset = put->offset};
    out->body = place_reach(put->source);
    out->end = TCP_WHOLE;
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

/* While it is not yet noted what the socket took, any put may have begun. */
void tcp_give_up(struct lane *base, uint64_t token)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    for (unsigned i = 0; i < lane->count; i++) {
        const struct tcp_out *out = &lane->queue[(lane->first + i) % TCP_QUEUE];
        if (out->end != TCP_WHOLE || out->token != token)
            continue;
        end_early(lane, i, lane->advancing);
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
