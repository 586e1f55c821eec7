/* SPDX-License-Identifier: Apache-2.0 */
/* The shared-memory transport as a whole: its socket, page and bell, and who is polled when. */
#include "transport/shm/shm.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/param.h"
#include "transport/shm/control.h"
#include "transport/shm/lane.h"
#include "transport/shm/packet.h"
#include "transport/shm/region.h"
#include "transport/shm/send.h"
#include "transport/shm/share.h"
#include "transport/shm/stage.h"
#include "transport/shm/turn.h"
#include "transport/shm/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG    4096
#define LOOK_EVERY 256          /* polls */
#define LEAST_ROOM (1ull << 30) /* bytes of /dev/shm, where memory comes from there: lanes and collectives take it */

static bool bind_name(struct shm_transport *shm, int fd, const uint8_t *uuid)
{
    struct sockaddr_un name;
    socklen_t length = shm_name(uuid, true, &name);
    if (bind(fd, (struct sockaddr *)&name, length) == 0)
        return true;
    log_info("no abstract socket here (%s): using one in /dev/shm", strerror(errno));
    length = shm_name(uuid, false, &name);
    if (bind(fd, (struct sockaddr *)&name, length) != 0)
        return false;
    memcpy(shm->path, name.sun_path, sizeof shm->path);
    return chmod(shm->path, 0600) == 0;
}

