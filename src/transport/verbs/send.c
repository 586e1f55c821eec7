/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending on a verbs lane. What waits is in a queue, in order. From there it goes into work requests: a chunk of a
 * message or put at a time, copied, or a whole put that the adapter reads where it lies. Each takes one receive of the
 * peer, and the peer says when it has posted new ones. Two receives are kept for saying that, so that two ends that are
 * full of each other's data still can.
 */
#include "base/error.h"
#include "transport/verbs/end.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/send.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define MOST_REST    (1u << 20) /* the most that is worth a copy, when its put was given up */
#define SIGNAL_EVERY 8          /* copied requests: their ends matter to nobody but us */
#define PAYLOAD      (VERBS_CHUNK - sizeof(struct verbs_head))

static bool has_slot(const struct verbs_lane *lane)
{
    return lane->posted - lane->completed < VERBS_SENDS;
}

static bool may_send(const struct verbs_lane *lane)
{
    return lane->state == VERBS_OPEN && has_slot(lane) && lane->room > VERBS_RESERVE;
}

/* Chunks for what is copied: a lane that has all under way at once gets as many again. Where there is no memory for
 * that it waits for one of those that it has, whose end the adapter tells. */
bool verbs_more_chunks(struct verbs_lane *lane)
{
    uint32_t first = verbs_step_first(lane->steps), end = verbs_step_first(lane->steps + 1);
    if (lane->steps == VERBS_STEPS ||
        verbs_buffers_open(verbs_calls(lane), lane->device->open.pd, (size_t)(end - first) * VERBS_CHUNK,
                           &lane->sends[lane->steps]) != 0)
        return false;
    lane->steps++;
    while (end-- > first)
        lane->idle[lane->idle_count++] = (uint8_t)end;
    return true;
}

static bool has_chunk(struct verbs_lane *lane)
{
    return lane->idle_count || verbs_more_chunks(lane);
}

/* While a lane has few chunks the end of each second one is told: else our own silence would make it need more. The end
 * of the last one is always told. */
static bool chunks_are_few(const struct verbs_lane *lane)
{
    return lane->steps < VERBS_STEPS ? lane->idle_count % 2 == 0 : !lane->idle_count;
}

/* The end of the latest work request is told. */
static void verbs_send_signal(struct verbs_lane *lane, struct ibv_send_wr *wr)
{
    wr->send_flags |= IBV_SEND_SIGNALED;
    lane->slots[(lane->posted - 1) % VERBS_SENDS].signaled = true;
}

