/* SPDX-License-Identifier: Apache-2.0 */
/* The transport over RDMA verbs as a whole. */
#include "transport/verbs/verbs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "transport/verbs/choose.h"
#include "transport/verbs/device.h"
#include "transport/verbs/end.h"
#include "transport/verbs/lane.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/receive.h"
#include "transport/verbs/send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REACH      50  /* before TCP */
#define TURN       4   /* batches of completions of a device that one poll takes */
#define LOOK_EVERY 32  /* polls */
#define FOLLOW_MS  200 /* between two questions for the ports of lanes */

static void verbs_close(struct transport *transport)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    for (int i = 0; i <= WIRE_DEVICES; i++)
        acceptor_close(&verbs->listening[i]);
    acceptor_fini(&verbs->acceptor);
    transport_timer_clear(&verbs->base, &verbs->follow);
    for (unsigned i = 0; i < verbs->places; i++) /* those that the owner does not know of yet */
        if (verbs->lanes[i])
            verbs_lane_close(&verbs->lanes[i]->base.lane);
    verbs_close_devices(verbs);
    transport_fini(transport);
    free(verbs->lanes);
    free(verbs);
}

/*
 * Each port has its lanes agreed on at its own address, where it has one of IP: so a lane comes up only where its
 * packets can go. The others share an address of the host. All take the port number of the first one where that is
 * free: what a hundred thousand processes say of themselves is kept, and equal numbers take no room (wire/roster.h).
 */
static bool listen_at_port(struct verbs_transport *verbs, int i, uint16_t like, struct wire_address *out)
{
    struct net_address at, same;
    if (!choose_ip(&verbs->device[i].gid, &at))
        return false;
    same = at;
    net_set_port(&same, like);
    struct acceptor_socket *listening = &verbs->listening[i];
    return (like && socket_listen_at(&verbs->acceptor, listening, &same, verbs->device[i].name, out)) ||
           socket_listen_at(&verbs->acceptor, listening, &at, verbs->device[i].name, out);
}

static tutti_result_t listen_at_ports(struct verbs_transport *verbs, struct wire_process *self)
{
    struct acceptor_socket *shared = &verbs->listening[WIRE_DEVICES];
    struct wire_address general = {.family = 0};
    memset(self->verbs, 0, sizeof self->verbs);
    for (int i = 0; i < verbs->devices; i++) {
        if (listen_at_port(verbs, i, self->verbs[0].port, &self->verbs[i]))
            continue;
        tutti_result_t result = general.family ? TUTTI_SUCCESS : socket_listen(&verbs->acceptor, shared, &general, 1);
        if (result != TUTTI_SUCCESS)
            return result;
        self->verbs[i] = general;
    }
    return TUTTI_SUCCESS;
}

/* The lane gets the source port that the owner wants, if the adapter can change it while the queue pair lives. */
static void verbs_follow_lane(struct verbs_lane *lane)
{
    const struct transport_owner *owner = &lane->base.lane.transport->owner;
    struct lane *base = &lane->base.lane;
    int port = owner->steered(owner->context, lane->peer, lane->index, base->source);
    if (port <= 0 || port == base->source)
        return;
    if (verbs_set_source(lane->qp, (uint16_t)port))
        base->source = (uint16_t)port;
    else
        owner->stays(base);
}

static void verbs_follow(struct transport_timer *timer)
{
    struct verbs_transport *verbs = container_of(timer, struct verbs_transport, follow);
    for (unsigned i = 0; i < verbs->places; i++)
        if (verbs->lanes[i] && verbs->lanes[i]->state == VERBS_OPEN)
            verbs_follow_lane(verbs->lanes[i]);
    transport_timer_set(&verbs->base, &verbs->follow, FOLLOW_MS);
}

static tutti_result_t open_parts(struct verbs_transport *verbs, const struct transport_owner *owner,
                                 struct poller *poller, struct wire_process *self)
{
    tutti_result_t result = transport_init(&verbs->base, &transport_verbs, owner, poller, verbs_lane_reap);
    if (result == TUTTI_SUCCESS)
        result = verbs_open_devices(verbs);
    if (result == TUTTI_SUCCESS)
        result = listen_at_ports(verbs, self);
    if (result == TUTTI_SUCCESS && owner->steered && *param_string(PARAM_PATH_AGENT))
        transport_timer_set(&verbs->base, &verbs->follow, FOLLOW_MS);
    return result;
}

