/* SPDX-License-Identifier: Apache-2.0 */
/* Packets on a lane's socket: the welcome, descriptors, and the news that the peer has gone. */
#include "base/error.h"
#include "base/log.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURN 256 /* packets of one lane before others have their turn */

bool shm_control_send(int fd, const void *bytes, size_t size, const int *fds, int count)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * ACCEPTOR_FDS)];
    } control;
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    size_t length = sizeof(int) * (size_t)count;
    if (count) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(length);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(length)};
        memcpy(CMSG_DATA(header), fds, length);
    }
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

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

/* The peer has closed its end: what it had sent before still counts. */
static void shm_control_end(struct shm_lane *lane, int error)
{
    unsigned turns = lane->shape.slots;
    while (lane->base.up && turns-- && !carrier_dead(&lane->base) && shm_receive(lane))
        ;
    shm_fail(lane, lane->base.up ? "the peer has closed the lane or died" : "the peer did not take our greeting",
             error);
}

void shm_control_drain(struct shm_lane *lane, bool inside)
{
    for (int i = 0; i < TURN && !carrier_dead(&lane->base); i++) {
        struct shm_notice notice;
        int fds[ACCEPTOR_FDS] = {-1, -1, -1};
        ssize_t got = acceptor_receive(lane->source.fd, &notice, sizeof notice, fds);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got == (ssize_t)sizeof notice)
            shm_control_handle(lane, &notice, fds);
        else if (got > 0)
            shm_fail(lane, "the peer sent a packet that is none", 0);
        else if (!inside)
            shm_control_end(lane, got < 0 ? errno : 0);
        close_fds(fds);
        if (got <= 0)
            return;
    }
}

void shm_fetch_shared(struct shm_lane *lane)
{
    struct list *head = &lane->peer->lanes;
    for (struct list *node = head->next; node != head && !carrier_dead(&lane->base);) {
        struct shm_lane *sibling = list_entry(node, struct shm_lane, of_peer);
        node = node->next;
        shm_control_drain(sibling, true);
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
    if (lane->welcome_due || !shm_control_send(lane->source.fd, &notice, sizeof notice, &fd, 1)) {
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
