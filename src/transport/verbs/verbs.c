/* SPDX-License-Identifier: Apache-2.0 */
/* The transport over RDMA verbs as a whole. */
#include "transport/verbs/verbs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"

#include <stdlib.h>
#include <string.h>

#define REACH      50 /* before TCP */
#define TURN       4  /* batches of completions of a device that one poll takes */
#define LOOK_EVERY 32 /* polls */

static void verbs_close(struct transport *transport)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    acceptor_close(&verbs->listening);
    acceptor_fini(&verbs->acceptor);
    verbs_close_devices(verbs);
    transport_fini(transport);
    free(verbs->lanes);
    free(verbs);
}

static tutti_result_t open_parts(struct verbs_transport *verbs, const struct transport_owner *owner,
                                 struct poller *poller, struct wire_process *self)
{
    tutti_result_t result = transport_init(&verbs->base, &transport_verbs, owner, poller, verbs_lane_reap);
    if (result == TUTTI_SUCCESS)
        result = verbs_open_devices(verbs);
    if (result == TUTTI_SUCCESS)
        result = socket_listen(&verbs->acceptor, &verbs->listening, &self->verbs, 1);
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
    verbs->listening.source.fd = -1;
    for (int i = 0; i < WIRE_DEVICES; i++)
        verbs->device[i] = (struct verbs_device){.events.fd = -1, .completions.fd = -1};
    acceptor_init(&verbs->acceptor, &verbs->base, sizeof(struct verbs_hello), verbs_greeted);
    result = open_parts(verbs, owner, poller, self);
    if (result != TUTTI_SUCCESS) {
        verbs_close(&verbs->base);
        return result;
    }
    verbs->base.self = self;
    *out = &verbs->base;
    return TUTTI_SUCCESS;
}

static int verbs_reach(struct transport *transport, const struct wire_process *peer)
{
    return peer->verbs.family ? REACH : -1;
}

static int verbs_lanes(struct transport *transport, const struct wire_process *peer)
{
    return ((struct verbs_transport *)transport)->devices * (int)param_int(PARAM_IB_LANES);
}

static int verbs_poll(struct transport *transport)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    int done = 0;
    if (transport->depth)
        return 0;
    transport_enter(transport);
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
    if (device->early_count)
        return false;
    int error = device->cq->context->ops.req_notify_cq(device->cq, 0);
    int count = error ? -1 : device->cq->context->ops.poll_cq(device->cq, VERBS_BATCH, device->early);
    device->early_count = count > 0 ? count : 0;
    if (count < 0)
        verbs_fail_device(device, "cannot watch for completions");
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
    .caps = TRANSPORT_DATA | TRANSPORT_DIRECT | TRANSPORT_ON_REQUEST,
    .max_msg = VERBS_MAX_MSG,
    .sent = WIRE_COUNTER_SENT_VERBS,
    .received = WIRE_COUNTER_RECEIVED_VERBS,
    .window = 4,
    .open = verbs_open,
    .close = verbs_close,
    .reach = verbs_reach,
    .lanes = verbs_lanes,
    .lane_open = verbs_lane_open,
    .lane_close = verbs_lane_close,
    .msg = verbs_msg,
    .put = verbs_put,
    .give_up = verbs_give_up,
    .register_memory = verbs_register,
    .deregister_memory = verbs_deregister,
    .announce = transport_no_announce,
    .share = transport_no_share,
    .poll = verbs_poll,
    .arm = verbs_arm,
    .disarm = verbs_disarm,
};
