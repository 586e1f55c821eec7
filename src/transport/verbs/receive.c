/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: what has arrived on verbs lanes, and what was sent. */
#include "base/error.h"
#include "transport/verbs/device.h"
#include "transport/verbs/end.h"
#include "transport/verbs/receive.h"
#include "transport/verbs/send.h"
#include "transport/verbs/trip.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define TRIPS 5 /* packets that get through before a lane is used */

bool verbs_post_receive(struct verbs_lane *lane, uint32_t index)
{
    uintptr_t at = (uintptr_t)verbs_receive_chunk(lane, index);
    struct ibv_sge sge = {at, VERBS_CHUNK, lane->receives.registered->lkey};
    struct ibv_recv_wr wr = {.wr_id = verbs_number(lane, VERBS_IS_RECEIVE | index), .sg_list = &sge, .num_sge = 1},
                       *bad;
    int error = lane->qp->context->ops.post_recv(lane->qp, &wr, &bad);
    if (error)
        verbs_fail(lane, "cannot post a receive", error > 0 ? error : -error);
    return !error;
}

/* The peer's adapter has acknowledged a packet of a lane that begins. */
static void receive_proven(struct verbs_lane *lane)
{
    uint64_t least = lane->base.lane.trip;
    if (lane->trips < TRIPS) {
        verbs_trip_begin(lane);
        return;
    }
    const struct verbs_word ready = {.word = VERBS_READY, .trip = least < UINT32_MAX ? (uint32_t)least : 0};
    lane->state = VERBS_ASKING;
    if (!socket_send_whole(lane->source.fd, &ready, sizeof ready))
        verbs_fail(lane, "cannot say that we are ready", errno);
}

/* The peer has taken the lane. */
static void receive_taken(struct verbs_lane *lane)
{
    transport_timer_clear(lane->base.lane.transport, &lane->deadline);
    lane->state = VERBS_OPEN;
    lane->base.up = true;
    verbs_trip_follow(lane);
    lane->base.lane.transport->owner.up(&lane->base.lane);
}

static void finish_put(struct verbs_lane *lane)
{
    struct lane *base = &lane->base.lane;
    struct verbs_head put = lane->put;
    lane->put.length = lane->put_done = 0;
    base->bytes_received += put.length;
    base->transport->owner.arrived(base, put.imm, put.offset, put.length);
}

/* A chunk of a put. The owner is asked each time where it goes: the receive may have been given up, and its memory with
 * it. */
static void take_chunk(struct verbs_lane *lane, const struct verbs_head *head, const void *payload, size_t length)
{
    struct lane *base = &lane->base.lane;
    if (!lane->put.length) {
        if (!head->length || head->length > INT64_MAX || head->offset > UINT64_MAX - head->length) {
            verbs_fail(lane, "the peer sent a put of impossible size", 0);
            return;
        }
        lane->put = *head;
        lane->put_done = 0;
    }
    if (!length || length > lane->put.length - lane->put_done) {
        verbs_fail(lane, "the peer sent a piece of a put that is none", 0);
        return;
    }
    void *target = transport_target(base, lane->put.imm, lane->put.offset + lane->put_done, length);
    if (carrier_dead(&lane->base))
        return;
    if (target)
        memcpy(target, payload, length);
    lane->put_done += length;
    if (lane->put_done == lane->put.length)
        finish_put(lane);
}

static void take_message(struct verbs_lane *lane, const struct verbs_head *head, const void *payload, size_t length)
{
    struct lane *base = &lane->base.lane;
    if (!length || head->length != length || lane->put.length) {
        verbs_fail(lane, "the peer sent a message that is none", 0);
        return;
    }
    base->bytes_received += length;
    base->transport->owner.message(base, payload, length);
}

static void verbs_receive_take_send(struct verbs_lane *lane, const unsigned char *chunk, size_t length)
{
    struct verbs_head head;
    if (length < sizeof head) {
        verbs_fail(lane, "the peer sent less than a head", 0);
        return;
    }
    memcpy(&head, chunk, sizeof head);
    if (head.room > lane->theirs.receives - lane->room) {
        verbs_fail(lane, "the peer gives back more room than it had", 0);
        return;
    }
    lane->room += head.room;
    length -= sizeof head;
    if (head.type == VERBS_TAKEN && lane->state == VERBS_ASKING)
        receive_taken(lane);
    else if (lane->state != VERBS_OPEN && head.type != VERBS_ROOM)
        verbs_fail(lane, "the peer uses the lane before it was taken", 0);
    else if (head.type == VERBS_MSG)
        take_message(lane, &head, chunk + sizeof head, length);
    else if (head.type == VERBS_PUT)
        take_chunk(lane, &head, chunk + sizeof head, length);
    else if (head.type != VERBS_ROOM)
        verbs_fail(lane, "the peer sent what is none of our kinds", 0);
}

/* The adapter has stored a whole put, by its key. */
static void take_write(struct verbs_lane *lane, const struct ibv_wc *wc)
{
    struct lane *base = &lane->base.lane;
    if (lane->state != VERBS_OPEN) {
        verbs_fail(lane, "the peer uses the lane before it was taken", 0);
        return;
    }
    base->bytes_received += wc->byte_len;
    base->transport->owner.arrived(base, ntohl(wc->imm_data), TRANSPORT_NO_OFFSET, wc->byte_len);
}

