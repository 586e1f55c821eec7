/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on a shared-memory lane: messages at once or not at all; puts piece by piece, in the order they came. */
#include "base/error.h"
#include "base/reach.h"
#include "transport/shm/pull.h"
#include "transport/shm/send.h"
#include "transport/shm/stage.h"
#include "transport/shm/watch.h"
#include "transport/shm/window.h"

#include <string.h>

#define PARTS       4    /* a put is sent in at least this number of pieces, */
#define LEAST_PIECE 8192 /* unless they were smaller than this */

/* Puts that are not in the ring yet. */
static unsigned waiting(const struct shm_lane *lane)
{
    return lane->count - lane->posted;
}

static struct shm_put *entry_at(struct shm_lane *lane, unsigned position)
{
    return &lane->queue[(lane->first + position) % SHM_QUEUE];
}

static tutti_result_t shm_send_refuse(struct shm_lane *lane, size_t size)
{
    lane->wants_room = size;
    shm_activate(lane);
    return TUTTI_IN_PROGRESS;
}

static tutti_result_t shm_send_check(struct shm_lane *lane)
{
    if (carrier_dead(&lane->base))
        return error_note(TUTTI_REMOTE_ERROR, "shared-memory lane %u is down", lane->index);
    if (!lane->base.up)
        return error_note(TUTTI_INVALID_USAGE, "shared-memory lane %u is not up yet", lane->index);
    return TUTTI_SUCCESS;
}

static void shm_send_gather(unsigned char *to, const struct iovec *parts, int count)
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
        shm_send_gather(ring_next_slot(&lane->out)->payload, parts, count);
        ring_publish(&lane->out, RING_SHORT, (size_t)length);
        return true;
    }
    unsigned char *room = shm_reserve(lane, (size_t)length);
    if (!room)
        return false;
    shm_send_gather(room, parts, count);
    ring_post(&lane->out, RING_LONG, (size_t)length, &length, sizeof length);
    return true;
}

