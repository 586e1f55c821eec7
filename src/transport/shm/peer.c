/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes to the same process have in common: its page and bell, and whether its memory can be reached by attach. */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/param.h"
#include "transport/shm/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writing to it must neither block nor do anything else than wake. */
static bool is_bell(int fd)
{
    char link[64], target[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    bool known = length > 0;
    return fd >= 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) && (!known || strstr(target, "[eventfd]"));
}

static struct shm_peer *peer_find(struct shm_transport *shm, const uint8_t *uuid, pid_t pid)
{
    list_each(node, &shm->peers)
    {
        struct shm_peer *peer = list_entry(node, struct shm_peer, node);
        if (peer->attach.pid == pid && wire_same_process(peer->uuid, uuid))
            return peer;
    }
    return NULL;
}

static struct shm_peer *peer_make(struct shm_transport *shm, const uint8_t *uuid, pid_t pid, int page_fd, int bell)
{
    struct shm_peer *peer = calloc(1, sizeof *peer);
    void *page = NULL;
    if (!peer || !is_bell(bell) || !memory_trust(page_fd, SHM_PAGE) ||
        memory_map(page_fd, SHM_PAGE, &page) != TUTTI_SUCCESS) {
        free(peer);
        return NULL;
    }
    peer->page = page;
    peer->attach.pid = pid;
    peer->bell = bell;
    memcpy(peer->uuid, uuid, sizeof peer->uuid);
    list_init(&peer->lanes);
    list_init(&peer->imports);
    list_push(&shm->peers, &peer->node);
    return peer;
}

struct shm_peer *shm_peer_join(struct shm_lane *lane, const uint8_t *uuid, pid_t pid, int page_fd, int bell)
{
    struct shm_transport *shm = shm_of(lane);
    struct shm_peer *known = page_fd >= 0 && bell >= 0 ? peer_find(shm, uuid, pid) : NULL;
    struct shm_peer *peer = known ? known : peer_make(shm, uuid, pid, page_fd, bell);
    if (page_fd >= 0)
        close(page_fd);
    if (bell >= 0 && (known || !peer))
        close(bell);
    if (!peer)
        return NULL;
    lane->peer = peer;
    list_push(&peer->lanes, &lane->of_peer);
    return peer;
}

struct shm_peer *shm_peer_leave(struct shm_lane *lane)
{
    struct shm_peer *peer = lane->peer;
    if (!peer)
        return NULL;
    list_remove(&lane->of_peer);
    lane->peer = NULL;
    return list_empty(&peer->lanes) ? peer : NULL;
}

void shm_peer_end(struct shm_peer *peer)
{
    list_remove(&peer->node);
    memory_unmap(peer->page, SHM_PAGE);
    close(peer->bell);
    free(peer);
}

void shm_ring_bell_slowly(struct shm_peer *peer)
{
    uint64_t one = 1;
    if (!atomic_exchange(&peer->page->sleeping, 0))
        return;
    ssize_t ignored = write(peer->bell, &one, sizeof one);
    (void)ignored;
}

void shm_peer_try_attach(struct shm_peer *peer, struct attach_word word)
{
    if (peer->attaches || !param_int(PARAM_SHM_CMA))
        return;
    peer->attach.word = word;
    peer->attaches = attach_works(&peer->attach);
    if (!peer->attaches)
        log_info("no cross-memory attach to process %d: %s", (int)peer->attach.pid, strerror(errno));
}

void shm_tell_attach(struct shm_lane *lane)
{
    atomic_store_explicit(&lane->in.control->attaches, lane->peer->attaches, memory_order_relaxed);
}

int shm_peer_socket(const struct shm_peer *peer)
{
    list_each(node, &peer->lanes)
    {
        struct shm_lane *lane = list_entry(node, struct shm_lane, of_peer);

        if (lane->base.up && !lane->welcome_due && !carrier_dead(&lane->base))
            return lane->source.fd;
    }
    return -1;
}
