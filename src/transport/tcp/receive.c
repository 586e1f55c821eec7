/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving on a TCP lane: frames are cut from a small buffer; the payload of a put is read straight to its target. */
#include "transport/tcp/receive.h"
#include "transport/tcp/watch.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define AHEAD 1024  /* bytes read beyond a put: its end, what its receiver says, and the next header */
#define BULK  32768 /* a put from which on that pays */
#define AFTER 16    /* messages behind it, while another one may follow */
#define TURN  8     /* reads of one lane before others have their turn */

static int min_int(size_t a, size_t b)
{
    return (int)(a < b ? a : b);
}

/* The owner is asked each time: a receive may have been given up, and its memory with it. */
static void ask_target(struct tcp_lane *lane)
{
    struct lane *base = &lane->base.lane;
    uint64_t left = lane->put.length - lane->put_done;
    lane->put_target = left ? transport_target(base, lane->put.imm, lane->put.offset + lane->put_done, left) : NULL;
}

/* How many bytes may lie behind those that do: while big puts come, what the message that has begun lacks, and little
 * more, for the payload behind it would be copied twice. */
static size_t tcp_receive_ahead(const struct tcp_lane *lane)
{
    size_t room = TCP_INPUT - lane->end, wanted = AHEAD;
    struct tcp_frame frame;
    if (!lane->bulk)
        return room;
    if (!lane->put.length && lane->end >= sizeof frame) {
        memcpy(&frame, lane->in, sizeof frame);
        size_t whole = sizeof frame + (frame.length < TCP_MAX_MSG ? (size_t)frame.length : TCP_MAX_MSG);
        wanted += whole > lane->end ? whole - lane->end : 0;
    }
    return wanted < room ? wanted : room;
}

/* Where the next bytes go. Returns the number of parts. */
static int tcp_receive_make_room(struct tcp_lane *lane, struct iovec parts[2], size_t *bytes)
{
    int used = 0;
    uint64_t left = lane->put.length - lane->put_done;
    *bytes = 0;
    ask_target(lane);
    if (lane->start == lane->end) {
        lane->start = lane->end = 0;
    } else if (lane->start) {
        memmove(lane->in, lane->in + lane->start, lane->end - lane->start);
        lane->end -= lane->start;
        lane->start = 0;
    }
    if (left && lane->put_target)
        parts[used++] = (struct iovec){lane->put_target, left};
    else if (left)
        parts[used++] = (struct iovec){tcp_of(lane)->spill, (size_t)min_int(left, TCP_INPUT)};
    if (!left || parts[0].iov_len == left)
        parts[used++] = (struct iovec){lane->in + lane->end, tcp_receive_ahead(lane)};
    for (int i = 0; i < used; i++)
        *bytes += parts[i].iov_len;
    return used;
}

/* The word behind the payload. False: it has not come, or is none. */
static bool end_put(struct tcp_lane *lane)
{
    struct tcp_frame put = lane->put;
    uint64_t end;
    if (lane->end - lane->start < sizeof end)
        return false;
    memcpy(&end, lane->in + lane->start, sizeof end);
    lane->start += sizeof end;
    lane->put.length = lane->put_done = 0;
    if (end != TCP_WHOLE && end != TCP_VOID) {
        tcp_fail(lane, "the peer sent a put without an end", 0);
        return false;
    }
    lane->base.lane.bytes_received += put.length;
    if (end == TCP_WHOLE)
        lane->base.lane.transport->owner.arrived(&lane->base.lane, put.imm, put.offset, put.length);
    return true;
}

static bool start_put(struct tcp_lane *lane, const struct tcp_frame *frame)
{
    if (!frame->length || frame->length > INT64_MAX || frame->offset > UINT64_MAX - frame->length) {
        tcp_fail(lane, "the peer sent a put of impossible size", 0);
        return false;
    }
    lane->put = *frame;
    lane->put_done = 0;
    if (frame->length >= BULK)
        lane->bulk = AFTER;
    lane->start += sizeof *frame;
    return true;
}