tutti_result_t shm_msg(struct lane *base, const struct iovec *parts, int count)
{
    struct shm_lane *lane = shm_lane_of(base);
    tutti_result_t result = shm_send_check(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    size_t length = transport_msg_length(parts, count, SHM_MAX_MSG);
    if (!length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a message has 1 to %d bytes", SHM_MAX_MSG);
    if (waiting(lane) || (lane->share_due && !post_share(lane)) || !post_message(lane, parts, count, length))
        return shm_send_refuse(lane, length);
    base->bytes_sent += length;
    shm_ring_bell(lane->peer);
    return TUTTI_SUCCESS;
}

static bool pulled(const struct shm_lane *lane, const struct shm_put *put)
{
    uint32_t done = atomic_load_explicit(&lane->out.control->pulled, memory_order_acquire);
    return done - put->number < SHM_QUEUE; /* and not a number that was never given out */
}

/* A put that the peer could not read is put again, through the ring, if this process can read its source. */
static void put_again(struct shm_lane *lane, const struct shm_put *put)
{
    const struct transport_owner *owner = &lane->base.lane.transport->owner;
    if (put->lent) {
        owner->unreadable(&lane->base.lane, put->put.token);
        return;
    }
    if (!put->region && owner->unreadable && reach_unreadable(place_reach(put->put.source), put->put.length)) {
        owner->unreadable(&lane->base.lane, put->put.token);
        return;
    }
    lane->shuns_regions |= put->region != 0;
    lane->shuns_attach |= put->region == 0;
    *entry_at(lane, lane->count++) = (struct shm_put){.put = put->put, .stream = put->stream};
}

/* The peer is done with a pull. */
static void end_pull(struct shm_lane *lane, struct shm_put *put)
{
    uint64_t bit = RING_PULL_BIT(put->number);
    bool refused = atomic_load_explicit(&lane->out.control->refused, memory_order_relaxed) & bit;
    lane->revoked &= ~bit;
    shm_of(lane)->lent -= put->lent;
    shm_stage_free(lane, put->number);
    atomic_store_explicit(&lane->out.control->revoked, lane->revoked, memory_order_relaxed);
    if (put->given_up)
        return;
    if (refused)
        put_again(lane, put);
    else
        lane->base.lane.transport->owner.sent(&lane->base.lane, put->put.token);
}

/* Takes what has ended from the head of the queue. Returns how much. */
static int shm_send_reap(struct shm_lane *lane)
{
    int done = 0;
    while (lane->posted && !carrier_dead(&lane->base)) {
        struct shm_put put = *entry_at(lane, 0);
        if (put.pull && !pulled(lane, &put))
            break;
        lane->first = (lane->first + 1) % SHM_QUEUE;
        lane->posted--;
        lane->count--;
        if (put.pull)
            end_pull(lane, &put);
        done++;
    }
    return done;
}

static struct ring_put describe_piece(const struct shm_put *put, uint64_t length)
{
    return (struct ring_put){put->put.imm, put->stream, put->put.offset, put->put.length, length};
}

/* Bytes of the next piece: a chunk, or a part of the put, so that the peer can begin while we go on. */
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
    memcpy(room, (const char *)place_reach(put->put.source) + put->done, length);
    struct ring_put piece = describe_piece(put, length);
    ring_post(&lane->out, RING_PIECE, length, &piece, sizeof piece);
    put->done += length;
    shm_ring_bell(lane->peer);
    return true;
}

static bool post_pull(struct shm_lane *lane, struct shm_put *put)
{
    if (!ring_has_slot(&lane->out))
        return false;
    struct ring_pull pull = {.imm = put->put.imm,
                             .stream = put->stream,
                             .offset = put->put.offset,
                             .total = put->put.length,
                             .address = put->address,
                             .region = put->region};
    put->number = ++lane->pulls;
    ring_post(&lane->out, RING_PULL, 0, &pull, sizeof pull);
    shm_ring_bell(lane->peer);
    return true;
}

/* Pieces of it have gone: the peer is not to wait for more. */
static bool post_void(struct shm_lane *lane)
{
    if (!ring_has_slot(&lane->out))
        return false;
    ring_publish(&lane->out, RING_VOID, 0);
    shm_ring_bell(lane->peer);
    return true;
}

static bool push_pieces(struct shm_lane *lane, struct shm_put *put, uint64_t *budget)
{
    while (*budget && put->done < put->put.length) {
        uint64_t before = put->done;
        if (!push_piece(lane, put))
            return false;
        *budget -= *budget < put->done - before ? *budget : put->done - before;
    }
    return put->done == put->put.length;
}

/* Goes on with the first put that waits. False: no room, or the turn of others. */
static bool push_some(struct shm_lane *lane, uint64_t *budget)
{
    struct shm_put *put = entry_at(lane, lane->posted);
    if (put->given_up ? put->done && !post_void(lane)
        : put->pull   ? !post_pull(lane, put)
                      : !push_pieces(lane, put, budget))
        return false;
    bool sent = !put->given_up && !put->pull;
    uint64_t token = put->put.token;
    lane->posted++;
    if (sent)
        lane->base.lane.transport->owner.sent(&lane->base.lane, token);
    return true;
}

static int push_puts(struct shm_lane *lane)
{
    uint64_t budget = SHM_TURN;
    lane->progressing = true;
    int done = shm_send_reap(lane);
    bool may = !carrier_dead(&lane->base) && !(waiting(lane) && lane->share_due && !post_share(lane));
    while (may && waiting(lane) && budget && !carrier_dead(&lane->base) && push_some(lane, &budget)) {
        shm_send_reap(lane);
        done++;
    }
    lane->progressing = false;
    return done;
}

/* Whether the owner can be told of room, or the window can be widened to make some. */
static bool may_tell(struct shm_lane *lane)
{
    size_t size = lane->wants_room;
    if (!size || waiting(lane) || lane->count == SHM_QUEUE)
        return false;
    if (size <= RING_INLINE)
        return ring_has_slot(&lane->out);
    return ring_reserve(&lane->out, size) || shm_window_short(lane, size);
}

static bool take_room(struct shm_lane *lane)
{
    return may_tell(lane) && (lane->wants_room <= RING_INLINE || shm_reserve(lane, lane->wants_room));
}

bool shm_can_progress(struct shm_lane *lane)
{
    if (lane->posted && (!entry_at(lane, 0)->pull || pulled(lane, entry_at(lane, 0))))
        return true;
    if (lane->share_due && !ring_has_slot(&lane->out))
        return false;
    if (!waiting(lane))
        return lane->share_due || may_tell(lane);
    struct shm_put *put = entry_at(lane, lane->posted);
    if (put->pull || put->given_up)
        return ring_has_slot(&lane->out);
    return ring_reserve(&lane->out, piece_length(lane, put)) != NULL;
}

int shm_progress(struct shm_lane *lane)
{
    int done = push_puts(lane);
    if (carrier_dead(&lane->base))
        return done;
    if (lane->share_due && !waiting(lane))
        done += post_share(lane);
    if (take_room(lane)) {
        lane->wants_room = 0;
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
    tutti_result_t result = shm_send_check(lane);
    if (result == TUTTI_SUCCESS)
        result = transport_put_check(base, put, false);
    if (result != TUTTI_SUCCESS)
        return result;
    if (lane->count == SHM_QUEUE)
        return shm_send_refuse(lane, 1);
    struct shm_put *entry = entry_at(lane, lane->count++);
    *entry = (struct shm_put){.put = *put};
    shm_choose(lane, entry);
    base->bytes_sent += put->length;
    if (lane->progressing || waiting(lane) > 1)
        return TUTTI_SUCCESS;
    transport_enter(transport);
    push_puts(lane);
    if (lane->count && !carrier_dead(&lane->base))
        shm_activate(lane);
    transport_leave(transport);
    return TUTTI_SUCCESS;
}

void shm_forget_lent(struct shm_lane *lane)
{
    for (unsigned i = 0; i < lane->count; i++)
        shm_of(lane)->lent -= entry_at(lane, i)->lent;
}

tutti_result_t shm_lend(struct lane *base, const struct iovec parts[2], uint64_t token)
{
    struct shm_lane *lane = shm_lane_of(base);
    struct shm_put put = {.put = {.source = place_host(parts[1].iov_base), .length = parts[1].iov_len, .token = token},
                          .lent = true};
    struct ring_lent lent;
    if (shm_send_check(lane) != TUTTI_SUCCESS || waiting(lane) || lane->share_due || lane->count == SHM_QUEUE ||
        parts[0].iov_len > sizeof lent.head || parts[1].iov_len > SHM_MAX_LENT || !ring_has_slot(&lane->out))
        return TUTTI_IN_PROGRESS;
    shm_choose(lane, &put);
    if (!put.pull)
        return TUTTI_IN_PROGRESS;
    lent.pull = (struct ring_pull){
        .imm = (uint32_t)parts[0].iov_len, .total = put.put.length, .address = put.address, .region = put.region};
    memcpy(lent.head, parts[0].iov_base, parts[0].iov_len);
    put.number = ++lane->pulls;
    *entry_at(lane, lane->count++) = put;
    lane->posted++;
    shm_of(lane)->lent++;
    base->bytes_sent += parts[0].iov_len + put.put.length;
    ring_post(&lane->out, RING_LENT, 0, &lent, offsetof(struct ring_lent, head) + parts[0].iov_len);
    shm_ring_bell(lane->peer);
    shm_activate(lane);
    return TUTTI_SUCCESS;
}

void shm_give_up(struct lane *base, uint64_t token)
{
    struct shm_lane *lane = shm_lane_of(base);
    for (unsigned i = 0; i < lane->count; i++) {
        struct shm_put *put = entry_at(lane, i);
        bool posted = i < lane->posted, ended = posted && !put->pull;
        if (ended || put->given_up || put->put.token != token)
            continue;
        put->given_up = true;
        put->pull = posted;
        if (!posted)
            return;
        lane->revoked |= RING_PULL_BIT(put->number);
        atomic_store_explicit(&lane->out.control->revoked, lane->revoked, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst); /* before anything is stored where the peer may be reading */
        return;
    }
}
