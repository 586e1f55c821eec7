/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that come on the socket of a lane: the welcome, descriptors, news of regions. */
#include "base/error.h"
#include "base/log.h"
#include "transport/shm/control.h"
#include "transport/shm/packet.h"
#include "transport/shm/peer.h"
#include "transport/shm/share.h"
#include "transport/shm/watch.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURN 256 /* packets of one lane before others have their turn */

static void close_fds(int fds[ACCEPTOR_FDS])
{
    for (int i = 0; i < ACCEPTOR_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int shm_control_take(int fds[ACCEPTOR_FDS], int index)
{
    int fd = fds[index];
    fds[index] = -1;
    return fd;
}

static pid_t peer_pid(int fd)
{
    struct ucred who = {0};
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

static void welcomed(struct shm_lane *lane, const struct shm_notice *notice, int fds[ACCEPTOR_FDS])
{
    struct shm_transport *shm = shm_of(lane);
    int page = shm_control_take(fds, 0), bell = shm_control_take(fds, 1);
    if (!wire_same_process(notice->uuid, lane->uuid))
        page = (close(page), -1);
    if (lane->base.up || !shm_peer_join(lane, notice->uuid, peer_pid(lane->source.fd), page, bell)) {
        shm_fail(lane, "the peer's welcome is none", 0);
        return;
    }
    shm_peer_try_attach(lane->peer, (struct attach_word){notice->key, notice->size});
    shm_tell_attach(lane);
    transport_timer_clear(&shm->base, &lane->deadline);
    if (!shm_watch_add(lane)) {
        shm_fail(lane, "cannot keep the peer's memory", ENOMEM);
        return;
    }
    lane->base.up = true;
    shm_announce(shm, lane->peer);
    shm->base.owner.up(&lane->base.lane);
}

static void shm_control_handle(struct shm_lane *lane, const struct shm_notice *notice, int fds[ACCEPTOR_FDS])
{
    if (notice->magic != SHM_MAGIC || (!lane->base.up && notice->type != SHM_WELCOME && notice->type != SHM_DECLINE)) {
        shm_fail(lane, "the peer sent a packet that is none", 0);
        return;
    }
    switch (notice->type) {
    case SHM_WELCOME:
        welcomed(lane, notice, fds);
        break;
    case SHM_DECLINE:
        shm_fail(lane, "the peer is connecting this lane itself", EALREADY);
        break;
    case SHM_SHARE:
        lane->base.lane.transport->owner.shared(&lane->base.lane, notice->key, shm_control_take(fds, 0));
        break;
    case SHM_REGION:
        shm_peer_region(lane->peer, (uint32_t)notice->key, notice->size, shm_control_take(fds, 0));
        break;
    case SHM_DROP:
        shm_peer_drop(lane->peer, (uint32_t)notice->key);
        break;
    case SHM_MAPPED:
        shm_peer_maps(lane->peer, (uint32_t)notice->key);
        break;
    default:
        shm_fail(lane, "the peer sent a packet that is none", 0);
    }
}

bool shm_control_drain(struct shm_lane *lane)
{
    for (int i = 0; i < TURN && !carrier_dead(&lane->base); i++) {
        struct shm_notice notice;
        int fds[ACCEPTOR_FDS] = {-1, -1, -1};
        ssize_t got = acceptor_receive(lane->source.fd, &notice, sizeof notice, fds);
        int error = got < 0 ? errno : 0;
        if (error == EAGAIN || error == EINTR)
            return true;
        if (got == (ssize_t)sizeof notice)
            shm_control_handle(lane, &notice, fds);
        else if (got > 0)
            shm_fail(lane, "the peer sent a packet that is none", 0);
        close_fds(fds);
        errno = error;
        if (got <= 0)
            return false;
    }
    return true;
}

void shm_fetch_shared(struct shm_lane *lane)
{
    struct list *head = &lane->peer->lanes;
    for (struct list *node = head->next; node != head && !carrier_dead(&lane->base);) {
        struct shm_lane *sibling = list_entry(node, struct shm_lane, of_peer);
        node = node->next;
        shm_control_drain(sibling);
    }
}

/* Why a packet was not taken: it will be later, or poll() is about to notice that the peer is gone, and says so with
 * the lane. */
static bool passes(int error)
{
    return error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS || error == EPIPE || error == ECONNRESET ||
           error == ENOTCONN;
}

tutti_result_t shm_share(struct lane *base, uint64_t key, int fd)
{
    struct shm_lane *lane = shm_lane_of(base);
    struct shm_notice notice = {.magic = SHM_MAGIC, .type = SHM_SHARE, .key = key};
    if (carrier_dead(&lane->base) || !lane->base.up)
        return error_note(TUTTI_REMOTE_ERROR, "shared-memory lane %u is not up", lane->index);
    if (lane->welcome_due || !shm_packet_send(lane->source.fd, &notice, sizeof notice, &fd, 1)) {
        if (!lane->welcome_due && !passes(errno))
            return error_set(TUTTI_SYSTEM_ERROR, "cannot hand descriptor %d to the peer: %s", fd, strerror(errno));
        lane->wants_room = 1;
        shm_activate(lane);
        return TUTTI_IN_PROGRESS;
    }
    list_each(node, &lane->peer->lanes)
    {
        struct shm_lane *sibling = list_entry(node, struct shm_lane, of_peer);
        sibling->share_due = true;
        shm_activate(sibling);
    }
    return TUTTI_SUCCESS;
}
