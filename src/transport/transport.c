/* SPDX-License-Identifier: Apache-2.0 */
/* The transports of this build, and the one that can do nothing. */
#include "transport/common.h"
#include "base/error.h"

#include <string.h>

static tutti_result_t transport_no_open(const struct transport_ops *ops, const struct transport_owner *owner,
                                        struct poller *poller, struct wire_process *self, struct transport **out)
{
    return error_note(TUTTI_INVALID_USAGE, "this transport is not part of this build");
}

static void no_close(struct transport *transport)
{
}

static int no_reach(struct transport *transport, const struct wire_process *peer)
{
    return -1;
}

static int no_lanes(struct transport *transport, const struct wire_process *peer)
{
    return 0;
}

bool transport_no_nic(struct transport *transport, unsigned device, struct transport_nic *out)
{
    return false;
}

static tutti_result_t no_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                                   uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out)
{
    return error_note(TUTTI_INVALID_USAGE, "this transport opens no lanes");
}

static void no_lane_close(struct lane *lane)
{
}

static tutti_result_t no_msg(struct lane *lane, const struct iovec *parts, int count)
{
    return error_note(TUTTI_INVALID_USAGE, "this transport sends no messages");
}

static tutti_result_t no_put(struct lane *lane, const struct put *put)
{
    return error_note(TUTTI_INVALID_USAGE, "this transport has no puts");
}

tutti_result_t transport_no_register(struct transport *transport, struct place place, size_t length,
                                     struct transport_memory **out)
{
    return error_note(TUTTI_INVALID_USAGE, "this transport registers no memory");
}

void transport_no_deregister(struct transport *transport, struct transport_memory *memory)
{
}

void transport_no_announce(struct transport *transport, const void *address)
{
}

static void transport_no_give_up(struct lane *lane, uint64_t token)
{
}

tutti_result_t transport_no_share(struct lane *lane, uint64_t key, int fd)
{
    return error_note(TUTTI_INVALID_USAGE, "transport %s hands over no descriptors", lane->ops->name);
}

uint64_t transport_no_moved(struct lane *lane)
{
    return 0;
}

static int no_poll(struct transport *transport)
{
    return 0;
}

static bool no_arm(struct transport *transport)
{
    return true;
}

static void no_disarm(struct transport *transport)
{
}

const struct transport_ops transport_unsupported = {
    .name = "none",
    .open = transport_no_open,
    .close = no_close,
    .reach = no_reach,
    .lanes = no_lanes,
    .nic = transport_no_nic,
    .lane_open = no_lane_open,
    .lane_close = no_lane_close,
    .msg = no_msg,
    .put = no_put,
    .give_up = transport_no_give_up,
    .register_memory = transport_no_register,
    .deregister_memory = transport_no_deregister,
    .announce = transport_no_announce,
    .share = transport_no_share,
    .moved = transport_no_moved,
    .owes = transport_no_moved,
    .poll = no_poll,
    .arm = no_arm,
    .disarm = no_disarm,
};

const struct transport_ops *const transport_registry[] = {&transport_shm, &transport_verbs, &transport_tcp, NULL};
