/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions between processes. The owner announces each with its descriptor and later says that it is freed; the peer
 * says when it has mapped one. What a full socket does not take is said again.
 */
#include "transport/shm/region.h"
#include "transport/shm/packet.h"
#include "transport/shm/peer.h"
#include "transport/shm/share.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_IMPORTS 4096 /* of one peer */
#define AGAIN_MS     10

static bool shm_share_say(struct shm_transport *shm, int socket, const struct shm_notice *notice, int fd)
{
    bool said = shm_packet_send(socket, notice, sizeof *notice, &fd, fd >= 0);
    if (!said && list_empty(&shm->again.node))
        transport_timer_set(&shm->base, &shm->again, AGAIN_MS);
    return said;
}

static bool remember(struct shm_peer *peer, uint32_t id)
{
    uint32_t *more = realloc(peer->told, (peer->told_count + 1) * sizeof *more);
    if (!more)
        return false;
    peer->told = more;
    peer->told[peer->told_count++] = id;
    return true;
}

/* One that is told stays on record until the peer is told to drop it. */
static bool announce_one(struct shm_transport *shm, struct shm_peer *peer, int socket, const struct shm_notice *notice,
                         int fd)
{
    if (!remember(peer, (uint32_t)notice->key))
        return false;
    if (shm_share_say(shm, socket, notice, fd))
        return true;
    peer->told_count--;
    return false;
}

static void announce_ours(struct shm_transport *shm, struct shm_peer *peer, int socket)
{
    struct shm_notice notice = {.magic = SHM_MAGIC, .type = SHM_REGION};
    uint32_t id;
    int fd;
    while (region_next(peer->announced, &id, &notice.size, &fd)) {
        notice.key = id;
        bool told = announce_one(shm, peer, socket, &notice, fd);
        close(fd);
        if (!told)
            return;
        peer->announced = id;
    }
}

static void confirm_theirs(struct shm_transport *shm, struct shm_peer *peer, int socket)
{
    list_each(node, &peer->imports)
    {
        struct shm_import *import = list_entry(node, struct shm_import, of_peer);
        struct shm_notice notice = {.magic = SHM_MAGIC, .type = SHM_MAPPED, .key = import->id};
        import->told = import->told || shm_share_say(shm, socket, &notice, -1);
    }
}

void shm_announce(struct shm_transport *shm, struct shm_peer *peer)
{
    int socket = shm_peer_socket(peer);
    if (socket < 0)
        return; /* when a lane comes up */
    announce_ours(shm, peer, socket);
    confirm_theirs(shm, peer, socket);
}

/* False: some could not be said. */
static bool tell_drops(struct shm_transport *shm, struct shm_peer *peer)
{
    int socket = shm_peer_socket(peer);
    uint32_t kept = 0;
    bool all = true;
    for (uint32_t i = 0; i < peer->told_count; i++) {
        struct shm_notice notice = {.magic = SHM_MAGIC, .type = SHM_DROP, .key = peer->told[i]};
        bool lives = region_lives(peer->told[i]),
             said = !lives && socket >= 0 && shm_share_say(shm, socket, &notice, -1);
        if (!said)
            peer->told[kept++] = peer->told[i];
        all &= lives || said;
    }
    peer->told_count = kept;
    return all;
}

void shm_tell_frees(struct shm_transport *shm)
{
    uint32_t now = region_frees();
    bool all = true;
    if (now == shm->frees)
        return;
    list_each(node, &shm->peers)
    {
        all &= tell_drops(shm, list_entry(node, struct shm_peer, node));
    }
    if (all)
        shm->frees = now;
}

void shm_say_again(struct transport_timer *again)
{
    struct shm_transport *shm = container_of(again, struct shm_transport, again);
    list_each(node, &shm->peers)
    {
        shm_announce(shm, list_entry(node, struct shm_peer, node));
    }
    shm_tell_frees(shm);
}

static struct shm_import *shm_share_find(const struct shm_peer *peer, uint32_t id)
{
    list_each(node, &peer->imports)
    {
        struct shm_import *import = list_entry(node, struct shm_import, of_peer);
        if (import->id == id)
            return import;
    }
    return NULL;
}

static bool shm_share_has_room(const struct shm_peer *peer)
{
    int count = 0;
    list_each(node, &peer->imports)
    {
        count++;
    }
    return count < MOST_IMPORTS;
}

static struct shm_transport *transport_of(const struct shm_peer *peer)
{
    return shm_of(list_entry(peer->lanes.next, struct shm_lane, of_peer));
}

static struct region_pair pair(const uint8_t *owner, const uint8_t *mapper)
{
    struct region_pair pair;
    memcpy(pair.owner, owner, sizeof pair.owner);
    memcpy(pair.mapper, mapper, sizeof pair.mapper);
    return pair;
}

/* Mapped at once: of descriptors there are fewer than of addresses. */
void shm_peer_region(struct shm_peer *peer, uint32_t id, uint64_t size, int fd)
{
    struct shm_transport *shm = transport_of(peer);
    struct region_pair theirs = pair(peer->uuid, shm->base.self->uuid);
    if (shm_share_find(peer, id) || !shm_share_has_room(peer)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct shm_import *import = import_add(&theirs, id, size, fd);
    if (!import)
        return; /* it is staged, or goes through the ring */
    list_push(&peer->imports, &import->of_peer);
    shm_announce(shm, peer);
}

void shm_peer_maps(struct shm_peer *peer, uint32_t id)
{
    struct region_pair ours = pair(transport_of(peer)->base.self->uuid, peer->uuid);
    region_note_mapped(id, &ours);
}

void shm_peer_drop(struct shm_peer *peer, uint32_t id)
{
    struct shm_import *import = shm_share_find(peer, id);
    if (import)
        import_drop(import);
}

void shm_peer_forget_regions(struct shm_peer *peer, const struct shm_transport *shm)
{
    struct region_pair ours = pair(shm->base.self->uuid, peer->uuid);
    while (!list_empty(&peer->imports))
        import_drop(list_entry(peer->imports.next, struct shm_import, of_peer));
    region_forget_mapper(&ours);
    free(peer->told);
}

const char *shm_peer_map(struct shm_peer *peer, uint32_t id, uint64_t from, uint64_t length)
{
    struct shm_import *import = shm_share_find(peer, id);
    return import && from <= import->size && length <= import->size - from ? import->base + from : NULL;
}

bool shm_peer_has(struct shm_lane *lane, uint32_t region)
{
    struct shm_peer *peer = lane->peer;
    struct region_pair ours = pair(shm_of(lane)->base.self->uuid, peer->uuid);
    if (peer->announced < region)
        shm_announce(shm_of(lane), peer);
    return region_is_mapped(region, &ours);
}

void shm_announce_region(struct transport *transport, const void *address)
{
    struct shm_transport *shm = (struct shm_transport *)transport;
    uint32_t region;
    uint64_t offset;
    if (!region_find(address, 1, &region, &offset))
        return;
    list_each(node, &shm->peers)
    {
        struct shm_peer *peer = list_entry(node, struct shm_peer, node);
        if (peer->announced < region)
            shm_announce(shm, peer);
    }
}
