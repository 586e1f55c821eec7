/* SPDX-License-Identifier: Apache-2.0 */
/* Checks on the way in, in the order of an adapter: integrity, headers, destination, partition, service, source. */
#include "verbs/input.h"
#include "verbs/counters.h"
#include "verbs/device.h"
#include "verbs/engine.h"
#include "verbs/fault.h"
#include "verbs/hand.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

#include "base/clock.h"

#include <string.h>

/* Of what no queue pair gets. */
static void charge(const struct arrival *arrival)
{
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (device->ifindex == arrival->ifindex)
            counters_are(device->counts);
    }
}

static void count_parse(enum packet_error error)
{
    static const enum counter causes[] = {
        [PACKET_SHORT] = COUNT_dropped_short,   [PACKET_VERSION] = COUNT_dropped_version,
        [PACKET_OPCODE] = COUNT_dropped_opcode, [PACKET_PAD] = COUNT_dropped_pad,
        [PACKET_LONG] = COUNT_dropped_long,
    };
    counter_step(&counters[causes[error]], 1);
    counter_step(&counters_here[causes[error]], 1);
}

static int loopback_index(void)
{
    static int loopback;
    if (!loopback)
        loopback = (int)if_nametoindex("lo");
    return loopback;
}

/* A local link carries packets between any two addresses of the host. */
static bool right_interface(const struct qp *qp, const struct arrival *arrival)
{
    const struct rdma_device *device = qp->context->device;
    return arrival->ifindex == device->ifindex || arrival->ifindex == loopback_index();
}

static bool from_peer(const struct qp *qp, const struct icrc_flow *flow)
{
    size_t size = flow->v6 ? 16 : 4;
    return qp->path.v6 == flow->v6 && !memcmp(flow->source, qp->path.destination, size) &&
           !memcmp(flow->destination, qp->path.source, size);
}

static void dispatch_reliable(struct qp *qp, const struct packet *packet)
{
    unsigned flags = packet_flags(packet->opcode);
    if (packet->length > packet->span * qp->mtu)
        count(dropped_long);
    else if (flags & HAS_REQUEST)
        responder_request(qp, packet);
    else
        requester_answer(qp, packet, clock_ns());
}

/* What cannot be fetched counts as lost; the sender sends it again by packets. */
static void dispatch_handed(struct qp *qp, const struct packet *packet, const struct arrival *arrival)
{
    struct packet taken = *packet;
    if (arrival->ifindex != loopback_index()) {
        count(dropped_service);
    } else if (hand_take(qp, &taken)) {
        dispatch_reliable(qp, &taken);
    } else {
        count(dropped_handover);
        if (packet_flags(packet->opcode) & HAS_REQUEST)
            responder_missed(qp, packet);
    }
}

/* An adapter refuses a request that it does not know; other services drop it. */
static void deliver_unknown(const struct packet *packet, const struct arrival *arrival)
{
    bool rc = SERVICE(packet->opcode) == SERVICE_RC, xrc = SERVICE(packet->opcode) == SERVICE_XRC;
    struct qp *qp = rc || xrc ? engine_find_qp(packet->qpn) : NULL;
    if (qp && qp_is(qp, rc ? IBV_QPT_RC : IBV_QPT_XRC_RECV) && qp_receives(qp) && right_interface(qp, arrival) &&
        !qp->context->device->frozen && from_peer(qp, &arrival->flow) &&
        icrc_check(&arrival->flow, arrival->bytes, arrival->size))
        responder_unknown(qp, packet);
}