/* What came by a receive of the lane's own, or by a shared one. A peer that uses more than it was granted would take
 * shared ones from other lanes. */
static void verbs_receive_take_receive(struct verbs_lane *lane, const struct ibv_wc *wc, const unsigned char *chunk)
{
    lane->taken += wc->byte_len;
    if (!lane->granted) {
        verbs_fail(lane, "the peer sends more than it has room for", 0);
        return;
    }
    lane->granted--;
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        take_write(lane, wc);
    else
        verbs_receive_take_send(lane, chunk, wc->byte_len);
}

static void verbs_receive_failed(struct verbs_lane *lane, const struct ibv_wc *wc)
{
    verbs_fail(lane, verbs_calls(lane)->wc_status_str(wc->status), lane->base.up ? 0 : EHOSTUNREACH);
}

static void receive_own(struct verbs_lane *lane, const struct ibv_wc *wc)
{
    uint32_t index = (uint32_t)wc->wr_id & 0xffff & ~VERBS_IS_RECEIVE;
    verbs_receive_take_receive(lane, wc, verbs_receive_chunk(lane, index));
    if (!carrier_dead(&lane->base) && verbs_post_receive(lane, index))
        lane->owed++;
}

/* Work request `slot` has ended, and all before it. */
static void receive_sent(struct verbs_lane *lane, uint32_t slot)
{
    bool measured = verbs_trip_end(lane, slot);
    verbs_sent(lane, slot);
    if (measured && lane->state == VERBS_PROVING && !carrier_dead(&lane->base))
        receive_proven(lane);
}

/* A shared receive is posted anew whatever has become of its lane. */
static void receive_shared(struct verbs_device *device, const struct ibv_wc *wc)
{
    struct verbs_shared *shared = &device->open.shared;
    struct verbs_lane *lane = verbs_lane_by_pair(device, wc->qp_num);
    uint32_t number = (uint32_t)wc->wr_id;
    bool lives = lane && !carrier_dead(&lane->base);
    if (lives && wc->status != IBV_WC_SUCCESS)
        verbs_receive_failed(lane, wc);
    else if (lives && number < shared->slabs * VERBS_SHARED_EACH)
        verbs_receive_take_receive(lane, wc, verbs_shared_chunk(shared, number, VERBS_CHUNK));
    verbs_shared_post(shared, number);
    if (!lives || carrier_dead(&lane->base))
        return;
    lane->owed++;
    verbs_move(lane);
}

/* What is left of a queue pair that has ended is nobody's. */
static void receive_flushed(struct verbs_device *device, const struct ibv_wc *wc)
{
    const struct transport_owner *owner = &device->owner->base.owner;
    const struct ibv_qp *pair = device->open.flush.pair;
    uint64_t token;
    if (!pair || pair->qp_num != wc->qp_num)
        return;
    if (wc->status != IBV_WC_SUCCESS)
        verbs_flush_failed(device, device->owner->library->wc_status_str(wc->status));
    else if (verbs_flush_ended(device, &token))
        owner->flushed(owner->context, token);
}

static void verbs_receive_handle(struct verbs_device *device, const struct ibv_wc *wc)
{
    if (verbs_is_flush(wc->wr_id)) {
        receive_flushed(device, wc);
        return;
    }
    if (verbs_is_shared(wc->wr_id)) {
        receive_shared(device, wc);
        return;
    }
    struct verbs_lane *lane = verbs_lane_by_number(device->owner, wc->wr_id);
    if (!lane || carrier_dead(&lane->base))
        return;
    if (wc->status != IBV_WC_SUCCESS) {
        verbs_receive_failed(lane, wc);
        return;
    }
    if (wc->wr_id & VERBS_IS_RECEIVE)
        receive_own(lane, wc);
    else
        receive_sent(lane, (uint32_t)wc->wr_id & 0xffff);
    if (!carrier_dead(&lane->base))
        verbs_move(lane);
}

/* Completions that were found before, else new ones. Negative: the device is of no use any more. */
static int receive_next(struct verbs_device *device, struct ibv_wc wc[VERBS_BATCH])
{
    unsigned kept = device->kept_end - device->kept_first;
    int count = device->early_count;
    if (count) {
        memcpy(wc, device->early, (size_t)count * sizeof *wc);
        device->early_count = 0;
        return count;
    }
    if (!kept)
        return device->open.cq->context->ops.poll_cq(device->open.cq, VERBS_BATCH, wc);
    kept = kept < VERBS_BATCH ? kept : VERBS_BATCH;
    memcpy(wc, device->kept + device->kept_first, kept * sizeof *wc);
    device->kept_first += kept;
    if (device->kept_first == device->kept_end)
        device->kept_first = device->kept_end = 0;
    return (int)kept;
}

int verbs_complete(struct verbs_device *device)
{
    struct ibv_wc wc[VERBS_BATCH];
    if (device->open.shared.missing && verbs_shared_mend(&device->open.shared) != 0) {
        verbs_lose_device(device, "cannot post receives");
        return 0;
    }
    int count = receive_next(device, wc);
    for (int i = 0; i < count; i++)
        verbs_receive_handle(device, &wc[i]);
    if (count < 0)
        verbs_lose_device(device, "cannot look for completions");
    return count < 0 ? 0 : count;
}
