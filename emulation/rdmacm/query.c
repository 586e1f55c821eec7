/* SPDX-License-Identifier: Apache-2.0 */
#include "rdmacm/query.h"

#include <errno.h>
#include <string.h>

#define PKEY            0xffff
#define PACKET_LIFETIME 16 /* 4.096 us * 2^16: what the kernel takes for Ethernet */
#define ACK_TIMEOUT     (PACKET_LIFETIME + 1)

static void fill_path(const struct cm_id *id, struct ib_user_path_rec *path)
{
    struct ib_uverbs_ah_attr way;
    id_fill_address(id, &way);
    memcpy(path->dgid, way.grh.dgid, sizeof(path->dgid));
    memcpy(path->sgid, id->place.gid.raw, sizeof(path->sgid));
    path->flow_label = htobe32(way.grh.flow_label);
    path->hop_limit = way.grh.hop_limit;
    path->traffic_class = way.grh.traffic_class;
    path->sl = way.sl;
    path->reversible = 1;
    path->numb_path = 1;
    path->mtu = id->place.mtu;
    path->mtu_selector = path->packet_life_time_selector = path->rate_selector = 2; /* exactly this */
    path->pkey = htobe16(PKEY);
    path->rate = IBV_RATE_10_GBPS;
    path->packet_life_time = PACKET_LIFETIME;
}

static bool has_route(const struct cm_id *id)
{
    return id->state >= CM_ROUTE && id->state != CM_LISTENING;
}

void query_route(const struct cm_id *id, struct rdma_ucm_query_route_resp *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(&out->src_addr, &id->from, sizeof(out->src_addr));
    memcpy(&out->dst_addr, &id->to, sizeof(out->dst_addr));
    if (!id->place.guid)
        return;
    out->node_guid = id->place.guid;
    out->ibdev_index = id->place.index;
    out->port_num = 1;
    out->num_paths = has_route(id);
    fill_path(id, &out->ib_route[0]);
}

void query_address(const struct cm_id *id, struct rdma_ucm_query_addr_resp *out)
{
    memset(out, 0, sizeof(*out));
    out->src_size = (uint16_t)(address_known(&id->from) ? address_size(&id->from) : 0);
    out->dst_size = (uint16_t)(address_known(&id->to) ? address_size(&id->to) : 0);
    memcpy(&out->src_addr, &id->from, sizeof(id->from));
    memcpy(&out->dst_addr, &id->to, sizeof(id->to));
    if (!id->place.guid)
        return;
    out->node_guid = id->place.guid;
    out->ibdev_index = id->place.index;
    out->port_num = 1;
    out->pkey = htobe16(PKEY);
}

static void to_init(const struct cm_id *id, struct ib_uverbs_qp_attr *out)
{
    out->qp_attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    out->port_num = 1;
    if (id_is_datagram(id)) {
        out->qp_attr_mask |= IBV_QP_QKEY;
        out->qkey = UD_QKEY;
        return;
    }
    out->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
    if (id->state >= CM_CONNECTING)
        out->qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | (id->responder_resources ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static void to_receive(const struct cm_id *id, struct ib_uverbs_qp_attr *out)
{
    if (id_is_datagram(id))
        return;
    out->qp_attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                         IBV_QP_MIN_RNR_TIMER;
    id_fill_address(id, &out->ah_attr);
    out->path_mtu = id->place.mtu;
    out->dest_qp_num = id->remote_qpn;
    out->rq_psn = id->remote_psn;
    out->max_dest_rd_atomic = id->responder_resources;
}

static void to_send(const struct cm_id *id, struct ib_uverbs_qp_attr *out)
{
    out->qp_attr_mask |= IBV_QP_SQ_PSN;
    out->sq_psn = id->psn;
    if (id_is_datagram(id))
        return;
    out->qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    out->timeout = id->ack_timeout ? id->ack_timeout : ACK_TIMEOUT;
    out->retry_cnt = id->retry_count & 7;
    out->rnr_retry = id->rnr_retry_count & 7;
    out->max_rd_atomic = id->initiator_depth;
}

int query_qp(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *out)
{
    memset(out, 0, sizeof(*out));
    out->qp_attr_mask = IBV_QP_STATE;
    out->qp_state = state;
    if (state == IBV_QPS_INIT)
        to_init(id, out);
    else if (state == IBV_QPS_RTR)
        to_receive(id, out);
    else if (state == IBV_QPS_RTS)
        to_send(id, out);
    else
        return EINVAL;
    return state != IBV_QPS_INIT && !id_is_datagram(id) && id->state < CM_CONNECTING ? EINVAL : 0;
}
