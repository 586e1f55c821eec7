/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a shared-memory lane: the opener makes its memory and knocks; the other side maps it and welcomes. */
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/param.h"
#include "transport/shm/control.h"
#include "transport/shm/lane.h"
#include "transport/shm/packet.h"
#include "transport/shm/peer.h"
#include "transport/shm/receive.h"
#include "transport/shm/send.h"
#include "transport/shm/share.h"
#include "transport/shm/watch.h"
#include "transport/shm/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void shm_lane_deadline_passed(struct transport_timer *timer)
{
    shm_fail(container_of(timer, struct shm_lane, deadline), "cannot connect", ETIMEDOUT);
}

/* The peer has closed its end: what it had sent before still counts. */
static void shm_lane_end(struct shm_lane *lane, int error)
{
    unsigned turns = lane->shape.slots;
    while (lane->base.up && turns-- && !carrier_dead(&lane->base) && shm_receive(lane))
        ;
    shm_fail(lane, lane->base.up ? "the peer has closed the lane or died" : "the peer did not take our greeting",
             error);
}

static void shm_lane_lane_ready(struct poll_source *source, uint32_t events)
{
    struct shm_lane *lane = container_of(source, struct shm_lane, source);
    (void)events;
    if (!shm_control_drain(lane))
        shm_lane_end(lane, errno);
}

static struct shm_lane *shm_lane_lane_new(struct transport *transport, void *user, uint16_t index)
{
    struct shm_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    carrier_init(&lane->base, transport, user);
    lane->source = (struct poll_source){.fd = -1, .ready = shm_lane_lane_ready};
    lane->deadline.expired = shm_lane_deadline_passed;
    lane->watch = NO_WATCH;
    lane->index = index;
    list_init(&lane->deadline.node);
    list_init(&lane->of_peer);
    list_init(&lane->active);
    list_init(&lane->wide);
    return lane;
}

/* Where there is little address space a lane does without stages, which lie at its end. */
static tutti_result_t map_lane(struct shm_lane *lane, int fd, bool opener)
{
    tutti_result_t result = memory_map(fd, ring_pair_size(&lane->shape), &lane->memory);
    if (result != TUTTI_SUCCESS && lane->shape.stages) {
        lane->shape.stages = 0;
        result = memory_map(fd, ring_pair_size(&lane->shape), &lane->memory);
    }
    if (result != TUTTI_SUCCESS)
        return result;
    ring_out_init(&lane->out, &lane->shape, lane->memory, !opener);
    ring_in_init(&lane->in, &lane->shape, lane->memory, opener);
    lane->stage.out = ring_stages(&lane->shape, lane->memory, !opener);
    lane->stage.in = ring_stages(&lane->shape, lane->memory, opener);
    shm_window_open(lane);
    return TUTTI_SUCCESS;
}

