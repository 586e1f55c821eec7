/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on a shared-memory lane: messages at once or not at all; puts piece by piece, in the order they came. */
#include "base/error.h"
#include "transport/shm/shm.h"

#include <string.h>

#define PARTS       4    /* a put is sent in at least so many pieces, */
#define LEAST_PIECE 8192 /* unless they were smaller than this */

void shm_activate(struct shm_lane *lane)
{
    if (list_empty(&lane->active))
        list_push(&shm_of(lane)->active, &lane->active);
    if (shm_of(lane)->base.armed)
        poller_wake(shm_of(lane)->base.inner); /* someone else sleeps: it goes on with this lane */
}

static tutti_result_t refuse(struct shm_lane *lane)
{
    lane->wants_room = true;
    shm_activate(lane);
    return TUTTI_IN_PROGRESS;
}

static tutti_result_t check(struct shm_lane *lane)
{
    if (carrier_dead(&lane->base))
        return error_note(TUTTI_REMOTE_ERROR, "shared-memory lane %u is down", lane->index);
    if (!lane->base.up)
        return error_note(TUTTI_INVALID_USAGE, "shared-memory lane %u is not up yet", lane->index);
    return TUTTI_SUCCESS;
}

static void gather(unsigned char *to, const struct iovec *parts, int count)
{
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len)
            memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
}

/* Tells the peer to look for descriptors before what comes next. False: no room. */
static bool post_share(struct shm_lane *lane)
{
    if (!ring_has_slot(&lane->out))
        return false;
    ring_publish(&lane->out, RING_SHARE, 0);
    lane->share_due = false;
    shm_ring_bell(lane->peer);
    return true;
}

static bool post_message(struct shm_lane *lane, const struct iovec *parts, int count, uint64_t length)
{
    if (length <= RING_INLINE) {
        if (!ring_has_slot(&lane->out))
            return false;
        gather(ring_next_slot(&lane->out)->payload, parts, count);
        ring_publish(&lane->out, RING_SHORT, (size_t)length);
        return true;
    }
    unsigned char *room = shm_reserve(lane, (size_t)length);
    if (!room)
        return false;
    gather(room, parts, count);
    ring_post(&lane->out, RING_LONG, (size_t)length, &length, sizeof length);
    return true;
}

