/* SPDX-License-Identifier: Apache-2.0 */
/* The queue pair of a lane, and its buffers. */
#include "transport/verbs/device.h"
#include "transport/verbs/end.h"
#include "transport/verbs/pair.h"
#include "transport/verbs/receive.h"
#include "transport/verbs/send.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INLINE   192 /* bytes that are copied into the request itself: credits, small payloads, probes */
#define PSN_MASK 0xffffffu
#define QPN_MASK 0xffffffu
#define RNR_TIMER                                                                                                      \
    12 /* 0.64 ms: a receive is missing while one is posted late, or until shared ones are posted anew                 \
        */
#define RNR_FOREVER  7
#define MOST_RETRIES 7

static tutti_result_t pair_complain(const struct verbs_lane *lane, const char *what, int error)
{
    return error_set(TUTTI_SYSTEM_ERROR, "RDMA device %s: %s: %s", lane->device->name, what,
                     strerror(error > 0 ? error : errno));
}

/* A few for what is sent, and for what comes where the device's lanes share no receives. */
static tutti_result_t make_buffers(struct verbs_lane *lane)
{
    struct verbs_parts *open = &lane->device->open;
    bool made = verbs_more_chunks(lane);
    int error = made ? 0 : errno;
    if (made && !open->shared.queue)
        error = verbs_buffers_open(verbs_calls(lane), open->pd, VERBS_RECEIVES * VERBS_CHUNK, &lane->receives);
    return error ? pair_complain(lane, "cannot register the buffers of a lane", error) : TUTTI_SUCCESS;
}

static tutti_result_t make_pair(struct verbs_lane *lane)
{
    struct ibv_cq *cq = lane->device->open.cq;
    struct ibv_srq *shared = lane->device->open.shared.queue;
    struct ibv_qp_init_attr how = {.send_cq = cq, .recv_cq = cq, .srq = shared, .qp_type = IBV_QPT_RC};
    how.cap = (struct ibv_qp_cap){VERBS_SENDS, shared ? 0 : VERBS_RECEIVES, 1, 1, INLINE};
    lane->qp = verbs_calls(lane)->create_qp(lane->device->open.pd, &how);
    if (!lane->qp)
        return pair_complain(lane, "cannot make a queue pair", 0);
    lane->most_inline = how.cap.max_inline_data;
    if (shared)
        verbs_join_pairs(lane);
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = lane->device->port};
    to.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    int error = verbs_calls(lane)->modify_qp(lane->qp, &to,
                                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return error ? pair_complain(lane, "cannot prepare a queue pair", error) : TUTTI_SUCCESS;
}

static tutti_result_t write_info(struct verbs_lane *lane)
{
    const struct verbs_device *device = lane->device;
    struct verbs_info *info = &lane->mine;
    *info = (struct verbs_info){.qp = lane->qp->qp_num,
                                .lid = device->lid,
                                .mtu = device->mtu,
                                .link_layer = device->link_layer,
                                .device = (uint8_t)device->index,
                                .opened = device->opened,
                                .receives = VERBS_RECEIVES};
    memcpy(info->gid, &device->gid.gid, sizeof info->gid);
    tutti_result_t result = random_bytes((uint8_t *)&info->psn, sizeof info->psn);
    info->psn &= PSN_MASK;
    return result;
}

/* Asks the owner for the source port of the lane's packets. False: it is not known yet. */
static bool pair_ask_source(struct verbs_lane *lane, const struct wire_process *peer)
{
    const struct transport *transport = lane->base.lane.transport;
    const struct transport_owner *owner = &transport->owner;
    bool asked = owner->source && lane->device->link_layer == IBV_LINK_LAYER_ETHERNET;
    int source = asked ? owner->source(owner->context, transport->ops, peer, lane->device->index, lane->index) : 0;
    lane->base.lane.source = source > 0 ? (uint16_t)source : 0;
    return source >= 0;
}

tutti_result_t verbs_pair_open(struct verbs_lane *lane, const struct wire_process *peer)
{
    tutti_result_t result = verbs_take_device(verbs_of(lane), lane->index, &lane->device);
    if (result != TUTTI_SUCCESS)
        return result;
    lane->device->lanes++;
    lane->base.lane.device = lane->device->index;
    if (!pair_ask_source(lane, peer))
        return TUTTI_IN_PROGRESS;
    if (!verbs_take_place(lane))
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for verbs lane %u", lane->index);
    result = make_buffers(lane);
    if (result == TUTTI_SUCCESS)
        result = make_pair(lane);
    for (uint32_t i = 0; result == TUTTI_SUCCESS && lane->receives.memory && i < VERBS_RECEIVES; i++)
        if (!verbs_post_receive(lane, i))
            result = TUTTI_SYSTEM_ERROR;
    lane->granted = VERBS_RECEIVES;
    return result == TUTTI_SUCCESS ? write_info(lane) : result;
}