/* The next work request of `length` bytes at `source`. */
static struct ibv_send_wr *verbs_send_add(struct verbs_lane *lane, const void *source, size_t length, uint32_t key)
{
    struct verbs_burst *burst = &lane->burst;
    uint32_t slot = lane->posted++ % VERBS_SENDS;
    struct ibv_sge *sge = &burst->sge[burst->count];
    struct ibv_send_wr *wr = &burst->wr[burst->count];
    lane->slots[slot] = (struct verbs_slot){.length = (uint32_t)length, .chunk = VERBS_SENDS};
    lane->room--;
    *sge = (struct ibv_sge){(uintptr_t)source, (uint32_t)length, key};
    *wr = (struct ibv_send_wr){.wr_id = verbs_number(lane, slot), .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    if (slot % SIGNAL_EVERY == SIGNAL_EVERY - 1 || lane->room <= VERBS_RESERVE || chunks_are_few(lane))
        verbs_send_signal(lane, wr);
    if (burst->count)
        wr[-1].next = wr;
    burst->count++;
    return wr;
}

/* Where the payload of the next request goes, behind its head. There is a chunk for it. */
static unsigned char *verbs_send_begin(struct verbs_lane *lane, const struct verbs_head *head)
{
    unsigned char *chunk = verbs_send_chunk(lane, lane->idle[lane->idle_count - 1]);
    struct verbs_head *out = (struct verbs_head *)chunk;
    *out = *head;
    out->room = lane->owed;
    lane->granted += lane->owed;
    lane->owed = 0;
    return chunk + sizeof *out;
}

/* The payload of the chunk is there. */
static void verbs_send_end(struct verbs_lane *lane, size_t payload)
{
    uint8_t chunk = lane->idle[--lane->idle_count];
    size_t length = sizeof(struct verbs_head) + payload;
    uint32_t slot = lane->posted % VERBS_SENDS, key = lane->sends[verbs_step_of(chunk)].registered->lkey;
    struct ibv_send_wr *wr = verbs_send_add(lane, verbs_send_chunk(lane, chunk), length, key);
    lane->slots[slot].chunk = chunk;
    if (length <= lane->most_inline)
        wr->send_flags |= IBV_SEND_INLINE;
}

static void verbs_send_free_chunk(struct verbs_lane *lane, struct verbs_slot *slot)
{
    if (slot->chunk < VERBS_SENDS)
        lane->idle[lane->idle_count++] = slot->chunk;
    slot->chunk = VERBS_SENDS;
}

/* One call of the adapter, whatever their number. */
static bool verbs_send_burst(struct verbs_lane *lane)
{
    struct verbs_burst *burst = &lane->burst;
    unsigned count = burst->count;
    struct ibv_send_wr *bad;
    list_remove(&lane->ringing);
    burst->count = 0;
    if (!count || carrier_dead(&lane->base))
        return !count;
    int error = lane->qp->context->ops.post_send(lane->qp, burst->wr, &bad);
    for (unsigned i = 0; i < count; i++) /* what went into the request itself reads no chunk any more */
        if (burst->wr[i].send_flags & IBV_SEND_INLINE)
            verbs_send_free_chunk(lane, &lane->slots[burst->wr[i].wr_id & 0xffff]);
    if (error)
        verbs_fail(lane, "cannot post a send", error > 0 ? error : -error);
    return !error;
}

/* Now, or with what is gathered. */
static bool verbs_send_post(struct verbs_lane *lane)
{
    struct verbs_transport *verbs = verbs_of(lane);
    if (!verbs->gathers || carrier_dead(&lane->base))
        return verbs_send_burst(lane);
    if (lane->burst.count && list_empty(&lane->ringing))
        list_push(&verbs->ringing, &lane->ringing);
    return true;
}

bool verbs_say(struct verbs_lane *lane, enum verbs_type type)
{
    const struct verbs_head head = {.type = type};
    verbs_send_begin(lane, &head);
    verbs_send_end(lane, 0);
    verbs_send_signal(lane, &lane->burst.wr[lane->burst.count - 1]);
    return verbs_send_post(lane);
}

bool verbs_may_say(struct verbs_lane *lane)
{
    return !carrier_dead(&lane->base) && may_send(lane) && has_chunk(lane);
}

/* ---- The queue ---- */

static struct verbs_item *item_at(struct verbs_lane *lane, unsigned position)
{
    return &lane->queue[(lane->first + position) % VERBS_QUEUE];
}

/* The first item is done, or has become a work request. */
static struct verbs_item take_first(struct verbs_lane *lane)
{
    struct verbs_item item = lane->queue[lane->first];
    lane->first = (lane->first + 1) % VERBS_QUEUE;
    lane->count--;
    return item;
}

static void verbs_send_take_out(struct verbs_lane *lane, unsigned position)
{
    lane->count--;
    for (unsigned i = position; i < lane->count; i++)
        *item_at(lane, i) = *item_at(lane, i + 1);
}

void verbs_forget_queue(struct verbs_lane *lane)
{
    while (lane->count)
        free(take_first(lane).copy);
}

/* A put that the adapter writes where it belongs. */
static void add_in_place(struct verbs_lane *lane, const struct verbs_item *item)
{
    uint32_t slot = lane->posted % VERBS_SENDS, key = 0;
    verbs_local_key(item->memory, lane->device, &key);
    struct ibv_send_wr *wr = verbs_send_add(lane, item->body, item->length, key);
    wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = htonl(item->imm);
    wr->wr.rdma.remote_addr = item->remote->address + item->offset;
    wr->wr.rdma.rkey = item->remote->key[lane->theirs.device];
    lane->slots[slot].in_place = true;
    lane->slots[slot].token = item->token;
    verbs_send_signal(lane, wr);
}

/* The next chunk of the first item. */
static void add_chunk(struct verbs_lane *lane)
{
    struct verbs_item *item = item_at(lane, 0);
    const struct verbs_head head = {
        .type = item->is_put ? VERBS_PUT : VERBS_MSG, .imm = item->imm, .length = item->length, .offset = item->offset};
    uint64_t left = item->length - item->done, payload = left < PAYLOAD ? left : PAYLOAD;
    memcpy(verbs_send_begin(lane, &head), item->body + item->done, payload);
    item->done += payload;
    verbs_send_end(lane, payload);
    if (item->done < item->length)
        return;
    struct verbs_item done = take_first(lane);
    free(done.copy);
    if (done.is_put && !done.given_up)
        lane->base.lane.transport->owner.sent(&lane->base.lane, done.token);
}

/* To be said by itself if it is much, for the peer may be waiting for it. */
static void say_room(struct verbs_lane *lane)
{
    const struct verbs_head head = {.type = VERBS_ROOM};
    if (lane->state != VERBS_OPEN || lane->owed < VERBS_RECEIVES / 2 || !lane->room || !has_slot(lane) ||
        !has_chunk(lane))
        return;
    verbs_send_begin(lane, &head);
    verbs_send_end(lane, 0);
}

/* May the first item, or a part of it, become a work request? */
static bool may_move(struct verbs_lane *lane)
{
    return !carrier_dead(&lane->base) && lane->count && may_send(lane) && (item_at(lane, 0)->remote || has_chunk(lane));
}

/* Sends what there is room for. sent() may come from inside, and may close the lane. */
static void verbs_send_flush(struct verbs_lane *lane)
{
    if (lane->flushing || carrier_dead(&lane->base))
        return;
    lane->flushing = true;
    do {
        while (may_move(lane)) {
            if (!item_at(lane, 0)->remote) {
                add_chunk(lane);
                continue;
            }
            struct verbs_item item = take_first(lane);
            add_in_place(lane, &item);
        }
        if (!carrier_dead(&lane->base))
            say_room(lane);
    } while (verbs_send_post(lane) && may_move(lane));
    lane->flushing = false;
}

void verbs_gather(struct transport *transport, bool gathers)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    verbs->gathers = gathers;
    transport_enter(transport);
    while (!gathers && !list_empty(&verbs->ringing)) {
        struct verbs_lane *lane = list_entry(verbs->ringing.next, struct verbs_lane, ringing);
        if (verbs_send_burst(lane))
            verbs_send_flush(lane); /* what waited for chunks of these */
    }
    transport_leave(transport);
}

