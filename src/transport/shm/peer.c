/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes to the same process have in common: its page and bell, and the regions that we may write to. */
#include "base/error.h"
#include "base/log.h"
#include "transport/shm/memory.h"
#include "transport/shm/region.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_MAPPINGS 4096

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

static struct shm_peer *find(struct shm_transport *shm, const uint8_t *uuid, pid_t pid)
{
    list_each(node, &shm->peers) {
        struct shm_peer *peer = list_entry(node, struct shm_peer, node);
        if (peer->pid == pid && memcmp(peer->uuid, uuid, sizeof peer->uuid) == 0)
            return peer;
    }
    return NULL;
}

static struct shm_peer *make(struct shm_transport *shm, const uint8_t *uuid, pid_t pid, int page_fd, int bell)
{
    struct shm_peer *peer = calloc(1, sizeof *peer);
    void *page = NULL;
    if (!peer || !is_bell(bell) || !memory_trust(page_fd, SHM_PAGE) || memory_map(page_fd, SHM_PAGE, &page) != TUTTI_SUCCESS) {
        free(peer);
        return NULL;
    }
    peer->page = page;
    peer->pid = pid;
    peer->same_process = pid == getpid();
    peer->bell = bell;
    memcpy(peer->uuid, uuid, sizeof peer->uuid);
    list_init(&peer->lanes);
    list_init(&peer->mappings);
    list_push(&shm->peers, &peer->node);
    return peer;
}