tutti_result_t shm_msg(struct lane *base, const struct iovec *parts, int count)
{
    struct shm_lane *lane = shm_lane_of(base);
    tutti_result_t result = check(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    size_t length = transport_msg_length(parts, count, SHM_MAX_MSG);
    if (!length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a message has 1 to %d bytes", SHM_MAX_MSG);
    if (lane->count || (lane->share_due && !post_share(lane)) || !post_message(lane, parts, count, length))
        return refuse(lane);
    base->bytes_sent += length;
    shm_ring_bell(lane->peer);
    return TUTTI_SUCCESS;
}

static void finish_first(struct shm_lane *lane)
{
    uint64_t token = lane->queue[lane->first].put.token;
    lane->first = (lane->first + 1) % SHM_QUEUE;
    lane->count--;
    lane->base.lane.transport->owner.sent(&lane->base.lane, token);
}

static struct ring_put describe_piece(const struct shm_put *put, uint64_t length)
{
    return (struct ring_put){put->put.imm, put->stream, put->put.offset, put->put.length, length};
}

/* Bytes of the next piece: a chunk, or a part of the put such that the peer can begin while we go on. */
static size_t piece_length(const struct shm_lane *lane, const struct shm_put *put)
{
    uint64_t left = put->put.length - put->done, length = put->put.length / PARTS / CACHE_LINE * CACHE_LINE;
    if (length < LEAST_PIECE)
        length = LEAST_PIECE;
    if (length > lane->shape.chunk)
        length = lane->shape.chunk;
    uint64_t window = ring_window(&lane->out), most = window / 4 > LEAST_PIECE ? window / 4 : window / 2;
    if (length > most)
        length = most;
    return (size_t)(left < length ? left : length);
}

/* One piece through the ring. False: no room. */
static bool push_piece(struct shm_lane *lane, struct shm_put *put)
{
    if (!put->done && put->put.length > LEAST_PIECE)
        shm_widen(lane);
    size_t length = piece_length(lane, put);
    void *room = shm_reserve(lane, length);
    if (!room)
        return false;
    memcpy(room, (const char *)put->put.source + put->done, length);
    struct ring_put piece = describe_piece(put, length);
    ring_post(&lane->out, RING_PIECE, length, &piece, sizeof piece);
    put->done += length;
    shm_ring_bell(lane->peer);
    return true;
}

static bool post_direct(struct shm_lane *lane, struct shm_put *put)
{
    if (!ring_has_slot(&lane->out))
        return false;
    struct ring_put whole = describe_piece(put, put->put.length);
    ring_post(&lane->out, RING_DIRECT, 0, &whole, sizeof whole);
    shm_ring_bell(lane->peer);
    return true;
}

/* Goes on with the first put. False: no room. */
static bool push_some(struct shm_lane *lane, struct shm_put *put, uint64_t *budget)
{
    uint64_t before = put->done;
    if (put->direct && put->done < put->put.length) {
        if (!shm_write_direct(lane, put))
            put->direct = false, put->done = 0;
        *budget -= *budget < put->done - before ? *budget : put->done - before;
        return true;
    }
    if (put->direct)
        return post_direct(lane, put) && (finish_first(lane), true);
    if (!push_piece(lane, put))
        return false;
    *budget -= *budget < put->done - before ? *budget : put->done - before;
    if (put->done == put->put.length)
        finish_first(lane);
    return true;
}

static int push_puts(struct shm_lane *lane)
{
    uint64_t budget = SHM_TURN;
    int done = 0;
    if (lane->count && lane->share_due && !post_share(lane))
        return 0;
    lane->progressing = true;
    while (lane->count && budget && !carrier_dead(&lane->base) && push_some(lane, &lane->queue[lane->first], &budget))
        done++;
    lane->progressing = false;
    return done;
}

static bool has_room(struct shm_lane *lane)
{
    return !lane->count && ring_reserve(&lane->out, SHM_MAX_MSG);
}

bool shm_can_progress(struct shm_lane *lane)
{
    if (lane->share_due && !ring_has_slot(&lane->out))
        return false;
    if (!lane->count)
        return lane->share_due || (lane->wants_room && has_room(lane));
    struct shm_put *put = &lane->queue[lane->first];
    if (put->direct)
        return put->done < put->put.length || ring_has_slot(&lane->out);
    return ring_reserve(&lane->out, piece_length(lane, put)) != NULL;
}

int shm_progress(struct shm_lane *lane)
{
    int done = push_puts(lane);
    if (carrier_dead(&lane->base))
        return done;
    if (lane->share_due && !lane->count)
        done += post_share(lane);
    if (lane->wants_room && !lane->count && shm_reserve(lane, SHM_MAX_MSG)) {
        lane->wants_room = false;
        lane->base.lane.transport->owner.writable(&lane->base.lane);
        done++;
        if (carrier_dead(&lane->base))
            return done;
    }
    if (!lane->count && !lane->wants_room && !lane->share_due)
        list_remove(&lane->active);
    return done;
}

tutti_result_t shm_put(struct lane *base, const struct put *put)
{
    struct shm_lane *lane = shm_lane_of(base);
    struct transport *transport = base->transport;
    tutti_result_t result = check(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!put->length || put->length > INT64_MAX || put->offset > UINT64_MAX - put->length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a put has at least 1 byte, and no end beyond 2^64");
    if (lane->count == SHM_QUEUE)
        return refuse(lane);
    struct shm_put *entry = &lane->queue[(lane->first + lane->count++) % SHM_QUEUE];
    *entry = (struct shm_put){.put = *put};
    shm_choose(lane, entry);
    base->bytes_sent += put->length;
    if (lane->progressing || lane->count > 1)
        return TUTTI_SUCCESS;
    transport_enter(transport);
    push_puts(lane);
    if (lane->count && !carrier_dead(&lane->base))
        shm_activate(lane);
    transport_leave(transport);
    return TUTTI_SUCCESS;
}
