/* SPDX-License-Identifier: Apache-2.0 */
/* From an address handle's attributes to IP addresses and a UDP source port, as Linux derives it (rdma_get_udp_sport):
 * from the flow label, or from a hash of both queue pair numbers when the label is 0. */
#include "verbs/device.h"
#include "verbs/qp.h"
#include "verbs/wire.h"

#include <errno.h>
#include <string.h>

#define FLOW_LABEL_MASK 0xfffffu

static uint32_t hashed_label(uint32_t local_qpn, uint32_t remote_qpn)
{
    uint64_t v = (uint64_t)local_qpn * remote_qpn;
    v ^= v >> 20;
    v ^= v >> 40;
    return (uint32_t)(v & FLOW_LABEL_MASK);
}

static uint16_t source_port(uint32_t label, uint32_t local_qpn, uint32_t remote_qpn)
{
    label &= FLOW_LABEL_MASK;
    return ibv_flow_label_to_udp_sport(label ? label : hashed_label(local_qpn, remote_qpn));
}

int path_resolve(struct path *out, struct rdma_device *device, const struct ibv_ah_attr *attr, uint32_t local_qpn,
                 uint32_t remote_qpn)
{
    static const union ibv_gid nothing;
    const union ibv_gid *source = device_gid(device, attr->grh.sgid_index), *to = &attr->grh.dgid;
    if (!attr->is_global || attr->port_num != 1 || !source || !memcmp(to, &nothing, sizeof(nothing)))
        return EINVAL;
    bool v6 = !wire_gid_is_v4(to);
    bool multicast = v6 && to->raw[0] == 0xff;
    if (v6 == wire_gid_is_v4(source) && !multicast)
        return EINVAL;
    memset(out, 0, sizeof(*out));
    out->device = device;
    out->v6 = v6;
    out->traffic_class = attr->grh.traffic_class;
    out->source_port = source_port(attr->grh.flow_label, local_qpn, remote_qpn);
    out->sgid_index = attr->grh.sgid_index;
    out->source_gid = *source;
    out->destination_gid = *to;
    memcpy(out->source, source->raw + (v6 ? 0 : 12), v6 ? 16 : 4);
    memcpy(out->destination, to->raw + (v6 ? 0 : 12), v6 ? 16 : 4);
    return 0;
}