void verbs_move(struct verbs_lane *lane)
{
    verbs_send_flush(lane);
    if (carrier_dead(&lane->base) || !lane->wants_room || lane->count > VERBS_QUEUE / 2)
        return;
    lane->wants_room = false;
    lane->base.lane.transport->owner.writable(&lane->base.lane);
}

void verbs_sent(struct verbs_lane *lane, uint32_t slot)
{
    struct lane *base = &lane->base.lane;
    for (bool last = false; !last && lane->completed != lane->posted && !carrier_dead(&lane->base);) {
        uint32_t which = lane->completed++ % VERBS_SENDS;
        last = which == slot;
        lane->acknowledged += lane->slots[which].length;
        verbs_send_free_chunk(lane, &lane->slots[which]);
        if (lane->slots[which].in_place)
            base->transport->owner.sent(base, lane->slots[which].token);
    }
    if (lane->completed != lane->posted || lane->count)
        lane->confirmed = lane->acknowledged;
}

/* An adapter tells the ends of work requests, and nothing of what goes on inside one: a segment is the least that is
 * seen to move. */
uint64_t verbs_moved(struct lane *base)
{
    const struct verbs_lane *lane = verbs_lane_of(base);
    return lane->taken + lane->confirmed;
}

/* The adapter tells the ends of some requests alone. Where it will not tell that of the latest, a word is sent whose
 * end it tells, and with it that of all before. */
uint64_t verbs_owes(struct lane *base)
{
    struct verbs_lane *lane = verbs_lane_of(base);
    if (carrier_dead(&lane->base) || lane->completed == lane->posted)
        return 0;
    if (!lane->slots[(lane->posted - 1) % VERBS_SENDS].signaled && verbs_may_say(lane))
        verbs_say(lane, VERBS_ROOM);
    return carrier_dead(&lane->base) ? 0 : lane->completed + 1ull;
}

/* ---- Calls of the owner ---- */

static tutti_result_t verbs_send_check(struct verbs_lane *lane)
{
    if (carrier_dead(&lane->base))
        return error_note(TUTTI_REMOTE_ERROR, "verbs lane %u is down", lane->index);
    if (!lane->base.up)
        return error_note(TUTTI_INVALID_USAGE, "verbs lane %u is not up yet", lane->index);
    if (lane->count < VERBS_QUEUE)
        return TUTTI_SUCCESS;
    lane->wants_room = true;
    return TUTTI_IN_PROGRESS;
}

static void verbs_send_gather(unsigned char *out, const struct iovec *parts, int count)
{
    for (int i = 0; i < count; out += parts[i++].iov_len)
        if (parts[i].iov_len)
            memcpy(out, parts[i].iov_base, parts[i].iov_len);
}

static struct verbs_item *verbs_send_push(struct verbs_lane *lane)
{
    struct verbs_item *item = item_at(lane, lane->count++);
    memset(item, 0, sizeof *item);
    return item;
}