static void deliver_connected(struct qp *qp, const struct packet *packet, const struct arrival *arrival)
{
    bool requests = packet_flags(packet->opcode) & HAS_REQUEST;
    if (!from_peer(qp, &arrival->flow))
        count(dropped_source);
    else if (qp_is(qp, IBV_QPT_RC) && SERVICE(packet->opcode) == SERVICE_RC)
        dispatch_reliable(qp, packet);
    else if (SERVICE(packet->opcode) == SERVICE_XRC && qp_is(qp, requests ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND))
        dispatch_reliable(qp, packet);
    else if (qp_is(qp, IBV_QPT_RC) && SERVICE(packet->opcode) == SERVICE_HAND)
        dispatch_handed(qp, packet, arrival);
    else if (qp_is(qp, IBV_QPT_UC) && SERVICE(packet->opcode) == SERVICE_UC)
        responder_uc(qp, packet);
    else
        count(dropped_service);
}

static void deliver(struct qp *qp, const struct packet *packet, const struct arrival *arrival)
{
    counters_are(qp->context->device->counts);
    counter_step(&counters_here[COUNT_received_packets], 1);
    counter_step(&counters_here[COUNT_received_bytes], arrival->size);
    if (!right_interface(qp, arrival)) {
        count(dropped_interface);
    } else if (!qp->context->device->up || qp->context->device->frozen) {
        count(dropped_port_down);
    } else if ((packet->pkey & 0x7fff) != (PKEY_DEFAULT & 0x7fff)) {
        count(dropped_pkey);
    } else if (!qp_receives(qp)) {
        count(dropped_state);
    } else if (!qp_is(qp, IBV_QPT_UD)) {
        deliver_connected(qp, packet, arrival);
    } else if (SERVICE(packet->opcode) != SERVICE_UD) {
        count(dropped_service);
    } else {
        responder_ud(qp, packet, arrival);
    }
}

struct multicast {
    const struct packet *packet;
    const struct arrival *arrival;
};

/* What came by the loopback interface was sent by this host's device that has its source's address. */
static bool from_device(const struct qp *qp, const struct arrival *arrival)
{
    return arrival->ifindex != loopback_index() ||
           device_has_address(qp->context->device, arrival->flow.v6, arrival->flow.source);
}

static void deliver_group(struct qp *qp, void *arg)
{
    const struct multicast *multicast = arg;
    const struct arrival *arrival = multicast->arrival;
    if (qp_is(qp, IBV_QPT_UD) && from_device(qp, arrival) &&
        qp_in_group(qp, arrival->flow.destination, arrival->flow.v6))
        deliver(qp, multicast->packet, arrival);
}

void input_checked(const struct arrival *arrival)
{
    struct packet packet;
    counters_are(NULL);
    count(received_packets);
    count_add(received_bytes, arrival->size);
    if (arrival->size >= PACKET_BTH_SIZE && arrival->bytes[0] == OPCODE_CNP)
        return;
    enum packet_error error = packet_parse(&packet, arrival->bytes, arrival->size);
    if (error) {
        charge(arrival);
        count_parse(error);
        if (error == PACKET_OPCODE)
            deliver_unknown(&packet, arrival);
        return;
    }
    if (!icrc_check(&arrival->flow, arrival->bytes, arrival->size)) {
        charge(arrival);
        count(dropped_icrc);
        return;
    }
    if (packet.qpn == QPN_MULTICAST) {
        struct multicast multicast = {&packet, arrival};
        engine_each_qp(deliver_group, &multicast);
        return;
    }
    struct qp *qp = engine_find_qp(packet.qpn);
    if (!qp)
        count(dropped_qpn);
    else if (!qp_is(qp, IBV_QPT_UD) ||
             device_has_address(qp->context->device, arrival->flow.v6, arrival->flow.destination))
        deliver(qp, &packet, arrival);
    else
        count(dropped_interface);
}

void input_arrival(const struct arrival *arrival)
{
    if (!fault_touches_packets()) {
        input_checked(arrival);
        return;
    }
    uint8_t copy[WIRE_PACKET_MAX];
    unsigned copies = arrival->size <= sizeof(copy) ? fault_arrival(arrival, copy) : 1;
    struct arrival changed = *arrival;
    if (arrival->size <= sizeof(copy))
        changed.bytes = copy;
    while (copies--)
        input_checked(&changed);
}