static tutti_result_t open_listening(struct shm_transport *shm, const uint8_t *uuid)
{
    int fd = fork_socket(AF_UNIX, SOCK_SEQPACKET);
    if (fd < 0 || !bind_name(shm, fd, uuid) || listen(fd, BACKLOG) != 0) {
        tutti_result_t result =
            error_set(TUTTI_INVALID_USAGE, "transport shm cannot listen on a unix socket: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return result;
    }
    return acceptor_open(&shm->acceptor, &shm->listening, fd);
}

static void bell_rang(struct poll_source *source, uint32_t events)
{
    struct shm_transport *shm = container_of(source, struct shm_transport, bell);
    (void)events; /* edge-triggered: the count need not be read */
    shm_tell_frees(shm);
    shm->base.ops->poll(&shm->base);
}

/* A lane that finds no room later has no other transport to go to: where there is another one, this one is for those
 * who have room. */
static tutti_result_t see_room(void)
{
    uint64_t room = memory_is_sealed() ? LEAST_ROOM : memory_room();
    if (room >= LEAST_ROOM || strcmp(param_string(PARAM_TRANSPORT), "auto") != 0)
        return TUTTI_SUCCESS;
    log_info("no shared memory: this process may not use memfd_create, and /dev/shm has %llu MiB free, of %llu that it "
             "takes; let it use memfd_create, or make /dev/shm larger",
             (unsigned long long)(room >> 20), LEAST_ROOM >> 20);
    return error_note(TUTTI_SYSTEM_ERROR, "no memfd_create, and too little room in /dev/shm");
}

static tutti_result_t open_page(struct shm_transport *shm)
{
    void *page;
    tutti_result_t result = memory_make(SHM_PAGE, &shm->page_fd);
    if (result == TUTTI_SUCCESS)
        result = see_room();
    if (result == TUTTI_SUCCESS)
        result = memory_map(shm->page_fd, SHM_PAGE, &page);
    if (result != TUTTI_SUCCESS)
        return result;
    shm->page = page;
    shm->bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (shm->bell.fd < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "transport shm cannot make an eventfd: %s", strerror(errno));
    result = poller_add(shm->base.outer, &shm->bell, EPOLLIN | EPOLLET);
    if (result != TUTTI_SUCCESS) {
        close(shm->bell.fd);
        shm->bell.fd = -1;
    }
    return result;
}

static void shm_close(struct transport *transport)
{
    struct shm_transport *shm = (struct shm_transport *)transport;
    region_unwatch(&shm->watcher);
    transport_timer_clear(transport, &shm->again);
    acceptor_close(&shm->listening);
    acceptor_fini(&shm->acceptor);
    if (*shm->path)
        unlink(shm->path);
    if (shm->bell.fd >= 0) {
        poller_remove(transport->outer, &shm->bell);
        close(shm->bell.fd);
    }
    memory_unmap(shm->page, SHM_PAGE);
    if (shm->page_fd >= 0)
        close(shm->page_fd);
    transport_fini(transport);
    free(shm->watches);
    free(shm);
}

static tutti_result_t shm_open_transport(const struct transport_ops *ops, const struct transport_owner *owner,
                                         struct poller *poller, struct wire_process *self, struct transport **out)
{
    if (transport_shm_is_off())
        return error_note(TUTTI_INVALID_USAGE, "shared memory is switched off by %s", param_source(PARAM_SHM_DISABLE));
    struct shm_transport *shm = calloc(1, sizeof *shm);
    if (!shm)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for transport shm");
    shm->page_fd = shm->bell.fd = shm->listening.source.fd = -1;
    shm->bell.ready = bell_rang;
    list_init(&shm->peers);
    list_init(&shm->active);
    list_init(&shm->wide);
    list_init(&shm->watcher.node);
    list_init(&shm->again.node);
    shm->again.expired = shm_say_again;
    acceptor_init(&shm->acceptor, &shm->base, sizeof(struct shm_hello), shm_greeted);
    tutti_result_t result = transport_init(&shm->base, &transport_shm, owner, poller, shm_lane_reap);
    if (result == TUTTI_SUCCESS)
        result = open_page(shm);
    if (result == TUTTI_SUCCESS)
        result = open_listening(shm, self->uuid);
    if (result != TUTTI_SUCCESS) {
        shm_close(&shm->base);
        return result;
    }
    shm->base.self = self;
    self->shares = memory_is_sealed() ? WIRE_SHARES_SEALED : WIRE_SHARES_UNSEALED;
    region_watch(&shm->watcher, shm->bell.fd);
    *out = &shm->base;
    return TUTTI_SUCCESS;
}

static int shm_reach(struct transport *transport, const struct wire_process *peer)
{
    const struct wire_process *self = transport->self;
    return self->host == peer->host && self->uid == peer->uid && self->shares == peer->shares ? 10 : -1;
}

static int shm_lanes(struct transport *transport, const struct wire_process *peer)
{
    return 1; /* one core copies; more lanes would only share it */
}

/* Lanes with puts under way, or whose owner waits for room. */
static int progress_active(struct shm_transport *shm)
{
    struct list turn, *node;
    int done = 0;
    if (list_empty(&shm->active))
        return 0;
    transport_take(&turn, &shm->active);
    while ((node = list_pop(&turn))) {
        struct shm_lane *lane = list_entry(node, struct shm_lane, active);
        list_push(&shm->active, node);
        done += shm_progress(lane);
    }
    return done;
}

/* There is nothing else to be done. */
static int help_peers(struct shm_transport *shm)
{
    const struct transport_owner *owner = &shm->base.owner;
    if (list_empty(&shm->active) || !owner->spares || !owner->spares(owner->context))
        return 0;
    list_each(node, &shm->active)
    {
        if (shm_stage_ahead(list_entry(node, struct shm_lane, active)))
            return 1;
    }
    return 0;
}

static int shm_poll(struct transport *transport)
{
    struct shm_transport *shm = (struct shm_transport *)transport;
    if (transport->depth)
        return 0;
    transport_enter(transport);
    unsigned lent = shm->lent;
    int done = lent ? progress_active(shm) : 0;
    if (shm->lent >= lent) /* else the send has ended: its owner is to say first where the answer belongs */
        done += shm_turn_poll(shm) + progress_active(shm);
    if (!done)
        done = help_peers(shm);
    if (++transport->idle_polls >= LOOK_EVERY) {
        shm_tell_frees(shm);
        done += transport_look(transport);
    }
    if (!list_empty(&transport->failing))
        done += transport_settle(transport);
    transport_leave(transport);
    return done;
}

static bool shm_has_news(struct shm_transport *shm)
{
    if (!list_empty(&shm->base.failing) || shm_watch_news(shm))
        return true;
    list_each(node, &shm->active)
    {
        if (shm_can_progress(list_entry(node, struct shm_lane, active)))
            return true;
    }
    return false;
}

static bool shm_arm(struct transport *transport)
{
    struct shm_transport *shm = (struct shm_transport *)transport;
    shm_tell_frees(shm);
    atomic_store_explicit(&shm->page->sleeping, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* either we see the peer's store, or it sees that we sleep */
    transport->armed = true;
    if (!shm_has_news(shm))
        return true;
    atomic_store_explicit(&shm->page->sleeping, 0, memory_order_relaxed);
    return false;
}

static void shm_disarm(struct transport *transport)
{
    struct shm_transport *shm = (struct shm_transport *)transport;
    transport->armed = false;
    atomic_store_explicit(&shm->page->sleeping, 0, memory_order_relaxed);
}

const struct transport_ops transport_shm = {
    .name = "shm",
    .caps = TRANSPORT_SAME_HOST | TRANSPORT_LOSSLESS | TRANSPORT_SHARES | TRANSPORT_CONFIRMS,
    .max_msg = SHM_MAX_MSG,
    .max_lent = SHM_MAX_LENT,
    .sent = WIRE_COUNTER_SENT_SHM,
    .received = WIRE_COUNTER_RECEIVED_SHM,
    .window =
        SHM_QUEUE, /* the peer copies while this rank is busy with its own, and must find work whenever it looks */
    .open = shm_open_transport,
    .close = shm_close,
    .reach = shm_reach,
    .lanes = shm_lanes,
    .nic = transport_no_nic,
    .lane_open = shm_lane_open,
    .lane_close = shm_lane_close,
    .msg = shm_msg,
    .lend = shm_lend,
    .put = shm_put,
    .give_up = shm_give_up,
    .register_memory = transport_no_register,
    .deregister_memory = transport_no_deregister,
    .announce = shm_announce_region,
    .share = shm_share,
    .moved = transport_no_moved,
    .owes = transport_no_moved,
    .poll = shm_poll,
    .arm = shm_arm,
    .disarm = shm_disarm,
};