static uint64_t power_at_least(uint64_t value)
{
    uint64_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

static struct shm_ring_shape shape_wanted(void)
{
    uint64_t chunk = (uint64_t)param_int(PARAM_SHM_CHUNK) / CACHE_LINE * CACHE_LINE;
    uint64_t data = chunk * (uint64_t)param_int(PARAM_SHM_CHUNKS),
             least = 4 * (chunk > SHM_MAX_MSG ? chunk : SHM_MAX_MSG);
    struct shm_ring_shape shape = {.chunk = (uint32_t)chunk, .data = power_at_least(data > least ? data : least)};
    shape.slots = (uint32_t)power_at_least((uint64_t)param_int(PARAM_SHM_RING) / sizeof(struct ring_slot));
    shape.stages = memory_is_sealed() ? RING_STAGES : 0; /* other memory is taken whole, though little of it is used */
    return shape;
}

/* Connects to where `uuid` listens. -1 with errno. */
static int connect_to(const uint8_t *uuid)
{
    struct sockaddr_un name;
    int fd = fork_socket(AF_UNIX, SOCK_SEQPACKET);
    if (fd < 0)
        return -1;
    for (int abstract = 1; abstract >= 0; abstract--) {
        socklen_t length = shm_name(uuid, abstract, &name);
        if (connect(fd, (struct sockaddr *)&name, length) == 0)
            return fd;
        if (errno == EAGAIN) /* it is there, and has too many pending connections */
            break;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool same_user(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

static void knock(struct shm_lane *lane, const struct wire_process *peer, uint32_t epoch, uint32_t known,
                  uint64_t session, int memory_fd)
{
    struct shm_transport *shm = shm_of(lane);
    struct shm_hello hello = {.hello = transport_hello(&shm->base, peer, lane->index, epoch, known, session),
                              .shape = lane->shape,
                              .word = attach_mine()};
    int fds[ACCEPTOR_FDS] = {memory_fd, shm->page_fd, shm->bell.fd};
    lane->source.fd = connect_to(peer->uuid);
    if (lane->source.fd < 0)
        shm_fail(lane, "cannot connect", errno);
    else if (!same_user(lane->source.fd))
        shm_fail(lane, "another user listens at the peer's address", 0);
    else if (!shm_packet_send(lane->source.fd, &hello, sizeof hello, fds, ACCEPTOR_FDS))
        shm_fail(lane, "cannot send the greeting", errno);
    else if (poller_add(shm->base.inner, &lane->source, EPOLLIN) != TUTTI_SUCCESS)
        shm_fail(lane, "cannot watch the socket", ENOSPC);
    else
        transport_timer_set(&shm->base, &lane->deadline, param_int(PARAM_TIMEOUT));
}

tutti_result_t shm_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                             uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out)
{
    struct shm_lane *lane = shm_lane_lane_new(transport, user, index);
    int memory_fd = -1;
    if (!lane)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for shared-memory lane %u", index);
    lane->shape = shape_wanted();
    memcpy(lane->uuid, peer->uuid, sizeof lane->uuid);
    tutti_result_t result = memory_make(ring_pair_size(&lane->shape), &memory_fd);
    if (result == TUTTI_SUCCESS)
        result = map_lane(lane, memory_fd, true);
    if (result == TUTTI_SUCCESS)
        knock(lane, peer, epoch, known, session, memory_fd); /* a failure is told by down() */
    if (memory_fd >= 0)
        close(memory_fd);
    if (result != TUTTI_SUCCESS) {
        shm_lane_reap(&lane->base.lane);
        return result;
    }
    *out = &lane->base.lane;
    return TUTTI_SUCCESS;
}

void shm_lane_close(struct lane *base)
{
    struct shm_lane *lane = shm_lane_of(base);
    shm_lane_silence(lane);
    if (lane->source.fd >= 0)
        shutdown(lane->source.fd, SHUT_RDWR); /* the peer learns now, also if we are reaped later */
    carrier_close(&lane->base);
}

void shm_lane_reap(struct lane *base)
{
    struct shm_lane *lane = shm_lane_of(base);
    const struct shm_transport *shm = shm_of(lane);
    shm_forget_lent(lane);
    struct shm_peer *last = shm_peer_leave(lane);
    if (last) {
        shm_peer_forget_regions(last, shm);
        shm_peer_end(last);
    }
    shm_window_close(lane);
    memory_unmap(lane->memory, ring_pair_size(&lane->shape));
    if (lane->source.fd >= 0)
        close(lane->source.fd);
    free(lane);
}

static bool believable(const struct shm_transport *shm, const struct shm_hello *hello, int memory_fd)
{
    return transport_believes(&shm->base, &hello->hello) && ring_shape_ok(&hello->shape) &&
           memory_trust(memory_fd, ring_pair_size(&hello->shape));
}

static bool send_welcome(struct shm_transport *shm, int fd)
{
    struct attach_word word = attach_mine();
    struct shm_notice notice = {.magic = SHM_MAGIC, .type = SHM_WELCOME, .key = word.address, .size = word.value};
    int fds[2] = {shm->page_fd, shm->bell.fd};
    memcpy(notice.uuid, shm->base.self->uuid, sizeof notice.uuid);
    return shm_packet_send(fd, &notice, sizeof notice, fds, 2);
}

/* The page and bell become the peer's; the rest is the caller's. */
static struct shm_lane *accept_lane(struct shm_transport *shm, int fd, const struct shm_hello *hello,
                                    int fds[ACCEPTOR_FDS])
{
    struct ucred who = {0};
    socklen_t size = sizeof who;
    struct shm_lane *lane = shm_lane_lane_new(&shm->base, NULL, hello->hello.lane);
    if (!lane)
        return NULL;
    lane->shape = hello->shape;
    lane->source.fd = fd;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    int page = fds[1], bell = fds[2];
    fds[1] = fds[2] = -1;
    if (!shm_peer_join(lane, hello->hello.from.uuid, who.pid, page, bell) ||
        map_lane(lane, fds[0], false) != TUTTI_SUCCESS || !shm_watch_add(lane) ||
        poller_add(shm->base.inner, &lane->source, EPOLLIN) != TUTTI_SUCCESS) {
        shm_watch_remove(lane);
        lane->source.fd = -1;
        shm_lane_reap(&lane->base.lane);
        return NULL;
    }
    lane->base.up = lane->welcome_due = true;
    return lane;
}

/* The owner decides before the peer hears anything: a lane that is not taken is never up there. */
static void shm_lane_introduce(struct shm_lane *lane, const struct wire_hello *hello)
{
    static const struct shm_notice decline = {.magic = SHM_MAGIC, .type = SHM_DECLINE};
    struct shm_transport *shm = shm_of(lane);
    bool taken = shm->base.owner.accepted(shm->base.owner.context, &lane->base.lane, hello);
    if (carrier_dead(&lane->base))
        return;
    lane->welcome_due = false;
    if (!taken) {
        shm_packet_send(lane->source.fd, &decline, sizeof decline, NULL, 0);
        shm_lane_close(&lane->base.lane);
    } else if (!send_welcome(shm, lane->source.fd)) {
        shm_fail(lane, "cannot send the welcome", errno);
    } else {
        shm_announce(shm, lane->peer);
    }
}

void shm_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS])
{
    struct shm_transport *shm = (struct shm_transport *)acceptor->transport;
    struct shm_hello hello;
    struct shm_lane *lane = NULL;
    memcpy(&hello, greeting, sizeof hello);
    if (!same_user(fd) || !believable(shm, &hello, fds[0]))
        log_info("a stranger connected to transport shm: closed");
    else
        lane = accept_lane(shm, fd, &hello, fds);
    if (!lane)
        close(fd);
    for (int i = 0; i < ACCEPTOR_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (!lane)
        return;
    shm_peer_try_attach(lane->peer, hello.word);
    shm_tell_attach(lane);
    shm_lane_introduce(lane, &hello.hello);
}