static tutti_result_t verbs_open(const struct transport_ops *ops, const struct transport_owner *owner,
                                 struct poller *poller, struct wire_process *self, struct transport **out)
{
    const struct verbs_library *library;
    if (param_int(PARAM_IB_DISABLE))
        return error_note(TUTTI_INVALID_USAGE, "RDMA is switched off (%s)", param_source(PARAM_IB_DISABLE));
    tutti_result_t result = verbs_library(&library);
    if (result != TUTTI_SUCCESS)
        return result;
    struct verbs_transport *verbs = calloc(1, sizeof *verbs);
    if (!verbs)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for transport verbs");
    verbs->library = library;
    for (int i = 0; i <= WIRE_DEVICES; i++)
        verbs->listening[i].source.fd = -1;
    for (int i = 0; i < WIRE_DEVICES; i++)
        verbs->device[i] = (struct verbs_device){.events.fd = -1, .completions.fd = -1};
    list_init(&verbs->memories);
    list_init(&verbs->ringing);
    list_init(&verbs->follow.node);
    verbs->follow.expired = verbs_follow;
    acceptor_init(&verbs->acceptor, &verbs->base, sizeof(struct verbs_hello), verbs_greeted);
    result = open_parts(verbs, owner, poller, self);
    if (result != TUTTI_SUCCESS) {
        struct error_saved why;
        error_save(&why);
        verbs_close(&verbs->base);
        error_restore(&why);
        memset(self->verbs, 0, sizeof self->verbs); /* peers are told of nothing */
        return result;
    }
    verbs->base.self = self;
    *out = &verbs->base;
    return TUTTI_SUCCESS;
}

static int verbs_reach(struct transport *transport, const struct wire_process *peer)
{
    return socket_addresses(peer->verbs, WIRE_DEVICES) ? REACH : -1;
}

static int verbs_lanes(struct transport *transport, const struct wire_process *peer)
{
    int ours = ((struct verbs_transport *)transport)->devices, theirs = socket_addresses(peer->verbs, WIRE_DEVICES);
    return (ours > theirs ? ours : theirs) * (int)param_int(PARAM_IB_LANES);
}

static bool verbs_nic(struct transport *transport, unsigned device, struct transport_nic *out)
{
    const struct verbs_transport *verbs = (const struct verbs_transport *)transport;
    if (device >= (unsigned)verbs->devices)
        return false;
    const struct verbs_device *from = &verbs->device[device];
    *out = (struct transport_nic){.port = from->port, .rate = from->rate, .distance = from->distance};
    snprintf(out->name, sizeof out->name, "%.*s", (int)strcspn(from->name, ":"), from->name);
    return true;
}

static void verbs_flush(struct transport *transport, unsigned index, const struct transport_memory *memory,
                        struct place place, uint64_t token)
{
    struct verbs_device *device = &((struct verbs_transport *)transport)->device[index];
    if (!verbs_flush_memory(device, memory, place.address, token))
        verbs_flush_failed(device, error_last());
}

static int verbs_poll(struct transport *transport)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    int done = 0;
    if (transport->depth)
        return 0;
    transport_enter(transport);
    for (int i = 0; i < verbs->devices; i++) {
        done += verbs_device_revived(&verbs->device[i]);
        verbs_device_rest(&verbs->device[i]);
    }
    for (int i = 0; i < verbs->devices; i++)
        for (int turn = 0, taken = VERBS_BATCH; verbs->device[i].lanes && turn < TURN && taken == VERBS_BATCH; turn++)
            done += taken = verbs_complete(&verbs->device[i]);
    if (++transport->idle_polls >= LOOK_EVERY)
        done += transport_look(transport);
    done += transport_settle(transport);
    transport_leave(transport);
    return done;
}

/* The channel rings for completions from here on, so those that came before are looked for. */
static bool arm_device(struct verbs_device *device)
{
    if (device->early_count || device->kept_end > device->kept_first)
        return false;
    int error = device->open.cq->context->ops.req_notify_cq(device->open.cq, 0);
    int count = error ? -1 : device->open.cq->context->ops.poll_cq(device->open.cq, VERBS_BATCH, device->early);
    device->early_count = count > 0 ? count : 0;
    if (count < 0)
        verbs_lose_device(device, "cannot watch for completions");
    return count == 0;
}

static bool verbs_arm(struct transport *transport)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    for (int i = 0; i < verbs->devices; i++)
        if (verbs->device[i].lanes && !arm_device(&verbs->device[i]))
            return false;
    transport->armed = list_empty(&transport->failing);
    return transport->armed;
}

static void verbs_disarm(struct transport *transport)
{
    transport->armed = false;
}

const struct transport_ops transport_verbs = {
    .name = "verbs",
    .caps = TRANSPORT_DATA | TRANSPORT_MESSAGES | TRANSPORT_REGISTERS | TRANSPORT_JUDGES,
    .max_msg = VERBS_MAX_MSG,
    .sent = WIRE_COUNTER_SENT_VERBS,
    .received = WIRE_COUNTER_RECEIVED_VERBS,
    .window = 4,
    .open = verbs_open,
    .close = verbs_close,
    .reach = verbs_reach,
    .lanes = verbs_lanes,
    .nic = verbs_nic,
    .lane_open = verbs_lane_open,
    .lane_close = verbs_lane_close,
    .msg = verbs_msg,
    .put = verbs_put,
    .gather = verbs_gather,
    .give_up = verbs_give_up,
    .register_memory = verbs_register,
    .deregister_memory = verbs_deregister,
    .flush = verbs_flush,
    .announce = transport_no_announce,
    .share = transport_no_share,
    .moved = verbs_moved,
    .owes = verbs_owes,
    .poll = verbs_poll,
    .arm = verbs_arm,
    .disarm = verbs_disarm,
};