/* Bytes of a put that came with its header. */
static void take_buffered(struct tcp_lane *lane)
{
    size_t have = lane->end - lane->start;
    uint64_t left = lane->put.length - lane->put_done;
    size_t take = have < left ? have : (size_t)left;
    ask_target(lane);
    if (lane->put_target && take)
        memcpy(lane->put_target, lane->in + lane->start, take);
    lane->start += take;
    lane->put_done += take;
}

static void tcp_receive_deliver(struct tcp_lane *lane, size_t length)
{
    const unsigned char *bytes = lane->in + lane->start + sizeof(struct tcp_frame);
    lane->start += sizeof(struct tcp_frame) + length;
    lane->bulk -= lane->bulk > 0;
    lane->base.lane.bytes_received += length;
    if ((uintptr_t)bytes % 8) /* owners may look at the words of a message */
        bytes = memcpy(tcp_of(lane)->spill, bytes, length);
    lane->base.lane.transport->owner.message(&lane->base.lane, bytes, length);
}

/* Handles one frame, or the part of a put that has come. False: not all has come, or the lane is dead. */
static bool handle_one(struct tcp_lane *lane)
{
    struct tcp_frame frame;
    if (lane->put.length && lane->put_done == lane->put.length)
        return end_put(lane) && !carrier_dead(&lane->base);
    if (lane->put.length) {
        take_buffered(lane);
        return !carrier_dead(&lane->base);
    }
    if (lane->end - lane->start < sizeof frame)
        return false;
    memcpy(&frame, lane->in + lane->start, sizeof frame);
    if (frame.type == TCP_PUT)
        return start_put(lane, &frame) && !carrier_dead(&lane->base);
    if (frame.type != TCP_MSG || !frame.length || frame.length > TCP_MAX_MSG) {
        tcp_fail(lane, "the peer sent a frame that is none", 0);
        return false;
    }
    if (lane->end - lane->start < sizeof frame + frame.length)
        return false;
    tcp_receive_deliver(lane, (size_t)frame.length);
    return !carrier_dead(&lane->base);
}

int tcp_handle_input(struct tcp_lane *lane)
{
    int done = 0;
    while (lane->start < lane->end && handle_one(lane))
        done++;
    return done;
}

/* `got` bytes came where tcp_receive_make_room() said. */
static void account(struct tcp_lane *lane, size_t got)
{
    uint64_t left = lane->put.length - lane->put_done;
    size_t placed = got < left ? got : (size_t)left;
    lane->put_done += placed;
    lane->end += got - placed;
    tcp_handle_input(lane);
}

/* The system could not write where the payload of the put goes. */
static bool tcp_receive_refuse_target(struct tcp_lane *lane)
{
    const struct transport_owner *owner = &lane->base.lane.transport->owner;
    uint64_t left = lane->put.length - lane->put_done;
    if (!lane->put_target || !left || !owner->unwritable)
        return false;
    owner->unwritable(&lane->base.lane, lane->put.imm, lane->put.offset + lane->put_done, left);
    return true;
}

static ssize_t read_parts(int fd, struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    if (count == 1)
        return recv(fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT);
    return recvmsg(fd, &message, MSG_DONTWAIT);
}

int tcp_receive(struct tcp_lane *lane)
{
    int done = 0;
    while (done < TURN && !carrier_dead(&lane->base)) {
        struct iovec parts[2];
        size_t bytes;
        int count = tcp_receive_make_room(lane, parts, &bytes);
        if (carrier_dead(&lane->base)) /* closed by its owner, who was asked where bytes go */
            break;
        ssize_t got = read_parts(lane->source.fd, parts, count);
        bool nothing = got < 0 && (errno == EAGAIN || errno == EINTR);
        if (nothing && !lane->broken)
            break;
        if (got < 0 && errno == EFAULT && tcp_receive_refuse_target(lane)) {
            done++;
            continue;
        }
        if (got <= 0) {
            tcp_fail(lane,
                     lane->broken ? "sending failed"
                     : got        ? "receiving failed"
                                  : "the peer closed the connection",
                     lane->broken ? lane->broken
                     : got        ? errno
                                  : 0);
            return done + 1;
        }
        lane->taken += (uint64_t)got;
        tcp_lane_touch(lane);
        account(lane, (size_t)got);
        done++;
        if ((size_t)got < bytes)
            break;
    }
    return done;
}