struct shm_peer *shm_peer_join(struct shm_lane *lane, const uint8_t *uuid, pid_t pid, int page_fd, int bell)
{
    struct shm_transport *shm = shm_of(lane);
    struct shm_peer *known = page_fd >= 0 && bell >= 0 ? find(shm, uuid, pid) : NULL;
    struct shm_peer *peer = known ? known : make(shm, uuid, pid, page_fd, bell);
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

static void unmap(struct shm_mapping *mapping)
{
    list_remove(&mapping->node);
    memory_unmap(mapping->base, (size_t)mapping->size);
    if (mapping->fd >= 0)
        close(mapping->fd);
    free(mapping);
}

void shm_peer_leave(struct shm_lane *lane)
{
    struct shm_peer *peer = lane->peer;
    if (!peer)
        return;
    list_remove(&lane->of_peer);
    lane->peer = NULL;
    if (!list_empty(&peer->lanes))
        return;
    while (!list_empty(&peer->mappings))
        unmap(list_entry(peer->mappings.next, struct shm_mapping, node));
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

void shm_peer_try_attach(struct shm_peer *peer, uint64_t address, uint64_t value)
{
    uint64_t read = 0;
    struct iovec here = {&read, sizeof read}, there = {(void *)(uintptr_t)address, sizeof read};
    if (peer->pid <= 0 || peer->attach)
        return;
    peer->attach = process_vm_readv(peer->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof read && read == value;
    if (!peer->attach)
        log_info("no cross-memory attach to process %d: %s", (int)peer->pid, strerror(errno));
}

/* The lane whose socket carries what concerns the peer as a whole. */
static int any_socket(struct shm_peer *peer)
{
    list_each(node, &peer->lanes) {
        struct shm_lane *lane = list_entry(node, struct shm_lane, of_peer);
        if (lane->base.up && !lane->welcome_due && !carrier_dead(&lane->base))
            return lane->source.fd;
    }
    return -1;
}

static void remember(struct shm_transport *shm, uint32_t id)
{
    for (uint32_t i = 0; i < shm->told_count; i++)
        if (shm->told[i] == id)
            return;
    uint32_t *more = realloc(shm->told, (shm->told_count + 1) * sizeof *more);
    if (!more)
        return; /* the region is not dropped at the peers, no more */
    shm->told = more;
    shm->told[shm->told_count++] = id;
}

void shm_announce(struct shm_transport *shm, struct shm_peer *peer)
{
    struct shm_notice notice = {.magic = SHM_MAGIC, .type = SHM_REGION};
    int fd, socket = any_socket(peer);
    uint32_t id;
    while (socket >= 0 && region_next(peer->announced, &id, &notice.size, &fd)) {
        notice.key = id;
        bool sent = shm_control_send(socket, &notice, sizeof notice, &fd, 1);
        close(fd);
        if (!sent)
            return;
        peer->announced = id;
        remember(shm, id);
    }
}

static void tell_drop(struct shm_transport *shm, uint32_t id)
{
    struct shm_notice notice = {.magic = SHM_MAGIC, .type = SHM_DROP, .key = id};
    list_each(node, &shm->peers) {
        struct shm_peer *peer = list_entry(node, struct shm_peer, node);
        int socket = any_socket(peer);
        if (id <= peer->announced && socket >= 0)
            shm_control_send(socket, &notice, sizeof notice, NULL, 0);
    }
}

/* A drop that a peer's full socket does not take is lost: the peer then keeps the memory until its last lane closes. */
void shm_tell_frees(struct shm_transport *shm)
{
    uint32_t now = region_frees(), kept = 0;
    if (now == shm->frees)
        return;
    for (uint32_t i = 0; i < shm->told_count; i++) {
        if (region_lives(shm->told[i]))
            shm->told[kept++] = shm->told[i];
        else
            tell_drop(shm, shm->told[i]);
    }
    shm->told_count = kept;
    shm->frees = now;
}

void shm_peer_region(struct shm_peer *peer, uint32_t id, uint64_t size, int fd)
{
    int count = 0;
    struct shm_mapping *mapping = calloc(1, sizeof *mapping);
    list_each(node, &peer->mappings) {
        count += list_entry(node, struct shm_mapping, node)->id == id ? MOST_MAPPINGS : 1;
    }
    if (!mapping || count >= MOST_MAPPINGS || size > SIZE_MAX / 2 || !memory_trust(fd, (size_t)size)) {
        free(mapping);
        if (fd >= 0)
            close(fd);
        return;
    }
    *mapping = (struct shm_mapping){.id = id, .fd = fd, .size = size};
    list_push(&peer->mappings, &mapping->node);
}

static struct shm_mapping *find_mapping(struct shm_peer *peer, uint32_t id)
{
    list_each(node, &peer->mappings) {
        struct shm_mapping *mapping = list_entry(node, struct shm_mapping, node);
        if (mapping->id == id)
            return mapping;
    }
    return NULL;
}

/* Puts into the mapping that are not finished go through the ring instead. */
static void divert(struct shm_lane *lane, const struct shm_mapping *mapping)
{
    for (unsigned i = 0; i < lane->count; i++) {
        struct shm_put *put = &lane->queue[(lane->first + i) % SHM_QUEUE];
        if (put->target && (uintptr_t)put->target - (uintptr_t)mapping->base < mapping->size) {
            put->direct = false;
            put->target = NULL;
            put->done = 0;
        }
    }
}

void shm_peer_drop(struct shm_peer *peer, uint32_t id)
{
    struct shm_mapping *mapping = find_mapping(peer, id);
    if (!mapping)
        return;
    list_each(node, &peer->lanes) {
        divert(list_entry(node, struct shm_lane, of_peer), mapping);
    }
    unmap(mapping);
}

char *shm_peer_map(struct shm_peer *peer, uint32_t id, uint64_t from, uint64_t length)
{
    struct shm_mapping *mapping = find_mapping(peer, id);
    void *base;
    if (!mapping || from > mapping->size || length > mapping->size - from)
        return NULL;
    if (!mapping->base) {
        if (memory_map(mapping->fd, (size_t)mapping->size, &base) != TUTTI_SUCCESS)
            return NULL;
        mapping->base = base;
        close(mapping->fd);
        mapping->fd = -1;
    }
    return mapping->base + from;
}

void shm_describe(struct transport *transport, void *address, size_t length, struct wire_key *out)
{
    struct shm_transport *shm = (struct shm_transport *)transport;
    *out = (struct wire_key){.kind = SHM_KEY_ADDRESS, .address = (uintptr_t)address, .length = length};
    if (!region_find(address, length, &out->region, &out->address))
        return;
    out->kind = SHM_KEY_REGION;
    list_each(node, &shm->peers) {
        struct shm_peer *peer = list_entry(node, struct shm_peer, node);
        if (peer->announced < out->region)
            shm_announce(shm, peer);
    }
}