static bool pair_plausible(const struct verbs_lane *lane, const struct verbs_info *info)
{
    return info->qp && info->qp <= QPN_MASK && info->psn <= PSN_MASK && info->mtu >= IBV_MTU_256 &&
           info->mtu <= IBV_MTU_4096 && info->link_layer == lane->mine.link_layer && info->device < WIRE_DEVICES &&
           info->opened < WIRE_OPENED && info->receives > VERBS_RESERVE;
}

static uint8_t at_least_0(enum param_id id)
{
    return (uint8_t)(param_int(id) > 0 ? param_int(id) : 0);
}

/*
 * Adapters derive the source port from the flow label, as ibv_flow_label_to_udp_sport() does; label 0 would leave it to
 * them, so every port has one that is not.
 */
static uint32_t label_of(uint16_t port)
{
    return port ? 1u << 14 | ((port & 0x3fffu) ^ 1) : 0;
}

static struct ibv_ah_attr way_to(const struct verbs_lane *lane, const struct verbs_info *theirs)
{
    const struct verbs_device *device = lane->device;
    struct ibv_ah_attr way = {.port_num = device->port, .sl = at_least_0(PARAM_IB_SL), .dlid = theirs->lid};
    bool other_subnet = memcmp(theirs->gid, &device->gid.gid, 8) != 0; /* of InfiniBand: by way of a router */
    way.is_global = device->link_layer == IBV_LINK_LAYER_ETHERNET || other_subnet;
    if (way.is_global) {
        memcpy(&way.grh.dgid, theirs->gid, sizeof theirs->gid);
        way.grh.sgid_index = (uint8_t)device->gid.gid_index;
        way.grh.hop_limit = 255;
        way.grh.flow_label = label_of(lane->base.lane.source);
        way.grh.traffic_class = at_least_0(PARAM_IB_TC);
    }
    return way;
}

/* Adapters say of an address that is missing, or that does not go with the other one, only that an argument is wrong.
 */
static tutti_result_t complain_of_way(const struct verbs_lane *lane, const struct verbs_info *theirs, int error)
{
    const struct verbs_device *device = lane->device;
    char own[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
    struct ibv_gid_entry now = {0};
    bool there = device->owner->library->query_gid(device->open.context, device->port, device->gid.gid_index, &now, 0,
                                                   sizeof now) == 0 &&
                 memcmp(&now.gid, &device->gid.gid, sizeof now.gid) == 0;
    inet_ntop(AF_INET6, device->gid.gid.raw, own, sizeof own);
    inet_ntop(AF_INET6, theirs->gid, peer, sizeof peer);
    return error_set(TUTTI_SYSTEM_ERROR,
                     "RDMA device %s: cannot let a queue pair receive from address %s by our address %s (index %u%s): "
                     "%s",
                     device->name, peer, own, device->gid.gid_index, there ? "" : ", which the device has no longer",
                     strerror(error > 0 ? error : errno));
}

tutti_result_t verbs_pair_join(struct verbs_lane *lane, const struct verbs_info *theirs)
{
    int64_t retries = param_int(PARAM_IB_RETRY_CNT);
    if (!pair_plausible(lane, theirs))
        return error_set(TUTTI_REMOTE_ERROR, "verbs lane %u: the peer's queue pair cannot be joined to ours",
                         lane->index);
    struct ibv_qp_attr to = {
        .qp_state = IBV_QPS_RTR, .dest_qp_num = theirs->qp, .rq_psn = theirs->psn, .ah_attr = way_to(lane, theirs)};
    to.path_mtu = theirs->mtu < lane->mine.mtu ? theirs->mtu : lane->mine.mtu;
    to.max_dest_rd_atomic = 1;
    to.min_rnr_timer = RNR_TIMER;
    int error = verbs_calls(lane)->modify_qp(lane->qp, &to,
                                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error)
        return complain_of_way(lane, theirs, error);
    struct ibv_qp_attr go = {
        .qp_state = IBV_QPS_RTS, .sq_psn = lane->mine.psn, .max_rd_atomic = 1, .rnr_retry = RNR_FOREVER};
    go.timeout = (uint8_t)param_int(PARAM_IB_TIMEOUT);
    go.retry_cnt = (uint8_t)(retries < MOST_RETRIES ? retries : MOST_RETRIES);
    error = verbs_calls(lane)->modify_qp(lane->qp, &go,
                                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (error)
        return pair_complain(lane, "cannot let a queue pair send", error);
    verbs_set_source(lane->qp, lane->base.lane.source);
    lane->theirs = *theirs;
    lane->room = theirs->receives;
    struct transport_ends *ends = &lane->base.lane.ends;
    *ends = (struct transport_ends){.queue = lane->mine.qp, .peer_queue = theirs->qp};
    memcpy(ends->address, lane->mine.gid, sizeof ends->address);
    memcpy(ends->peer_address, theirs->gid, sizeof ends->peer_address);
    return TUTTI_SUCCESS;
}