static tutti_result_t verbs_send_keep(struct verbs_lane *lane, const struct iovec *parts, int count, size_t length)
{
    unsigned char *copy = malloc(length);
    if (!copy) {
        lane->wants_room = true;
        return TUTTI_IN_PROGRESS;
    }
    verbs_send_gather(copy, parts, count);
    struct verbs_item *item = verbs_send_push(lane);
    item->length = length;
    item->body = item->copy = copy;
    return TUTTI_SUCCESS;
}

tutti_result_t verbs_msg(struct lane *base, const struct iovec *parts, int count)
{
    struct verbs_lane *lane = verbs_lane_of(base);
    size_t length = transport_msg_length(parts, count, VERBS_MAX_MSG);
    tutti_result_t result = verbs_send_check(lane);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a message has 1 to %zu bytes", VERBS_MAX_MSG);
    if (lane->burst.count && !lane->idle_count && !verbs_send_burst(lane)) /* the posting may give chunks back */
        return TUTTI_REMOTE_ERROR;
    if (lane->count || lane->flushing || !may_send(lane) || !has_chunk(lane)) {
        result = verbs_send_keep(lane, parts, count, length);
    } else {
        const struct verbs_head head = {.type = VERBS_MSG, .length = length};
        verbs_send_gather(verbs_send_begin(lane, &head), parts, count);
        verbs_send_end(lane, length);
        result = verbs_send_post(lane) ? TUTTI_SUCCESS : TUTTI_REMOTE_ERROR;
    }
    base->bytes_sent += result == TUTTI_SUCCESS ? length : 0;
    return result;
}

/* Do both devices of the lane know the memory (keys are never 0 where they do), and can one work request carry the put?
 */
static bool goes_in_place(const struct verbs_lane *lane, const struct put *put)
{
    uint32_t ignored;
    return put->remote && put->memory && lane->state == VERBS_OPEN && lane->theirs.device < put->remote->devices &&
           put->remote->key[lane->theirs.device] &&
           wire_opened(put->remote, lane->theirs.device) == lane->theirs.opened && put->length <= lane->device->most &&
           verbs_local_key(put->memory, lane->device, &ignored);
}

tutti_result_t verbs_put(struct lane *base, const struct put *put)
{
    struct verbs_lane *lane = verbs_lane_of(base);
    tutti_result_t result = verbs_send_check(lane);
    bool in_place = result == TUTTI_SUCCESS && goes_in_place(lane, put);
    if (result == TUTTI_SUCCESS)
        result = transport_put_check(base, put, in_place);
    if (result != TUTTI_SUCCESS)
        return result;
    struct verbs_item *item = verbs_send_push(lane);
    *item = (struct verbs_item){.is_put = true,
                                .imm = put->imm,
                                .length = put->length,
                                .offset = put->offset,
                                .token = put->token,
                                .body = put->source.address};
    if (in_place) {
        item->remote = put->remote;
        item->memory = put->memory;
    }
    base->bytes_sent += put->length;
    transport_enter(base->transport);
    verbs_send_flush(lane);
    result = lane->base.failing ? TUTTI_REMOTE_ERROR : TUTTI_SUCCESS;
    transport_leave(base->transport);
    return result;
}

/* A put that has begun is sent whole, from a copy of its rest. */
static void keep_copy(struct verbs_lane *lane, struct verbs_item *item)
{
    uint64_t rest = item->length - item->done;
    unsigned char *copy = rest <= MOST_REST ? malloc(item->length) : NULL;
    item->given_up = true;
    if (!copy) {
        verbs_fail(lane, "a put was given up half-way, and its rest is too much to be copied", 0);
        return;
    }
    memcpy(copy + item->done, item->body + item->done, rest);
    item->body = item->copy = copy;
}

/* An adapter that reads the source cannot be asked to stop: its queue pair ends, and so does the lane. */
static bool stop_reading(struct verbs_lane *lane, uint64_t token)
{
    for (uint32_t i = lane->completed; i != lane->posted; i++)
        if (lane->slots[i % VERBS_SENDS].in_place && lane->slots[i % VERBS_SENDS].token == token) {
            verbs_fail(lane, "a put was given up while the adapter may read it", 0);
            return true;
        }
    return false;
}

void verbs_give_up(struct lane *base, uint64_t token)
{
    struct verbs_lane *lane = verbs_lane_of(base);
    if (lane->qp && stop_reading(lane, token))
        return;
    for (unsigned i = 0; i < lane->count; i++) {
        struct verbs_item *item = item_at(lane, i);
        if (!item->is_put || item->given_up || item->token != token)
            continue;
        if (item->done)
            keep_copy(lane, item);
        else
            verbs_send_take_out(lane, i);
        return;
    }
}
